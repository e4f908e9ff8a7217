"""Turns that were held while the ledger was away, and come into it when it is there again.

A landing says how far a turn has come: accepted, begun, asked of a provider, ended. It lands in one transaction,
after whatever its branch holds by then. Landing it a second time, or further than before, adds only what is missing,
so a process that is killed between a landing and the end of its spool does no harm.
"""

from __future__ import annotations

from datetime import datetime
from typing import Protocol

from msgspec import Struct

from contextinfinity.domain.ids import TurnId
from contextinfinity.domain.turn import NewStep, NewTurn, Turn, TurnEnd


class ReplayedTurn(Struct, frozen=True, kw_only=True):
    """A held turn, as far as it has come."""

    turn_id: TurnId
    new: NewTurn | None = None
    """How it was accepted, with its id and owner; None: the ledger had accepted it before it went away."""
    said_at: datetime | None = None
    begun: bool = False
    """It was its branch's turn to be answered."""
    steps: tuple[NewStep, ...] = ()
    end: TurnEnd | None = None
    failed: bool = False
    """It ended as Failed, not with an answer that counts."""

    @property
    def has_to_begin(self) -> bool:
        """Whether it cannot land while another turn of its branch is being answered."""
        return self.begun or bool(self.steps) or (self.end is not None and not self.failed)


class ReplayStore(Protocol):
    """The way back into a ledger."""

    async def land(self, landing: ReplayedTurn) -> Turn:
        """Write what the ledger does not have of a turn; what is final there stays as it is.

        While another turn of its branch is being answered or waits in front of it, the turn only takes its place at
        the end of the branch and is returned as Accepted: land it again later. ``Gone`` when the turn was deleted;
        ``NotFound`` when its branch is gone, or the turn itself where the ledger should have it; nothing is written
        then.
        """
        ...
