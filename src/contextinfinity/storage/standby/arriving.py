"""Imports, which are never held: they go to the ledger, behind what is held of their conversation."""

from __future__ import annotations

from collections.abc import Sequence

from contextinfinity.domain.arrival import Arrival, Arrived
from contextinfinity.domain.ids import BranchId
from contextinfinity.errors import LedgerAway
from contextinfinity.storage.standby.nouns import Noun


class StandbyArrivals(Noun):
    """``Arrivals`` of a ledger that may be away."""

    async def add(self, branch_id: BranchId, arrivals: Sequence[Arrival]) -> Arrived:
        """Add messages to a branch; ``LedgerAway`` while the branch itself is not in the ledger yet."""
        if self._holding.branch(branch_id) is not None:
            await self._holding.land()
        if self._holding.branch(branch_id) is not None:
            raise LedgerAway(f"Branch {branch_id} is not in the ledger yet.")
        arrived: Arrived = await self._ledgers.add(branch_id, arrivals)
        return arrived
