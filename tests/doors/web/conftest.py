"""What the tests of the web page share: one browser, one server without tokens, one with."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.doors.cix import Cix
from tests.doors.server import Server
from tests.doors.web.browser import BrowserThread, WebPage, server_in

MODELS = """\
[tools]
mode = "{tools}"
[models.talk]
provider = "scripted"
path = "talk.json"
[models.hostile]
provider = "scripted"
path = "hostile.json"
[models.counts]
provider = "scripted"
path = "counts.json"
"""
COUNTED = 100
COUNTS = {"pieces": [f"{number} " for number in range(COUNTED)], "delay": 0.02, "hang": True}
HOSTILE = (
    "<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"
    "[x](javascript:document.title='owned') ![p](https://evil.example/p.png)"
    "<svg onload=\"document.title='owned'\"><style>*{display:none}</style><base href=https://evil.example/>"
    "[d](data:text/html,<script>1</script>) [q](https://evil.example/\"onmouseover=\"document.title='owned')"
    " <javascript:document.title='owned'> `<iframe srcdoc='<script>1</script>'>` \u202eowned"
)
WEATHER = {"name": "weather", "arguments": {"city": "<b>Paris"}}
HOSTILE_CALL = {"name": "<img src=x onerror=alert(1)>", "arguments": {"text": HOSTILE}}
TALK = {
    "loop": True,
    "replies": [
        {
            "when": "table",
            "text": "Here it **is**:\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n```python\nreturn 1\n```",
            "usage": {"input_tokens": 900, "output_tokens": 40, "cached_tokens": 600, "cost": 0.002},
        },
        {"when": "ferry", "text": "The ferry leaves at noon."},
        {"when": "weather", "text": "Let me see.", "tools": [WEATHER]},
        "Certainly.",
    ],
}


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that uses the browser on the browser's thread."""
    chromium = pyfuncitem.funcargs.get("chromium")
    if not isinstance(chromium, BrowserThread):
        return None
    names = inspect.signature(pyfuncitem.obj).parameters
    chromium.run(partial(pyfuncitem.obj, **{name: pyfuncitem.funcargs[name] for name in names}))
    return True


@pytest.fixture(scope="session")
def chromium() -> Iterator[BrowserThread]:
    """The browser that all tests share."""
    made = BrowserThread()
    yield made
    made.run(made.close)


def prepared(folder: Path, tools: str) -> Server:
    """Start a server whose models answer as the tests expect."""
    (folder / "talk.json").write_text(json.dumps(TALK))
    (folder / "hostile.json").write_text(
        json.dumps({"loop": True, "replies": [{"text": HOSTILE, "tools": [HOSTILE_CALL]}]})
    )
    (folder / "counts.json").write_text(json.dumps([COUNTS]))
    return server_in(folder, MODELS.format(tools=tools))


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that needs no token and does not run tools itself."""
    made = prepared(tmp_path_factory.mktemp("web"), "parse_only")
    yield made
    made.stop()


class Guarded:
    """A server that needs tokens and runs tools itself, and the tokens of two users."""

    def __init__(self, folder: Path) -> None:
        self.server, cix = prepared(folder, "enabled"), Cix(folder)
        self.ann, self.bob = (cix.json("token", "create", "--user", user) for user in ("ann", "bob"))


@pytest.fixture(scope="session")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    made = Guarded(tmp_path_factory.mktemp("guarded"))
    yield made
    made.server.stop()


@pytest.fixture
def web(chromium: BrowserThread, served: Server) -> Iterator[WebPage]:
    """The page, just loaded, in the tab that all tests share."""
    opened = chromium.run(lambda: chromium.tab(served))
    yield opened
    assert opened.errors == []
