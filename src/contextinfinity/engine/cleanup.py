"""Deleting at work: what is past its time to live, what was asked for, and wiping out what that left.

A clean-up goes from one session to the next, a batch at a time. What fails is named in the result and tried again the
next time; nothing else waits for it. Whoever is killed in the middle leaves it to the next one.
"""

from __future__ import annotations

import asyncio
import logging
import time

from contextinfinity.domain.deletion import CleanupResult, Removed
from contextinfinity.domain.ids import SessionId
from contextinfinity.errors import ContextInfinityError, LedgerError
from contextinfinity.storage.contract import Store
from contextinfinity.storage.journal import JournalFolder
from contextinfinity.telemetry.counters import count

log = logging.getLogger(__name__)

PAGE = 16
"""How many sessions are cleaned together: what they write is committed together."""
SWEEP_SECONDS = 1.0
"""How long wiping out may take at a time; what is left is done the next time."""


class Cleaner:
    """Deletes from a ledger, and the journals beside it where there are any."""

    def __init__(self, store: Store, journals: JournalFolder | None = None) -> None:
        self._store = store
        self._journals = journals

    async def delete(self, session_id: SessionId) -> int:
        """Delete a conversation with everything in it; tell how many turns it had."""
        turns = 0
        while True:
            removed = await self._store.deletions.delete(session_id)
            turns += await self._took_away(removed)
            if not removed.more:
                break
        await self.sweep()
        return turns

    async def expire(self, session_id: SessionId) -> tuple[int, int]:
        """Delete what is past its time in one session: (sessions, turns)."""
        sessions = turns = 0
        while True:
            removed = await self._store.deletions.expire(session_id)
            sessions, turns = sessions + removed.sessions, turns + await self._took_away(removed)
            if not removed.more:
                return sessions, turns

    async def clean_up(self) -> CleanupResult:
        """Delete what is past its time everywhere, and finish deletions that were begun."""
        began = time.monotonic()
        sessions = turns = 0
        failed: dict[SessionId, str] = {}
        errors: list[str] = []
        try:
            while due := await self._due(failed):
                for gone in await asyncio.gather(*(self._expire_or_tell(session_id, failed) for session_id in due)):
                    sessions, turns = sessions + gone[0], turns + gone[1]
            await self.sweep()
        except ContextInfinityError as error:
            errors.append(error.message)
        result = CleanupResult(
            sessions_deleted=sessions,
            turns_deleted=turns,
            execution_time=time.monotonic() - began,
            errors=(*failed.values(), *errors),
        )
        _tell(result)
        return result

    async def _expire_or_tell(self, session_id: SessionId, failed: dict[SessionId, str]) -> tuple[int, int]:
        try:
            return await self.expire(session_id)
        except ContextInfinityError as error:
            failed[session_id] = f"session {session_id}: {error.message}"
            return 0, 0

    async def sweep(self, seconds: float = SWEEP_SECONDS) -> bool:
        """Wipe out what deletions left, at most that long; tell whether some is left."""
        end = time.monotonic() + seconds
        while left := await self._store.deletions.sweep():
            if time.monotonic() > end:
                break
        return left

    async def _due(self, failed: dict[SessionId, str]) -> list[SessionId]:
        found = await self._store.deletions.due(limit=PAGE + len(failed))
        return [session_id for session_id in found if session_id not in failed]

    async def _took_away(self, removed: Removed) -> int:
        """Remove the journals of what is gone, and count."""
        if self._journals is not None:
            for step_id in removed.steps:
                await asyncio.to_thread(self._journals.remove, step_id)
        count("sessions_deleted", removed.sessions)
        count("turns_deleted", removed.turns)
        return removed.turns


def _tell(result: CleanupResult) -> None:
    count("cleanup_runs")
    for error in result.errors:
        log.error("clean-up: %s", error)
    if result.errors:
        count("cleanups_failed")
    if result.turns_deleted or result.sessions_deleted:
        done = result.sessions_deleted, result.turns_deleted, result.execution_time
        log.info("clean-up: %d sessions and %d turns deleted in %.1f s", *done)


async def expire_before_use(cleaner: Cleaner, session_id: SessionId) -> None:
    """Delete what is past its time before a session is read; the answer does not depend on it."""
    try:
        await cleaner.expire(session_id)
    except LedgerError as error:
        log.warning("session %s: what is past its time has to wait: %s", session_id, error)
