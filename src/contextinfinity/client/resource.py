"""Base of all resources of a local client: an engine, and the owner whose objects they find."""

from __future__ import annotations

from contextlib import suppress

from contextinfinity.client.contract import LOCAL
from contextinfinity.domain.ids import BranchId, TurnId, is_id
from contextinfinity.domain.session import Owner, Session
from contextinfinity.domain.turn import Turn
from contextinfinity.engine.engine import Engine
from contextinfinity.errors import NotFound


class ClientResource:
    """Look-ups for one owner (``acting``), or for all: None.

    A resource that acts for an owner finds and creates only that owner's objects, whatever owner a method is given.
    """

    def __init__(self, engine: Engine, acting: Owner | None) -> None:
        self._engine = engine
        self._store = engine.store
        self._acting = acting

    def _acting_owner(self, owner: Owner) -> Owner:
        """Return the owner that a method works for."""
        return self._acting or owner

    async def _session(self, thread_id: str, owner: Owner = LOCAL) -> Session:
        """Find a thread. Without an acting owner our ids find any thread, and a name is one of ``owner``'s."""
        if self._acting is None and is_id(thread_id):
            with suppress(NotFound):
                return await self._engine.session(thread_id)
        return await self._engine.session(thread_id, self._acting_owner(owner))

    async def _place(self, thread_id: str, branch_id: BranchId | None) -> tuple[Session, BranchId]:
        """Find a thread and one of its branches; None: the active one."""
        session = await self._session(thread_id)
        return session, await self._engine.branch_of(session, branch_id)

    async def _turn(self, turn_id: TurnId) -> Turn:
        """Read a turn."""
        return await self._engine.turn(turn_id, self._acting)

    async def _check_turns(self, *turn_ids: TurnId | None) -> None:
        """Raise ``NotFound`` for turns of others; without an acting owner nothing is read."""
        for turn_id in turn_ids if self._acting is not None else ():
            if turn_id is not None:
                await self._turn(turn_id)
