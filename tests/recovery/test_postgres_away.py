"""PostgreSQL paused, cut off or refusing: nothing acknowledged is lost, nothing waits, the order is kept."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg
import pytest

import contextinfinity
from contextinfinity.domain.message import say
from contextinfinity.domain.turn import NewTurn
from contextinfinity.storage.postgres.store import PostgresStore
from contextinfinity.storage.standby.held_branches import Bounds
from contextinfinity.storage.standby.store import StandbyStore
from contextinfinity_testing.builders import new_branch
from tests.postgres import empty_database, server_url
from tests.postgres_network import Network, network
from tests.recovery.outages import until

pytestmark = [pytest.mark.xdist_group("postgres")]


between = pytest.fixture(network)


@pytest.fixture
async def store(tmp_path: Path, between: Network) -> AsyncIterator[StandbyStore]:
    empty_database()
    ledger = await asyncio.to_thread(PostgresStore, between.url, tmp_path)
    store = StandbyStore(ledger, tmp_path / "spool", Bounds(first_pause=0.05, longest_pause=0.1))
    yield store
    await store.close()


def processes_of_the_server(url: str) -> list[int]:
    with psycopg.connect(url) as connection:
        folder = connection.execute("SHOW data_directory").fetchall()[0][0]
    postmaster = int(Path(folder, "postmaster.pid").read_text().splitlines()[0])
    found = [postmaster]
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(status.read_text().rpartition(")")[2].split()[1])
        except (OSError, IndexError):
            continue
        if parent == postmaster:
            found.append(int(status.parent.name))
    return found


@contextmanager
def paused(url: str) -> Iterator[None]:
    """Stop every process of the server, as a machine that hangs."""
    processes = processes_of_the_server(url)
    try:
        _send(processes, signal.SIGSTOP)
        yield
    finally:
        _send(processes, signal.SIGCONT)


def _send(processes: list[int], which: signal.Signals) -> None:
    for process in processes:
        with suppress(ProcessLookupError):  # the connection that named them has ended
            os.kill(process, which)


async def said(store: StandbyStore, branch_id: str, words: str) -> float:
    began = time.monotonic()
    await store.turns.accept(NewTurn(branch_id=branch_id, message=say("user", words)))
    return time.monotonic() - began


@pytest.mark.req("CHATMEM-6")
@pytest.mark.parametrize("how", ["paused", "silent", "refusing"])
async def test_a_server_that_is_away_holds_up_the_first_message_only_and_gets_all_of_them_in_order(
    store: StandbyStore, between: Network, how: str
) -> None:
    """It is paused, or nothing that is sent to it arrives, or it refuses connections."""
    branch = await new_branch(store)
    await said(store, branch.id, "before")
    with paused(server_url()) if how == "paused" else getattr(between, how)():
        first = await said(store, branch.id, "first")
        later = [await said(store, branch.id, words) for words in ("second", "third")]
    assert store.health().status == "degraded"
    await until(lambda: store.health().status == "ready")
    turns = await store.turns.history(branch.id)
    assert [turn.user_message.rendered_text for turn in turns] == ["before", "first", "second", "third"]
    assert first < 2
    assert max(later) < 0.5


@pytest.mark.req("CHATMEM-6")
async def test_answers_go_on_without_memories_and_retrieval_while_nothing_reaches_the_server(
    tmp_path: Path, between: Network
) -> None:
    empty_database()
    (tmp_path / "script.json").write_text('{"replies": ["Yes."], "loop": true}')
    (tmp_path / "config.toml").write_text(
        '[general]\ndefault_model = "script"\n[models.script]\nprovider = "scripted"\npath = "script.json"\n'
        f'[storage]\nurl = "{between.url}"\n'
    )
    async with contextinfinity.open(data_dir=tmp_path) as engine:
        thread = (await engine.ask("new", "My heron is called Ada.")).thread_id
        with between.silent():
            for _ in range(2):
                async with asyncio.timeout(20):
                    assert (await engine.ask(thread, "Is she well?")).text == "Yes."
        await until(lambda: engine.health().status == "ready")
        assert (await engine.ask(thread, "And now?")).turn_seq == 4


@pytest.mark.req("CHATMEM-6")
async def test_a_busy_server_that_takes_long_to_open_a_connection_is_not_away(
    store: StandbyStore, between: Network
) -> None:
    branch = await new_branch(store)
    between.connect_seconds = 2
    with psycopg.connect(server_url()) as other:
        other.execute("SELECT 1 FROM contextinfinity.branch FOR UPDATE")
        saying = asyncio.create_task(said(store, branch.id, "patience"))
        await asyncio.wait({saying}, timeout=0.5)
        assert store.health().status == "ready"
    await saying
    (turn,) = await store.turns.history(branch.id)
    assert turn.durability == "ledger"


@pytest.mark.req("CHATMEM-6")
async def test_connections_that_the_server_closed_are_replaced_without_a_failure(store: StandbyStore) -> None:
    branch = await new_branch(store)
    await said(store, branch.id, "before")
    with psycopg.connect(server_url(), autocommit=True) as connection:
        connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()")
    await said(store, branch.id, "after")
    assert store.health().status == "ready"
    assert [turn.turn_seq for turn in await store.turns.history(branch.id)] == [1, 2]
