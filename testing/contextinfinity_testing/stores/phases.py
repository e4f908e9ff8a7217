"""Tests of a store: the phases of a turn. No other transition is possible."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
from msgspec.structs import replace

from contextinfinity.domain.ids import new_id
from contextinfinity.domain.message import ToolOutputItem, say
from contextinfinity.domain.plan import Plan
from contextinfinity.domain.state import StateDraft
from contextinfinity.domain.turn import TRANSITIONS, Paused, Phase, StepEnd, Turn, TurnEnd, Usage
from contextinfinity.errors import (
    AlreadyExists,
    BranchBusy,
    NotFound,
    Refused,
    TurnLost,
    WrongPhase,
)
from contextinfinity.storage.contract import Store
from contextinfinity_testing.builders import (
    WORKER,
    asked_back,
    broken_off,
    current,
    final_turn,
    later_than,
    new_branch,
    new_step,
    new_turn,
    step_end,
    turn_end,
    turn_in,
)

Verb = Callable[[Store, Turn], Awaitable[object]]


async def prepare(store: Store, turn: Turn) -> object:
    """Try to go to ContextPrepared."""
    return await store.turns.prepare(turn.id, WORKER)


async def open_step(store: Store, turn: Turn) -> object:
    """Try to go to Responding."""
    return await store.turns.open_step(turn.id, WORKER, new_step(7))


async def finalise(store: Store, turn: Turn) -> object:
    """Try to go to ResponseFinalized, by the way that phase has: the open step, or a question asked back."""
    steps = await store.turns.steps(turn.id)
    is_open = bool(steps) and steps[-1].outcome is None
    end = turn_end(replace(new_step(), id=steps[-1].id)) if is_open else asked_back()
    return await store.turns.finalise(turn.id, WORKER, end)


async def commit(store: Store, turn: Turn) -> object:
    """Try to go to StateCommitted."""
    head = await store.states.head(turn.branch_id)
    draft = StateDraft(branch_id=turn.branch_id, reason="turn", turn_id=turn.id)
    return await store.states.commit(draft, expected_head=head.id)


async def index(store: Store, turn: Turn) -> object:
    """Try to go to Indexed."""
    return await store.chunks.index(turn.id, ())


async def fail(store: Store, turn: Turn) -> object:
    """Try to go to Failed."""
    return await store.turns.fail(turn.id, WORKER, broken_off())


VERBS: dict[Phase, Verb] = {
    Phase.CONTEXT_PREPARED: prepare,
    Phase.RESPONDING: open_step,
    Phase.RESPONSE_FINALIZED: finalise,
    Phase.STATE_COMMITTED: commit,
    Phase.INDEXED: index,
    Phase.FAILED: fail,
}

ALLOWED = [(old, new) for old in Phase for new in VERBS if new in TRANSITIONS[old]]
HARMLESS = [
    (Phase.STATE_COMMITTED, Phase.STATE_COMMITTED),
    (Phase.INDEXED, Phase.STATE_COMMITTED),
    (Phase.DONE, Phase.STATE_COMMITTED),
    (Phase.INDEXED, Phase.INDEXED),
    (Phase.DONE, Phase.INDEXED),
    (Phase.FAILED, Phase.INDEXED),
]
"""Repetitions: the verb does nothing and says so by giving what is there."""
ANOTHER_STEP = (Phase.RESPONDING, Phase.RESPONDING)
FORBIDDEN = [
    (old, new)
    for old in Phase
    for new in VERBS
    if new not in TRANSITIONS[old] and (old, new) not in HARMLESS and (old, new) != ANOTHER_STEP
]


async def everything(store: Store, turn: Turn) -> tuple[object, ...]:
    """Return everything that a method on a turn could have changed."""
    return (
        await store.turns.get(turn.id),
        await store.turns.steps(turn.id),
        await store.turns.plan(turn.id),
        await store.chunks.of_turn(turn.id),
        await store.branches.get(turn.branch_id),
        await store.states.list(turn.branch_id),
    )


class PhaseSuite:
    """The life of a turn."""

    @pytest.mark.req("TURN-1")
    @pytest.mark.parametrize(("old", "new"), ALLOWED)
    async def test_every_transition_of_the_table_is_possible(self, store: Store, old: Phase, new: Phase) -> None:
        branch = await new_branch(store)
        turn = await turn_in(store, branch.id, old)
        assert turn.phase is old
        await later_than(turn.updated_at)
        await VERBS[new](store, turn)
        after = await current(store, turn)
        assert after.phase is new
        assert after.updated_at > turn.updated_at

    @pytest.mark.req("TURN-1")
    @pytest.mark.parametrize(("old", "new"), FORBIDDEN)
    async def test_no_other_transition_is_possible(self, store: Store, old: Phase, new: Phase) -> None:
        branch = await new_branch(store)
        turn = await turn_in(store, branch.id, old)
        before = await everything(store, turn)
        with pytest.raises(Refused) as refusal:
            await VERBS[new](store, turn)
        placeholder_session = old is Phase.DONE  # a recorded turn has no owner, which is noticed first
        assert type(refusal.value) is (TurnLost if placeholder_session else WrongPhase)
        assert await everything(store, turn) == before

    @pytest.mark.req("TURN-1")
    @pytest.mark.parametrize(("old", "new"), HARMLESS)
    async def test_doing_it_a_second_time_changes_nothing(self, store: Store, old: Phase, new: Phase) -> None:
        branch = await new_branch(store)
        turn = await turn_in(store, branch.id, old)
        before = await everything(store, turn)
        await VERBS[new](store, turn)
        assert await everything(store, turn) == before

    @pytest.mark.req("TURN-1")
    async def test_only_a_question_asked_back_skips_the_provider(self, store: Store) -> None:
        branch = await new_branch(store)
        turn = await turn_in(store, branch.id, Phase.CONTEXT_PREPARED)
        answer = say("assistant", "made up")
        for end in (
            TurnEnd(outcome="completed", answer=answer),
            turn_end(new_step()),
            replace(asked_back(), step=step_end(new_step())),
        ):
            with pytest.raises(WrongPhase):
                await store.turns.finalise(turn.id, WORKER, end)
        assert await current(store, turn) == turn
        asked = await store.turns.finalise(turn.id, WORKER, asked_back("Which dog?"))
        assert (asked.phase, asked.outcome) == (Phase.RESPONSE_FINALIZED, "clarification")
        assert asked.answer == say("assistant", "Which dog?")

    # --- whose turn it is ---

    @pytest.mark.req("TURN-1")
    @pytest.mark.parametrize("phase", [Phase.ACCEPTED, Phase.CONTEXT_PREPARED, Phase.RESPONDING, Phase.FAILED])
    async def test_a_worker_that_lost_its_turn_changes_nothing(self, store: Store, phase: Phase) -> None:
        branch = await new_branch(store)
        turn = await turn_in(store, branch.id, phase)
        before = await everything(store, turn)
        step = new_step(5)
        attempts: tuple[Callable[[], Awaitable[Turn]], ...] = (
            lambda: store.turns.prepare(turn.id, "stranger"),
            lambda: store.turns.open_step(turn.id, "stranger", step),
            lambda: store.turns.open_step(turn.id, "stranger", new_step(6, closes=step_end(step))),
            lambda: store.turns.finalise(turn.id, "stranger", turn_end(step)),
            lambda: store.turns.finalise(turn.id, "stranger", asked_back()),
            lambda: store.turns.fail(turn.id, "stranger", broken_off()),
        )
        for attempt in attempts:
            with pytest.raises(TurnLost):
                await attempt()
        assert await everything(store, turn) == before

    async def test_a_turn_of_nobody_is_nobodys_to_answer(self, store: Store) -> None:
        branch = await new_branch(store)
        turn = await store.turns.accept(new_turn(branch.id, "hello", None))
        with pytest.raises(TurnLost):
            await store.turns.prepare(turn.id, WORKER)

    async def test_the_owner_stays_to_the_end(self, store: Store) -> None:
        branch = await new_branch(store)
        turn = await turn_in(store, branch.id, Phase.INDEXED)
        assert turn.owner == WORKER

    async def test_verbs_on_an_unknown_turn_are_refused(self, store: Store) -> None:
        unknown, step = new_id(), new_step()
        attempts: tuple[Callable[[], Awaitable[Turn]], ...] = (
            lambda: store.turns.prepare(unknown, WORKER),
            lambda: store.turns.open_step(unknown, WORKER, step),
            lambda: store.turns.finalise(unknown, WORKER, turn_end(step)),
            lambda: store.turns.fail(unknown, WORKER, broken_off()),
        )
        for attempt in attempts:
            with pytest.raises(NotFound):
                await attempt()
        assert await store.turns.get(unknown) is None

    # --- one at a time ---

    @pytest.mark.req("TURN-1")
    @pytest.mark.parametrize("phase", [Phase.CONTEXT_PREPARED, Phase.RESPONDING])
    async def test_a_branch_answers_one_turn_at_a_time(self, store: Store, phase: Phase) -> None:
        branch = await new_branch(store)
        await turn_in(store, branch.id, phase)
        waiting = await store.turns.accept(new_turn(branch.id, "next"))
        with pytest.raises(BranchBusy):
            await store.turns.prepare(waiting.id, WORKER)
        assert await current(store, waiting) == waiting

    @pytest.mark.req("TURN-1")
    async def test_waiting_turns_are_answered_in_the_order_they_came(self, store: Store) -> None:
        branch = await new_branch(store)
        first = await store.turns.accept(new_turn(branch.id, "first"))
        second = await store.turns.accept(new_turn(branch.id, "second"))
        with pytest.raises(BranchBusy):
            await store.turns.prepare(second.id, WORKER)
        await store.turns.prepare(first.id, WORKER)
        await store.turns.fail(first.id, WORKER, broken_off())
        assert (await store.turns.prepare(second.id, WORKER)).phase is Phase.CONTEXT_PREPARED

    async def test_a_later_waiting_turn_holds_up_nobody(self, store: Store) -> None:
        branch = await new_branch(store)
        first = await store.turns.accept(new_turn(branch.id, "first"))
        await store.turns.accept(new_turn(branch.id, "second"))
        assert (await store.turns.prepare(first.id, WORKER)).phase is Phase.CONTEXT_PREPARED

    async def test_an_answered_turn_frees_its_branch_before_it_is_committed(self, store: Store) -> None:
        branch = await new_branch(store)
        await final_turn(store, branch.id, "first")
        second = await store.turns.accept(new_turn(branch.id, "second"))
        assert (await store.turns.prepare(second.id, WORKER)).phase is Phase.CONTEXT_PREPARED

    async def test_branches_do_not_hold_each_other_up(self, store: Store) -> None:
        branch = await new_branch(store)
        fork = await store.branches.fork(branch.id)
        await turn_in(store, branch.id, Phase.RESPONDING)
        assert (await turn_in(store, fork.id, Phase.RESPONDING)).phase is Phase.RESPONDING

    # --- steps ---

    async def test_a_step_is_there_with_its_plan_before_it_ends(self, store: Store) -> None:
        branch = await new_branch(store)
        turn = await turn_in(store, branch.id, Phase.CONTEXT_PREPARED)
        inputs = (ToolOutputItem(call_id="c1", output={"rows": [1, 2]}),)
        asked = replace(new_step(0, provider="local", model_id="small"), inputs=inputs)
        responding = await store.turns.open_step(turn.id, WORKER, asked)
        assert (responding.provider, responding.model) == ("local", "small")
        assert await current(store, turn) == responding
        (step,) = await store.turns.steps(turn.id)
        assert (step.id, step.turn_id, step.step_index) == (asked.id, turn.id, 0)
        assert (step.provider, step.model_id, step.plan, step.inputs) == ("local", "small", asked.plan, inputs)
        assert (step.items, step.outcome, step.response, step.ended_at) == ((), None, None, None)
        assert await store.turns.plan(turn.id) == asked.plan

    async def test_a_turn_may_take_several_steps(self, store: Store) -> None:
        branch = await new_branch(store)
        turn = await turn_in(store, branch.id, Phase.CONTEXT_PREPARED)
        first = new_step(0, model_id="small")
        await store.turns.open_step(turn.id, WORKER, first)
        paused = StepEnd(step_id=first.id, outcome=Paused(reason="tools"), usage=Usage(input_tokens=3))
        second = new_step(1, model_id="large", closes=paused)
        after = await store.turns.open_step(turn.id, WORKER, second)
        assert (after.phase, after.model) == (Phase.RESPONDING, "large")
        steps = await store.turns.steps(turn.id)
        assert [(step.id, step.outcome) for step in steps] == [(first.id, Paused(reason="tools")), (second.id, None)]
        assert await store.turns.plan(turn.id) == second.plan
        assert await store.turns.steps(turn.id, first=1) == steps[1:]
        assert await store.turns.steps(turn.id, first=2) == ()

    async def test_steps_are_read_in_the_order_of_their_index(self, store: Store) -> None:
        branch = await new_branch(store)
        turn = await turn_in(store, branch.id, Phase.CONTEXT_PREPARED)
        steps = [replace(new_step(index), plan=Plan(epoch_reason=str(index))) for index in (2, 10, 1)]
        for step in steps:
            await store.turns.open_step(turn.id, WORKER, step)
        assert [step.step_index for step in await store.turns.steps(turn.id)] == [1, 2, 10]
        assert await store.turns.plan(turn.id) == Plan(epoch_reason="10")

    async def test_a_step_is_opened_once(self, store: Store) -> None:
        branch = await new_branch(store)
        turn = await turn_in(store, branch.id, Phase.CONTEXT_PREPARED)
        fork = await store.branches.fork(branch.id)
        other = await turn_in(store, fork.id, Phase.CONTEXT_PREPARED)
        step = new_step(0)
        await store.turns.open_step(turn.id, WORKER, step)
        before, elsewhere = await everything(store, turn), await everything(store, other)
        for attempt in (step, new_step(0), replace(step, step_index=1)):
            with pytest.raises(AlreadyExists):
                await store.turns.open_step(turn.id, WORKER, attempt)
        with pytest.raises(AlreadyExists):
            await store.turns.open_step(other.id, WORKER, step)
        assert await everything(store, turn) == before
        assert await everything(store, other) == elsewhere

    async def test_a_step_ends_once_and_only_in_its_own_turn(self, store: Store) -> None:
        branch = await new_branch(store)
        turn = await turn_in(store, branch.id, Phase.RESPONDING)
        fork = await store.branches.fork(branch.id)
        other = await turn_in(store, fork.id, Phase.RESPONDING)
        (step,) = await store.turns.steps(turn.id)
        untouched = await everything(store, turn), await everything(store, other)
        paused = StepEnd(step_id=step.id, outcome=Paused(reason="tools"))
        with pytest.raises(NotFound):
            await store.turns.open_step(other.id, WORKER, new_step(1, closes=paused))
        with pytest.raises(NotFound):
            await store.turns.open_step(turn.id, WORKER, new_step(1, closes=replace(paused, step_id=new_id())))
        assert (await everything(store, turn), await everything(store, other)) == untouched
        await store.turns.open_step(turn.id, WORKER, new_step(1, closes=paused))
        before = await everything(store, turn)
        with pytest.raises(WrongPhase):
            await store.turns.open_step(turn.id, WORKER, new_step(2, closes=paused))
        assert await everything(store, turn) == before
