"""A server whose clients take all the connections it can have still answers, and keeps its ledger open."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx2
import pytest

from tests.doors.server import CONFIG, SCRIPTS, pause

OPEN_FILES = 90
HANGS = json.dumps({"content": "go on", "model": "hangs"}).encode()
STREAM = (
    b"POST /threads/new/messages/stream HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    b"Content-Length: %d\r\n\r\n%b" % (len(HANGS), HANGS)
)


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    """A server that can have 90 files and connections open."""
    (tmp_path / "config.toml").write_text(f"{CONFIG}[server]\nshutdown_seconds = 0.5\n", encoding="utf-8")
    for name, replies in SCRIPTS.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(replies), encoding="utf-8")
    limited = f'ulimit -n {OPEN_FILES}; exec "$@"'
    serve = [sys.executable, "-m", "contextinfinity", "serve", "--port", "0", "--json", "--data-dir", str(tmp_path)]
    with (
        (tmp_path / "log").open("wb") as log,
        subprocess.Popen(["sh", "-c", limited, "sh", *serve], stdout=subprocess.PIPE, stderr=log) as process,
    ):
        assert process.stdout is not None
        try:
            yield json.loads(process.stdout.readline())["url"]
        finally:
            process.terminate()
    assert "out of system resource" not in (tmp_path / "log").read_text()


def connected(url: str) -> socket.socket:
    """Open a connection."""
    address = httpx2.URL(url)
    return socket.create_connection((address.host, address.port or 0), timeout=30)


def status_of(url: str) -> int:
    """Ask for the health over a connection of its own."""
    return httpx2.get(f"{url}/healthz", timeout=30, trust_env=False).status_code


def test_idle_connections_give_way_and_busy_ones_are_limited(url: str) -> None:
    with ExitStack() as idle:
        for _ in range(150):
            idle.enter_context(connected(url))
        assert status_of(url) == 200
        said = httpx2.post(f"{url}/threads/new/messages", json={"content": "Hello"}, timeout=30, trust_env=False)
        assert (said.status_code, said.json()["outcome"]) == (200, "completed")
    with ExitStack() as busy:
        status, streams = b"200", 0
        while status == b"200" and streams < OPEN_FILES:
            stream = busy.enter_context(connected(url))
            stream.sendall(STREAM)
            status, streams = stream.recv(64)[9:12], streams + 1
        assert status == b"503"
        refused = httpx2.get(f"{url}/healthz", timeout=30, trust_env=False)
        assert (refused.status_code, refused.json()["code"]) == (503, "too_many_connections")
        assert (refused.headers["retry-after"], refused.headers["connection"]) == ("1", "close")
    while status_of(url) == 503:
        pause()
    assert status_of(url) == 200
