"""Take the pictures of the web page that the documentation shows: ``make screenshots-web``."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Browser

from tests.doors.server import Server
from tests.doors.web.browser import WebPage, browsing, server_in, window

MODEL = """\
[models.guide]
provider = "scripted"
path = "guide.json"
"""
LIGHTHOUSE = """\
The lighthouse at **Cape Byron** was first lit in *1901*.

| part | height |
| --- | --- |
| tower | 22 m |
| above the sea | 118 m |

```python
def beam(seconds: float) -> float:
    # one flash every 15 seconds
    return 360 * (seconds % 15) / 15
```"""
REPLIES = [
    {"when": "lighthouse", "text": LIGHTHOUSE, "usage": {"input_tokens": 1240, "output_tokens": 96, "cost": 0.0051}},
    {
        "when": "walk",
        "text": "In the morning: the path is empty, and two hours are enough.\n\n> Low tide is at 9:40.",
        "usage": {"input_tokens": 1410, "output_tokens": 31, "cached_tokens": 1180, "cost": 0.0019},
    },
    {
        "text": "Yes. The ferry leaves at **14:05** and takes 35 minutes.",
        "usage": {"input_tokens": 1502, "output_tokens": 19, "cached_tokens": 1380, "cost": 0.0016},
    },
]
SIZES = {"desktop": {"width": 1280, "height": 800}, "phone": {"width": 390, "height": 800}}
PICTURES = (("desktop", "light", "context"), ("phone", "dark", "chat"))


def main(folder: Path) -> None:
    """Write the pictures into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as data:
        (Path(data) / "guide.json").write_text(json.dumps({"loop": True, "replies": REPLIES}))
        server = server_in(Path(data), MODEL)
        try:
            with browsing() as browser:
                take(browser, server, folder)
        finally:
            server.stop()


def take(browser: Browser, server: Server, folder: Path) -> None:
    """Hold one conversation, and take its pictures."""
    with window(browser, server, viewport=SIZES["desktop"]) as web:
        talk(web.open())
        thread = web.thread
    for size, theme, panel in PICTURES:
        with window(browser, server, viewport=SIZES[size], color_scheme=theme, reduced_motion="reduce") as web:
            web.open(f"#/t/{thread}").answered(3, "ferry")
            if panel != "chat":
                web.panel(panel)
                web.page.locator("#panel svg").first.wait_for()
                web.page.mouse.move(5, 400)  # no button is drawn as touched
            web.page.screenshot(path=folder / f"web-{panel}-{size}-{theme}.png")


def talk(web: WebPage) -> None:
    """Send the messages that the pictures show."""
    web.ask("What do I need to know about the lighthouse?", 1, "Cape Byron", "guide")
    web.ask("When should I walk there?", 2, "Low tide", "guide")
    web.act(2, "regenerate")
    web.page.get_by_text("branch 2 · 2 branches").wait_for()
    web.answered(2, "Low tide")
    web.ask("Can I go back by boat?", 3, "ferry", "guide")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
