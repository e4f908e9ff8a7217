"""Chats in the ledger: what the verbs of ``ConversationMemory`` do there, on the loop that waits for it.

That the ledger may be away is the store's affair: what is recorded meanwhile is in a spool and lands later.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from contextinfinity.conversation_memory.values import Turn
from contextinfinity.domain.deletion import CleanupResult
from contextinfinity.domain.ids import SessionId
from contextinfinity.domain.session import NewSession, Owner, Session
from contextinfinity.domain.turn import Exchange
from contextinfinity.domain.turn import Turn as LedgerTurn
from contextinfinity.engine.cleanup import Cleaner
from contextinfinity.errors import AccessDenied, LedgerAway, LedgerError, NotFound, OutOfOrder
from contextinfinity.settings.sections import Retention
from contextinfinity.storage.contract import Store
from contextinfinity.storage.copies import Copies
from contextinfinity.storage.standby.store import Standby

log = logging.getLogger(__name__)

LOOK_SECONDS = 0.02
"""How often to see whether a turn of the same session that is being answered has ended."""


class Foreign(Exception):
    """The session is another user's, or was before it was deleted."""


class ChatLedger:
    """Sessions of kind ``chat`` on a ledger; one that is opened here is closed here.

    ``patience``: seconds to wait for a turn of the same session that is being answered.
    """

    store: Store

    def __init__(
        self, store: Store | Callable[[], Store], retention: Retention, patience: float, copies: Copies | None = None
    ) -> None:
        self._given = store
        self._copies = copies
        self._retention = retention
        self._patience = patience

    async def open(self) -> None:
        """Open the ledger, and land what processes that were killed have left for it."""
        self.store = await asyncio.to_thread(self._given) if callable(self._given) else self._given
        await self._land_left()
        await Cleaner(self.store, self._copies).finish()

    async def close(self) -> None:
        """Close the ledger, if it was opened here."""
        if callable(self._given):
            await self.store.close()

    async def is_degraded(self) -> bool:
        """Tell whether the ledger lacks something of what was said, or cannot be reached."""
        return self.store.health().status == "degraded"

    async def session(self, session_id: SessionId, user_id: str) -> Session:
        """Find a session, or make it."""
        try:
            session = await self.store.sessions.get(session_id)
        except LedgerAway:  # nothing can be read; if it is there all the same, this is what it lands in
            session = None
        if session is None:
            new = NewSession(
                id=session_id,
                owner=Owner(user_id=user_id),
                kind="chat",
                ttl_hours=self._retention.conversation_ttl_hours,
            )
            try:
                session = await self.store.sessions.create(new)
            except AccessDenied as error:
                raise Foreign(session_id) from error
        if session.owner.user_id == user_id:
            return session
        # Two users may have begun a session under one id while the ledger was away: the second has it as a name.
        if (named := await self.store.sessions.find(Owner(user_id=user_id), session_id)) is None:
            raise Foreign(session_id)
        return named

    async def write(self, session_id: SessionId, user_id: str, said: Exchange) -> Turn:
        """Record a turn; one that is there is given as it is."""
        loop = asyncio.get_running_loop()
        end = loop.time() + self._patience
        while True:
            session = await self.session(session_id, user_id)
            try:
                (turn,) = await self.store.turns.record(session.active_branch, (said,))
                return _shown(turn, session)
            except (OutOfOrder, NotFound):
                # A turn of this session is being answered: mostly a matter of moments. Or it was deleted just now, and
                # is made anew.
                if loop.time() > end:
                    raise
                await asyncio.sleep(LOOK_SECONDS)

    async def history(self, session_id: SessionId, limit: int) -> list[Turn]:
        """Read the newest answered turns, oldest first; none of a session of which nothing can be read now."""
        turns: list[Turn] = []
        try:
            session = await self.store.sessions.get(session_id)
            before: int | None = None
            while session is not None and len(turns) < limit:
                page = await self.store.turns.history(session.active_branch, limit=limit, before=before)
                turns[:0] = [_shown(turn, session) for turn in page if turn.text.strip()]
                if len(page) < limit:
                    break
                before = page[0].turn_seq
        except LedgerAway:
            return turns
        return turns[-limit:]

    async def delete(self, session_id: SessionId) -> int:
        """Delete a session; an unknown one has no turns."""
        try:
            return await Cleaner(self.store, self._copies).delete(session_id)
        except NotFound:
            return 0

    async def clean_up(self) -> CleanupResult:
        """Delete what is past its time, when all that was left elsewhere is there."""
        await self._land_left()
        return await Cleaner(self.store, self._copies).clean_up()

    async def _land_left(self) -> None:
        if isinstance(self.store, Standby):
            try:
                await self.store.land_left()
            except LedgerError as error:
                log.error("what another process left has to wait: %s", error)


def _shown(turn: LedgerTurn, session: Session) -> Turn:
    return Turn(
        id=turn.id,
        session_id=session.id,
        user_id=session.owner.user_id,
        turn_number=turn.turn_seq,
        query_text=turn.user_message.rendered_text,
        response_text=turn.text,
        created_at=turn.created_at,
        metadata=turn.metadata if isinstance(turn.metadata, dict) else {},
        durability=turn.durability,
    )
