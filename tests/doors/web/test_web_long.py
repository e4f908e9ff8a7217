"""The web page with a conversation of 10,000 turns: first paint, the size of the document, frames while scrolling."""

from __future__ import annotations

import json
from bisect import bisect_right
from pathlib import Path
from typing import Any

import pytest

from tests.doors.cix import Cix
from tests.doors.web.browser import BrowserThread, WebPage, needs_browser, server_in

pytestmark = [pytest.mark.req("WEB-1"), pytest.mark.xdist_group("browser"), pytest.mark.proof, needs_browser]

TURNS = 10_000
FIRST_PAINT_MS = 500
FRAME_MS = 16
TIMELINE = "disabled-by-default-devtools.timeline"
CATEGORIES = ["-*", "toplevel", "devtools.timeline", TIMELINE, f"{TIMELINE}.frame"]


def written(path: Path, turns: int) -> Path:
    """Write a file of messages to import."""
    lines = []
    for number in range(turns):
        lines.append({"role": "user", "content": f"Question {number}: what about the harbour?"})
        lines.append({"role": "assistant", "content": f"Answer {number}.\n\n- **one**\n- two\n\n`code {number}`" * 2})
    path.write_text("\n".join(map(json.dumps, lines)))
    return path


def frame_times(trace: bytes) -> list[float]:
    """Return the CPU time of the page's main thread for each frame of a trace, in milliseconds, in rising order.

    A frame has all tasks since the one before: script, style, layout, paint and commit. The time between two frames
    would depend on what else the machine does; CPU time does not.
    """
    events: list[dict[str, Any]] = json.loads(trace)["traceEvents"]
    begins = sorted(event["ts"] for event in events if event["name"] == "BeginMainThreadFrame")
    threads = {(event["pid"], event["tid"]) for event in events if event["name"] == "BeginMainThreadFrame"}
    work = [0.0] * len(begins)
    for event in events:
        if event["name"] == "RunTask" and event["ph"] == "X" and (event["pid"], event["tid"]) in threads:
            frame = bisect_right(begins, event["ts"] + event["dur"]) - 1
            if frame >= 0:
                work[frame] += event.get("tdur", event["dur"]) / 1000
    return sorted(work)


def scrolled(chromium: BrowserThread, web: WebPage, pixels: int, speed: int) -> list[float]:
    """Scroll up as a finger does, and return the time of each frame."""
    chromium.browser.start_tracing(page=web.page, categories=CATEGORIES)
    gesture = {"x": 600, "y": 400, "yDistance": pixels, "speed": speed}
    web.page.context.new_cdp_session(web.page).send("Input.synthesizeScrollGesture", gesture)
    return frame_times(chromium.browser.stop_tracing())


@pytest.mark.timeout(900)
def test_a_long_conversation_is_shown_at_once_and_scrolls_smoothly(chromium: BrowserThread, tmp_path: Path) -> None:
    server, cix = server_in(tmp_path), Cix(tmp_path)
    try:
        thread = cix.json("import", str(written(tmp_path / "long.jsonl", TURNS)))["sessions"][0]["thread_id"]
        with chromium.window(server, viewport={"width": 1280, "height": 800}) as web:
            web.open(f"#/t/{thread}").answered(TURNS, f"Answer {TURNS - 1}.")
            web.page.reload()
            web.answered(TURNS, f"Answer {TURNS - 1}.")
            paint = web.page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
            assert paint <= FIRST_PAINT_MS
            for pixels, speed in ((20_000, 3_000), (60_000, 9_000)):
                frames = scrolled(chromium, web, pixels, speed)
                middle, high, most = (frames[int(share * (len(frames) - 1))] for share in (0.5, 0.99, 1))
                print(  # noqa: T201
                    f"first paint {paint:.0f} ms; {speed} pixels a second: {len(frames)} frames,"
                    f" median {middle:.1f} ms, 99% {high:.1f} ms, longest {most:.1f} ms"
                )
                assert len(frames) > 20
                assert high <= FRAME_MS
                assert web.page.evaluate("document.querySelectorAll('article').length") < 40
            web.page.evaluate("document.getElementById('scroll').scrollTop = 0")
            web.answered(1, "Answer 0.")
            assert web.page.evaluate("document.querySelectorAll('article').length") < 40
    finally:
        server.stop()
