"""The course of a turn, from top to bottom.

The message was accepted before (TX-0, in ``Engine.send``). When the branch is free, its context is recalled, the
message is rewritten, relevant passages are retrieved, and a model is chosen; the model answers, and the answer becomes
final (TX-A). Every failure ends the turn with a reason: a live process leaves no turn open.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress

from contextinfinity.domain.plan import LeftOut
from contextinfinity.domain.session import Session
from contextinfinity.domain.turn import Phase, Problem, Turn, TurnEnd
from contextinfinity.engine.clarify import ClarificationRequest, ask_back, understand
from contextinfinity.engine.deleting import Cleaner, expire_before_use
from contextinfinity.engine.engine_setup import Parts
from contextinfinity.engine.lazy_modules import FOR_A_TURN, loaded
from contextinfinity.engine.prompt_material import PromptMaterial
from contextinfinity.engine.recall import PriorContext, needs_fold, recall, retrieve, run_optional, session_of
from contextinfinity.engine.respond import finalise, respond, retry_write
from contextinfinity.engine.running_turn import RunningTurn
from contextinfinity.engine.step import problem_of, until_done_or_cancelled
from contextinfinity.errors import BranchBusy, ContextInfinityError, LedgerError, TurnLost, WrongPhase
from contextinfinity.telemetry.counters import collect, timed

log = logging.getLogger(__name__)


async def answer(parts: Parts, running: RunningTurn) -> None:
    """Run an accepted turn to its end; errors end the turn and are not raised."""
    collect(running.latency_ms)
    try:
        if await wait_for_branch(parts, running):
            await reply(parts, running)
    except TurnLost as error:
        log.warning("turn %s was given to another worker: %s", running.turn.id, error)
        release_journal(running)
    except asyncio.CancelledError:
        await asyncio.shield(fail(parts, running, Problem(code="interrupted", message="The process was stopped.")))
        raise
    except ContextInfinityError as error:
        await fail(parts, running, problem_of(error))
    except Exception as error:  # a bug must not leave the branch blocked
        log.exception("turn %s failed", running.turn.id)
        await fail(parts, running, Problem(code="internal", message=f"{type(error).__name__}: {error}"))
    finally:
        running.end()
        parts.branches.notify()


async def reply(parts: Parts, running: RunningTurn) -> None:
    """Gather the prompt material, choose a model and let it answer; or ask for clarification."""
    gathered, interrupted = await until_done_or_cancelled(running, gather(parts, running))
    if interrupted is not None:
        raise interrupted
    if gathered is None or running.cancelled.is_set():
        await stop(parts, running)
    elif isinstance(gathered, ClarificationRequest):
        await ask_back(parts, running, gathered)
    else:
        await respond(parts, running, gathered, parts.choice.choose(running.turn, running.asked, gathered))


async def gather(parts: Parts, running: RunningTurn) -> PromptMaterial | ClarificationRequest:
    """Recall the context of a message, fold it if it does not fit, and gather the prompt material."""
    await loaded(*FOR_A_TURN)
    session: Session | None = running.session or await session_of(parts.store, running.turn)
    if session is not None:
        await parts.setup.dollars.check(parts.store, session.owner)  # helper models cost too
    if session is not None and session.ttl_hours is not None:
        await expire_before_use(Cleaner(parts.store, parts.setup.copies), session.id)
        session = None
    recalled = await recall(parts, running, session)
    if parts.setup.folds and await needs_fold(parts, recalled, running.turn):
        missing: list[LeftOut] = []
        terms = running.asked.terms
        budget = None if terms is None else recalled.home.budget(parts.setup.ceilings, terms)
        await run_optional("fold", missing, lambda: parts.folding.fold_to_fit(running.turn.branch_id, budget))
        recalled = await recall(parts, running)
        recalled.missing.extend(missing)
    return await gather_from(parts, running, recalled)


async def gather_from(
    parts: Parts, running: RunningTurn, recalled: PriorContext
) -> PromptMaterial | ClarificationRequest:
    """Rewrite the message and retrieve passages for it; return a clarification if it is ambiguous."""
    resolved = await understand(parts, running, recalled)
    if resolved.doubt is not None:
        return ClarificationRequest(recalled=recalled, doubt=resolved.doubt)
    with timed("search"):
        found = await retrieve(parts, running, recalled, resolved.explicit, resolved.terms)
    return PromptMaterial(recalled=recalled, explicit=resolved.explicit, artifacts=found)


async def wait_for_branch(parts: Parts, running: RunningTurn) -> bool:
    """Wait until every earlier turn of the branch is final; return False if the turn was cancelled first."""
    if running.turn.phase is Phase.CONTEXT_PREPARED:
        return True
    while not running.cancelled.is_set():
        news = parts.branches.listen()
        try:
            running.move(await parts.store.turns.prepare(running.turn.id, parts.worker))
            return True
        except BranchBusy:
            # Only this process notifies us; poll for other processes, which may end turns, cancel this one, or die.
            await wait_for_any(news, running.cancelled, seconds=5 * parts.look_seconds)
            turn = await parts.store.turns.get(running.turn.id)
            if turn is not None and turn.cancel_requested:
                running.cancelled.set()
            elif dead := await parts.store.workers.dead():
                await parts.recovery.recover(dead)
    await stop(parts, running)
    return False


async def stop(parts: Parts, running: RunningTurn) -> None:
    """End a turn that was cancelled before the model was called."""
    if running.turn.phase is Phase.CONTEXT_PREPARED:
        end = running.noted(TurnEnd(outcome="cancelled"))
        await finalise(parts, running, end)
        return
    end = TurnEnd(outcome="cancelled", error=Problem(code="cancelled", message="Stopped before it was answered."))
    running.move(await parts.store.turns.fail(running.turn.id, parts.worker, end))


async def fail(parts: Parts, running: RunningTurn, problem: Problem) -> None:
    """End a turn that cannot be answered, and its open step; a turn that has already ended is not changed.

    Text that was shown is in the journal, so the turn ends as after a crash.
    """

    async def end() -> Turn:
        turn = await parts.store.turns.get(running.turn.id) or running.turn
        ended, is_final = await parts.recovery.reconstruct(turn, problem)
        settle = parts.store.turns.finalise if is_final else parts.store.turns.fail
        return await settle(turn.id, parts.worker, running.noted(ended))

    release_journal(running)
    with suppress(TurnLost, WrongPhase):
        running.move(await retry_write(end))


def release_journal(running: RunningTurn) -> None:
    """Close the journal without ending it: the worker that ends the turn writes its last line."""
    if running.journal is not None:
        with suppress(LedgerError):
            running.journal.close()


async def wait_for_any(*events: asyncio.Event, seconds: float) -> None:
    """Wait until one of the events is set, at most ``seconds``."""
    waits = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
