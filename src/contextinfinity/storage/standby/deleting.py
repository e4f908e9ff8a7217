"""Deletions, which are never pretended: while the ledger is away they fail at once, and nothing is gone.

What goes in the ledger goes here too, so that nothing comes back from a copy.
"""

from __future__ import annotations

from contextinfinity.domain.deletion import Removed
from contextinfinity.domain.ids import SessionId
from contextinfinity.errors import LedgerAway
from contextinfinity.storage.deletions import BATCH
from contextinfinity.storage.standby.nouns import Noun


class StandbyDeletions(Noun):
    """``Deletions``: what is held of a session lands before anything of it is deleted."""

    hurried = frozenset({"sweep"})

    async def is_due(self, session_id: SessionId) -> bool:
        """Tell whether there is something to delete; where nothing ever expires, the ledger is not asked."""
        held = self._holding.session(session_id)
        if held is not None and held.ttl_hours is None:
            return False
        try:
            is_due: bool = await self._read(lambda: self._ledgers.is_due(session_id))
        except LedgerAway:
            if (seen := self._holding.memory.session(session_id)) is None or seen.ttl_hours is not None:
                raise
            return False
        return is_due

    async def begin(self, session_id: SessionId) -> None:
        """Write the intent to delete a session, once all that any process holds of it is in the ledger."""
        await self._land(session_id)
        await self._holding.replay.run()
        await self._holding.writes.through(lambda: self._ledgers.begin(session_id))
        self._holding.memory.forget(session_id)

    async def due(self, *, limit: int = 100) -> tuple[SessionId, ...]:
        """Name sessions with something to delete."""
        due: tuple[SessionId, ...] = await self._read(lambda: self._ledgers.due(limit=limit))
        return due

    async def expire(self, session_id: SessionId, *, limit: int = BATCH) -> Removed:
        """Delete turns that are past their time; where nothing ever is, that can be said without the ledger."""
        memory = self._holding.memory
        held = self._holding.session(session_id)
        if held is not None and held.ttl_hours is None:
            return Removed()
        try:
            await self._land(session_id)
            removed: Removed = await self._holding.writes.through(lambda: self._ledgers.expire(session_id, limit=limit))
        except LedgerAway:
            if (seen := memory.session(session_id)) is None or seen.ttl_hours is not None:
                raise
            return Removed()
        if removed.sessions:
            memory.forget(session_id)
        elif removed.turns:
            memory.forget_said(session_id)
        return removed

    async def delete(self, session_id: SessionId, *, limit: int = BATCH) -> Removed:
        """Delete a session with everything in it."""
        await self._land(session_id)
        removed: Removed = await self._holding.writes.through(lambda: self._ledgers.delete(session_id, limit=limit))
        self._holding.memory.forget(session_id)
        return removed

    async def _land(self, session_id: SessionId) -> None:
        """Bring what is held of a session into the ledger: a turn that lands behind its session would be lost."""
        if self._holding.holds(session_id):
            await self._holding.land()
        if self._holding.holds(session_id):
            raise LedgerAway(f"Not all that was said in session {session_id} is in the ledger yet.")
