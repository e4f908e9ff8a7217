"""Tests of a store: accepting, recording and reading turns."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import uuid4

import pytest
from msgspec.structs import replace

from contextinfinity.domain.ids import new_id, to_millis
from contextinfinity.domain.message import Message, say
from contextinfinity.domain.state import BranchTail, KnownTurns
from contextinfinity.domain.turn import Phase, Turn, Usage
from contextinfinity.errors import AlreadyExists, InvalidInput, NotFound, QueueFull
from contextinfinity.storage.contract import Store
from contextinfinity.storage.ledger.turns import FEW
from contextinfinity_testing.builders import (
    WORKER,
    answer_turn,
    broken_off,
    exchange,
    failed_turn,
    final_turn,
    later_than,
    new_branch,
    new_turn,
    said,
    turn_in,
)


def known_turns(turns: Sequence[Turn]) -> KnownTurns:
    """Describe turns that were read."""
    updated = sum(to_millis(turn.updated_at) for turn in turns)
    return KnownTurns(first=turns[0].turn_seq, last=turns[-1].turn_seq, count=len(turns), updated=updated)


class TurnSuite:
    """Messages and their answers."""

    # --- TX-0 ---

    @pytest.mark.req("TURN-2")
    async def test_an_accepted_message_is_there_with_its_place(self, store: Store) -> None:
        branch = await new_branch(store)
        asked = replace(new_turn(branch.id, "hello"), metadata={"door": "cli", "tries": [1, None]})
        turn = await store.turns.accept(asked)
        assert await store.turns.get(turn.id) == turn
        assert await store.turns.history(branch.id) == (turn,)
        assert (turn.session_id, turn.branch_id, turn.turn_seq) == (branch.session_id, branch.id, 1)
        assert (turn.phase, turn.owner, turn.user_message) == (Phase.ACCEPTED, WORKER, asked.message)
        assert (turn.state_before, turn.state_after) == (branch.head_state, None)
        assert (turn.answer, turn.outcome, turn.error, turn.usage) == (None, None, None, Usage())
        assert (turn.provider, turn.model, turn.degraded, turn.retry_of) == ("", "", False, None)
        assert turn.metadata == {"door": "cli", "tries": [1, None]}
        assert turn.created_at == turn.updated_at

    @pytest.mark.req("TURN-2")
    async def test_a_turn_begins_at_once_only_when_nothing_stands_before_it(self, store: Store) -> None:
        branch = await new_branch(store)
        begin = [replace(new_turn(branch.id, f"message {number}"), begin=True) for number in range(3)]
        first, second = await store.turns.accept(begin[0]), await store.turns.accept(begin[1])
        assert (first.phase, second.phase) == (Phase.CONTEXT_PREPARED, Phase.ACCEPTED)
        assert await store.turns.get(first.id) == first
        await store.turns.fail(first.id, WORKER, broken_off())
        third = await store.turns.accept(begin[2])
        assert third.phase is Phase.ACCEPTED, "the second has waited longer"
        assert (await store.turns.prepare(second.id, WORKER)).phase is Phase.CONTEXT_PREPARED

    @pytest.mark.req("TURN-2")
    async def test_accepting_moves_the_branch_and_the_session_with_the_turn(self, store: Store) -> None:
        branch = await new_branch(store)
        before = await store.sessions.get(branch.session_id)
        assert before is not None
        await later_than(before.updated_at)
        await store.turns.accept(new_turn(branch.id, "hello"))
        assert await store.branches.get(branch.id) == replace(branch, last_turn_seq=1)
        after = await store.sessions.get(branch.session_id)
        assert after is not None
        assert after.updated_at > before.updated_at
        assert after == replace(before, updated_at=after.updated_at)

    @pytest.mark.req("LEDGER-1", "TURN-2")
    async def test_turns_are_numbered_from_one_without_gaps(self, store: Store) -> None:
        branch, other = await new_branch(store), await new_branch(store)
        for number in range(5):
            assert (await store.turns.accept(new_turn(branch.id, str(number)))).turn_seq == number + 1
        assert (await store.turns.accept(new_turn(other.id, "elsewhere"))).turn_seq == 1

    @pytest.mark.req("LEDGER-1", "TURN-2")
    async def test_a_refused_message_leaves_no_gap(self, store: Store) -> None:
        branch = await new_branch(store)
        await store.turns.accept(new_turn(branch.id, "one"))
        with pytest.raises(QueueFull):
            await store.turns.accept(replace(new_turn(branch.id, "refused"), queue_limit=1))
        with pytest.raises(InvalidInput):
            await store.turns.accept(new_turn(branch.id, "lone \ud83d surrogate"))
        assert (await store.turns.accept(new_turn(branch.id, "two"))).turn_seq == 2
        assert await said(store, branch.id) == ["one", "two"]

    async def test_a_turn_begins_at_the_head_of_its_time(self, store: Store) -> None:
        branch = await new_branch(store)
        await answer_turn(store, branch.id, "one")
        pinned = await store.states.pin(branch.id, "fact")
        turn = await store.turns.accept(new_turn(branch.id, "two"))
        await store.states.pin(branch.id, "later")
        assert turn.state_before == pinned.id
        assert await store.turns.get(turn.id) == turn

    async def test_a_retry_and_a_nameless_owner_are_kept_as_given(self, store: Store) -> None:
        branch = await new_branch(store)
        first = await failed_turn(store, branch.id, "hello")
        turn = await store.turns.accept(replace(new_turn(branch.id, "hello", None), retry_of=first.id))
        assert (turn.retry_of, turn.owner) == (first.id, None)
        assert await store.turns.get(turn.id) == turn

    @pytest.mark.req("API-7")
    async def test_a_retry_names_a_turn_that_its_branch_sees(self, store: Store) -> None:
        branch, other = await new_branch(store), await new_branch(store)
        first, later = await failed_turn(store, branch.id, "hello"), await failed_turn(store, branch.id, "again")
        foreign = await failed_turn(store, other.id, "hello")
        fork = await store.branches.fork(branch.id, at=first.turn_seq)
        for retried in (foreign.id, later.id, new_id()):
            with pytest.raises(NotFound, match="retry_of"):
                await store.turns.accept(replace(new_turn(fork.id, "hello"), retry_of=retried))
        assert [turn.id for turn in await store.turns.history(fork.id)] == [first.id]
        turn = await store.turns.accept(replace(new_turn(fork.id, "hello"), retry_of=first.id))
        assert turn.retry_of == first.id

    async def test_a_message_without_blocks_is_a_message(self, store: Store) -> None:
        branch = await new_branch(store)
        asked = replace(new_turn(branch.id, ""), message=Message(role="tool", blocks=()))
        turn = await store.turns.accept(asked)
        assert turn.user_message == asked.message
        assert await store.turns.get(turn.id) == turn

    async def test_a_message_to_an_unknown_branch_is_refused(self, store: Store) -> None:
        given = new_id()
        with pytest.raises(NotFound):
            await store.turns.accept(replace(new_turn(new_id(), "hello"), id=given))
        assert await store.turns.get(given) is None

    # --- the same message twice ---

    @pytest.mark.req("TURN-2")
    async def test_the_same_message_sent_again_is_one_turn(self, store: Store) -> None:
        branch = await new_branch(store)
        asked = replace(new_turn(branch.id, "hello"), id=str(uuid4()))
        first = await store.turns.accept(asked)
        assert first.id == asked.id
        assert await store.turns.accept(asked) == first
        assert await store.turns.accept(replace(asked, owner="another", queue_limit=1)) == first
        assert await store.turns.history(branch.id) == (first,)

    @pytest.mark.req("TURN-2")
    async def test_a_message_sent_again_later_gives_the_turn_as_it_is_now(self, store: Store) -> None:
        branch = await new_branch(store)
        final = await final_turn(store, branch.id, "hello", "hi")
        again = replace(new_turn(branch.id, "hello"), id=final.id)
        assert await store.turns.accept(again) == final

    @pytest.mark.req("TURN-2")
    async def test_other_words_or_another_branch_under_a_taken_id_are_refused(self, store: Store) -> None:
        branch = await new_branch(store)
        fork = await store.branches.fork(branch.id)
        asked = replace(new_turn(branch.id, "hello"), id=new_id())
        first = await store.turns.accept(asked)
        for changed in (
            replace(asked, message=say("user", "Hello")),
            replace(asked, message=say("tool", "hello")),
            replace(asked, branch_id=fork.id),
        ):
            with pytest.raises(AlreadyExists):
                await store.turns.accept(changed)
        assert await store.turns.history(branch.id) == (first,)
        assert await store.turns.history(fork.id) == ()

    @pytest.mark.parametrize("given", ["", "mine", "0192F0C1-2345-7ABC-8DEF-0123456789AB"])
    async def test_a_turn_id_that_is_no_canonical_uuid_is_refused(self, store: Store, given: str) -> None:
        branch = await new_branch(store)
        with pytest.raises(InvalidInput):
            await store.turns.accept(replace(new_turn(branch.id, "hello"), id=given))
        assert await store.turns.history(branch.id) == ()

    # --- the queue ---

    async def test_a_full_queue_refuses_and_names_the_running_turn(self, store: Store) -> None:
        branch = await new_branch(store)
        running = await turn_in(store, branch.id, Phase.RESPONDING)
        for number in range(2):
            await store.turns.accept(replace(new_turn(branch.id, str(number)), queue_limit=2))
        with pytest.raises(QueueFull) as refusal:
            await store.turns.accept(replace(new_turn(branch.id, "too many"), queue_limit=2))
        assert refusal.value.running == running.id
        assert await said(store, branch.id) == ["question", "0", "1"]

    async def test_only_waiting_turns_of_the_same_branch_fill_its_queue(self, store: Store) -> None:
        branch = await new_branch(store)
        await failed_turn(store, branch.id, "failed")
        await answer_turn(store, branch.id, "done")
        await final_turn(store, branch.id, "pending")
        await turn_in(store, branch.id, Phase.CONTEXT_PREPARED)
        fork = await store.branches.fork(branch.id)
        await store.turns.accept(new_turn(fork.id, "elsewhere"))
        await store.turns.accept(replace(new_turn(branch.id, "first to wait"), queue_limit=1))
        with pytest.raises(QueueFull):
            await store.turns.accept(replace(new_turn(branch.id, "second"), queue_limit=1))

    # --- reading ---

    async def test_history_gives_the_newest_turns_oldest_first(self, store: Store) -> None:
        branch = await new_branch(store)
        turns = await store.turns.record(branch.id, [exchange(str(number), "ok") for number in range(30)])
        assert await store.turns.history(branch.id) == turns[-20:]
        assert await store.turns.history(branch.id, limit=5) == turns[-5:]
        assert await store.turns.history(branch.id, limit=1000) == turns
        assert await store.turns.history(branch.id, limit=5, before=11) == turns[5:10]
        assert await store.turns.history(branch.id, limit=5, before=3) == turns[:2]
        assert await store.turns.history(branch.id, limit=5, before=1000) == turns[-5:]

    @pytest.mark.parametrize(("limit", "before"), [(0, None), (-1, None), (5, 1), (5, 0), (5, -3)])
    async def test_a_history_of_no_length_is_empty(self, store: Store, limit: int, before: int | None) -> None:
        branch = await new_branch(store)
        await store.turns.record(branch.id, [exchange("one"), exchange("two")])
        assert await store.turns.history(branch.id, limit=limit, before=before) == ()

    async def test_history_shows_turns_of_every_phase(self, store: Store) -> None:
        branch = await new_branch(store)
        phases = [*Phase]
        order = sorted(phases, key=lambda phase: phase is Phase.ACCEPTED)  # a waiting turn would hold up the others
        settled = [phase for phase in order if phase not in (Phase.CONTEXT_PREPARED, Phase.RESPONDING)]
        settled.sort(key=lambda phase: phase in (Phase.RESPONSE_FINALIZED, Phase.ACCEPTED))
        for phase in settled:
            await turn_in(store, branch.id, phase)
        assert [turn.phase for turn in await store.turns.history(branch.id)] == settled

    async def test_reading_what_is_unknown_gives_nothing_and_makes_nothing(self, store: Store) -> None:
        unknown = new_id()
        assert await store.turns.get(unknown) is None
        assert await store.turns.history(unknown) == ()
        assert await store.turns.steps(unknown) == ()
        assert await store.turns.plan(unknown) is None
        assert await store.turns.get(unknown) is None

    # --- the tail of a branch ---

    async def test_the_tail_of_a_branch_is_its_head_and_its_newest_turns(self, store: Store) -> None:
        branch = await new_branch(store)
        await store.turns.record(branch.id, [exchange(f"question {n}", "answer") for n in range(4)])
        turns = await store.turns.history(branch.id)
        head = await store.states.head(branch.id)
        assert await store.turns.tail(branch.id, before=5) == BranchTail(state=head, turns=turns)
        assert (await store.turns.tail(branch.id, before=4, after=1)).turns == turns[1:3]
        assert (await store.turns.tail(branch.id, before=9, after=3)).turns == turns[3:]
        assert (await store.turns.tail(branch.id, before=1)).turns == ()
        await store.turns.record(branch.id, [exchange("more", "answer")] * FEW)
        longest = await store.turns.tail(branch.id, before=FEW + 5)
        assert [turn.turn_seq for turn in longest.turns] == [*range(5, FEW + 5)], "no more than are read at once"
        with pytest.raises(NotFound):
            await store.turns.tail(new_id(), before=9)

    async def test_known_turns_that_are_unchanged_are_left_out_of_a_tail(self, store: Store) -> None:
        branch = await new_branch(store)
        await store.turns.record(branch.id, [exchange(f"question {n}", "answer") for n in range(4)])
        fork = await store.branches.fork(branch.id, at=3)
        await store.turns.record(fork.id, [exchange("another question", "another answer")] * 2)
        turns = await store.turns.history(fork.id)
        for first, last in ((1, 5), (2, 4), (4, 5), (1, 2)):
            known = known_turns([turn for turn in turns if first <= turn.turn_seq <= last])
            tail = await store.turns.tail(fork.id, before=9, after=first - 1, known=known)
            assert (tail.extends, tail.turns) == (True, turns[last:])
            folded = await store.turns.tail(fork.id, before=9, after=last - 1, known=known)
            assert (folded.extends, folded.turns) == (True, turns[last:])
            for after in (last, first - 2):  # none of them is asked for, or turns before them
                other = await store.turns.tail(fork.id, before=9, after=after, known=known)
                assert (other.extends, other.turns) == (False, turns[max(after, 0) :])

    async def test_known_turns_that_have_changed_are_read_again(self, store: Store) -> None:
        branch = await new_branch(store)
        turn = await store.turns.accept(new_turn(branch.id, "hello"))
        known = known_turns([turn])
        assert (await store.turns.tail(branch.id, before=2, known=known)).extends
        await later_than(turn.updated_at)
        failed = await store.turns.fail(turn.id, WORKER, broken_off())
        tail = await store.turns.tail(branch.id, before=2, known=known)
        assert (tail.extends, tail.turns) == (False, (failed,))
