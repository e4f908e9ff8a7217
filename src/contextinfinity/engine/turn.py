"""The course of a turn, from top to bottom.

The message was accepted before (TX-0, in ``Engine.send``). When the branch is free, its context is recalled, the
message is rewritten, relevant passages are retrieved, and a model is chosen; the model answers, and the answer becomes
final (TX-A). Every failure ends the turn with a reason: a live process leaves no turn open.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from dataclasses import dataclass

from contextinfinity.domain.ids import WorkerId
from contextinfinity.domain.turn import Phase, Problem, Turn, TurnEnd
from contextinfinity.engine.clarify import ClarificationRequest, ask_back
from contextinfinity.engine.finaliser import Finaliser, retry_write
from contextinfinity.engine.gathering import Gathering
from contextinfinity.engine.recovery import Recovery
from contextinfinity.engine.respond import Responder
from contextinfinity.engine.running_turn import POLL_SECONDS, RunningTurn, TurnNotification
from contextinfinity.engine.step import problem_of, until_done_or_cancelled
from contextinfinity.errors import BranchBusy, ContextInfinityError, LedgerError, TurnLost, WrongPhase
from contextinfinity.storage.contract import Store
from contextinfinity.telemetry.stage_times import collect

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class TurnRunner:
    """Answers the turns of one worker."""

    store: Store
    worker: WorkerId
    turn_ends: TurnNotification
    """Notified whenever a turn ends, because a branch may be free."""
    recovery: Recovery
    gathering: Gathering
    responder: Responder
    finaliser: Finaliser

    async def answer(self, running: RunningTurn) -> None:
        """Run an accepted turn to its end; errors end the turn and are not raised."""
        collect(running.latency_ms)
        try:
            if await self._wait_for_branch(running):
                await self._reply(running)
        except TurnLost as error:
            log.warning("turn %s was given to another worker: %s", running.turn.id, error)
            await release_journal(running)
        except asyncio.CancelledError:
            await asyncio.shield(self._fail(running, Problem(code="interrupted", message="The process was stopped.")))
            raise
        except ContextInfinityError as error:
            await self._fail(running, problem_of(error))
        except Exception as error:  # a bug must not leave the branch blocked
            log.exception("turn %s failed", running.turn.id)
            await self._fail(running, Problem(code="internal", message=f"{type(error).__name__}: {error}"))
        finally:
            running.end()
            self.turn_ends.notify()

    async def _reply(self, running: RunningTurn) -> None:
        """Gather the prompt material, choose a model and let it answer; or ask for clarification."""
        gathered, interrupted = await until_done_or_cancelled(running, self.gathering.gather(running))
        if interrupted is not None:
            raise interrupted
        if gathered is None or running.cancelled.is_set():
            await self._stop(running)
        elif isinstance(gathered, ClarificationRequest):
            await ask_back(self.finaliser, running, gathered)
        else:
            await self.responder.respond(running, gathered)

    async def _wait_for_branch(self, running: RunningTurn) -> bool:
        """Wait until every earlier turn of the branch is final; return False if the turn was cancelled first."""
        if running.turn.phase is Phase.CONTEXT_PREPARED:
            return True
        while not running.cancelled.is_set():
            news = self.turn_ends.listen()
            try:
                running.move(await self.store.turns.prepare(running.turn.id, self.worker))
                return True
            except BranchBusy:
                # Only this process notifies us; poll for other processes, which may end turns, cancel this one, or die.
                await wait_for_any(news, running.cancelled, seconds=POLL_SECONDS)
                turn = await self.store.turns.get(running.turn.id)
                if turn is not None and turn.cancel_requested:
                    running.cancelled.set()
                elif dead := await self.store.workers.dead():
                    await self.recovery.recover(dead)
        await self._stop(running)
        return False

    async def _stop(self, running: RunningTurn) -> None:
        """End a turn that was cancelled before the model was called."""
        if running.turn.phase is Phase.CONTEXT_PREPARED:
            end = running.noted(TurnEnd(outcome="cancelled"))
            await self.finaliser.finalise(running, end)
            return
        end = TurnEnd(outcome="cancelled", error=Problem(code="cancelled", message="Stopped before it was answered."))
        running.move(await self.store.turns.fail(running.turn.id, self.worker, end))

    async def _fail(self, running: RunningTurn, problem: Problem) -> None:
        """End a turn that cannot be answered, and its open step; a turn that has already ended is not changed.

        Text that was shown is in the journal, so the turn ends as after a crash.
        """

        async def end() -> Turn:
            turn = await self.store.turns.get(running.turn.id) or running.turn
            return await self.recovery.end_turn(turn, problem, running.noted)

        await release_journal(running)
        with suppress(TurnLost, WrongPhase):
            running.move(await retry_write(end))


async def release_journal(running: RunningTurn) -> None:
    """Close the journal without ending it: the worker that ends the turn writes its last line.

    A thread waits for the ledger and the disk.
    """
    if running.journal is not None:
        with suppress(LedgerError):
            await asyncio.to_thread(running.journal.close)


async def wait_for_any(*events: asyncio.Event, seconds: float) -> None:
    """Wait until one of the events is set, at most ``seconds``."""
    waits = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
