"""Crash recovery: end the turns of dead workers, using only the ledger and the journals.

    Accepted, ContextPrepared   → Failed, "interrupted"
    Responding                  → final if the journal has the provider's final event; else Failed with the partial text
    ResponseFinalized and later → their jobs are queued again

Only turns of dead workers are changed. Recovery is idempotent, also when two processes run it at once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import msgspec
from msgspec.structs import replace

from contextinfinity.domain.ids import TurnId, WorkerId
from contextinfinity.domain.message import (
    AssistantItem,
    ReasoningItem,
    TextBlock,
    ToolOutputItem,
    UnknownItem,
    blocks_of,
    say,
)
from contextinfinity.domain.prompt import Finished
from contextinfinity.domain.turn import Cancelled, Incomplete, Phase, Problem, Step, StepEnd, Turn, TurnEnd
from contextinfinity.domain.turn import Failed as StepFailed
from contextinfinity.engine.finaliser import completed_end, with_shown
from contextinfinity.engine.step import INTERRUPTED
from contextinfinity.errors import LedgerError, Refused, TurnLost, WrongPhase
from contextinfinity.storage.contract import Store
from contextinfinity.storage.database import for_all_owners
from contextinfinity.storage.journal import END, REASONING, JournalEntry, JournalFolder

log = logging.getLogger(__name__)

# Created here, in a single thread: msgspec crashes the process if two threads build a decoder for one type at once.
_LAST_WORD = msgspec.json.Decoder(Finished)
_OUTPUT = msgspec.json.Decoder(ToolOutputItem)


@dataclass(frozen=True, kw_only=True)
class Recovery:
    """Ends the turns of dead workers in the name of one worker."""

    store: Store
    journals: JournalFolder
    worker: WorkerId
    taken_over: dict[TurnId, None] = field(default_factory=dict)
    """Turns taken over from dead workers that are not ended yet, oldest first."""
    _running: asyncio.Lock = field(default_factory=asyncio.Lock)

    @for_all_owners  # a turn that waits for its branch calls this too, and a dead worker has turns of many users
    async def recover(self, dead: tuple[WorkerId, ...]) -> int:
        """Take over the turns and jobs of dead workers, end those turns, and return how many were ended.

        Only one recovery of this process runs at a time. It repeats while it ends turns: each of them may have kept the
        spooled turns of another dead worker from being written.
        """
        total = 0
        async with self._running:
            while settled := await self._recover_once(dead):
                total += settled
        return total

    async def _recover_once(self, dead: tuple[WorkerId, ...]) -> int:
        for worker in dead:
            taken = await self.store.workers.take_over(worker, by=self.worker)
            self.taken_over.update(dict.fromkeys(taken.turns))
            if taken.turns or taken.jobs:
                log.info("took over from %s: %d turns, %d jobs", worker, len(taken.turns), taken.jobs)
        settled = 0
        for turn_id in list(self.taken_over):
            try:
                settled += await self._recover_turn(turn_id)
                del self.taken_over[turn_id]
            except LedgerError as error:  # the turn is ours now: retry with the next recovery
                log.warning("turn %s cannot be recovered yet: %s", turn_id, error)
        return settled

    async def _recover_turn(self, turn_id: TurnId) -> int:
        """End one turn of a dead worker; return 1, or 0 if another worker has ended it."""
        turn = await self.store.turns.get(turn_id)
        if turn is None:
            return 0
        with suppress(TurnLost, WrongPhase):  # another worker was faster
            await self.end_turn(turn)
            return 1
        return 0

    async def end_turn(
        self, turn: Turn, why: Problem = INTERRUPTED, noted: Callable[[TurnEnd], TurnEnd] | None = None
    ) -> Turn:
        """End a turn of this worker with what its journal holds; ``noted`` adds the metadata of a running turn."""
        end, is_final = await self._reconstruct(turn, why)
        settle = self.store.turns.finalise if is_final else self.store.turns.fail
        return await settle(turn.id, self.worker, end if noted is None else noted(end))

    async def _reconstruct(self, turn: Turn, why: Problem) -> tuple[TurnEnd, bool]:
        """Reconstruct the end of a turn from the journal of its last step; return (end, whether it is final).

        ``why`` is the error to record if the journal contains none.
        """
        steps = await self.store.turns.steps(turn.id) if turn.phase is Phase.RESPONDING else ()
        unclosed = [step for step in steps if step.outcome is None]
        if not unclosed:
            return TurnEnd(outcome="failed", error=why), False
        if turn.id in self.taken_over:
            await self.journals.adopt(unclosed[-1].id)
        end, is_final = from_journal(self.journals, unclosed[-1], why, self.worker)
        if end.outcome == "failed" and end.answer is None and any(has_words(step) for step in steps):
            end = replace(end, outcome="incomplete")
        return end, is_final


def has_words(step: Step) -> bool:
    """Return whether a step produced text."""
    return any(isinstance(block, TextBlock) and block.text for block in blocks_of(step.items))


def from_journal(journals: JournalFolder, step: Step, why: Problem, worker: WorkerId) -> tuple[TurnEnd, bool]:
    """Reconstruct the end of a step from its journal, and end the journal in the name of a worker."""
    entries = _entries(journals, step)
    _end_journal(journals, step, worker)
    text = "".join(entry.payload["text"] for entry in entries if entry.event_type == "text")
    shown = len(text.encode())
    last_word = next((entry for entry in entries if entry.event_type == "finished"), None)
    finished = None if last_word is None else _LAST_WORD.decode(msgspec.json.encode(last_word.payload))
    if finished is not None and not isinstance(finished.outcome, StepFailed):
        ended = end_of_finished_step(step, finished, entries, why)
    else:
        ended = cut_off(step, text, entries, why)
    return with_shown(ended, shown), ended.error is None


def end_of_finished_step(step: Step, finished: Finished, entries: Sequence[JournalEntry], why: Problem) -> TurnEnd:
    """Return the end of a step that the provider completed; it is incomplete if tools were running."""
    outputs = [_OUTPUT.decode(msgspec.json.encode(e.payload)) for e in entries if e.event_type == "output"]
    ended = completed_end(finished, step.id, outputs)
    outcome, problem = _known_end(entries)
    if outcome == "cancelled":
        return replace(ended, outcome="cancelled")
    if problem is not None:
        return replace(ended, outcome="failed", error=problem)
    if any(entry.event_type == "call" and entry.payload["run"] for entry in entries):
        return replace(ended, outcome="incomplete", error=why)
    return ended


def cut_off(step: Step, text: str, entries: Sequence[JournalEntry], why: Problem) -> TurnEnd:
    """Return the end of a step without a final event: cancelled, failed, or interrupted by the crash."""
    answer = say("assistant", text) if text else None
    items = (AssistantItem(blocks=answer.blocks),) if answer else ()
    outcome, problem = _known_end(entries)
    if outcome == "cancelled":
        return TurnEnd(
            outcome="cancelled", answer=answer, step=StepEnd(step_id=step.id, outcome=Cancelled(), items=items)
        )
    problem = problem or why
    end = StepEnd(step_id=step.id, outcome=Incomplete(reason=problem.code), items=items)
    return TurnEnd(outcome="incomplete" if answer else "failed", answer=answer, step=end, error=problem)


def _known_end(entries: Sequence[JournalEntry]) -> tuple[str | None, Problem | None]:
    """Return the outcome and error in the journal's last line, if its worker wrote one."""
    known = entries[-1].payload if entries and entries[-1].event_type == END else {}
    with suppress(msgspec.ValidationError):
        return known.get("outcome"), msgspec.convert(known.get("error"), Problem)
    return known.get("outcome"), None


def _entries(journals: JournalFolder, step: Step) -> list[JournalEntry]:
    """Read the valid entries of a journal; a damaged one is logged and must not prevent the start."""
    entries: list[JournalEntry] = []
    try:
        for entry in journals.read(step.id):
            if not _is_whole(entry):
                log.warning("entry %d of the journal of step %s is not valid; the rest is ignored", entry.seq, step.id)
                break
            entries.append(entry)
    except LedgerError as error:
        log.warning("the journal of step %s cannot be read: %s", step.id, error)
    return entries


def _is_whole(entry: JournalEntry) -> bool:
    """Return whether the payload of an entry is valid."""
    try:
        match entry.event_type:
            case "text":
                return isinstance(entry.payload["text"], str)
            case "finished":
                _LAST_WORD.decode(msgspec.json.encode(entry.payload))
            case str() if entry.event_type == REASONING:
                msgspec.convert(entry.payload, ReasoningItem | UnknownItem)
            case "output":
                _OUTPUT.decode(msgspec.json.encode(entry.payload))
            case "call":
                return isinstance(entry.payload["run"], bool)
            case str() if entry.event_type == END:
                return isinstance(entry.payload, dict)
    except (KeyError, TypeError, msgspec.ValidationError):
        return False
    return True


def _end_journal(journals: JournalFolder, step: Step, worker: WorkerId) -> None:
    """End the journal, so that watchers finish and its retention time starts."""
    with suppress(LedgerError, Refused):  # refused: the worker died between ending the journal and ending the turn
        journals.open(step.id, step.provider, worker).finish({"outcome": "interrupted"})
