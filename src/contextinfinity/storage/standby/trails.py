"""Matching resent messages with stored conversations, spooled turns included."""

from __future__ import annotations

from contextlib import suppress

from contextinfinity.domain.ids import SessionId
from contextinfinity.domain.session import Owner
from contextinfinity.domain.trail import TrailEnd, Walked
from contextinfinity.domain.turn import Trail
from contextinfinity.errors import LedgerError
from contextinfinity.storage.standby.nouns import Noun


class StandbyTrails(Noun):
    """``Trails``: a request is matched only after the spools of all processes were replayed."""

    async def end(self, owner: Owner, answered: int, *, session_id: SessionId | None = None) -> TrailEnd | None:
        """Find the turn up to which exactly this was said; matching a conversation begins with this."""
        await self._replay()
        found: TrailEnd | None = await self._ledgers.end(owner, answered, session_id=session_id)
        return found

    async def walked(self, owner: Owner, trail: Trail) -> Walked | None:
        """Find the turn that a request made; a request under a key begins with this."""
        await self._replay()
        found: Walked | None = await self._ledgers.walked(owner, trail)
        return found

    async def _replay(self) -> None:
        with suppress(LedgerError):
            await self._holding.replay.run()
