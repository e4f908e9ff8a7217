"""End a turn: its journal, then its answer and its phase in the ledger (TX-A)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from contextinfinity.domain.ids import StepId, WorkerId
from contextinfinity.domain.job import Job
from contextinfinity.domain.message import AssistantItem, Message, ToolOutputItem, blocks_of, say
from contextinfinity.domain.prompt import Finished
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
from contextinfinity.engine.running_turn import RunningTurn
from contextinfinity.engine.step import INTERRUPTED, StepProgress
from contextinfinity.engine.turn_cache import AnsweredTurns
from contextinfinity.errors import LedgerClosed, LedgerError
from contextinfinity.storage.ledger.turns import Turns
from contextinfinity.telemetry.figures import note_step

log = logging.getLogger(__name__)
T = TypeVar("T")

OUTCOMES: dict[type[StepOutcome], TurnOutcome] = {
    Completed: "completed",
    Incomplete: "incomplete",
    Paused: "paused",
    Failed: "failed",
    Cancelled: "cancelled",
}


@dataclass(frozen=True, kw_only=True)
class Finaliser:
    """Ends the turns of one worker."""

    turns: Turns
    worker: WorkerId
    answered: AnsweredTurns
    run_job: Callable[[Job], None]
    """Runs a job that this worker has claimed."""

    async def end(self, running: RunningTurn, progress: StepProgress) -> None:
        """End the journal, then finalise the turn or mark it as failed."""
        ended = running.noted(end_journal(running, end_of_attempt(running, progress)))
        note_step(progress.step, ended.step)
        if final(ended):
            await self.finalise(running, ended)
        else:
            running.move(await retry_write(lambda: self.turns.fail(running.turn.id, self.worker, ended)))

    async def finalise(self, running: RunningTurn, ended: TurnEnd) -> None:
        """Make the answer final (TX-A), claim the job that commits the turn, and hand it to the job runner."""
        turn, job = await retry_write(lambda: self.turns.finalise_and_claim(running.turn.id, self.worker, ended))
        if (answered := running.answered(turn, ended)) is not None:
            self.answered.keep(answered)
        if job is not None:
            self.run_job(job)
        running.move(turn)


def end_step(running: RunningTurn, progress: StepProgress) -> StepEnd:
    """End the journal of a step that is followed by another one, and return the step's end."""
    finished = progress.finished
    went_well = finished is not None and not isinstance(finished.outcome, Failed)
    ended = completed_end(finished, progress.step.id) if finished and went_well else end_of_attempt(running, progress)
    step = end_journal(running, ended).step
    note_step(progress.step, step)
    assert step is not None  # noqa: S101 - both branches above set it
    return step


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
    problem = progress.problem or unfinished(progress)
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


def unfinished(progress: StepProgress) -> Problem:
    """Return why a call has no final answer."""
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
