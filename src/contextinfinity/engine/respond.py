"""Get the final answer for a prompt: one provider call, or several because of tools, size or failures.

A prompt that is too large is sent again with less; after a failure the call is repeated with the route's fallback
model; tool calls are followed by a request with their results (the tool loop). When the provider finishes, the user
cancels or the stream breaks off, the journal is ended and the turn is made final (TX-A).
"""

from __future__ import annotations

import dataclasses
import logging
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

from msgspec.structs import replace

from contextinfinity.domain.job import Job
from contextinfinity.domain.message import ImageBlock, Json, Message, ToolOutputItem
from contextinfinity.domain.plan import Plan, Route
from contextinfinity.domain.prompt import Retry
from contextinfinity.domain.turn import (
    Failed,
    Problem,
    StepEnd,
)
from contextinfinity.engine.engine_setup import Setup
from contextinfinity.engine.finaliser import Finaliser, end_step, unfinished
from contextinfinity.engine.model_choice import Model, ModelChoice, chat_notes, has
from contextinfinity.engine.prompt_material import Prepared, PromptMaterial, keep, prepare
from contextinfinity.engine.recall import PriorContext
from contextinfinity.engine.running_turn import RunningTurn, Terms
from contextinfinity.engine.step import StepProgress, StepRunner, problem_of, run_tools, take
from contextinfinity.engine.turn_cache import TextCache
from contextinfinity.errors import LedgerAway, LedgerError, ProviderError
from contextinfinity.prompt.assemble import Assembled, assemble
from contextinfinity.prompt.measure import Ceilings
from contextinfinity.prompt.prompt_sections import Sections, render_rounds
from contextinfinity.prompt.tasks import continues_task
from contextinfinity.storage.contract import Store
from contextinfinity.telemetry.stage_times import timed

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

    def refit(self, ceilings: Ceilings, rejected: int | None = None) -> None:
        """Fit later prompts into the model's currently known window, and below ``rejected`` tokens if given.

        The last retry uses the minimum: everything that can be omitted from the prompt is omitted.
        """
        if self.terms is not None and self.terms.only_last is not None:
            return
        budget = self.model.budget(ceilings, self.terms)
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


def note_upstream(running: RunningTurn, upstream: Mapping[str, Json]) -> None:
    """Store the vendor's error in the turn's metadata, for clients that speak the vendor's API."""
    if running.asked.terms is not None and upstream:
        running.notes[UPSTREAM] = dict(upstream)


@dataclass(frozen=True, kw_only=True)
class Responder:
    """Gets answers from models."""

    store: Store
    setup: Setup
    choice: ModelChoice
    texts: TextCache
    steps: StepRunner
    finaliser: Finaliser

    async def respond(self, running: RunningTurn, material: PromptMaterial) -> None:
        """Choose a model, call it until the answer is complete (fallbacks, tool loop), and make the answer final.

        A ``ProviderError`` before the first request is raised if there is no fallback.
        """
        route = self.choice.choose(running.turn, running.asked, material)
        attempt = await self._begin(running, material, route)
        closes: StepEnd | None = None
        inputs: tuple[ToolOutputItem, ...] = ()
        while True:
            try:
                assembled = attempt.assemble_within_limit(self.texts)
                if not running.steps and await self._folding_is_behind(running, assembled):
                    attempt.prepared = with_fewer_turns(attempt.prepared)
                    assembled = attempt.assemble_within_limit(self.texts)
                if assembled.plan.shrink_steps:
                    log.info(
                        "turn %s: the prompt was shrunk: %s", running.turn.id, "; ".join(assembled.plan.shrink_steps)
                    )
                if closes is not None:
                    await self.setup.dollars.check(self.store, material.recalled.session.owner, closes.usage.cost)
                progress = await self.steps.ask(running, attempt.model, assembled, closes, inputs)
            except ProviderError as error:  # raised before anything was sent
                other = self._fallback_route(running, attempt, problem_of(error))
                if other is None:
                    note_upstream(running, error.upstream)
                    raise
                attempt = await self._begin(running, material, other)
                continue
            learn(attempt.model, assembled, progress)
            if attempt.rejections < SIZE_RETRIES and too_large(progress):
                attempt.refit(self.setup.ceilings, rejected=assembled.tokens)
                await self._announce(running, progress, attempt.rejections, TOO_LARGE)
                closes, inputs = end_step(running, progress), ()
            elif (other := self._failed(running, attempt, progress)) is not None:
                await self._announce(running, progress, 1, other.reason)
                closes, inputs = end_step(running, progress), ()
                attempt = await self._begin(running, material, other)
            elif await run_tools(self.setup.tools, running, progress):
                running.has_spoken = running.has_spoken or bool(progress.pieces)
                running.tools_ran = bool(progress.outputs) or (running.tools_ran and not progress.pieces)
                attempt.refit(self.setup.ceilings)
                closes, inputs = end_step(running, progress), tuple(progress.outputs)
                attempt.sections = replace(
                    attempt.sections, rounds=(*attempt.sections.rounds, *step_messages(progress))
                )
            else:
                break
        running.notes |= chat_notes(material.recalled.session, route, assembled.plan.artifacts_shown)
        note_upstream(running, progress.upstream if progress.problem is not None else {})
        await self.finaliser.end(running, progress)
        await self._fold_if_due(running, material, attempt, assembled)
        if progress.interrupted:
            raise progress.interrupted

    async def _begin(self, running: RunningTurn, material: PromptMaterial, route: Route) -> Attempt:
        """Prepare an attempt with the route's model."""
        model = self.choice.models.named(route.model)
        prepared = await prepare(self.setup, self.texts, self.store.turns, running, material, model)
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

    def _failed(self, running: RunningTurn, attempt: Attempt, progress: StepProgress) -> Route | None:
        """Return the fallback route if the model failed before any text was shown; None if there is none."""
        if progress.finished is not None and not isinstance(progress.finished.outcome, Failed):
            self.choice.models.away.forget(attempt.model.name)
            return None
        if progress.text.strip() or progress.interrupted:
            return None
        return self._fallback_route(running, attempt, progress.problem or unfinished(progress))

    def _fallback_route(self, running: RunningTurn, attempt: Attempt, problem: Problem) -> Route | None:
        """Return the fallback route after a problem.

        None after tool calls, because reasoning blocks are model-specific, and after a cancellation.
        """
        if running.rounds or running.cancelled.is_set():
            return None
        return self.choice.next_fallback(attempt.route, attempt.model, problem)

    async def _folding_is_behind(self, running: RunningTurn, assembled: Assembled) -> bool:
        """Return whether the earlier turns exceed twice the trigger because folding failed."""
        budget = assembled.plan.budget
        turns = sum(section.tokens for section in assembled.plan.sections if section.name == "turns")
        if budget is None or turns <= 2 * budget.fold_trigger or not self.setup.folds:
            return False
        jobs: Sequence[Job] = ()
        with suppress(LedgerAway):  # checked again with the next message
            jobs = await self.store.jobs.list(branch_id=running.turn.branch_id)
        return any(job.job_type == "fold_branch" and job.last_error is not None for job in jobs)

    async def _fold_if_due(
        self, running: RunningTurn, material: PromptMaterial, attempt: Attempt, assembled: Assembled
    ) -> None:
        """Queue a fold if the verbatim part exceeds the trigger of the branch's model, or was shortened for it.

        The fold runs after a delay, in the background. Cuts for another model with a smaller window are no reason to
        fold.
        """
        plan, home = assembled.plan, material.recalled.home
        if running.asked.terms is not None:
            if lines_are_many(plan, material.recalled):
                with suppress(LedgerError):
                    await self.store.jobs.enqueue("fold_branch", running.turn.branch_id, after=self.setup.fold_pause)
            return
        verbatim = sum(section.tokens for section in plan.sections if section.name in ("turns", "message", "steps"))
        shortened = attempt.model is home and plan.shrunk is not None and plan.shrunk.touches_front
        if shortened or verbatim > home.budget(self.setup.ceilings).fold_trigger:
            with suppress(LedgerError):
                await self.store.jobs.enqueue("fold_branch", running.turn.branch_id, after=self.setup.fold_pause)

    async def _announce(self, running: RunningTurn, progress: StepProgress, attempt: int, reason: str) -> None:
        """Write a retry event to the journal, so that watchers see that the prompt is sent again and why."""
        step, steps = progress.step, self.steps
        running.journal = running.journal or steps.journals.open(step.id, step.provider, steps.worker)
        take(Retry(attempt=attempt, reason=reason, wait_seconds=0), progress, running.journal)


def learn(model: Model, assembled: Assembled, progress: StepProgress) -> None:
    """Calibrate the token counter or the context window from a provider's reply."""
    model.learn(assembled.plan, progress.finished)
    if progress.window is not None:
        has_pictures = any(has(message.blocks, ImageBlock) for message in assembled.prompt.messages)
        tokens = 0 if has_pictures else assembled.tokens  # the tokens of images are only estimated
        model.learn_window(tokens, progress.max_output_tokens, progress.window)


def with_fewer_turns(prepared: Prepared) -> Prepared:
    """Limit the earlier turns to twice the trigger; the oldest are shortened to lines."""
    most = 2 * prepared.frame.budget.fold_trigger
    return dataclasses.replace(prepared, frame=replace(prepared.frame, most_turns=most))


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
