"""Tests of a store: answer, step and phase of a finished turn become durable together."""

from __future__ import annotations

from datetime import timedelta

import pytest
from msgspec.structs import replace

from contextinfinity.domain.ids import new_id, now
from contextinfinity.domain.message import AssistantItem, MetadataItem, TextBlock, say
from contextinfinity.domain.plan import Plan
from contextinfinity.domain.turn import (
    Cancelled,
    Completed,
    Failed,
    Incomplete,
    NewTurn,
    Paused,
    Phase,
    Problem,
    Step,
    StepEnd,
    StepOutcome,
    Turn,
    TurnEnd,
    TurnOutcome,
    Usage,
)
from contextinfinity.errors import InvalidInput, NotFound, WrongPhase
from contextinfinity.storage.contract import Store
from contextinfinity_testing.builders import (
    WORKER,
    asked_back,
    broken_off,
    current,
    new_branch,
    new_step,
    step_end,
    turn_end,
    turn_in,
)

OUTCOMES: list[tuple[TurnOutcome, StepOutcome]] = [
    ("completed", Completed()),
    ("incomplete", Incomplete(reason="length")),
    ("paused", Paused(reason="tools")),
    ("cancelled", Cancelled()),
    ("failed", Failed(code="overloaded", message="Try later.")),
]


async def responding(store: Store) -> tuple[Turn, Step]:
    """Create a turn whose only step is running."""
    branch = await new_branch(store)
    turn = await turn_in(store, branch.id, Phase.RESPONDING)
    (step,) = await store.turns.steps(turn.id)
    return turn, step


class EndingSuite:
    """How turns end."""

    @pytest.mark.req("METRICS-1")
    async def test_what_the_end_notes_and_later_work_measures_is_kept_with_the_turn(self, store: Store) -> None:
        branch = await new_branch(store)
        new = NewTurn(branch_id=branch.id, message=say("user", "a"), owner=WORKER, metadata={"role": "editor"})
        turn = await store.turns.accept(replace(new, begin=True))
        step = new_step()
        await store.turns.open_step(turn.id, WORKER, step)
        end = replace(turn_end(step), metadata={"intent": "code"}, latency_ms={"stream": 12.5})
        ended = await store.turns.finalise(turn.id, WORKER, end)
        assert (ended.metadata, ended.latency_ms) == ({"role": "editor", "intent": "code"}, {"stream": 12.5})
        assert await current(store, ended) == ended
        job = await store.jobs.claim(WORKER)
        assert job is not None
        await store.jobs.complete(job.id, WORKER, took={"summarise": 0.25})
        later = await current(store, ended)
        assert (later.metadata, later.latency_ms) == (ended.metadata, {"stream": 12.5, "summarise": 0.25})

    # --- TX-A ---

    @pytest.mark.req("TURN-3")
    @pytest.mark.parametrize(("outcome", "step_outcome"), OUTCOMES)
    async def test_the_answer_the_step_and_the_phase_become_durable_together(
        self, store: Store, outcome: TurnOutcome, step_outcome: StepOutcome
    ) -> None:
        turn, step = await responding(store)
        end = StepEnd(
            step_id=step.id,
            outcome=step_outcome,
            items=(AssistantItem(blocks=(TextBlock(text="hi"),)), MetadataItem(key="finish", value="stop")),
            response=b"\x00\xff raw \x80",
            usage=Usage(input_tokens=7, output_tokens=5, cached_tokens=3, cost=0.125),
            displayed_bytes=20,
            durable_bytes=15,
        )
        final = await store.turns.finalise(
            turn.id, WORKER, TurnEnd(outcome=outcome, answer=say("assistant", "hi"), step=end)
        )
        assert await current(store, turn) == final
        assert (final.phase, final.outcome, final.error) == (Phase.RESPONSE_FINALIZED, outcome, None)
        assert (final.answer, final.usage) == (say("assistant", "hi"), end.usage)
        (closed,) = await store.turns.steps(turn.id)
        assert closed == replace(
            step,
            outcome=step_outcome,
            items=end.items,
            response=end.response,
            usage=end.usage,
            displayed_bytes=20,
            durable_bytes=15,
            ended_at=closed.ended_at,
        )
        assert closed.ended_at is not None
        assert closed.ended_at >= closed.started_at

    @pytest.mark.req("TURN-3")
    async def test_a_final_answer_leaves_the_head_where_it_is(self, store: Store) -> None:
        turn, step = await responding(store)
        before = await store.branches.get(turn.branch_id)
        final = await store.turns.finalise(turn.id, WORKER, turn_end(replace(new_step(), id=step.id)))
        assert await store.branches.get(turn.branch_id) == before
        assert (final.state_after, final.turn_seq, final.owner) == (None, turn.turn_seq, WORKER)
        assert (final.provider, final.model) == (turn.provider, turn.model)

    @pytest.mark.req("TURN-3")
    async def test_the_usage_of_a_turn_is_the_sum_of_its_steps(self, store: Store) -> None:
        turn, first = await responding(store)
        usage = Usage(input_tokens=100, output_tokens=20, cached_tokens=50, cost=0.5)
        second = new_step(1, closes=StepEnd(step_id=first.id, outcome=Paused(reason="tools"), usage=usage))
        await store.turns.open_step(turn.id, WORKER, second)
        end = replace(step_end(second), usage=Usage(input_tokens=11, output_tokens=2, cached_tokens=1, cost=0.25))
        final = await store.turns.finalise(turn.id, WORKER, TurnEnd(outcome="completed", step=end))
        assert final.usage == Usage(input_tokens=111, output_tokens=22, cached_tokens=51, cost=0.75)

    @pytest.mark.req("METRICS-1")
    async def test_what_a_user_spent_is_counted_by_day_also_after_a_deletion(self, store: Store) -> None:
        today = now().date()
        turn, first = await responding(store)
        session = await store.sessions.get(turn.session_id)
        assert session is not None
        before = (await store.turns.spending(session.owner, today)).get(today, 0.0)
        second = new_step(1, closes=StepEnd(step_id=first.id, outcome=Completed(), usage=Usage(cost=0.5)))
        await store.turns.open_step(turn.id, WORKER, second)
        end = replace(step_end(second), usage=Usage(cost=0.25))
        await store.turns.fail(turn.id, WORKER, TurnEnd(outcome="failed", step=end, error=broken_off().error))
        while (await store.deletions.delete(turn.session_id)).more:
            pass
        assert await store.turns.spending(session.owner, today) == {today: before + 0.75}
        assert await store.turns.spending(session.owner, today + timedelta(days=1)) == {}
        assert await store.turns.spending(replace(session.owner, org_id="acme"), today) == {}

    async def test_an_unknown_cost_is_not_taken_for_nothing(self, store: Store) -> None:
        turn, step = await responding(store)
        end = replace(step_end(replace(new_step(), id=step.id)), usage=Usage(input_tokens=1))
        final = await store.turns.finalise(turn.id, WORKER, TurnEnd(outcome="completed", step=end))
        assert final.usage.cost is None
        assert (await current(store, turn)).usage == Usage(input_tokens=1)

    @pytest.mark.req("TURN-3")
    async def test_an_answer_may_be_missing_or_empty(self, store: Store) -> None:
        for answer in (None, say("assistant", "")):
            turn, step = await responding(store)
            end = replace(turn_end(replace(new_step(), id=step.id)), answer=answer)
            final = await store.turns.finalise(turn.id, WORKER, end)
            assert (final.phase, final.answer) == (Phase.RESPONSE_FINALIZED, answer)
            assert await current(store, turn) == final

    @pytest.mark.req("TURN-3")
    async def test_a_turn_that_was_responding_does_not_end_without_its_step(self, store: Store) -> None:
        turn, step = await responding(store)
        for end in (TurnEnd(outcome="completed", answer=say("assistant", "hi")), asked_back()):
            with pytest.raises(InvalidInput):
                await store.turns.finalise(turn.id, WORKER, end)
        assert await current(store, turn) == turn
        assert await store.turns.steps(turn.id) == (step,)

    @pytest.mark.req("TURN-3")
    async def test_a_turn_ends_with_an_open_step_of_its_own(self, store: Store) -> None:
        turn, step = await responding(store)
        _, foreign = await responding(store)
        for unknown in (new_id(), foreign.id):
            end = turn_end(replace(new_step(), id=unknown))
            with pytest.raises(NotFound):
                await store.turns.finalise(turn.id, WORKER, end)
            with pytest.raises(NotFound):
                await store.turns.fail(turn.id, WORKER, end)
        closed = StepEnd(step_id=step.id, outcome=Paused(reason="tools"))
        turn = await store.turns.open_step(turn.id, WORKER, new_step(1, closes=closed))
        before = await store.turns.steps(turn.id)
        with pytest.raises(WrongPhase):
            await store.turns.finalise(turn.id, WORKER, turn_end(replace(new_step(), id=step.id)))
        with pytest.raises(WrongPhase):
            await store.turns.fail(turn.id, WORKER, replace(broken_off(), step=closed))
        assert await current(store, turn) == turn
        assert await store.turns.steps(turn.id) == before

    @pytest.mark.req("TURN-3")
    async def test_an_answer_that_is_no_text_leaves_the_turn_responding(self, store: Store) -> None:
        turn, step = await responding(store)
        end = replace(turn_end(replace(new_step(), id=step.id)), answer=say("assistant", "half \ud83d"))
        with pytest.raises(InvalidInput):
            await store.turns.finalise(turn.id, WORKER, end)
        with pytest.raises(InvalidInput):
            await store.turns.fail(turn.id, WORKER, end)
        assert await current(store, turn) == turn
        assert await store.turns.steps(turn.id) == (step,)

    # --- a question asked back ---

    @pytest.mark.req("TURN-3")
    async def test_a_question_asked_back_keeps_its_candidates(self, store: Store) -> None:
        branch = await new_branch(store)
        turn = await turn_in(store, branch.id, Phase.CONTEXT_PREPARED)
        plan = Plan(candidates=("Rex", "Bello"), request_sha256=None)
        await store.turns.finalise(turn.id, WORKER, replace(asked_back(), plan=plan))
        assert await store.turns.plan(turn.id) == plan
        assert await store.turns.steps(turn.id) == ()
        assert (await current(store, turn)).usage == Usage()

    async def test_a_turn_that_never_asked_has_no_plan(self, store: Store) -> None:
        branch = await new_branch(store)
        for phase in (Phase.FAILED, Phase.DONE, Phase.ACCEPTED):
            turn = await turn_in(store, branch.id, phase)
            assert await store.turns.plan(turn.id) is None
            assert await store.turns.steps(turn.id) == ()

    # --- failing ---

    @pytest.mark.req("TURN-3")
    @pytest.mark.parametrize("phase", [Phase.ACCEPTED, Phase.CONTEXT_PREPARED, Phase.RESPONDING])
    async def test_a_failed_turn_says_why(self, store: Store, phase: Phase) -> None:
        branch = await new_branch(store)
        turn = await turn_in(store, branch.id, phase)
        head = await store.states.head(branch.id)
        problem = Problem(code="too_large", message="The question is too long.", hint="Make it shorter.")
        failed = await store.turns.fail(turn.id, WORKER, TurnEnd(outcome="failed", error=problem))
        assert await current(store, turn) == failed
        assert (failed.phase, failed.outcome, failed.error, failed.answer) == (Phase.FAILED, "failed", problem, None)
        assert (failed.state_after, failed.turn_seq, failed.owner) == (None, 1, WORKER)
        assert await store.states.head(branch.id) == head

    @pytest.mark.req("TURN-3")
    async def test_a_cut_turn_keeps_what_was_shown_and_what_it_cost(self, store: Store) -> None:
        turn, step = await responding(store)
        cut = replace(
            step_end(replace(new_step(), id=step.id), "half an ans"), outcome=Incomplete(reason="interrupted")
        )
        end = TurnEnd(outcome="incomplete", answer=say("assistant", "half an ans"), step=cut)
        failed = await store.turns.fail(turn.id, WORKER, end)
        assert (failed.phase, failed.outcome) == (Phase.FAILED, "incomplete")
        assert (failed.answer, failed.usage) == (say("assistant", "half an ans"), cut.usage)
        (closed,) = await store.turns.steps(turn.id)
        assert (closed.outcome, closed.items, closed.response) == (cut.outcome, cut.items, cut.response)
