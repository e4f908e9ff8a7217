"""Two servers with folders of their own, as on two hosts, on one PostgreSQL ledger."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from contextinfinity.storage.postgres.store import LEASE_SECONDS
from tests.doors.server import SHOWN, Event, Server, events, pause, words
from tests.postgres import empty_database, server_url

pytestmark = [pytest.mark.xdist_group("postgres")]


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[tuple[Server, Server]]:
    # what waits for the clock is never stored: what a reader saw was stored before
    settings = f'[server]\nrequests_per_minute = 0\n[stream]\nflush_ms = 60000\n[storage]\nurl = "{empty_database()}"\n'
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


@pytest.mark.req("TURN-9", "STREAM-3")
def test_what_readers_saw_of_a_host_that_is_lost_is_stored(hosts: tuple[Server, Server]) -> None:
    one, two = hosts
    with one.stream("go on", model="hangs") as heard:
        turn = next(event.data for event in heard if event.name == "turn")
    path = f"/threads/{turn['thread_id']}/turns/{turn['turn_id']}"
    while not list((one.folder / "streams").glob("*.jsonl")):
        pause()
    seen(one, path)
    pid = one.process.pid
    one.process.send_signal(signal.SIGKILL)
    with psycopg.connect(server_url(), autocommit=True) as ledger:  # instead of waiting for the end of its lease
        ledger.execute("UPDATE contextinfinity.worker SET seen_at = '-infinity' WHERE pid = %s", (pid,))
    assert two.resume(turn)[-1].data["outcome"] == "incomplete"
    assert two.http.get(path).json()["text"] == "".join(SHOWN)


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
