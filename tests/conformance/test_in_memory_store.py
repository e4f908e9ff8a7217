"""The in-memory store keeps every promise of the contract, from several threads too."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from contextinfinity.storage.contract import Store
from contextinfinity.storage.in_memory import InMemoryStore
from contextinfinity.testing.builders import exchange, new_branch
from contextinfinity.testing.stores import StoreSuite

THREADS = 8
EACH = 200


@pytest.mark.proof  # the suite compares it with SQLite in tests/properties/test_store_model.py
class TestInMemoryStore(StoreSuite):
    @pytest.fixture
    async def store(self) -> AsyncIterator[Store]:
        store = InMemoryStore()
        yield store
        await store.close()


async def record_many(store: Store, branch_id: str, thread: int) -> list[int]:
    seqs = []
    for number in range(EACH):
        (turn,) = await store.turns.record(branch_id, [exchange(f"{thread}/{number}")])
        seqs.append(turn.turn_seq)
    return seqs


@pytest.mark.req("THREAD-10")
def test_threads_with_loops_of_their_own_share_a_store() -> None:
    store = InMemoryStore()
    branch = asyncio.run(new_branch(store))
    with ThreadPoolExecutor(THREADS) as pool:
        seqs = list(pool.map(lambda thread: asyncio.run(record_many(store, branch.id, thread)), range(THREADS)))
    assert sorted(seq for own in seqs for seq in own) == list(range(1, THREADS * EACH + 1))
    history = asyncio.run(store.turns.history(branch.id, limit=THREADS * EACH + 1))
    said = [turn.user_message.rendered_text for turn in history]
    assert len(set(said)) == THREADS * EACH
    for thread in range(THREADS):
        assert [text for text in said if text.startswith(f"{thread}/")] == [f"{thread}/{n}" for n in range(EACH)]


def test_no_promise_of_the_suite_hides_another() -> None:
    names = Counter(name for part in StoreSuite.__mro__ for name in vars(part) if name.startswith("test_"))
    assert [name for name, times in names.items() if times > 1] == []
