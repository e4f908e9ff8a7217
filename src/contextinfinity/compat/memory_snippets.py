"""Memories from other conversations, as text for a context."""

from __future__ import annotations

import asyncio
import os
import threading
from importlib import import_module
from typing import TYPE_CHECKING, Protocol

from contextinfinity.domain.ids import is_id
from contextinfinity.domain.memory import ANONYMOUS
from contextinfinity.domain.session import Owner, Session
from contextinfinity.engine.engine_setup import Remembering
from contextinfinity.engine.recall import known_from, placeholder_session, recall_memories
from contextinfinity.storage.contract import Store
from contextinfinity.storage.loop_thread import LoopThread

if TYPE_CHECKING:
    from pathlib import Path

    from contextinfinity.settings import Settings

LONGEST_SNIPPET = 2000
WIRING = "contextinfinity.wiring"
"""The package that opens ledgers from settings. It is a higher layer, so it is imported by name at run time."""


class SnippetSource(Protocol):
    """Returns facts about users and threads."""

    async def snippet(self, question: str, *, thread_id: str, user_id: str | None, org_id: str | None) -> str | None:
        """Return relevant facts, one per line, at most ``LONGEST_SNIPPET`` characters; None if there are none."""
        ...


class LedgerSnippets:
    """A ``SnippetSource`` on a ledger: the user's memories, and those of the thread if it is theirs."""

    def __init__(self, store: Store, remembering: Remembering | None = None) -> None:
        self._store = store
        self._remembering = remembering or Remembering()

    async def snippet(self, question: str, *, thread_id: str, user_id: str | None, org_id: str | None) -> str | None:
        """Return the facts relevant to a question first, then the permanent ones; None if there are none."""
        owner = Owner(user_id=user_id or ANONYMOUS, org_id=org_id or "")
        session = await self._session(thread_id, owner)
        recalled = await recall_memories(
            self._store.memories, self._remembering, session, session.active_branch, question
        )
        return (await known_from(recalled, question, self._remembering.most)).text or None

    async def _session(self, thread_id: str, owner: Owner) -> Session:
        """Return the thread if it belongs to the owner, otherwise a placeholder session."""
        session = await self._store.sessions.get(thread_id) if is_id(thread_id) else None
        session = session or await self._store.sessions.find(owner, thread_id)
        return session if session is not None and session.owner == owner else placeholder_session(owner)


class ChosenMemories:
    """A ``SnippetSource`` on the configured ledger; it returns nothing while that ledger does not exist.

    The ledger stays open for the next question, on a private event loop, because callers may have different loops.
    It is reopened if the settings name another file, the file was replaced, or the process was forked.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._key: tuple[object, ...] = ()
        self._loop: LoopThread | None = None
        self._store: Store | None = None

    async def snippet(self, question: str, *, thread_id: str, user_id: str | None, org_id: str | None) -> str | None:
        """Return the facts of the configured ledger."""

        def ask() -> str | None:
            chosen = import_module(WIRING).remembered()
            if chosen is None:
                return None
            settings, remembering = chosen
            loop, store = self._open(settings, settings.ledger_path)
            memories = LedgerSnippets(store, remembering)
            return loop.wait(lambda: memories.snippet(question, thread_id=thread_id, user_id=user_id, org_id=org_id))

        return await asyncio.to_thread(ask)

    def _open(self, settings: Settings, path: Path) -> tuple[LoopThread, Store]:
        """Return the open ledger of these settings; close the one that was open before."""
        file = path.stat()
        key = (os.getpid(), path, file.st_dev, file.st_ino)
        with self._lock:
            if self._loop is None or self._store is None or key != self._key:
                if self._loop is not None and self._store is not None and self._key[0] == os.getpid():
                    self._loop.close(self._store.close)
                self._loop = self._store = None
                store = import_module(WIRING).open_store(settings)
                self._key, self._loop, self._store = key, LoopThread("memories"), store
            return self._loop, self._store


CHOSEN = ChosenMemories()
"""The instance that all builders share unless they are given another."""


def shortened(snippet: str | None) -> str | None:
    """Truncate a snippet that is too long, between two facts if possible; return None if it is blank."""
    if snippet is None or not snippet.strip():
        return None
    if len(snippet) <= LONGEST_SNIPPET:
        return snippet
    cut = snippet[: LONGEST_SNIPPET + 1]
    return cut[: cut.rfind("\n")] if "\n" in cut else cut[:LONGEST_SNIPPET]
