"""Tests of a store: missing index entries are known, and are created once."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from contextinfinity.domain.ids import TurnId, new_id
from contextinfinity.domain.message import say
from contextinfinity.domain.search import TextPosition
from contextinfinity.domain.turn import Phase
from contextinfinity.errors import InvalidInput, NotFound, WrongPhase
from contextinfinity.storage.contract import Store
from contextinfinity.text.keywords import VERSION
from contextinfinity_testing.builders import (
    answer_turn,
    current,
    exchange,
    failed_turn,
    new_branch,
    new_turn,
    slice_of,
    turn_in,
)
from contextinfinity_testing.stores.index import ANYWHERE, found


async def ids(store: Store) -> list[TurnId]:
    """Return the ids of the turns that have to be chunked."""
    return [turn.id for turn in await store.index.uncut()]


class FillingSuite:
    """Keeping in step with the ledger."""

    async def test_turns_that_came_finished_or_failed_are_to_be_cut_oldest_first(self, store: Store) -> None:
        branch = await new_branch(store)
        failed = await failed_turn(store, branch.id, "lost")
        recorded = await store.turns.record(branch.id, [exchange("one"), exchange("two")])
        await answer_turn(store, branch.id, "cut by its own job")
        await store.turns.accept(new_turn(branch.id, "not ended"))
        assert await ids(store) == [failed.id, recorded[0].id, recorded[1].id]
        assert await store.index.uncut(limit=1) == (failed,)
        assert (await store.index.state()).uncut == 3

    @pytest.mark.req("RETRIEVE-2")
    async def test_a_turn_is_filled_once_also_with_nothing(self, store: Store) -> None:
        branch = await new_branch(store)
        turns = await store.turns.record(branch.id, [exchange("one"), exchange("two")])
        for _ in range(2):
            await store.index.fill([(turns[0].id, [slice_of("one", "one")]), (turns[1].id, [])])
        assert await ids(store) == []
        assert len(await store.chunks.of_turn(turns[0].id)) == 1
        state = await store.index.state()
        assert (state.messages, state.indexed, state.uncut, state.chunks) == (2, 2, 0, 1)
        assert await current(store, turns[0]) == turns[0]

    async def test_an_answer_that_comes_later_is_to_be_cut(self, store: Store) -> None:
        branch = await new_branch(store)
        turn = await store.turns.log(branch.id, say("user", "one"))
        await store.index.fill([(turn.id, [slice_of("one", "one")])])
        await store.turns.log(branch.id, say("assistant", "two"))
        assert await ids(store) == [turn.id]
        await store.index.fill([(turn.id, [slice_of("one", "one"), slice_of("two", "two", side="assistant")])])
        assert [chunk.rendered_text for chunk in await store.chunks.of_turn(turn.id)] == ["one", "two"]

    async def test_a_turn_whose_indexing_was_given_up_is_to_be_cut(self, store: Store) -> None:
        branch = await new_branch(store)
        turn = await turn_in(store, branch.id, Phase.STATE_COMMITTED)
        worker = await store.workers.enter()
        job = await store.jobs.claim(worker.id, {"index_turn"})
        assert job is not None
        await store.jobs.give_up(job.id, worker.id, error="no disk")
        assert await ids(store) == [turn.id]
        await store.index.fill([(turn.id, [slice_of("question", "question")])])
        assert await ids(store) == []
        assert not (await current(store, turn)).degraded

    async def test_only_turns_that_have_ended_are_filled(self, store: Store) -> None:
        branch = await new_branch(store)
        (done,) = await store.turns.record(branch.id, [exchange("one")])
        turn = await store.turns.accept(new_turn(branch.id, "two"))
        with pytest.raises(WrongPhase):
            await store.index.fill([(done.id, [slice_of("one", "one")]), (turn.id, [])])
        with pytest.raises(NotFound):
            await store.index.fill([(new_id(), [])])
        with pytest.raises(InvalidInput):
            await store.index.fill([(done.id, [slice_of("one two", "two")])])
        with pytest.raises(WrongPhase):
            await store.index.replace([(turn.id, [slice_of("two", "two")])])
        assert await store.chunks.of_turn(done.id) == ()
        assert await ids(store) == [done.id]

    @pytest.mark.req("RETRIEVE-2")
    async def test_what_is_made_anew_takes_the_place_of_what_was_there(self, store: Store) -> None:
        branch = await new_branch(store)
        (turn,) = await store.turns.record(branch.id, [exchange("one two", "three")])
        lent = replace(slice_of("one two", "one"), borrowed="heron")
        await store.index.fill([(turn.id, [lent, slice_of("one two", "two")])])
        (kept, _) = await store.chunks.of_turn(turn.id)
        await store.index.replace([(turn.id, [replace(lent, borrowed="crane", summary="other")])])
        (again,) = await store.chunks.of_turn(turn.id)
        assert (again.id, again.summary) == (kept.id, "other")
        assert await found(store, "heron") == []
        assert await found(store, "crane") == await found(store, "one") == [TextPosition(turn.id, "user")]
        state = await store.index.state()
        assert (state.messages, state.indexed, state.uncut, state.chunks, state.version) == (2, 2, 0, 1, VERSION)
        assert (await store.index.find_words(["one"], ANYWHERE)).total == 2

    async def test_turns_are_walked_oldest_first_in_any_phase(self, store: Store) -> None:
        one, other = await new_branch(store), await new_branch(store)
        recorded = await store.turns.record(one.id, [exchange("one", "1"), exchange("two", "2")])
        waiting = await store.turns.accept(new_turn(other.id, "three"))
        failed = await failed_turn(store, one.id, "four")
        assert await store.index.turns(limit=3) == (*recorded, waiting)
        assert await store.index.turns(after=waiting.id) == (failed,)
        assert await store.index.turns(after=failed.id) == ()
        assert await store.index.turns(after=new_id()) == ()
        await store.index.replace([(turn.id, []) for turn in await store.index.turns()])
        assert await found(store, "three") == [TextPosition(waiting.id, "user")]

    async def test_an_empty_index_is_in_step(self, store: Store) -> None:
        state = await store.index.state()
        assert (state.messages, state.indexed, state.uncut, state.chunks, state.version) == (0, 0, 0, 0, VERSION)
        assert await store.index.uncut() == await store.index.turns() == ()
