"""Chats in the ledger: what the verbs of ``ConversationMemory`` do there, on the loop that waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime

from contextinfinity.conversation_memory.holding import HeldTurn
from contextinfinity.conversation_memory.values import Turn
from contextinfinity.domain.deletion import CleanupResult
from contextinfinity.domain.ids import SessionId
from contextinfinity.domain.message import say
from contextinfinity.domain.session import NewSession, Owner, Session
from contextinfinity.domain.turn import Exchange
from contextinfinity.domain.turn import Turn as LedgerTurn
from contextinfinity.engine.cleanup import Cleaner
from contextinfinity.errors import NotFound, OutOfOrder
from contextinfinity.settings.sections import Retention
from contextinfinity.storage.contract import Store

LOOK_SECONDS = 0.02
"""How often to see whether a turn of the same session that is being answered has ended."""


class Foreign(Exception):
    """The session is another user's."""


class ChatLedger:
    """Sessions of kind ``chat`` on a ledger, which is opened when it is first needed and closed if opened here."""

    def __init__(self, store: Store | Callable[[], Store], retention: Retention) -> None:
        self._open = store if callable(store) else None
        self._store = None if callable(store) else store
        self._opening = asyncio.Lock()
        self._retention = retention

    async def store(self) -> Store:
        """Give the ledger; what keeps it from being opened is raised each time."""
        async with self._opening:
            if self._store is None and self._open is not None:
                self._store = await asyncio.to_thread(self._open)
        assert self._store is not None  # noqa: S101 - one of the two was given
        return self._store

    async def ask(self) -> None:
        """Have the ledger do next to nothing, to see whether it answers."""
        await (await self.store()).deletions.due(limit=1)

    async def session(self, session_id: SessionId, user_id: str) -> Session:
        """Find a session, or make it."""
        session = await (await self.store()).sessions.get(session_id)
        if session is None:
            new = NewSession(
                id=session_id,
                owner=Owner(user_id=user_id),
                kind="chat",
                ttl_hours=self._retention.conversation_ttl_hours,
            )
            session = await (await self.store()).sessions.create(new)
        if session.owner.user_id != user_id:
            raise Foreign(session_id)
        return session

    async def write(self, said: HeldTurn) -> Turn:
        """Record a turn; one that is there is given as it is."""
        exchange = Exchange(
            id=said.id,
            message=say("user", said.query),
            answer=say("assistant", said.response),
            created_at=said.created_at,
            metadata=said.metadata,
        )
        while True:
            session = await self.session(said.session_id, said.user_id)
            try:
                (turn,) = await (await self.store()).turns.record(session.active_branch, (exchange,))
                return turn_of(said, turn.turn_seq, turn.created_at)
            except OutOfOrder:  # a turn of this session is being answered; its end is a matter of moments
                await asyncio.sleep(LOOK_SECONDS)
            except NotFound:  # it was deleted just now: it is made anew
                continue

    async def history(self, session_id: SessionId, limit: int) -> list[Turn]:
        """Read the newest answered turns, oldest first."""
        session = await (await self.store()).sessions.get(session_id)
        turns: list[Turn] = []
        before: int | None = None
        while session is not None and len(turns) < limit:
            page = await (await self.store()).turns.history(session.active_branch, limit=limit, before=before)
            turns[:0] = [_shown(turn, session) for turn in page if turn.text.strip()]
            if len(page) < limit:
                break
            before = page[0].turn_seq
        return turns[-limit:]

    async def delete(self, session_id: SessionId) -> int:
        """Delete a session; an unknown one has no turns."""
        try:
            return await Cleaner(await self.store()).delete(session_id)
        except NotFound:
            return 0

    async def clean_up(self) -> CleanupResult:
        """Delete what is past its time."""
        return await Cleaner(await self.store()).clean_up()

    async def close(self) -> None:
        """Close the ledger, if it was opened here."""
        if self._store is not None and self._open is not None:
            await self._store.close()


def turn_of(said: HeldTurn, number: int, created_at: datetime | None = None) -> Turn:
    """Give what was said as a turn of that number."""
    return Turn(
        id=said.id,
        session_id=said.session_id,
        user_id=said.user_id,
        turn_number=number,
        query_text=said.query,
        response_text=said.response,
        created_at=created_at or said.created_at,
        metadata=said.metadata,
    )


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
    )
