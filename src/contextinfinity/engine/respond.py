"""One provider call: from a prompt to a final answer.

The call and the transaction that records it (TX-P) begin together; nothing is shown before that is durable. Every
piece goes into the journal first: the journal is the stream, and whoever watches reads it there. When the provider
has said its last word, or a person has, or it broke off, the journal is ended and the turn made final (TX-A).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeVar

import msgspec

from contextinfinity.domain.ids import StepId, new_id
from contextinfinity.domain.message import AssistantItem, ContentBlock, Message, TextBlock
from contextinfinity.domain.prompt import Finished, ProviderRequest, TextDelta
from contextinfinity.domain.turn import (
    Cancelled,
    Completed,
    Failed,
    Incomplete,
    NewStep,
    Paused,
    Problem,
    StepEnd,
    StepOutcome,
    Turn,
    TurnEnd,
    TurnOutcome,
)
from contextinfinity.engine.parts import Model, Parts, Running
from contextinfinity.errors import ContextInfinityError, LedgerClosed, LedgerError, ProviderError
from contextinfinity.prompt.assemble import Assembled
from contextinfinity.storage.journal import Journal

log = logging.getLogger(__name__)
T = TypeVar("T")

OUTCOMES: dict[type[StepOutcome], TurnOutcome] = {
    Completed: "completed",
    Incomplete: "incomplete",
    Paused: "paused",
    Failed: "failed",
    Cancelled: "cancelled",
}


class Heard:
    """What has come back so far."""

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self.finished: Finished | None = None
        self.problem: Problem | None = None

    @property
    def text(self) -> str:
        """The words so far."""
        return "".join(self.pieces)


async def respond(parts: Parts, running: Running, model: Model, assembled: Assembled) -> None:
    """Ask the model and make its answer final."""
    step = NewStep(
        id=new_id(),
        step_index=len(running.steps),
        provider=model.provider.name,
        model_id=model.model_id,
        plan=assembled.plan,
    )
    opened = asyncio.create_task(parts.store.turns.open_step(running.turn.id, parts.worker, step))
    request = ProviderRequest(model_id=model.model_id, prompt=assembled.prompt)
    heard = Heard()

    async def show() -> Journal:
        """Begin the journal once the step is durable: from now on watchers see what is said."""
        running.move(await asyncio.shield(opened))
        running.journal = parts.journals.open(step.id, step.provider)
        running.steps.append(step.id)
        return running.journal

    running.journal = None
    listening = asyncio.create_task(listen(model, request, heard, show))
    interrupted = await until_done_or_cancelled(parts, running, listening)
    running.move(await settled(opened))
    await end(parts, running, step, heard)
    if interrupted:
        raise interrupted


async def settled(writing: asyncio.Task[Turn]) -> Turn:
    """Wait for a write that goes on even when we are stopped: what follows must know whether it was done."""
    try:
        return await asyncio.shield(writing)
    except asyncio.CancelledError:
        await asyncio.wait({writing})
        raise


async def listen(
    model: Model,
    request: ProviderRequest,
    heard: Heard,
    show: Callable[[], Awaitable[Journal]],
) -> None:
    """Take what the provider says into the journal."""
    journal: Journal | None = None
    try:
        async for event in model.provider.stream(request):
            journal = journal or await show()
            if isinstance(event, TextDelta):
                journal.append("text", {"text": event.text}, shown=len(event.text.encode()))
                heard.pieces.append(event.text)
            else:
                heard.finished = event
                journal.append("finished", msgspec.to_builtins(event))
    except ProviderError as error:
        heard.problem = Problem(code=error.kind, message=error.message, hint=error.hint)
    except ContextInfinityError as error:
        heard.problem = Problem(code=error.code, message=error.message, hint=error.hint)
    except Exception as error:  # a provider may break in any way; the step must still be closed
        log.exception("the provider %s broke", model.provider.name)
        heard.problem = Problem(
            code="provider", message=f"{model.provider.name} broke: {type(error).__name__}: {error}"
        )


async def until_done_or_cancelled(
    parts: Parts, running: Running, listening: asyncio.Task[None]
) -> asyncio.CancelledError | None:
    """Wait for the end of the answer, or stop it: a person asked, here or elsewhere, or the process ends."""
    asked = asyncio.create_task(asked_to_stop(parts, running))
    try:
        await asyncio.wait({listening, asked}, return_when=asyncio.FIRST_COMPLETED)
    except asyncio.CancelledError as interrupted:
        return interrupted
    finally:
        for task in (listening, asked):
            task.cancel()
        await asyncio.wait({listening, asked})
    if not listening.cancelled():
        listening.result()
    return None


async def asked_to_stop(parts: Parts, running: Running) -> None:
    """Return when somebody wants the turn stopped; other processes leave a mark on the turn."""
    while not running.cancelled.is_set():
        with suppress(LedgerError):
            turn = await parts.store.turns.get(running.turn.id)
            if turn is not None and turn.cancel_requested:
                running.cancelled.set()
        with suppress(TimeoutError):
            await asyncio.wait_for(running.cancelled.wait(), parts.look_seconds * 5)


async def end(parts: Parts, running: Running, step: NewStep, heard: Heard) -> None:
    """End the journal, then make the turn final or failed."""
    ended = how_it_ended(running, heard, step)
    if (journal := running.journal) is not None:
        with suppress(LedgerError):  # what the disk refuses here, TX-A below tries to keep
            await journal.finish({"outcome": ended.outcome, "error": msgspec.to_builtins(ended.error)})
        counts = journal.durability()
        ended = with_counts(ended, counts.displayed, counts.durable)
    settle = parts.store.turns.finalise if final(ended) else parts.store.turns.fail
    running.move(await insist(lambda: settle(running.turn.id, parts.worker, ended)))


def how_it_ended(running: Running, heard: Heard, step: NewStep) -> TurnEnd:
    """Say how a turn ended, from what was heard."""
    if heard.finished is not None and not isinstance(heard.finished.outcome, Failed):
        return from_finished(heard.finished, step.id)
    answer = Message(role="assistant", blocks=(TextBlock(text=heard.text),)) if heard.pieces else None
    items = (AssistantItem(blocks=answer.blocks),) if answer else ()
    if running.cancelled.is_set():
        return TurnEnd(
            outcome="cancelled", answer=answer, step=StepEnd(step_id=step.id, outcome=Cancelled(), items=items)
        )
    problem = heard.problem or _unfinished(heard)
    outcome = Failed(code=problem.code, message=problem.message)
    return TurnEnd(
        outcome="incomplete" if answer else "failed",
        answer=answer,
        error=problem,
        step=StepEnd(step_id=step.id, outcome=Incomplete(reason=problem.code) if answer else outcome, items=items),
    )


def from_finished(finished: Finished, step_id: StepId) -> TurnEnd:
    """Say how a turn ended that the provider itself ended."""
    blocks: tuple[ContentBlock, ...] = ()
    for item in finished.items:
        if isinstance(item, AssistantItem):
            blocks += item.blocks
    response = None if finished.response is None else finished.response.encode()
    return TurnEnd(
        outcome=OUTCOMES[type(finished.outcome)],
        answer=Message(role="assistant", blocks=blocks) if blocks else None,
        step=StepEnd(
            step_id=step_id,
            outcome=finished.outcome,
            items=finished.items,
            usage=finished.usage,
            response=response,
        ),
    )


def _unfinished(heard: Heard) -> Problem:
    if heard.finished is not None and isinstance(heard.finished.outcome, Failed):
        return Problem(code=heard.finished.outcome.code, message=heard.finished.outcome.message)
    return Problem(
        code="interrupted", message="The answer broke off before its end.", hint="Ask again to get the whole."
    )


def final(end: TurnEnd) -> bool:
    """Tell whether a turn ended with an answer that counts: one the provider or a person ended."""
    return end.error is None


def with_counts(end: TurnEnd, displayed: int, durable: int) -> TurnEnd:
    """Note how much was shown and how much of it was durable by then."""
    if end.step is None:
        return end
    step = msgspec.structs.replace(end.step, displayed_bytes=displayed, durable_bytes=durable)
    return msgspec.structs.replace(end, step=step)


async def insist(write: Callable[[], Awaitable[Turn]], pause: float = 0.1, longest: float = 5.0) -> Turn:
    """Write the end of a turn, as often as it takes: what was shown must not be lost to a disk that is full for now."""
    while True:
        try:
            return await write()
        except LedgerClosed:
            raise
        except LedgerError as error:
            log.warning("the end of a turn cannot be written yet: %s", error)
            await asyncio.sleep(pause)
            pause = min(pause * 2, longest)
