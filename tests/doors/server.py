"""A real server process, as tests use it."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx2

from tests.doors.forked import Forked
from tests.ledgers import place_ledger

CONFIG = """\
[general]
default_model = "echo"
[models.echo]
provider = "scripted"
[models.hangs]
provider = "scripted"
path = "hangs.json"
[models.fails]
provider = "scripted"
path = "fails.json"
[models.floods]
provider = "scripted"
path = "floods.json"
"""
SHORT_END = {"CONTEXTINFINITY_SERVER__SHUTDOWN_SECONDS": "0.5"}
"""Tests that do not test how a server ends leave answers that hang: no one waits for them."""
SHOWN = ("one", " two", " three")
SCRIPTS: dict[str, list[dict[str, Any]]] = {
    "hangs": [{"pieces": SHOWN, "hang": True}],
    "floods": [{"pieces": ["x" * 12_000] * 500}],
    "fails": [{"error": {"code": "quota", "message": "Out of credit.", "hint": "Wait."}}],
}


def pause(seconds: float = 0.005) -> None:
    """Wait a moment before looking again for what another process does: looking takes the CPU that it needs."""
    time.sleep(seconds)


class Event(NamedTuple):
    """A server-sent event; a comment has no name."""

    name: str
    data: Any
    id: str | None


class Server:
    """A server on one data folder; it can be killed and started again."""

    def __init__(self, folder: Path, settings: str = "", *arguments: str) -> None:
        self.folder = folder
        place_ledger(folder / "ledger.db")
        self._arguments = arguments
        (folder / "config.toml").write_text(CONFIG + settings, encoding="utf-8")
        self._environment = {} if "shutdown_seconds" in settings else SHORT_END
        for name, replies in SCRIPTS.items():
            (folder / f"{name}.json").write_text(json.dumps(replies), encoding="utf-8")
        self.start()

    def start(self) -> None:
        """Start it, and wait until it takes connections."""
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("CONTEXTINFINITY_")}
        arguments = ["serve", "--port", "0", "--json", *self._arguments, "--data-dir", str(self.folder)]
        environment = inherited | self._environment
        with (self.folder / "log").open("ab") as log, Path(os.devnull).open("rb") as nothing:
            self.process = Forked(
                "contextinfinity", arguments, environment, streams=(nothing.fileno(), None, log.fileno())
            )
        line = self.process.output.readline()
        assert line, (self.folder / "log").read_text()
        self.url: str = json.loads(line)["url"]
        self.http = httpx2.Client(base_url=self.url, timeout=100, trust_env=False, verify=False)

    def stop(self, how: int = signal.SIGTERM) -> int:
        """End the process and return its exit code."""
        self.http.close()
        self.process.send_signal(how)
        code = self.process.wait(timeout=60)
        self.process.output.close()
        return code

    def restart(self, how: int = signal.SIGKILL) -> None:
        """Stop the server, by default with a kill, and start it again."""
        self.stop(how)
        self.start()

    def log(self) -> list[dict[str, Any]]:
        """Read what it logged: every line is an object."""
        return [json.loads(line) for line in (self.folder / "log").read_text().splitlines()]

    def post(self, path: str, body: Any = None, **headers: str) -> httpx2.Response:
        """Send JSON."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.http.post(path, json={} if body is None else body, headers=named)

    def ask(self, content: str, thread: str = "new", **more: Any) -> dict[str, Any]:
        """Send a message and return the finished turn."""
        answer = self.post(f"/threads/{thread}/messages", {"content": content, **more})
        assert answer.status_code == 200, answer.text
        turn: dict[str, Any] = answer.json()
        return turn

    def whose(self, thread: str) -> dict[str, str]:
        """Return the query parameter with the user of a thread, for requests that read it."""
        with closing(sqlite3.connect(self.folder / "ledger.db")) as ledger:
            found = ledger.execute("SELECT user_id FROM session WHERE uuid = ?", (thread,)).fetchone()
        return {} if found is None else {"user_id": found[0]}

    def said(self, thread: str) -> list[str]:
        """Read what was asked in a thread."""
        asked = {"limit": "500", **self.whose(thread)}
        messages = self.http.get(f"/threads/{thread}/messages", params=asked).json()["messages"]
        return [message["content"] for message in messages if message["role"] == "user"]

    @contextmanager
    def stream(self, content: str, thread: str = "new", **more: Any) -> Iterator[Iterator[Event]]:
        """Send a message and read the stream."""
        body = {"content": content, **more}
        with self.http.stream("POST", f"/threads/{thread}/messages/stream", json=body) as answer:
            assert answer.status_code == 200, answer.read()
            yield events(answer)

    def resume(self, turn: dict[str, Any], after: str | None = None) -> list[Event]:
        """Listen to a turn from a place on, to its end."""
        headers = {} if after is None else {"Last-Event-ID": after}
        path = f"/threads/{turn['thread_id']}/turns/{turn['turn_id']}/stream"
        with self.http.stream("GET", path, headers=headers) as answer:
            assert answer.status_code == 200, answer.read()
            return [event for event in events(answer) if event.name]

    def hanging(self) -> tuple[dict[str, Any], str]:
        """Start a turn that does not end; return its first event and the id of the last one."""
        turn: dict[str, Any] = {}
        text, last = "", ""
        with self.stream("go on", model="hangs") as heard:
            for event in heard:
                turn = event.data if event.name == "turn" else turn
                last = event.id or last
                text += event.data["text"] if event.name == "delta" else ""
                if text == "".join(SHOWN):
                    return turn, last
        raise AssertionError("it ended")


def events(answer: httpx2.Response) -> Iterator[Event]:
    """Read a stream as the standard says."""
    name, data, event_id, is_comment = "", "", None, False
    for line in answer.iter_lines():
        if not line:
            if name or is_comment:
                yield Event(name, json.loads(data) if data else None, event_id)
            name, data, event_id, is_comment = "", "", None, False
            continue
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        match field:
            case "":
                is_comment = True
            case "event":
                name = value
            case "data":
                data += value
            case "id":
                event_id = value


def words(heard: list[Event]) -> str:
    """Return the concatenated deltas of an answer."""
    return "".join(event.data["text"] for event in heard if event.name == "delta")


def problem(answer: httpx2.Response, status: int) -> dict[str, Any]:
    """Return a problem document after checking that it is complete."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    told: dict[str, Any] = answer.json()
    assert told["status"] == status
    assert {"type", "title", "detail", "code"} <= set(told)
    assert "Traceback" not in answer.text
    return told
