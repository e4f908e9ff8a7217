"""``ConversationMemory``: conversations that are kept for a day, or as long as the settings say.

A session is a ledger session of kind ``chat``; its turns are recorded unchanged. Each method runs its work on a private
event loop and waits, so that it can be called with or without a running loop and from any OS thread. During an outage
of the ledger the store spools data; only ``is_degraded`` shows that.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Coroutine
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from contextinfinity.compat.chat_sessions import (
    ChatLedger,
    ForeignSession,
    QueryContext,
    Turn,
    check_text,
    check_user,
    checked_limit,
    checked_metadata,
    checked_session,
    known_session,
)
from contextinfinity.domain.ids import new_id, now
from contextinfinity.domain.message import say
from contextinfinity.domain.session import CleanupResult
from contextinfinity.domain.turn import Exchange
from contextinfinity.errors import ContextInfinityError, LedgerClosed
from contextinfinity.settings import Settings
from contextinfinity.storage.contract import Store
from contextinfinity.storage.loop_thread import LoopThread

log = logging.getLogger(__name__)

T = TypeVar("T")

MOST_TURNS = 50
"""The maximum number of turns that ``get_session_history`` returns."""
PATIENCE_SECONDS = 10.0
"""How long a turn waits for a running turn of its session."""
FIRST_CLEANUP_SECONDS = 60.0
"""The delay of the first clean-up after the start."""
WIRING = "contextinfinity.wiring"
"""The package that opens a ledger from settings. It is a higher layer, so it is imported by name at run time."""


class ConversationMemory:
    """Stores conversations and returns their history.

    Without ``settings`` those of the machine are used, with ``data_dir`` as an override. The caller closes a
    ``store`` that it passes; if ``store`` is a function, the store is opened and closed here.
    """

    def __init__(
        self,
        data_dir: str | Path | None = None,
        *,
        settings: Settings | None = None,
        store: Store | Callable[[], Store] | None = None,
        patience: float = PATIENCE_SECONDS,
    ) -> None:
        from contextinfinity.settings import load_settings

        if settings is None:
            settings = load_settings(data_dir=None if data_dir is None else Path(data_dir)).settings
        self._retention = settings.retention
        opened = store or (lambda: import_module(WIRING).open_standby(settings))
        copies = import_module(WIRING).copies_in(settings) if store is None else None
        self._ledger = ChatLedger(opened, settings.retention, patience, copies)
        self._loop = LoopThread("conversation-memory")
        self._lock = threading.Lock()
        self._clean_at = time.monotonic() + FIRST_CLEANUP_SECONDS
        try:
            self._do("open", "-", None, self._ledger.open)
        except BaseException:
            self._loop.close(_nothing)
            raise

    # --- the five operations ---

    def create_session(self, user_id: str) -> str:
        """Create a conversation and return its id."""
        check_user(user_id)
        session_id = new_id()
        if not self._retention.stateless:
            self._do("create_session", session_id, user_id, lambda: self._ledger.session(session_id, user_id))
        return session_id

    def store_turn(
        self, session_id: str, user_id: str, query: str, response: str, metadata: dict[str, Any] | None = None
    ) -> Turn:
        """Store a query and its response; create the session if it does not exist.

        Raise ``ValueError`` with the field and the rule it breaks, before anything is written.
        """
        session_id = checked_session(session_id)
        check_user(user_id)
        check_text("query", query)
        check_text("response", response)
        kept = checked_metadata(metadata)
        turn_id, moment = new_id(), now()
        if self._retention.stateless:
            return Turn(
                id=turn_id,
                session_id=session_id,
                user_id=user_id,
                turn_number=1,
                query_text=query,
                response_text=response,
                created_at=moment,
                metadata=kept,
            )
        question, answer = say("user", query), say("assistant", response)
        said = Exchange(id=turn_id, message=question, answer=answer, created_at=moment, metadata=kept)
        turn = self._do("store_turn", session_id, user_id, lambda: self._ledger.write(session_id, user_id, said))
        self._clean_now_and_then()
        return turn

    def get_session_history(self, session_id: str, limit: int = MOST_TURNS) -> list[Turn]:
        """Return the newest turns, oldest first, at most 50; an unknown or invalid session has no turns."""
        known, limit = known_session(session_id), min(checked_limit(limit), MOST_TURNS)
        if known is None or limit < 1 or self._retention.stateless:
            return []
        return self._do("get_session_history", known, None, lambda: self._ledger.history(known, limit))

    def delete_session(self, session_id: str) -> int:
        """Delete a conversation with everything derived from it; return the number of its turns.

        Raise ``LedgerError`` if it could not be deleted.
        """
        known = known_session(session_id)
        return 0 if known is None else self._do("delete_session", known, None, lambda: self._ledger.delete(known))

    def get_context_for_query(self, session_id: str, query: str, limit: int | None = None) -> QueryContext:
        """Return the context for answering a query; the query itself is not stored."""
        check_text("query", query)
        history = self.get_session_history(session_id, self._retention.history_limit if limit is None else limit)
        return self._loop.wait(lambda: _context(session_id, query, history))

    # --- maintenance ---

    def cleanup_old_conversations(self) -> CleanupResult:
        """Delete what has expired now; this also runs every ``retention.cleanup_interval_hours``."""
        return self._loop.wait(self._ledger.clean_up)

    @property
    def is_degraded(self) -> bool:
        """Whether the ledger is unavailable or lacks spooled data."""
        return self._loop.wait(self._ledger.is_degraded)

    def close(self) -> None:
        """Write spooled data if possible, and close the ledger. Closing twice does nothing."""
        self._loop.close(self._ledger.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _do(
        self, operation: str, session_id: str, user_id: str | None, work: Callable[[], Coroutine[Any, Any, T]]
    ) -> T:
        """Run an operation on the ledger; failures are logged without message text and raised."""
        try:
            return self._loop.wait(work)
        except ForeignSession as error:
            raise ValueError("user_id: it must be the user the session belongs to.") from error
        except LedgerClosed:
            raise
        except ContextInfinityError as error:
            words = "conversation memory: operation=%s session_id=%s user_id=%s error=%s"
            details = {"operation": operation, "session_id": session_id, "user_id": user_id, "error": str(error)}
            log.error(words, *details.values(), extra=details)
            raise

    def _clean_now_and_then(self) -> None:
        with self._lock:
            if time.monotonic() < self._clean_at:
                return
            self._clean_at = time.monotonic() + self._retention.cleanup_interval_hours * 3600
        self._loop.begin(self._ledger.clean_up)


async def _nothing() -> None:
    """Do nothing."""


async def _context(session_id: str, query: str, history: list[Turn]) -> QueryContext:
    from contextinfinity.domain.thread import Turn as Said
    from contextinfinity.prompt.layout import CONTEXTUALISED
    from contextinfinity.rewriting import (
        FollowUp,
        OfflineRewriter,
        rewrite,
    )  # slow to import: word lists

    said = [pair for turn in history for pair in (("user", turn.query_text), ("assistant", turn.response_text))]
    before = tuple(Said(role=role, content=content) for role, content in said)
    details = await rewrite(
        OfflineRewriter(), FollowUp(latest_user_message=query, recent_history=before, thread_id=session_id)
    )
    beside = "" if details.query.strip() == query.strip() else f"\n\n{CONTEXTUALISED}\n{details.query}"
    messages = [{"role": role, "content": content} for role, content in (*said, ("user", query + beside))]
    return QueryContext(
        session_id=session_id,
        query=query,
        resolved_query=details.query,
        history=history,
        messages=messages,
        entities=list(details.entities),
        is_ambiguous=details.is_ambiguous,
        disambiguation_data=details.disambiguation_data,
    )
