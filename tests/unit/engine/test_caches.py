"""Turns are read once; a copy is never used after the ledger changed, and never kept for long."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from contextinfinity.domain.job import AnsweredTurn
from contextinfinity.domain.message import say
from contextinfinity.domain.session import Branch
from contextinfinity.domain.turn import Turn
from contextinfinity.engine.turn_cache import MOST_ANSWERED, MOST_BYTES, AnsweredTurns, TurnCache, length
from contextinfinity.errors import NotFound
from contextinfinity.storage.sqlite.store import SqliteStore
from contextinfinity_testing.builders import exchange, new_branch
from tests.ledgers import open_store

END = 1000


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    ours = open_store(tmp_path / "ledger.db")
    yield ours
    await ours.close()


async def spoken(store: SqliteStore, turns: int = 3) -> Branch:
    branch = await new_branch(store)
    await store.turns.record(branch.id, [exchange(f"question {n}", f"answer {n}") for n in range(turns)])
    return branch


async def read(cache: TurnCache, branch: Branch, after: int = 0, room: float = END) -> list[Turn]:
    return (await cache.read(branch.id, after=after, before=END, room=room))[1]


async def test_a_second_read_takes_only_what_is_new_from_the_ledger(store: SqliteStore) -> None:
    branch, cache = await spoken(store), TurnCache(store.turns, MOST_BYTES)
    first = await read(cache, branch)
    await store.turns.record(branch.id, [exchange("one more", "yes")])
    again = await read(cache, branch)
    assert again == [*await store.turns.history(branch.id)]
    assert all(one is other for one, other in zip(first, again, strict=False))


async def test_after_a_fold_only_the_later_turns_are_given(store: SqliteStore) -> None:
    branch, cache = await spoken(store), TurnCache(store.turns, MOST_BYTES)
    whole = await read(cache, branch)
    assert await read(cache, branch, after=2) == whole[2:]
    assert await read(cache, branch) == whole, "and all of them where the fold was undone"


@pytest.mark.req("SAFE-4")
async def test_a_conversation_that_another_process_deleted_is_not_given_from_the_cache(
    store: SqliteStore, tmp_path: Path
) -> None:
    branch, cache = await spoken(store), TurnCache(store.turns, MOST_BYTES)
    await read(cache, branch)
    other = open_store(tmp_path / "ledger.db")
    await other.deletions.delete(branch.session_id)
    await other.close()
    with pytest.raises(NotFound):
        await read(cache, branch)
    assert len(cache) == 0


async def test_a_question_that_may_still_be_answered_is_read_again(store: SqliteStore) -> None:
    branch, cache = await spoken(store), TurnCache(store.turns, MOST_BYTES)
    await store.turns.log(branch.id, say("user", "Is anybody there?"))
    assert (await read(cache, branch))[-1].answer is None
    await store.turns.log(branch.id, say("assistant", "Yes."))
    assert (await read(cache, branch))[-1].text == "Yes."


async def test_the_branch_that_was_idle_for_longest_is_dropped_first(store: SqliteStore) -> None:
    one, other = await spoken(store), await spoken(store)
    cache = TurnCache(store.turns, MOST_BYTES)
    (kept,) = [await read(cache, one)]
    small = TurnCache(store.turns, 2_500)
    for branch in (one, other, one):
        await read(small, branch)
    assert len(small) == 1
    assert await read(small, one) == kept


async def test_idle_branches_and_everything_after_a_deletion_leave_the_memory(store: SqliteStore) -> None:
    branch, cache = await spoken(store), TurnCache(store.turns, MOST_BYTES)
    await read(cache, branch)
    cache.drop_idle()
    assert len(cache) == 1
    cache.drop_idle(0)
    assert len(cache) == 0
    await read(cache, branch)
    cache.forget()
    assert len(cache) == 0


async def test_turns_that_no_window_holds_are_read_as_far_as_they_fit(store: SqliteStore) -> None:
    branch, cache = await spoken(store, turns=150), TurnCache(store.turns, MOST_BYTES)
    fitting = await read(cache, branch, room=100)
    assert sum(map(length, fitting[1:])) < 100 <= sum(map(length, fitting))
    assert fitting[-1].turn_seq == 150
    assert len(cache) == 0
    assert len(await read(cache, branch, room=10_000)) == 150
    assert await read(cache, branch, room=100) == fitting, "the same with the cache"
    assert len(await read(cache, branch, room=2_000)) > 50


async def test_answered_turns_are_kept_up_to_a_number_of_characters_the_newest_last(store: SqliteStore) -> None:
    branch = await spoken(store, turns=200)
    session = await store.sessions.get(branch.session_id)
    assert session is not None
    turns, cache = await store.turns.history(branch.id, limit=200), AnsweredTurns()
    long = exchange("question", "x" * (MOST_ANSWERED // 2))
    (large,) = await store.turns.record(branch.id, [long])
    for turn in turns:
        cache.keep(AnsweredTurn(turn=turn, session=session))
    assert all(cache.get(turn.id) for turn in turns), "a crowd of short turns waits for its jobs"
    cache.keep(AnsweredTurn(turn=large, session=session, earlier=(large,)))
    assert cache.get(turns[0].id) is None
    assert cache.get(large.id) is None, "larger than all that may be kept"
    cache.keep(AnsweredTurn(turn=turns[0], session=session))
    assert cache.get(turns[0].id) is not None
    for _ in range(3):
        cache.keep(AnsweredTurn(turn=large, session=session))
    assert cache.get(large.id) is not None, "a turn that is kept again is counted once"
