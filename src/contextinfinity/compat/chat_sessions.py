"""Chat sessions in the ledger, for ``ConversationMemory``: its input and output values, and its operations.

Values are validated before anything is written. The store handles outages: turns that are recorded while the ledger is
unavailable are spooled and written later.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import msgspec

from contextinfinity.domain.ids import SessionId, is_id
from contextinfinity.domain.session import CleanupResult, NewSession, Owner, Session
from contextinfinity.domain.turn import Exchange, Keeping
from contextinfinity.domain.turn import Turn as LedgerTurn
from contextinfinity.domain.wire import NUL, has_nul, lone_surrogate
from contextinfinity.engine.deleting import Cleaner
from contextinfinity.errors import AccessDenied, InvalidInput, LedgerAway, LedgerError, NotFound, OutOfOrder
from contextinfinity.settings.sections import Retention
from contextinfinity.storage.contract import Store
from contextinfinity.storage.copies import Copies
from contextinfinity.storage.invariants import LONGEST_NAME, check_json, is_blank
from contextinfinity.storage.loop_thread import LOOK_SECONDS
from contextinfinity.storage.standby.store import StandbyStore

log = logging.getLogger(__name__)

LONGEST_TEXT = 1_000_000
"""The maximum number of characters of a query or a response."""


@dataclass(frozen=True, kw_only=True)
class Turn:
    """One query and its response. ``turn_number`` counts from 1 in its session and is never reused.

    ``durability`` is "local" while the turn is spooled because the ledger is unavailable: the number is then
    provisional, and is final if no one else writes to the session in the meantime.
    """

    id: str
    session_id: str
    user_id: str
    turn_number: int
    query_text: str
    response_text: str
    created_at: datetime
    metadata: dict[str, Any] = field(default_factory=dict)
    durability: Keeping = "ledger"


@dataclass(frozen=True, kw_only=True)
class QueryContext:
    """The context for answering a query: the previous turns, and the query with its references resolved.

    ``messages`` contains both in the format that models accept. If the query is ambiguous, ``is_ambiguous`` is set
    and ``disambiguation_data`` has the candidates and the question to ask.
    """

    session_id: str
    query: str
    resolved_query: str
    history: list[Turn]
    messages: list[dict[str, str]]
    entities: list[Any] = field(default_factory=list)
    is_ambiguous: bool = False
    disambiguation_data: Any = None


def known_session(session_id: object) -> str | None:
    """Return a session id in its stored form; None if it is invalid."""
    text = session_id.lower() if isinstance(session_id, str) else ""
    return text if is_id(text) else None


def checked_session(session_id: object) -> str:
    """Return a session id in its stored form; raise ``ValueError`` if it is invalid."""
    known = known_session(session_id)
    if known is None:
        raise ValueError("session_id: it must be a UUID, as create_session returns.")
    return known


def check_user(user_id: object) -> None:
    """Raise ``ValueError`` if this is not a user id."""
    if not isinstance(user_id, str) or not 1 <= len(user_id) <= LONGEST_NAME:
        raise ValueError(f"user_id: it must be a string of 1 to {LONGEST_NAME} characters.")
    _check_unicode("user_id", user_id)


def check_text(name: str, text: object) -> None:
    """Raise ``ValueError`` if a query or a response is not a text, is blank, or is too long."""
    if not isinstance(text, str):
        raise ValueError(f"{name}: it must be a string, not {type(text).__name__}.")
    if is_blank(text):
        raise ValueError(f"{name}: it must not be blank.")
    if len(text) > LONGEST_TEXT:
        raise ValueError(f"{name}: it has {len(text):,} characters; {LONGEST_TEXT:,} are the most.")
    _check_unicode(name, text)


def checked_limit(limit: object) -> int:
    """Return the number of turns to read; raise ``ValueError`` if it is invalid."""
    if not isinstance(limit, int) or isinstance(limit, bool):
        raise ValueError(f"limit: it must be an integer, not {type(limit).__name__}.")
    return limit


def checked_metadata(metadata: object) -> dict[str, Any]:
    """Return metadata that can be stored, an empty dict for None; raise ``ValueError`` if it is invalid."""
    if metadata is None:
        return {}
    if not isinstance(metadata, dict):
        raise ValueError(f"metadata: it must be a dict, not {type(metadata).__name__}.")
    try:
        check_json(metadata, "it")
        written = msgspec.json.encode(metadata)
    except InvalidInput as error:
        raise ValueError(f"metadata: {error.message}") from error
    except UnicodeEncodeError as error:
        raise ValueError(f"metadata: it holds {lone_surrogate(error)}.") from error
    if b"\\u0000" in written and has_nul(metadata):
        raise ValueError("metadata: it holds a NUL character, which is not allowed; leave it out.")
    return dict(metadata)


def _check_unicode(name: str, text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"{name}: it holds {lone_surrogate(error)}.") from error
    if has_nul(text):
        raise ValueError(f"{name}: it holds a NUL character at {text.index(NUL)}, which is not allowed; leave it out.")


class ForeignSession(Exception):
    """The session belongs to another user, or did before it was deleted."""


class ChatLedger:
    """Sessions of kind ``chat`` in a ledger; a ledger that is opened here is closed here.

    ``patience`` is the number of seconds to wait for a running turn of the same session.
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
        """Open the ledger, write the spooled data of dead processes, and finish interrupted deletions."""
        self.store = await asyncio.to_thread(self._given) if callable(self._given) else self._given
        await self._replay_left_spools()
        await Cleaner(self.store, self._copies).finish()

    async def close(self) -> None:
        """Close the ledger, if it was opened here."""
        if callable(self._given):
            await self.store.close()

    async def is_degraded(self) -> bool:
        """Return whether the ledger is unavailable or lacks spooled data."""
        return self.store.health().status == "degraded"

    async def session(self, session_id: SessionId, user_id: str) -> Session:
        """Find or create a session; raise ``ForeignSession`` if it belongs to another user."""
        try:
            session = await self.store.sessions.get(session_id)
        except LedgerAway:  # nothing can be read; if the session exists, the spooled one is merged into it
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
                raise ForeignSession(session_id) from error
        if session.owner.user_id == user_id:
            return session
        # Two users may have created a session with one id during an outage: the second one has it as a name.
        if (named := await self.store.sessions.find(Owner(user_id=user_id), session_id)) is None:
            raise ForeignSession(session_id)
        return named

    async def write(self, session_id: SessionId, user_id: str, said: Exchange) -> Turn:
        """Record a turn and return it; a turn that already exists is returned unchanged."""
        loop = asyncio.get_running_loop()
        end = loop.time() + self._patience
        while True:
            session = await self.session(session_id, user_id)
            try:
                (turn,) = await self.store.turns.record(session.active_branch, (said,))
                return _shown(turn, session)
            except (OutOfOrder, NotFound):
                # A turn of this session is running, usually only for a moment; or the session was just deleted, and
                # is created again.
                if loop.time() > end:
                    raise
                await asyncio.sleep(LOOK_SECONDS)

    async def history(self, session_id: SessionId, limit: int) -> list[Turn]:
        """Return the newest answered turns, oldest first; empty while the ledger cannot be read."""
        turns: list[Turn] = []
        try:
            session = await self.store.sessions.get(session_id)
            before: int | None = None
            while session is not None and len(turns) < limit:
                page = await self.store.turns.history(session.active_branch, limit=limit, before=before)
                shown = (_shown(turn, session) for turn in page)
                turns[:0] = [turn for turn in shown if turn.response_text.strip()]
                if len(page) < limit:
                    break
                before = page[0].turn_seq
        except LedgerAway:
            return turns
        return turns[-limit:]

    async def delete(self, session_id: SessionId) -> int:
        """Delete a session and return the number of its turns; 0 for an unknown one."""
        try:
            return await Cleaner(self.store, self._copies).delete(session_id)
        except NotFound:
            return 0

    async def clean_up(self) -> CleanupResult:
        """Write the spooled data of dead processes, then delete what has expired."""
        await self._replay_left_spools()
        return await Cleaner(self.store, self._copies).clean_up()

    async def _replay_left_spools(self) -> None:
        if isinstance(self.store, StandbyStore):
            try:
                await self.store.replay_left_spools()
            except LedgerError as error:
                log.error("replaying the spool of another process failed; it is tried again later: %s", error)


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
