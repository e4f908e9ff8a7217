"""Tests of a store: each branch has one head, moved by compare-and-set."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from contextinfinity.domain.ids import new_id
from contextinfinity.domain.session import Branch
from contextinfinity.domain.state import State, StateDraft
from contextinfinity.domain.turn import Phase
from contextinfinity.errors import HeadMoved, InvalidInput, NotFound, OutOfOrder, WrongPhase
from contextinfinity.storage.contract import Store
from contextinfinity_testing.builders import (
    answer_turn,
    commit_turn,
    current,
    exchange,
    failed_turn,
    final_turn,
    new_branch,
    new_turn,
    turn_in,
)


async def read(store: Store, branch_id: str) -> Branch:
    """Return an existing branch."""
    branch = await store.branches.get(branch_id)
    assert branch is not None
    return branch


async def fold(store: Store, branch_id: str, **changes: object) -> State:
    """Commit a state without a turn on top of the head."""
    head = await store.states.head(branch_id)
    draft = replace(StateDraft(branch_id=branch_id, reason="fold"), **changes)
    return await store.states.commit(draft, expected_head=head.id)


class StateSuite:
    """Checkpoints and the head."""

    # --- TX-B ---

    @pytest.mark.req("TURN-4", "LEDGER-5")
    async def test_a_commit_moves_turn_state_and_head_together(self, store: Store) -> None:
        branch = await new_branch(store)
        turn = await final_turn(store, branch.id, "hello")
        root = await store.states.head(branch.id)
        draft = StateDraft(
            branch_id=branch.id,
            reason="turn",
            turn_id=turn.id,
            summary="They said hello.",
            covers_turn_seq=1,
            token_count_est=42,
        )
        state = await store.states.commit(draft, expected_head=root.id)
        assert await store.states.get(state.id) == state == await store.states.head(branch.id)
        assert (state.session_id, state.branch_id, state.parent_id) == (branch.session_id, branch.id, root.id)
        assert (state.state_seq, state.turn_seq, state.covers_turn_seq, state.reason) == (1, 1, 1, "turn")
        assert (state.summary, state.token_count_est) == ("They said hello.", 42)
        assert await read(store, branch.id) == replace(branch, head_state=state.id, head_seq=1, last_turn_seq=1)
        committed = await current(store, turn)
        assert committed == replace(
            turn, phase=Phase.STATE_COMMITTED, state_after=state.id, updated_at=committed.updated_at
        )

    @pytest.mark.req("LEDGER-1", "LEDGER-5", "TURN-4")
    async def test_states_form_a_chain_counted_without_gaps(self, store: Store) -> None:
        branch = await new_branch(store)
        for number in range(4):
            await answer_turn(store, branch.id, str(number))
        await store.states.pin(branch.id, "fact")
        chain = await store.states.list(branch.id)
        assert [state.state_seq for state in chain] == [5, 4, 3, 2, 1, 0]
        assert [state.parent_id for state in chain] == [*(state.id for state in chain[1:]), None]
        assert chain[0] == await store.states.head(branch.id)

    @pytest.mark.req("TURN-4")
    async def test_what_a_draft_leaves_open_is_inherited(self, store: Store) -> None:
        branch = await new_branch(store)
        await answer_turn(store, branch.id, "one")
        folded = await fold(store, branch.id, summary="One was said.", covers_turn_seq=1, token_count_est=9)
        turn = await final_turn(store, branch.id, "two")
        state = await commit_turn(store, turn)
        assert (state.summary, state.covers_turn_seq, state.token_count_est) == ("One was said.", 1, 9)
        assert (state.turn_seq, state.state_seq) == (2, folded.state_seq + 1)

    @pytest.mark.parametrize(("summary", "expected"), [("x" * 41, 10), ("", 0)])
    async def test_a_new_summary_is_estimated_at_four_characters_a_token(
        self, store: Store, summary: str, expected: int
    ) -> None:
        branch = await new_branch(store)
        await fold(store, branch.id, summary="before", token_count_est=99)
        state = await fold(store, branch.id, summary=summary)
        assert (state.summary, state.token_count_est) == (summary, expected)

    async def test_a_given_estimate_is_kept_even_when_it_is_zero(self, store: Store) -> None:
        branch = await new_branch(store)
        assert (await fold(store, branch.id, summary="x" * 40, token_count_est=0)).token_count_est == 0

    @pytest.mark.req("TURN-4")
    async def test_a_state_without_a_turn_stays_at_the_turn_of_the_head(self, store: Store) -> None:
        branch = await new_branch(store)
        await answer_turn(store, branch.id, "one")
        await final_turn(store, branch.id, "pending")
        before = await read(store, branch.id)
        folded = await fold(store, branch.id, summary="s", covers_turn_seq=1)
        undone = await fold(store, branch.id, reason="unfold", summary="", covers_turn_seq=0)
        assert [(state.reason, state.turn_seq, state.covers_turn_seq) for state in (folded, undone)] == [
            ("fold", 1, 1),
            ("unfold", 1, 0),
        ]
        after = await read(store, branch.id)
        assert after == replace(before, head_state=undone.id, head_seq=undone.state_seq)

    @pytest.mark.req("TURN-4", "LEDGER-5")
    async def test_a_commit_on_an_old_head_is_refused_and_names_the_new_one(self, store: Store) -> None:
        branch = await new_branch(store)
        turn = await final_turn(store, branch.id, "hello")
        stale = await store.states.head(branch.id)
        pinned = await store.states.pin(branch.id, "fact")
        before = await read(store, branch.id)
        for turn_id in (turn.id, None):
            draft = StateDraft(branch_id=branch.id, reason="turn", turn_id=turn_id)
            with pytest.raises(HeadMoved) as refusal:
                await store.states.commit(draft, expected_head=stale.id)
            assert refusal.value.head == pinned.id
        assert await read(store, branch.id) == before
        assert await current(store, turn) == turn
        assert await store.states.list(branch.id) == (pinned, stale)

    async def test_a_commit_on_a_head_that_never_was_is_refused(self, store: Store) -> None:
        branch = await new_branch(store)
        with pytest.raises(HeadMoved):
            await store.states.commit(StateDraft(branch_id=branch.id, reason="fold"), expected_head=new_id())

    @pytest.mark.req("TURN-4")
    async def test_a_commit_that_expects_no_head_in_particular_follows_the_one_there_is(self, store: Store) -> None:
        branch = await new_branch(store)
        turn = await final_turn(store, branch.id, "hello")
        pinned = await store.states.pin(branch.id, "fact")
        draft = StateDraft(branch_id=branch.id, reason="turn", turn_id=turn.id)
        state = await store.states.commit(draft, expected_head=None)
        assert (state.parent_id, state.pinned_facts, state.turn_seq) == (pinned.id, ("fact",), 1)

    @pytest.mark.req("TURN-4")
    async def test_pins_made_meanwhile_are_part_of_the_next_state(self, store: Store) -> None:
        branch = await new_branch(store)
        turn = await final_turn(store, branch.id, "hello")
        await store.states.pin(branch.id, "first")
        await store.states.pin(branch.id, "second")
        assert (await commit_turn(store, turn)).pinned_facts == ("first", "second")

    @pytest.mark.req("TURN-4")
    async def test_a_turn_is_committed_once(self, store: Store) -> None:
        branch = await new_branch(store)
        turn = await final_turn(store, branch.id, "hello")
        state = await commit_turn(store, turn)
        await store.states.pin(branch.id, "fact")
        chain = await store.states.list(branch.id)
        draft = StateDraft(branch_id=branch.id, reason="turn", turn_id=turn.id, summary="other", covers_turn_seq=99)
        assert await store.states.commit(draft, expected_head=state.parent_id or "") == state
        assert await store.states.list(branch.id) == chain

    @pytest.mark.req("TURN-4")
    async def test_a_recorded_turn_counts_as_committed(self, store: Store) -> None:
        branch = await new_branch(store)
        turns = await store.turns.record(branch.id, [exchange("a", "b"), exchange("c", "d")])
        head = await store.states.head(branch.id)
        assert await commit_turn(store, turns[0]) == head
        assert await store.states.head(branch.id) == head

    @pytest.mark.req("TURN-4")
    async def test_turns_are_committed_in_the_order_they_were_said(self, store: Store) -> None:
        branch = await new_branch(store)
        turns = [await final_turn(store, branch.id, word) for word in ("first", "second", "third")]
        for late in turns[1:]:
            with pytest.raises(OutOfOrder):
                await commit_turn(store, late)
        assert [(await commit_turn(store, turn)).turn_seq for turn in turns] == [1, 2, 3]

    @pytest.mark.parametrize(
        "phase", [Phase.ACCEPTED, Phase.CONTEXT_PREPARED, Phase.RESPONDING, Phase.RESPONSE_FINALIZED]
    )
    async def test_a_later_turn_holds_up_no_commit(self, store: Store, phase: Phase) -> None:
        branch = await new_branch(store)
        turn = await final_turn(store, branch.id, "first")
        await turn_in(store, branch.id, phase)
        assert (await commit_turn(store, turn)).turn_seq == 1

    @pytest.mark.req("TURN-4")
    async def test_a_refused_commit_changes_nothing(self, store: Store) -> None:
        branch = await new_branch(store)
        await final_turn(store, branch.id, "first")
        second = await final_turn(store, branch.id, "second")
        before = await read(store, branch.id)
        with pytest.raises(OutOfOrder):
            await commit_turn(store, second)
        assert await read(store, branch.id) == before
        assert await current(store, second) == second
        assert len(await store.states.list(branch.id)) == 1

    @pytest.mark.req("TURN-4")
    async def test_the_next_turn_is_committed_past_a_failed_one(self, store: Store) -> None:
        branch = await new_branch(store)
        await failed_turn(store, branch.id, "lost")
        turn = await final_turn(store, branch.id, "found")
        state = await commit_turn(store, turn)
        assert (state.turn_seq, state.state_seq) == (2, 1)

    async def test_order_is_kept_within_a_branch_only(self, store: Store) -> None:
        branch = await new_branch(store)
        await final_turn(store, branch.id, "pending on main")
        fork = await store.branches.fork(branch.id)
        turn = await final_turn(store, fork.id, "on the fork")
        assert (await commit_turn(store, turn)).turn_seq == 2

    async def test_a_moved_head_is_noticed_before_the_order(self, store: Store) -> None:
        branch = await new_branch(store)
        await final_turn(store, branch.id, "first")
        second = await final_turn(store, branch.id, "second")
        draft = StateDraft(branch_id=branch.id, reason="turn", turn_id=second.id)
        with pytest.raises(HeadMoved):
            await store.states.commit(draft, expected_head=new_id())

    @pytest.mark.parametrize("covers", [-1, 2, 3])
    async def test_a_summary_covers_only_turns_that_are_committed(self, store: Store, covers: int) -> None:
        branch = await new_branch(store)
        await answer_turn(store, branch.id, "one")
        await store.turns.accept(new_turn(branch.id, "waiting"))
        before = await read(store, branch.id)
        with pytest.raises(InvalidInput):
            await fold(store, branch.id, summary="s", covers_turn_seq=covers)
        assert await read(store, branch.id) == before

    async def test_a_commit_of_what_is_not_there_is_refused(self, store: Store) -> None:
        branch = await new_branch(store)
        fork = await store.branches.fork(branch.id)
        turn = await final_turn(store, branch.id, "hello")
        with pytest.raises(NotFound):
            await store.states.commit(StateDraft(branch_id=new_id(), reason="fold"), expected_head=branch.head_state)
        with pytest.raises(NotFound):
            await fold(store, branch.id, reason="turn", turn_id=new_id())
        with pytest.raises(InvalidInput):
            await fold(store, fork.id, reason="turn", turn_id=turn.id)
        assert await current(store, turn) == turn
        assert await store.branches.get(fork.id) == fork

    async def test_a_failed_turn_cannot_be_committed(self, store: Store) -> None:
        branch = await new_branch(store)
        turn = await failed_turn(store, branch.id, "lost")
        with pytest.raises(WrongPhase):
            await commit_turn(store, turn)
