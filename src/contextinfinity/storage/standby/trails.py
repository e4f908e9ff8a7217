"""Matching resent messages with stored conversations, spooled turns included."""

from __future__ import annotations

from contextlib import suppress

from contextinfinity.domain.session import Owner
from contextinfinity.domain.trail import Walked
from contextinfinity.domain.turn import Trail
from contextinfinity.errors import LedgerError
from contextinfinity.storage.standby.nouns import Noun


class StandbyTrails(Noun):
    """``Trails``: a request is matched only after the spools of all processes were replayed."""

    async def walked(self, owner: Owner, trail: Trail) -> Walked | None:
        """Find the turn that a request made; every match begins with this."""
        with suppress(LedgerError):
            await self._holding.replay.run()
        found: Walked | None = await self._ledgers.walked(owner, trail)
        return found
