"""Get the final answer for a prompt: one provider call, or several because of tools, size or failures.

A prompt that is too large is sent again with less; after a failure the call is repeated with the route's fallback
model; tool calls are followed by a request with their results (the tool loop). When the provider finishes, the user
cancels or the stream breaks off, the journal is ended and the turn is made final (TX-A).
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from contextinfinity.domain.ids import StepId
from contextinfinity.domain.job import Job
from contextinfinity.domain.message import AssistantItem, ImageBlock, Json, Message, ToolOutputItem, blocks_of, say
from contextinfinity.domain.plan import Plan, Route
from contextinfinity.domain.prompt import Finished, Retry
from contextinfinity.domain.turn import (
    Cancelled,
    Completed,
    Failed,
    Incomplete,
    Paused,
    Problem,
    StepEnd,
    StepOutcome,
    TurnEnd,
    TurnOutcome,
)
from contextinfinity.engine.engine_setup import Parts
from contextinfinity.engine.model_choice import Model, chat_notes, has
from contextinfinity.engine.prompt_material import Prepared, PromptMaterial, keep, prepare
from contextinfinity.engine.recall import PriorContext
from contextinfinity.engine.running_turn import RunningTurn, Terms
from contextinfinity.engine.step import INTERRUPTED, StepProgress, ask, problem_of, run_tools, take
from contextinfinity.engine.turn_cache import TextCache
from contextinfinity.errors import LedgerAway, LedgerClosed, LedgerError, ProviderError
from contextinfinity.prompt.assemble import Assembled, assemble
from contextinfinity.prompt.prompt_sections import Sections, render_rounds
from contextinfinity.prompt.tasks import continues_task
from contextinfinity.telemetry.counters import note_step, timed

log = logging.getLogger(__name__)
T = TypeVar("T")

LONGEST_REASON = 300
"""The maximum length of a route's reason in a plan, in characters."""
UPSTREAM = "upstream_error"
"""The metadata field that stores the vendor's error of a failed turn."""
MANY_LINES = 64
"""The number of tool rounds that may be shortened to lines before they are folded."""
SIZE_RETRIES = 3
"""How often a prompt that was too large is sent again, smaller each time."""
TOO_LARGE = "The prompt was too large for the model; it is sent again with less."
ANY_SIZE = 2**62
SMALLER = 75
"""The size of the next prompt after a rejection, in percent of the rejected one."""

OUTCOMES: dict[type[StepOutcome], TurnOutcome] = {
    Completed: "completed",
    Incomplete: "incomplete",
    Paused: "paused",
    Failed: "failed",
    Cancelled: "cancelled",
}


@dataclass(kw_only=True)
class Attempt:
    """One model's attempt to answer."""

    model: Model
    route: Route
    prepared: Prepared
    sections: Sections
    limit: int
    """The maximum number of tokens of its prompt."""
    terms: Terms | None = None
    rejections: int = 0

    def refit(self, parts: Parts, rejected: int | None = None) -> None:
        """Fit later prompts into the model's currently known window, and below ``rejected`` tokens if given.

        The last retry uses the minimum: everything that can be omitted from the prompt is omitted.
        """
        if self.terms is not None and self.terms.only_last is not None:
            return
        budget = self.model.budget(parts.setup.ceilings, self.terms)
        frame = replace(self.prepared.frame, budget=budget, rejected=rejected)
        self.prepared = dataclasses.replace(self.prepared, frame=frame)
        self.limit = budget.input_limit
        self.rejections = 0 if rejected is None else self.rejections + 1
        if rejected is not None:
            self.limit = 0 if self.rejections == SIZE_RETRIES else min(self.limit, rejected * SMALLER // 100)

    def assemble_within_limit(self, texts: TextCache) -> Assembled:
        """Build a prompt within the limit, and its plan; a workspace section without all its files is stored."""
        reason = None if self.sections.rounds else self.prepared.reason
        frame, measure = self.prepared.frame, self.prepared.measure
        with timed("assemble"):
            assembled = assemble(self.sections, frame, measure, limit=self.limit, reason=reason)
        left_out = (*self.prepared.missing, *assembled.plan.left_out)
        is_whole = assembled.workspace is self.sections.workspace
        plan = replace(
            assembled.plan,
            front=self.prepared.front,
            workspace=self.prepared.workspace if is_whole else keep(texts, assembled.workspace),
            remembered=self.prepared.remembered,
            left_out=left_out,
            route=kept(self.route),
        )
        return replace(assembled, plan=plan)


def kept(route: Route) -> Route:
    """Return a route as a plan stores it: the model and a shortened reason."""
    return replace(route, reason=_in_short(route.reason), fallbacks=(), considered=())


def _in_short(reason: str) -> str:
    """Drop sentences of a long reason, but keep the last one, which names the model."""
    *others, last = re.split(r"(?<=[.!?]) ", reason)
    while others and len(" ".join([*others, last])) > LONGEST_REASON:
        others.pop()
    return " ".join([*others, last])


async def respond(parts: Parts, running: RunningTurn, material: PromptMaterial, route: Route) -> None:
    """Call the model until the answer is complete, with fallbacks and the tool loop, and make the answer final.

    A ``ProviderError`` before the first request is raised if there is no fallback.
    """
    attempt = await begin(parts, running, material, route)
    closes: StepEnd | None = None
    inputs: tuple[ToolOutputItem, ...] = ()
    while True:
        try:
            assembled = attempt.assemble_within_limit(parts.caches.texts)
            if not running.steps and await folding_is_behind(parts, running, assembled):
                attempt.prepared = with_fewer_turns(attempt.prepared)
                assembled = attempt.assemble_within_limit(parts.caches.texts)
            if assembled.plan.shrink_steps:
                log.info("turn %s: the prompt was shrunk: %s", running.turn.id, "; ".join(assembled.plan.shrink_steps))
            if closes is not None:
                await parts.setup.dollars.check(parts.store, material.recalled.session.owner, closes.usage.cost)
            progress = await ask(parts, running, attempt.model, assembled, closes, inputs)
        except ProviderError as error:  # raised before anything was sent
            other = fallback_route(parts, running, attempt, problem_of(error))
            if other is None:
                note_upstream(running, error.upstream)
                raise
            attempt = await begin(parts, running, material, other)
            continue
        learn(attempt.model, assembled, progress)
        if attempt.rejections < SIZE_RETRIES and too_large(progress):
            attempt.refit(parts, rejected=assembled.tokens)
            await announce(parts, running, progress, attempt.rejections, TOO_LARGE)
            closes, inputs = end_step(running, progress), ()
        elif (other := failed(parts, running, attempt, progress)) is not None:
            await announce(parts, running, progress, 1, other.reason)
            closes, inputs = end_step(running, progress), ()
            attempt = await begin(parts, running, material, other)
        elif await run_tools(parts.setup.tools, running, progress):
            running.has_spoken = running.has_spoken or bool(progress.pieces)
            running.tools_ran = bool(progress.outputs) or (running.tools_ran and not progress.pieces)
            attempt.refit(parts)
            closes, inputs = end_step(running, progress), tuple(progress.outputs)
            attempt.sections = replace(attempt.sections, rounds=(*attempt.sections.rounds, *step_messages(progress)))
        else:
            break
    running.notes |= chat_notes(material.recalled.session, route, assembled.plan.artifacts_shown)
    note_upstream(running, progress.upstream if progress.problem is not None else {})
    await end(parts, running, progress)
    await fold_if_due(parts, running, material, attempt, assembled)
    if progress.interrupted:
        raise progress.interrupted


async def begin(parts: Parts, running: RunningTurn, material: PromptMaterial, route: Route) -> Attempt:
    """Prepare an attempt with the route's model."""
    model = parts.models.named(route.model)
    prepared = await prepare(parts, running, material, model)
    attempt = Attempt(
        model=model,
        route=route,
        prepared=prepared,
        sections=prepared.sections,
        limit=prepared.frame.budget.input_limit,
        terms=running.asked.terms,
    )
    if attempt.terms is not None and attempt.terms.only_last is not None:  # sent unchanged, without size retries
        attempt.limit, attempt.rejections = ANY_SIZE, SIZE_RETRIES
    return attempt


def note_upstream(running: RunningTurn, upstream: Mapping[str, Json]) -> None:
    """Store the vendor's error in the turn's metadata, for clients that speak the vendor's API."""
    if running.asked.terms is not None and upstream:
        running.notes[UPSTREAM] = dict(upstream)


def learn(model: Model, assembled: Assembled, progress: StepProgress) -> None:
    """Calibrate the token counter or the context window from a provider's reply."""
    model.learn(assembled.plan, progress.finished)
    if progress.window is not None:
        has_pictures = any(has(message.blocks, ImageBlock) for message in assembled.prompt.messages)
        tokens = 0 if has_pictures else assembled.tokens  # the tokens of images are only estimated
        model.learn_window(tokens, progress.max_output_tokens, progress.window)


def failed(parts: Parts, running: RunningTurn, attempt: Attempt, progress: StepProgress) -> Route | None:
    """Return the fallback route if the model failed before any text was shown; None if there is none."""
    if progress.finished is not None and not isinstance(progress.finished.outcome, Failed):
        parts.models.away.forget(attempt.model.name)
        return None
    if progress.text.strip() or progress.interrupted:
        return None
    return fallback_route(parts, running, attempt, progress.problem or _unfinished(progress))


def fallback_route(parts: Parts, running: RunningTurn, attempt: Attempt, problem: Problem) -> Route | None:
    """Return the fallback route after a problem.

    None after tool calls, because reasoning blocks are model-specific, and after a cancellation.
    """
    if running.rounds or running.cancelled.is_set():
        return None
    return parts.choice.next_fallback(attempt.route, attempt.model, problem)


async def folding_is_behind(parts: Parts, running: RunningTurn, assembled: Assembled) -> bool:
    """Return whether the earlier turns exceed twice the trigger because folding failed."""
    budget = assembled.plan.budget
    turns = sum(section.tokens for section in assembled.plan.sections if section.name == "turns")
    if budget is None or turns <= 2 * budget.fold_trigger or not parts.setup.folds:
        return False
    jobs: Sequence[Job] = ()
    with suppress(LedgerAway):  # checked again with the next message
        jobs = await parts.store.jobs.list(branch_id=running.turn.branch_id)
    return any(job.job_type == "fold_branch" and job.last_error is not None for job in jobs)


def with_fewer_turns(prepared: Prepared) -> Prepared:
    """Limit the earlier turns to twice the trigger; the oldest are shortened to lines."""
    most = 2 * prepared.frame.budget.fold_trigger
    return dataclasses.replace(prepared, frame=replace(prepared.frame, most_turns=most))


async def fold_if_due(
    parts: Parts, running: RunningTurn, material: PromptMaterial, attempt: Attempt, assembled: Assembled
) -> None:
    """Queue a fold if the verbatim part exceeds the trigger of the branch's model, or was shortened for it.

    The fold runs after a delay, in the background. Cuts for another model with a smaller window are no reason to
    fold.
    """
    plan, home = assembled.plan, material.recalled.home
    if running.asked.terms is not None:
        if lines_are_many(plan, material.recalled):
            with suppress(LedgerError):
                await parts.store.jobs.enqueue("fold_branch", running.turn.branch_id, after=parts.setup.fold_pause)
        return
    verbatim = sum(section.tokens for section in plan.sections if section.name in ("turns", "message", "steps"))
    shortened = attempt.model is home and plan.shrunk is not None and plan.shrunk.touches_front
    if shortened or verbatim > home.budget(parts.setup.ceilings).fold_trigger:
        with suppress(LedgerError):
            await parts.store.jobs.enqueue("fold_branch", running.turn.branch_id, after=parts.setup.fold_pause)


def lines_are_many(plan: Plan, recalled: PriorContext) -> bool:
    """Return whether the shortened turns of a resent conversation are worth a fold.

    Completed tasks always are; rounds of the running task only if there are more than ``MANY_LINES``.
    """
    if plan.shrunk is None or not plan.shrunk.lines_to:
        return False
    left = [turn for turn in recalled.earlier if turn.turn_seq <= plan.shrunk.lines_to]
    opened = [turn.turn_seq for turn in left if not continues_task(turn.user_message)]
    return len(opened) > 1 or len(left) > MANY_LINES


def too_large(progress: StepProgress) -> bool:
    """Return whether the call failed because the prompt was too large, before any text."""
    return progress.problem is not None and progress.problem.code == "size" and not progress.pieces


def step_messages(progress: StepProgress) -> tuple[Message, ...]:
    """Return the messages that a step adds to the next prompt: text, reasoning, tool calls and their results."""
    items = progress.finished.items if progress.finished else ()
    return render_rounds((*items, *progress.outputs), running=True)


async def announce(parts: Parts, running: RunningTurn, progress: StepProgress, attempt: int, reason: str) -> None:
    """Write a retry event to the journal, so that watchers see that the prompt is sent again and why."""
    running.journal = running.journal or parts.journals.open(progress.step.id, progress.step.provider)
    take(Retry(attempt=attempt, reason=reason, wait_seconds=0), progress, running.journal)


def end_step(running: RunningTurn, progress: StepProgress) -> StepEnd:
    """End the journal of a step that is followed by another one, and return the step's end."""
    finished = progress.finished
    went_well = finished is not None and not isinstance(finished.outcome, Failed)
    ended = completed_end(finished, progress.step.id) if finished and went_well else end_of_attempt(running, progress)
    step = end_journal(running, ended).step
    note_step(progress.step, step)
    assert step is not None  # noqa: S101 - both branches above set it
    return step


async def end(parts: Parts, running: RunningTurn, progress: StepProgress) -> None:
    """End the journal, then finalise the turn or mark it as failed."""
    ended = running.noted(end_journal(running, end_of_attempt(running, progress)))
    note_step(progress.step, ended.step)
    if final(ended):
        await finalise(parts, running, ended)
    else:
        running.move(await retry_write(lambda: parts.store.turns.fail(running.turn.id, parts.worker, ended)))


async def finalise(parts: Parts, running: RunningTurn, ended: TurnEnd) -> None:
    """Make the answer final (TX-A), claim the job that commits the turn, and hand it to the job runner."""
    turns, run_job = parts.store.turns, parts.run_job
    if run_job is None:
        turn = await retry_write(lambda: turns.finalise(running.turn.id, parts.worker, ended))
    else:
        turn, job = await retry_write(lambda: turns.finalise_and_claim(running.turn.id, parts.worker, ended))
        if (answered := running.answered(turn, ended)) is not None:
            parts.caches.answered.keep(answered)
        if job is not None:
            run_job(job)
    running.move(turn)


def end_journal(running: RunningTurn, ended: TurnEnd) -> TurnEnd:
    """End the journal of the step; return the turn's end with the number of bytes shown."""
    if (journal := running.journal) is None:
        return ended
    with suppress(LedgerError):  # the following transaction stores the text anyway
        journal.finish({"outcome": ended.outcome, "error": msgspec.to_builtins(ended.error)})
    return with_shown(ended, journal.displayed)


def end_of_attempt(running: RunningTurn, progress: StepProgress) -> TurnEnd:
    """Return the end of a turn from the progress of its last step."""
    if progress.finished is not None and not isinstance(progress.finished.outcome, Failed):
        ended = completed_end(progress.finished, progress.step.id, progress.outputs)
        if (problem := progress.problem) is not None:
            return replace(ended, outcome="incomplete" if problem == INTERRUPTED else "failed", error=problem)
        return replace(ended, outcome="cancelled") if progress.stopped else ended
    answer = say("assistant", progress.text) if progress.pieces else None
    items = (AssistantItem(blocks=answer.blocks),) if answer else ()
    step = StepEnd(step_id=progress.step.id, outcome=Cancelled(), items=items)
    if running.cancelled.is_set():
        return TurnEnd(outcome="cancelled", answer=answer, step=step)
    problem = progress.problem or _unfinished(progress)
    failed = Failed(code=problem.code, message=problem.message)
    return TurnEnd(
        outcome="incomplete" if answer or running.has_spoken else "failed",
        answer=answer,
        error=problem,
        step=replace(step, outcome=Incomplete(reason=problem.code) if answer else failed),
    )


def completed_end(finished: Finished, step_id: StepId, outputs: Sequence[ToolOutputItem] = ()) -> TurnEnd:
    """Return the end of a turn from the provider's final event and the outputs of its tools."""
    items = (*finished.items, *outputs)
    blocks = blocks_of(items)
    response = None if finished.response is None else finished.response.encode()
    return TurnEnd(
        outcome=OUTCOMES[type(finished.outcome)],
        answer=Message(role="assistant", blocks=blocks) if blocks else None,
        step=StepEnd(step_id=step_id, outcome=finished.outcome, items=items, usage=finished.usage, response=response),
    )


def _unfinished(progress: StepProgress) -> Problem:
    if progress.finished is not None and isinstance(progress.finished.outcome, Failed):
        return Problem(code=progress.finished.outcome.code, message=progress.finished.outcome.message)
    return INTERRUPTED


def final(end: TurnEnd) -> bool:
    """Return whether the answer is final: it was completed or cancelled, without an error."""
    return end.error is None


def with_shown(end: TurnEnd, shown: int) -> TurnEnd:
    """Record how many bytes were shown; the transaction that stores them makes all of them durable."""
    if end.step is None:
        return end
    return replace(end, step=replace(end.step, displayed_bytes=shown, durable_bytes=shown))


async def retry_write(write: Callable[[], Awaitable[T]], pause: float = 0.1, longest: float = 5.0) -> T:
    """Retry a write with back-off until it succeeds: an answer must not be lost to a disk that is full for a while.

    ``LedgerClosed`` is raised at once.
    """
    while True:
        try:
            return await write()
        except LedgerClosed:
            raise
        except LedgerError as error:
            log.warning("the final state of a turn cannot be written yet: %s", error)
            await asyncio.sleep(pause)
            pause = min(pause * 2, longest)
