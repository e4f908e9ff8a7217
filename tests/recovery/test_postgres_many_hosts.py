"""Two servers with folders of their own, as on two hosts, on one PostgreSQL ledger."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from contextinfinity.storage.postgres.store import LEASE_SECONDS
from tests.doors.server import Server
from tests.postgres import empty_database

pytestmark = [pytest.mark.xdist_group("postgres")]


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[tuple[Server, Server]]:
    settings = f'[storage]\nurl = "{empty_database()}"\n'
    folders = [tmp_path / name for name in ("one", "two")]
    for folder in folders:
        folder.mkdir()
    servers = [Server(folder, settings) for folder in folders]
    yield servers[0], servers[1]
    for server in servers:
        server.stop(signal.SIGKILL)


@pytest.mark.req("THREAD-1", "THREAD-4")
def test_any_host_goes_on_with_a_conversation_and_a_stop_of_one_fails_no_request(hosts: tuple[Server, Server]) -> None:
    one, two = hosts
    thread = one.ask("My heron is called Ada.")["thread_id"]
    two.ask("It nests in May.", thread)
    one.restart(signal.SIGTERM)
    one.ask("And the water is high.", thread)
    shown = two.http.get(f"/threads/{thread}/messages").json()["messages"]
    said = [message["content"] for message in shown if message["role"] == "user"]
    assert said == ["My heron is called Ada.", "It nests in May.", "And the water is high."]


@pytest.mark.proof
@pytest.mark.req("TURN-9")
def test_a_host_that_dies_is_taken_over_within_its_lease_and_a_second(hosts: tuple[Server, Server]) -> None:
    one, two = hosts
    thread = one.ask("Hello.")["thread_id"]
    body = {"content": "Go on.", "model": "hangs"}
    with one.http.stream("POST", f"/threads/{thread}/messages/stream", json=body) as stream:
        lines = stream.iter_lines()
        started = next(json.loads(line[6:]) for line in lines if line.startswith("data: "))
        one.process.send_signal(signal.SIGKILL)
        died = time.monotonic()
    place = f"/threads/{thread}/turns/{started['turn_id']}"
    while two.http.get(place).json()["phase"] not in ("Done", "Failed"):
        assert time.monotonic() - died < LEASE_SECONDS + 1
    assert two.ask("Are you there?", thread)["outcome"] == "completed"
