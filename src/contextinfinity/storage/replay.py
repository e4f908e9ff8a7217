"""The contract for replaying turns that were spooled while the ledger was unavailable.

A ``ReplayedTurn`` holds how far a turn came: accepted, begun, sent to a provider, ended. It is written in one
transaction, at the end of its branch. Replay is idempotent: a repeated or longer replay adds only what is missing, so a
process may be killed between a replay and the removal of its spool.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Protocol

from msgspec import Struct

from contextinfinity.domain.ids import TurnId, WorkerId
from contextinfinity.domain.turn import NewStep, NewTurn, Turn, TurnEnd


class ReplayedTurn(Struct, frozen=True, kw_only=True):
    """A spooled turn with its progress."""

    turn_id: TurnId
    new: NewTurn | None = None
    """The accepted turn with its id and owner; None if the ledger accepted it before the outage."""
    said_at: datetime | None = None
    begun: bool = False
    """Whether answering had begun."""
    steps: tuple[NewStep, ...] = ()
    end: TurnEnd | None = None
    failed: bool = False
    """Whether the turn ended as Failed."""

    @property
    def has_to_begin(self) -> bool:
        """Whether it cannot be replayed while another turn of its branch is being answered."""
        return self.begun or bool(self.steps) or (self.end is not None and not self.failed)


class ReplayStore(Protocol):
    """Writes spooled turns to the ledger."""

    async def land(self, landing: ReplayedTurn) -> Turn:
        """Write the missing parts of a turn; a final turn does not change.

        While an earlier turn of the branch waits or is being answered, the turn is only appended to the branch and
        returned as Accepted: replay it again later. Raises ``Gone`` if the turn was deleted, and ``NotFound`` if its
        branch is deleted or the ledger lacks a turn that it had accepted; nothing is written then.
        """
        ...

    async def take_blockers(self, spooled: Collection[TurnId], dead: WorkerId, by: WorkerId) -> tuple[TurnId, ...]:
        """Assign turns of a dead worker to ``by`` that its spooled turns wait for and that are not spooled themselves.

        Their ends were never written anywhere, so they were interrupted; the spool cannot be replayed before they end.
        """
        ...
