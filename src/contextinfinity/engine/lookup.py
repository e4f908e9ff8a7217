"""Find threads, branches and turns by the ids that a caller passes, for one owner or for all.

Every look-up takes the owner that the caller acts for. Objects of another owner raise the same error as an unknown id.
``owner=None`` finds the objects of every owner; only the command line and the library, which have direct access to the
files, may pass it.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from contextinfinity.domain.ids import BranchId, ChunkId, TurnId, is_id, is_ours
from contextinfinity.domain.session import Owner, Session
from contextinfinity.domain.turn import Turn
from contextinfinity.engine.artifacts import owned_chunk
from contextinfinity.engine.lifecycle import Lifecycle
from contextinfinity.errors import LedgerAway, NotFound
from contextinfinity.storage.contract import Store

if TYPE_CHECKING:
    from contextinfinity.engine.deleting import Deleting


class Lookup(Lifecycle):
    """The look-ups of an engine."""

    @property
    def deleting(self) -> Deleting:
        """Deletes turns, conversations, users or everything, with a proof where one is asked for."""
        from contextinfinity.engine.deleting import Deleting

        return Deleting(self.store, self.cleaner, self._parts.caches.forget)

    async def session(self, thread_id: str, owner: Owner | None = None) -> Session:
        """Return a thread by our id or by its owner's name for it; raise ``NotFound`` if there is none.

        Without ``owner``, a name is looked up for the owner ``local``.
        """
        session = await self.store.sessions.get(thread_id) if is_id(thread_id) else None
        if session is None or owner not in (None, session.owner):
            session = await self.store.sessions.find(owner or Owner(), thread_id)
        if session is None:
            raise NotFound(f"There is no conversation {thread_id}.", hint="`cix sessions` lists the conversations.")
        return session

    async def thread(self, thread_id: str, owner: Owner | None) -> Session | None:
        """Return the thread that a message is sent to; None for a name that the owner has not used yet."""
        bearable = () if is_ours(thread_id) else (NotFound,)
        with suppress(*bearable):
            return await self.session(thread_id, owner)
        return None

    async def branch_of(self, session: Session, branch_id: BranchId | None) -> BranchId:
        """Return a branch of the session, or its active one; ``NotFound`` for a branch of another session."""
        if branch_id is None:
            return session.active_branch
        branch = await self.store.branches.get(branch_id) if is_id(branch_id) else None
        if branch is None or branch.session_id != session.id:
            raise NotFound(f"Thread {session.id} has no branch {branch_id}.", hint="`cix branches` lists them.")
        return branch.id

    async def turn(self, turn_id: TurnId, owner: Owner | None = None) -> Turn:
        """Return a turn; raise ``NotFound`` if it does not exist or belongs to another owner."""
        turn = await self.store.turns.get(turn_id) if is_id(turn_id) else None
        if turn is not None and owner is not None:
            session = await self.store.sessions.get(turn.session_id)
            turn = turn if session is not None and session.owner == owner else None
        if turn is None:
            raise NotFound(f"There is no turn {turn_id}.")
        return turn


async def check_references(
    store: Store, owner: Owner, session: Session | None, attach: Sequence[ChunkId], retry_of: TurnId | None
) -> None:
    """Raise ``NotFound`` for chunks of another owner, and for a retried turn that is not one of ``session``.

    ``session`` None: the thread is new. While the ledger cannot be read nothing is checked here; attached chunks are
    checked again when they are fetched.
    """
    with suppress(LedgerAway):
        for chunk_id in attach:
            await owned_chunk(store, owner, chunk_id)
        if retry_of is None:
            return
        turn = None if session is None else await store.turns.get(retry_of)
        if session is None or turn is None or turn.session_id != session.id:
            raise NotFound(f"retry_of: the thread has no turn {retry_of}.", hint="Leave retry_of out.")
