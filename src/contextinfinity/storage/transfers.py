"""Whole conversations out of a ledger and into another one: the contract."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from contextinfinity.domain.ids import MemoryId, SessionId, StateId
from contextinfinity.domain.session import Owner
from contextinfinity.domain.transfer import (
    MemoryTransfer,
    SessionOutline,
    StateTransfer,
    TurnTransfer,
)


class TransferStore(Protocol):
    """Conversations with everything that belongs to them. What all verbs of a store share, these share."""

    async def owners(self) -> tuple[Owner, ...]:
        """Return everybody who has a conversation or a memory."""
        ...

    async def outline(self, session_id: SessionId) -> SessionOutline | None:
        """Read a session, its branches and what was deleted from it."""
        ...

    async def states(
        self, session_id: SessionId, *, after: StateId | None = None, limit: int = 500
    ) -> tuple[StateTransfer, ...]:
        """Read the states of a session, ordered by their ids, those behind ``after``."""
        ...

    async def turns(
        self, session_id: SessionId, *, after: tuple[int, str] = (0, ""), limit: int = 200
    ) -> tuple[TurnTransfer, ...]:
        """Read the turns that have ended, ordered by (turn_seq, id), those behind ``after``."""
        ...

    async def memories(
        self, owner: Owner, *, thread: SessionId | None = None, after: MemoryId | None = None, limit: int = 500
    ) -> tuple[MemoryTransfer, ...]:
        """Read the memories of a user, or of one thread alone, ordered by their ids."""
        ...

    async def restore(
        self, outline: SessionOutline, states: Sequence[StateTransfer], turns: Sequence[TurnTransfer]
    ) -> bool:
        """Create a session as it was, in one transaction; False: it is there already, and nothing is written.

        Its texts and blobs have to be kept before. ``InvalidInput`` where the parts do not fit together or break a
        rule of the ledger, ``AccessDenied`` where the id belongs or belonged to another owner.
        """
        ...

    async def restore_memories(self, owner: Owner, memories: Sequence[MemoryTransfer]) -> int:
        """Add the memories that the owner does not have, and return how many."""
        ...
