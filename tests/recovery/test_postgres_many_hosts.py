"""Two servers with folders of their own, as on two hosts, on one PostgreSQL ledger."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from contextinfinity.storage.postgres.store import LEASE_SECONDS
from tests.doors.server import SHOWN, Event, Server, events, words
from tests.postgres import empty_database

pytestmark = [pytest.mark.xdist_group("postgres")]


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[tuple[Server, Server]]:
    settings = f'[server]\nrequests_per_minute = 0\n[storage]\nurl = "{empty_database()}"\n'
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


def seen(host: Server, path: str) -> list[Event]:
    """Watch a turn that hangs until all that it says is shown."""
    with host.http.stream("GET", f"{path}/stream") as answer:
        heard = list[Event]()
        for event in events(answer):
            heard.append(event)
            if words(heard) == "".join(SHOWN):
                return heard
    raise AssertionError("it ended")


@pytest.mark.req("THREAD-4")
def test_any_host_shows_and_resumes_a_stream_of_another(hosts: tuple[Server, Server]) -> None:
    one, two = hosts
    turn, last = one.hanging()
    path = f"/threads/{turn['thread_id']}/turns/{turn['turn_id']}"
    ids = [event.id for event in seen(two, path) if event.id]
    assert ids[-1] == last
    assert two.post(f"{path}/cancel").json()["text"] == "".join(SHOWN)
    assert words(two.resume(turn, ids[1])) == SHOWN[2]


@pytest.mark.proof
@pytest.mark.req("TURN-9")
def test_a_host_that_dies_is_taken_over_within_its_lease_and_a_second(hosts: tuple[Server, Server]) -> None:
    one, two = hosts
    turn, _ = one.hanging()
    path = f"/threads/{turn['thread_id']}/turns/{turn['turn_id']}"
    seen(two, path)
    one.process.send_signal(signal.SIGKILL)
    died = time.monotonic()
    while two.http.get(path).json()["phase"] not in ("Done", "Failed"):
        assert time.monotonic() - died < LEASE_SECONDS + 1
    assert two.http.get(path).json()["text"] == "".join(SHOWN)
    assert two.ask("Are you there?", turn["thread_id"], model="echo")["outcome"] == "completed"
