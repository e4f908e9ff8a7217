"""The contract for exporting whole conversations and restoring them in another ledger."""

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
    """Conversations with everything that belongs to them. The rules of ``storage.contract`` apply."""

    async def owners(self) -> tuple[Owner, ...]:
        """Return all owners with a conversation or a memory."""
        ...

    async def outline(self, session_id: SessionId) -> SessionOutline | None:
        """Return a session, its branches and its tombstones."""
        ...

    async def states(
        self, session_id: SessionId, *, after: StateId | None = None, limit: int = 500
    ) -> tuple[StateTransfer, ...]:
        """Return the states of a session after id ``after``, ordered by id."""
        ...

    async def turns(
        self, session_id: SessionId, *, after: tuple[int, str] = (0, ""), limit: int = 200
    ) -> tuple[TurnTransfer, ...]:
        """Return the finished turns after ``after``, ordered by (turn_seq, id)."""
        ...

    async def memories(
        self, owner: Owner, *, thread: SessionId | None = None, after: MemoryId | None = None, limit: int = 500
    ) -> tuple[MemoryTransfer, ...]:
        """Return the memories of a user, or of one conversation only, ordered by id."""
        ...

    async def restore(
        self, outline: SessionOutline, states: Sequence[StateTransfer], turns: Sequence[TurnTransfer]
    ) -> bool:
        """Restore a session in one transaction; return False and write nothing if it exists.

        Store its texts and blobs first. Raises ``InvalidInput`` if the parts are inconsistent or violate a constraint,
        and ``AccessDenied`` if the id belongs or belonged to another owner.
        """
        ...

    async def restore_memories(self, owner: Owner, memories: Sequence[MemoryTransfer]) -> int:
        """Add the memories that the owner does not have, and return how many."""
        ...
