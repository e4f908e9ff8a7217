"""A ledger in memory is the SQLite store on another engine: what differs from a file is tested here.

The verbs are the same code, and the model walks of tests/properties run on it; so a sample of the suite is enough.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from contextinfinity.domain.message import say
from contextinfinity.domain.turn import NewTurn
from contextinfinity.errors import LedgerClosed, NotFound
from contextinfinity.storage.contract import Store
from contextinfinity.storage.sqlite.store import SqliteStore
from contextinfinity_testing.builders import exchange, new_branch
from contextinfinity_testing.stores import StoreSuite
from contextinfinity_testing.stores.closing import ClosingSuite
from contextinfinity_testing.stores.concurrency import ConcurrencySuite
from contextinfinity_testing.stores.vectors import VectorSuite

THREADS = 8
EACH = 200


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    store = SqliteStore(None)
    yield store
    await store.close()


@pytest.mark.proof
class TestAllPromisesInMemory(StoreSuite):
    """The whole suite, where there is time for it."""


class TestInMemory(ClosingSuite, ConcurrencySuite, VectorSuite):
    """What the engine could get wrong: closing, callers at once, searches without files."""


async def record_many(store: Store, branch_id: str, thread: int) -> list[int]:
    seqs = []
    for number in range(EACH):
        (turn,) = await store.turns.record(branch_id, [exchange(f"{thread}/{number}")])
        seqs.append(turn.turn_seq)
    return seqs


@pytest.mark.req("THREAD-10")
def test_threads_with_loops_of_their_own_share_a_store() -> None:
    store = SqliteStore(None)
    branch = asyncio.run(new_branch(store))
    with ThreadPoolExecutor(THREADS) as pool:
        seqs = list(pool.map(lambda thread: asyncio.run(record_many(store, branch.id, thread)), range(THREADS)))
    assert sorted(seq for own in seqs for seq in own) == list(range(1, THREADS * EACH + 1))
    history = asyncio.run(store.turns.history(branch.id, limit=THREADS * EACH + 1))
    said = [turn.user_message.rendered_text for turn in history]
    assert len(set(said)) == THREADS * EACH
    for thread in range(THREADS):
        assert [text for text in said if text.startswith(f"{thread}/")] == [f"{thread}/{n}" for n in range(EACH)]


@pytest.mark.req("LEDGER-10")
async def test_every_ledger_in_memory_is_empty_and_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    first, second = SqliteStore(None), SqliteStore(None)
    branch = await new_branch(first)
    await first.turns.record(branch.id, [exchange("heron")])
    await first.workers.enter()
    assert await second.branches.get(branch.id) is None
    assert not await first.vectors.build(), "there is no folder for its files"
    assert (first.blocked_seconds(), first.health().status) == (0.0, "ready")
    await first.close()
    await second.close()
    assert not any(Path().glob("*"))  # noqa: ASYNC240 - an empty folder
    with pytest.raises(LedgerClosed):
        await first.branches.get(branch.id)


async def test_a_verb_that_fails_leaves_nothing_of_itself(store: Store) -> None:
    branch = await new_branch(store)
    with pytest.raises(NotFound):
        await store.turns.accept(NewTurn(branch_id="nowhere", message=say("user", "hello")))
    assert await store.turns.history(branch.id) == ()
    (turn,) = await store.turns.record(branch.id, [exchange("after it")])
    assert turn.turn_seq == 1


async def test_a_worker_that_left_without_its_turn_is_dead(store: Store) -> None:
    branch = await new_branch(store)
    gone, here = await store.workers.enter(), await store.workers.enter()
    turn = await store.turns.accept(NewTurn(branch_id=branch.id, message=say("user", "hello"), owner=gone.id))
    assert await store.workers.dead() == ()
    await store.workers.leave(gone.id)
    assert await store.workers.dead() == (gone.id,)
    assert (await store.workers.take_over(gone.id, by=here.id)).turns == (turn.id,)


async def test_what_was_deleted_is_wiped(store: Store) -> None:
    branch = await new_branch(store)
    await store.turns.record(branch.id, [exchange("zygomorphic")])
    while (await store.deletions.delete(branch.session_id)).more:
        pass
    while await store.deletions.sweep():
        pass
    assert await store.deletions.is_wiped()
