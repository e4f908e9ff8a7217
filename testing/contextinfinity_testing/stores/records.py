"""Tests of a store: recording finished turns."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from msgspec.structs import replace

from contextinfinity.domain.ids import new_id
from contextinfinity.domain.message import say
from contextinfinity.domain.turn import Exchange, Phase, Usage
from contextinfinity.errors import InvalidInput, NotFound, OutOfOrder
from contextinfinity.storage.contract import Store
from contextinfinity_testing.builders import answer_turn, exchange, new_branch, turn_in


class RecordSuite:
    """Turns recorded as they are."""

    @pytest.mark.req("LEDGER-4")
    async def test_recorded_turns_are_done_at_once_and_nobodys(self, store: Store) -> None:
        branch = await new_branch(store)
        moment = datetime(2021, 5, 4, 3, 2, 1, 987000, tzinfo=timezone(timedelta(hours=-7)))
        given = Exchange(
            message=say("user", "hello"),
            answer=say("assistant", "hi"),
            created_at=moment,
            model="old-model",
            metadata={"from": "an import"},
        )
        (turn,) = await store.turns.record(branch.id, [given])
        assert await store.turns.get(turn.id) == turn
        assert (turn.phase, turn.outcome, turn.owner) == (Phase.DONE, "completed", None)
        assert (turn.user_message, turn.answer) == (given.message, given.answer)
        assert (turn.created_at, turn.model, turn.metadata) == (moment, "old-model", {"from": "an import"})
        assert (turn.turn_seq, turn.session_id, turn.branch_id) == (1, branch.session_id, branch.id)
        assert (turn.state_before, turn.usage, turn.provider) == (branch.head_state, Usage(), "")

    @pytest.mark.parametrize("fraction", [400, 500, 600, 999, 123_600, 999_999])
    async def test_a_moment_finer_than_a_millisecond_is_acknowledged_as_it_is_kept(
        self, store: Store, fraction: int
    ) -> None:
        branch = await new_branch(store)
        moment = datetime(2026, 1, 1, 23, 59, 59, fraction, tzinfo=UTC)
        (turn,) = await store.turns.record(branch.id, [replace(exchange("a", "b"), created_at=moment)])
        assert await store.turns.get(turn.id) == turn
        assert abs(turn.created_at - moment) < timedelta(milliseconds=1)

    async def test_a_recorded_question_without_an_answer_has_no_outcome(self, store: Store) -> None:
        branch = await new_branch(store)
        (turn,) = await store.turns.record(branch.id, [exchange("hello")])
        assert (turn.phase, turn.outcome, turn.answer) == (Phase.DONE, None, None)
        assert abs(turn.created_at - datetime.now(UTC)) < timedelta(minutes=1)

    @pytest.mark.req("LEDGER-1", "LEDGER-5")
    async def test_turns_recorded_together_share_one_state(self, store: Store) -> None:
        branch = await new_branch(store)
        await answer_turn(store, branch.id, "before")
        head = await store.states.pin(branch.id, "fact")
        turns = await store.turns.record(branch.id, [exchange("a", "1"), exchange("b"), exchange("c", "3")])
        state = await store.states.head(branch.id)
        assert [turn.turn_seq for turn in turns] == [2, 3, 4]
        assert {(turn.state_before, turn.state_after) for turn in turns} == {(head.id, state.id)}
        assert (state.reason, state.turn_seq, state.state_seq) == ("record", 4, head.state_seq + 1)
        assert (state.parent_id, state.pinned_facts, state.covers_turn_seq) == (head.id, ("fact",), 0)
        after = await store.branches.get(branch.id)
        assert after is not None
        assert (after.last_turn_seq, after.head_state, after.head_seq) == (4, state.id, state.state_seq)

    async def test_recording_nothing_does_nothing(self, store: Store) -> None:
        branch = await new_branch(store)
        assert await store.turns.record(branch.id, []) == ()
        assert await store.branches.get(branch.id) == branch

    @pytest.mark.parametrize(
        "phase", [Phase.ACCEPTED, Phase.CONTEXT_PREPARED, Phase.RESPONDING, Phase.RESPONSE_FINALIZED]
    )
    async def test_nothing_is_recorded_past_an_unsettled_turn(self, store: Store, phase: Phase) -> None:
        branch = await new_branch(store)
        turn = await turn_in(store, branch.id, phase)
        before = await store.branches.get(branch.id)
        with pytest.raises(OutOfOrder):
            await store.turns.record(branch.id, [exchange("a", "b")])
        assert await store.turns.history(branch.id) == (turn,)
        assert await store.branches.get(branch.id) == before

    @pytest.mark.parametrize("phase", [Phase.STATE_COMMITTED, Phase.INDEXED, Phase.DONE, Phase.FAILED])
    async def test_turns_are_recorded_after_settled_ones(self, store: Store, phase: Phase) -> None:
        branch = await new_branch(store)
        await turn_in(store, branch.id, phase)
        (turn,) = await store.turns.record(branch.id, [exchange("a", "b")])
        assert turn.turn_seq == 2

    async def test_a_record_is_whole_or_not_at_all(self, store: Store) -> None:
        branch = await new_branch(store)
        with pytest.raises(InvalidInput):
            await store.turns.record(branch.id, [exchange("good", "fine"), exchange("bad", "\udc00")])
        assert await store.turns.history(branch.id) == ()
        assert await store.branches.get(branch.id) == branch
        with pytest.raises(NotFound):
            await store.turns.record(new_id(), [exchange("a", "b")])
