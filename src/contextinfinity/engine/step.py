"""One provider call, from the prompt to the provider's final event.

The call and the transaction that records it (TX-P) start together; nothing is shown before the transaction is durable.
Every event is written to the journal first: the journal is the stream that watchers read.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from contextinfinity.domain.ids import TurnId, WorkerId, new_id
from contextinfinity.domain.message import Json, ToolCallItem, ToolOutputItem, ToolResultBlock
from contextinfinity.domain.plan import Plan
from contextinfinity.domain.prompt import (
    CallPiece,
    Finished,
    ProviderEvent,
    ProviderRequest,
    ReasoningDone,
    Retry,
    TextDelta,
)
from contextinfinity.domain.turn import PARAGRAPH, NewStep, Paused, Problem, StepEnd, Turn
from contextinfinity.engine.image_content import with_pictures
from contextinfinity.engine.model_choice import Model
from contextinfinity.engine.running_turn import POLL_SECONDS, RunningTurn, Terms
from contextinfinity.engine.turn_cache import TextCache
from contextinfinity.errors import ContextInfinityError, LedgerError, ProviderError, TurnLost
from contextinfinity.prompt.assemble import Assembled
from contextinfinity.prompt.redact import Redactor, hidden_options
from contextinfinity.providers.contract import EncodedRequest
from contextinfinity.storage.contract import Store
from contextinfinity.storage.journal import CALL_PIECE, REASONING, Journal, JournalFolder
from contextinfinity.storage.ledger.turns import Turns
from contextinfinity.telemetry.counters import count
from contextinfinity.telemetry.stage_times import note_latency, timed
from contextinfinity.tools.toolbox import Toolbox

log = logging.getLogger(__name__)
T = TypeVar("T")

INTERRUPTED = Problem(
    code="interrupted",
    message="The process that answered was stopped before the end.",
    hint="Ask again to get a complete answer.",
)

CUT_OFF = Problem(
    code="interrupted",
    message="The answer was cut off: the provider's stream ended before it was complete.",
    hint="Ask again to get a complete answer.",
)


@dataclass(kw_only=True)
class StepProgress:
    """The progress of a provider call and of its tools."""

    step: NewStep
    max_output_tokens: int
    """The output limit of the request."""
    new_paragraph: bool = False
    """Whether its text starts a new paragraph, because tools ran since the last text."""
    pieces: list[str] = field(default_factory=list)
    finished: Finished | None = None
    problem: Problem | None = None
    outputs: list[ToolOutputItem] = field(default_factory=list)
    """The results of the tool calls."""
    stopped: bool = False
    """Whether the user cancelled the turn while tools ran."""
    interrupted: asyncio.CancelledError | None = None
    """Set if the process is being stopped."""
    upstream: dict[str, Json] = field(default_factory=dict)
    """The vendor's error (``ProviderError.upstream``)."""
    window: int | None = None
    """For a request rejected because of its size: ``ProviderError.window``."""

    @property
    def text(self) -> str:
        """The text so far."""
        return "".join(self.pieces)


@dataclass(frozen=True, kw_only=True)
class StepRunner:
    """Makes the provider calls of one worker's turns."""

    store: Store
    journals: JournalFolder
    texts: TextCache
    worker: WorkerId
    redactor: Redactor | None

    async def ask(
        self,
        running: RunningTurn,
        model: Model,
        assembled: Assembled,
        closes: StepEnd | None = None,
        inputs: tuple[ToolOutputItem, ...] = (),
    ) -> StepProgress:
        """Call a model and read its stream until it ends or the turn is cancelled; failures are part of the result."""
        request = await self._request(running, model, assembled)
        written = model.provider.write(request)
        if running.asked.terms is not None:
            written = replace(written, may_retry=False)
        step = NewStep(
            id=new_id(),
            step_index=len(running.steps),
            provider=model.provider.name,
            model_id=model.model_id,
            plan=self._accounted(assembled, written),
            inputs=inputs,
            closes=closes,
        )
        progress = StepProgress(
            step=step,
            max_output_tokens=request.max_output_tokens,
            new_paragraph=running.has_spoken and running.tools_ran,
        )
        opened = asyncio.create_task(self._open(running, step))

        async def show() -> Journal:
            """Open the journal once the step is durable; watchers are notified."""
            await asyncio.shield(opened)
            running.journal = self.journals.open(step.id, step.provider, self.worker)
            running.news.notify()
            return running.journal

        _, progress.interrupted = await until_done_or_cancelled(running, listen(model, written, progress, show))
        await await_write(opened)
        running.steps.append(step.id)
        return progress

    async def _request(self, running: RunningTurn, model: Model, assembled: Assembled) -> ProviderRequest:
        """Build the provider request."""
        terms, prompt = running.asked.terms, assembled.prompt
        return ProviderRequest(
            model_id=model.model_id,
            prompt=replace(prompt, messages=await with_pictures(self.store.contents, prompt.messages)),
            max_output_tokens=model.max_output_tokens if terms is None else longest(model, assembled.tokens, terms),
            cache_key=running.turn.session_id,
            options=hidden_options(model.options if terms is None else model.options_for(terms), self.redactor),
        )

    async def _open(self, running: RunningTurn, step: NewStep) -> Turn:
        """Record the step and the texts its plan refers to (TX-P), and notify watchers before the first token.

        The same transaction stores what the step before said; until it succeeds, ``running`` keeps that step's journal.
        """
        plan = step.plan
        texts = self.texts.unsaved(plan.front, plan.form, plan.redactions, *plan.workspace)
        turn = await self.store.turns.open_step(running.turn.id, self.worker, replace(step, texts=texts))
        if running.journal is not None:
            running.journal.show()  # the ledger has what its step said
            running.journal = None
        self.texts.saved(texts)
        running.opened.append(step)
        running.move(turn)
        return turn

    def _accounted(self, assembled: Assembled, written: EncodedRequest) -> Plan:
        """Add to the plan what is needed to rebuild the request; data that is not in the ledger is stored as text."""
        request = written.request
        form = {
            "form": written.form,
            "max_output_tokens": request.max_output_tokens,
            "options": request.options,
        }
        spans = msgspec.json.encode(assembled.spans).decode() if assembled.spans else None
        return replace(
            assembled.plan,
            form=self.texts.keep(msgspec.json.encode(form).decode()),
            markers=request.prompt.markers,
            redactions=None if spans is None else self.texts.keep(spans),
            request_sha256=written.sha256,
        )


def longest(model: Model, tokens: int, terms: Terms) -> int:
    """Return the output limit: the caller's (else the model's), if it fits behind a prompt of ``tokens``.

    For a provider with another wire format it is limited to what the vendor allows.
    """
    requested, limit = terms.request_options.max_output_tokens, model.abilities.context_limit
    if requested is None:
        return max(1, min(model.max_output_tokens, limit - tokens))
    fits = requested if tokens + requested <= limit else min(requested, max(limit // 4, limit - tokens * 11 // 10))
    return fits if terms.form and terms.form == model.form else min(fits, model.abilities.max_output_tokens)


async def await_write(writing: asyncio.Task[Turn]) -> Turn:
    """Wait for a write even if this task is cancelled: the caller must know whether it was committed."""
    try:
        return await asyncio.shield(writing)
    except asyncio.CancelledError:
        await asyncio.wait({writing})
        raise


async def listen(
    model: Model, written: EncodedRequest, progress: StepProgress, show: Callable[[], Awaitable[Journal]]
) -> None:
    """Write the provider's events to the journal; errors except ``TurnLost`` are stored in ``progress``."""
    journal: Journal | None = None
    began = perf_counter()
    try:
        with timed("stream"):
            async for event in model.provider.stream(written):
                if isinstance(event, TextDelta) and not progress.pieces:
                    note_latency("first_token", perf_counter() - began)
                journal = journal or await show()
                take(event, progress, journal)
        if progress.finished is None:
            progress.problem = CUT_OFF
    except TurnLost:
        raise
    except ContextInfinityError as error:
        progress.problem = problem_of(error)
        progress.window = error.window if isinstance(error, ProviderError) else None
        progress.upstream = dict(error.upstream) if isinstance(error, ProviderError) else {}
    except Exception as error:  # the step must be closed after any failure
        log.exception("the provider %s raised an unexpected error", model.provider.name)
        progress.problem = Problem(
            code="provider", message=f"{model.provider.name} failed: {type(error).__name__}: {error}"
        )


def take(event: ProviderEvent, progress: StepProgress, journal: Journal) -> None:
    """Record one provider event."""
    match event:
        case TextDelta(text=""):
            pass
        case TextDelta(text=text, logprobs=logprobs):
            payload: dict[str, Json] = {"text": text} if logprobs is None else {"text": text, "logprobs": logprobs}
            shown = len(text.encode())
            if progress.new_paragraph and not progress.pieces:
                payload["new_paragraph"] = True
                shown += len(PARAGRAPH)
            journal.append("text", payload, shown=shown)
            progress.pieces.append(text)
        case CallPiece():
            journal.append(CALL_PIECE, msgspec.to_builtins(event))
        case ReasoningDone(item=item):
            journal.append(REASONING, msgspec.to_builtins(item))
        case Retry():
            count("provider_retries")
            journal.append("retry", msgspec.to_builtins(event))
        case Finished():
            progress.finished = event
            journal.append("finished", msgspec.to_builtins(event))


def problem_of(error: ContextInfinityError) -> Problem:
    """Convert an error into the problem that a turn stores; for a provider error the code is its kind."""
    code = error.kind if isinstance(error, ProviderError) else error.code
    return Problem(code=code, message=error.message, hint=error.hint)


async def until_done_or_cancelled(
    running: RunningTurn, work: Coroutine[Any, Any, T]
) -> tuple[T | None, asyncio.CancelledError | None]:
    """Run a stage of a turn in this task; stop it if the turn is cancelled or the process stops.

    Return its result, None if it was stopped, and the error that stops the process.
    """
    if running.cancelled.is_set():
        work.close()
        return None, None
    task = asyncio.current_task()
    assert task is not None  # noqa: S101 - a coroutine runs in a task
    before, result, stopped = task.cancelling(), None, asyncio.CancelledError()
    running.cancelled.stops = task
    try:
        result = await work
    except asyncio.CancelledError as error:
        stopped = error
    finally:
        running.cancelled.stops = None
        if running.cancelled.is_set():  # it cancelled this task once
            task.uncancel()
    return result, stopped if task.cancelling() > before else None


async def watch_for_cancels(turns: Turns, running: Mapping[TurnId, RunningTurn]) -> None:
    """Poll the ledger for cancellation requests by other processes, while turns run here.

    One read asks for all of them.
    """
    while running:
        await asyncio.sleep(POLL_SECONDS)
        with suppress(LedgerError):
            for turn_id in await turns.cancelled(list(running)):
                if (turn := running.get(turn_id)) is not None:
                    turn.cancelled.set()


GOES_ON = "pause_turn"
"""The provider paused on its own and continues with the next request."""


async def run_tools(tools: Toolbox, running: RunningTurn, progress: StepProgress) -> bool:
    """Run the tool calls of a step according to the tool mode; return whether the model is to be called again.

    If tools are disabled, a call is an error. With parse_only, calls are shown and the turn waits for the caller to
    run them. If enabled, they run here. A call is durable in the journal before it runs: tools may have side
    effects.
    """
    outcome, journal = progress.finished and progress.finished.outcome, running.journal
    if progress.finished is None or journal is None or not isinstance(outcome, Paused):
        return False
    calls = tuple(item for item in progress.finished.items if isinstance(item, ToolCallItem))
    if calls and (running.asked.terms is not None or tools.mode != "enabled"):
        _leave(tools, progress, calls, journal, theirs=running.asked.terms is not None)
        return False
    if not calls and outcome.reason != GOES_ON:
        return False
    if running.rounds >= tools.max_rounds:
        progress.problem = _too_many(tools.max_rounds)
        return False
    running.rounds += 1
    if not calls:
        return True
    _, progress.interrupted = await until_done_or_cancelled(running, _run(tools, progress, calls, journal))
    progress.stopped = running.cancelled.is_set()
    if progress.interrupted is not None:
        progress.problem = INTERRUPTED
    return not progress.stopped and progress.interrupted is None


def _leave(
    tools: Toolbox, progress: StepProgress, calls: tuple[ToolCallItem, ...], journal: Journal, *, theirs: bool
) -> None:
    """Show calls that are not run here; ``theirs`` means that the caller brought the tools."""
    for call in calls:
        _show(journal, call, run=False)
    if tools.mode == "disabled" and not theirs:
        names = ", ".join(call.name for call in calls)
        progress.problem = Problem(
            code="tools_disabled",
            message=f"The model called tools ({names}), and tools are disabled.",
            hint='Set tools.mode to "parse_only" or "enabled".',
        )


async def _run(tools: Toolbox, progress: StepProgress, calls: tuple[ToolCallItem, ...], journal: Journal) -> None:
    """Run calls, in parallel if allowed, and store their outputs in the order of the calls."""
    if tools.allow_parallel:
        for call in calls:
            _show(journal, call, run=True)
        await asyncio.to_thread(journal.sync)
        running = [asyncio.create_task(tools.run(call)) for call in calls]
        try:
            for call, task in zip(calls, running, strict=True):
                _keep(progress, journal, call, await task)
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)
        return
    for call in calls:
        _show(journal, call, run=True)
        await asyncio.to_thread(journal.sync)
        _keep(progress, journal, call, await tools.run(call))


def _show(journal: Journal, call: ToolCallItem, *, run: bool) -> None:
    journal.append("call", {"call_id": call.call_id, "name": call.name, "arguments": call.arguments, "run": run})


def _keep(progress: StepProgress, journal: Journal, call: ToolCallItem, result: ToolResultBlock) -> None:
    content = msgspec.json.decode(msgspec.json.encode(result.content))
    output = ToolOutputItem(call_id=call.call_id, output=content, is_error=result.is_error)
    journal.append("output", {"name": call.name, **msgspec.to_builtins(output)})
    progress.outputs.append(output)


def _too_many(rounds: int) -> Problem:
    return Problem(
        code="tool_rounds",
        message=f"The model called tools more than {rounds} times in one turn.",
        hint="Ask for less at once, or raise tools.max_rounds.",
    )
