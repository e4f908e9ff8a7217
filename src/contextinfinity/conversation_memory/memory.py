"""``ConversationMemory``: conversations that are kept for a day, or for as long as the settings say.

A session is one of the ledger, of kind ``chat``; its turns are recorded as they are. Each verb hands its work to the
ledger's own threads and waits, so it can be called with or without an event loop and from any OS thread.

When the ledger fails or takes too long, a turn is held in memory and the answer goes on. From then on nobody waits
for the ledger until it has answered again; then what was held is written, in order and once.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from contextinfinity.conversation_memory.holding import HeldTurn, Holding, InMemoryHolding, Recent
from contextinfinity.conversation_memory.ledger import ChatLedger, Foreign, turn_of
from contextinfinity.conversation_memory.values import (
    QueryContext,
    Turn,
    check_text,
    check_user,
    checked_metadata,
    checked_session,
    known_session,
)
from contextinfinity.domain.deletion import CleanupResult
from contextinfinity.domain.ids import new_id, now
from contextinfinity.errors import ContextInfinityError, LedgerBusy, LedgerClosed, LedgerError
from contextinfinity.settings import Settings
from contextinfinity.storage.contract import Store
from contextinfinity.telemetry.counters import count
from contextinfinity.threads.waiting import LoopThread

log = logging.getLogger(__name__)

T = TypeVar("T")

MOST_TURNS = 50
"""How many turns ``get_session_history`` gives at most."""
PATIENCE_SECONDS = 1.0
"""How long a verb waits for the ledger before it counts as away."""
PROBE_SECONDS = 1.0
"""How often to look whether it has come back."""
FIRST_CLEANUP_SECONDS = 60.0
"""How long after the start the first clean-up may begin."""
WIRING = "contextinfinity.wiring"
"""Who opens a ledger by its settings. It stands above this module, so it is named, not imported."""


class ConversationMemory:
    """Stores and gives back conversations.

    Without settings those of the machine count, with ``data_dir`` in the place of theirs. A ``store`` that is given
    belongs to its giver. ``patience``: seconds to wait for the ledger; ``probe``: between two looks whether it is back.
    """

    def __init__(
        self,
        data_dir: str | Path | None = None,
        *,
        settings: Settings | None = None,
        store: Store | None = None,
        holding: Holding | None = None,
        patience: float = PATIENCE_SECONDS,
        probe: float = PROBE_SECONDS,
    ) -> None:
        from contextinfinity.settings import load_settings

        if settings is None:
            settings = load_settings(data_dir=None if data_dir is None else Path(data_dir)).settings
        self._retention = settings.retention
        self._ledger = ChatLedger(store or (lambda: import_module(WIRING).open_store(settings)), settings.retention)
        self._holding = holding or InMemoryHolding()
        self._recent = Recent()
        self._patience = patience
        self._probe = probe
        self._loop = LoopThread("conversation-memory")
        self._lock = threading.Lock()
        self._is_away = False
        self._is_looking = False
        self._stopping = asyncio.Event()
        self._clean_at = time.monotonic() + FIRST_CLEANUP_SECONDS
        try:
            self._loop.wait(self._ledger.store)
        except LedgerError as error:
            _tell_failure("open", "-", None, error)
            self._went_away()

    # --- the five verbs ---

    def create_session(self, user_id: str) -> str:
        """Begin a conversation and give its id; without a ledger it begins with its first turn."""
        check_user(user_id)
        session_id = new_id()
        if not self._retention.stateless:
            self._try("create_session", session_id, user_id, lambda: self._ledger.session(session_id, user_id))
        return session_id

    def store_turn(
        self, session_id: str, user_id: str, query: str, response: str, metadata: dict[str, Any] | None = None
    ) -> Turn:
        """Keep a query and its response; a session that is not there is made.

        ``ValueError`` names the field and the rule it breaks, before anything is written.
        """
        session_id = checked_session(session_id)
        check_user(user_id)
        check_text("query", query)
        check_text("response", response)
        said = HeldTurn(
            id=new_id(),
            session_id=session_id,
            user_id=user_id,
            query=query,
            response=response,
            metadata=checked_metadata(metadata),
            created_at=now(),
        )
        if self._retention.stateless:
            return turn_of(said, 1)
        turn = self._try("store_turn", session_id, user_id, lambda: self._ledger.write(said))
        if turn is None:
            return self._hold(said)
        count("turn_writes_ok")
        self._recent.note(session_id, (turn,))
        self._clean_now_and_then()
        return turn

    def get_session_history(self, session_id: str, limit: int = MOST_TURNS) -> list[Turn]:
        """Give the newest turns, oldest first, at most 50; an unknown session, or one that is none, has no turns."""
        known, limit = known_session(session_id), min(limit, MOST_TURNS)
        if known is None or limit < 1 or self._retention.stateless:
            return []
        turns = self._try("get_session_history", known, None, lambda: self._ledger.history(known, limit))
        if turns is None:
            return self._remembered(known)[-limit:]
        self._recent.note(known, turns)
        return turns

    def delete_session(self, session_id: str) -> int:
        """Delete a conversation with everything that was made from it; tell how many turns it had.

        Unlike the others this waits, and raises ``LedgerError`` when it could not be done.
        """
        known = known_session(session_id)
        if known is None:
            return 0
        try:
            deleted = self._loop.wait(lambda: self._ledger.delete(known))
        except LedgerError as error:
            _tell_failure("delete_session", known, None, error)
            raise
        self._recent.forget(known)
        for turn in self._holding.waiting():
            if turn.session_id == known:
                self._holding.let_go(turn.id)
                deleted += 1
        return deleted

    def get_context_for_query(self, session_id: str, query: str, limit: int | None = None) -> QueryContext:
        """Give what a query is to be answered with; the query itself is not stored."""
        check_text("query", query)
        history = self.get_session_history(session_id, self._retention.history_limit if limit is None else limit)
        return self._loop.wait(lambda: _context(session_id, query, history))

    # --- besides ---

    def cleanup_old_conversations(self) -> CleanupResult:
        """Delete what is past its time now; by itself this happens every ``retention.cleanup_interval_hours``."""
        return self._loop.wait(self._ledger.clean_up)

    @property
    def is_degraded(self) -> bool:
        """Whether the ledger is away and turns are held in memory."""
        return self._is_away

    def close(self) -> None:
        """Write what is still held, if that is possible, and let go of the ledger."""
        self._loop.close(self._end)

    async def _end(self) -> None:
        self._stopping.set()
        if self._is_away:
            await self._look()
        await self._ledger.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # --- when the ledger is away ---

    def _try(
        self, operation: str, session_id: str, user_id: str | None, work: Callable[[], Coroutine[Any, Any, T]]
    ) -> T | None:
        """Do something with the ledger; None when it is away."""
        if self._is_away:
            return None
        try:
            return self._loop.wait(lambda: _within(self._patience, work()))
        except LedgerClosed:
            raise
        except LedgerError as error:
            _tell_failure(operation, session_id, user_id, error)
            with self._lock:
                self._went_away()
            return None
        except Foreign as error:
            raise ValueError("user_id: it must be the user the session belongs to.") from error

    def _hold(self, said: HeldTurn) -> Turn:
        """Keep a turn until the ledger is back. Its number is the one it will most probably get."""
        count("turn_writes_failed")
        with self._lock:
            known = self._recent.turns(said.session_id)
            turn = turn_of(said, known[-1].turn_number + 1 if known else 1)
            if not self._holding.hold(said):
                raise LedgerBusy("The ledger is away, and too many turns wait for it.", hint="Try again later.")
            self._recent.note(said.session_id, (turn,))
            self._went_away()
        return turn

    def _went_away(self) -> None:
        """Note that the ledger is away, and have somebody look whether it is back: nobody else waits for it."""
        self._is_away = True
        if not self._is_looking:
            self._is_looking = True
            self._loop.begin(self._keep_looking)

    def _remembered(self, session_id: str) -> list[Turn]:
        since = now() - timedelta(hours=self._retention.conversation_ttl_hours)
        return [turn for turn in self._recent.turns(session_id) if turn.created_at > since]

    async def _keep_looking(self) -> None:
        while self._is_away and not self._stopping.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), self._probe)
            if not self._stopping.is_set():
                await self._look()

    async def _look(self) -> None:
        """Write what is held, in order; when nothing is left, the ledger is back."""
        while True:
            for said in self._holding.waiting():
                try:
                    turn = await self._ledger.write(said)
                    self._recent.note(said.session_id, (turn,))
                    count("turn_writes_ok")
                except LedgerError as error:
                    _tell_failure("catch_up", said.session_id, said.user_id, error)
                    return
                except (Foreign, ContextInfinityError) as error:  # it never can be written
                    _tell_failure("catch_up", said.session_id, said.user_id, error)
                self._holding.let_go(said.id)
            try:
                await self._ledger.ask()
            except LedgerError:
                return
            with self._lock:
                if not self._holding.waiting():
                    self._is_away = self._is_looking = False
                    return

    # --- cleaning ---

    def _clean_now_and_then(self) -> None:
        with self._lock:
            if time.monotonic() < self._clean_at:
                return
            self._clean_at = time.monotonic() + self._retention.cleanup_interval_hours * 3600
        self._loop.begin(self._ledger.clean_up)


def _tell_failure(operation: str, session_id: str, user_id: str | None, error: Exception) -> None:
    words = "conversation memory: operation=%s session_id=%s user_id=%s error=%s"
    told = {"operation": operation, "session_id": session_id, "user_id": user_id, "error": str(error)}
    log.error(words, *told.values(), extra=told)


async def _within(seconds: float, work: Coroutine[Any, Any, T]) -> T:
    try:
        return await asyncio.wait_for(work, seconds)
    except TimeoutError as error:
        raise LedgerBusy(f"The ledger did not answer within {seconds:g} seconds.") from error


async def _context(session_id: str, query: str, history: list[Turn]) -> QueryContext:
    from contextinfinity.prompt.layout import CONTEXTUALISED
    from contextinfinity.rewriting import FollowUp, Offline, rewrite  # what it knows of words takes time to load
    from contextinfinity.threads.values import Turn as Said

    said = [pair for turn in history for pair in (("user", turn.query_text), ("assistant", turn.response_text))]
    before = tuple(Said(role=role, content=content) for role, content in said)
    told = await rewrite(Offline(), FollowUp(latest_user_message=query, recent_history=before, thread_id=session_id))
    beside = "" if told.query.strip() == query.strip() else f"\n\n{CONTEXTUALISED}\n{told.query}"
    messages = [{"role": role, "content": content} for role, content in (*said, ("user", query + beside))]
    return QueryContext(
        session_id=session_id,
        query=query,
        resolved_query=told.query,
        history=history,
        messages=messages,
        entities=list(told.entities),
        is_ambiguous=told.is_ambiguous,
        disambiguation_data=told.disambiguation_data,
    )
