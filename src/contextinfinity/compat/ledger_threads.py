"""Threads in the ledger: durable, and shared by all workers on it.

A thread is the owner's session whose ``external_id`` (or id) is the thread id; its turns are those of the active
branch. Logged turns are recorded unchanged: final from the start, without a worker, outside recovery. A user, system or
tool turn of the log opens a ledger turn, and an assistant turn right after it is its answer; any other is a ledger turn
by itself. Read back, a ledger turn yields its message and its answer, so that all four roles are preserved in any
order. Clearing activates an empty branch; the old turns stay in the ledger.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from contextinfinity.compat.thread_log import window_start
from contextinfinity.domain.ids import is_id
from contextinfinity.domain.message import say
from contextinfinity.domain.session import NewSession, Owner, Session
from contextinfinity.domain.thread import ROLES, Thread, Turn, logged
from contextinfinity.errors import AlreadyExists, NotFound, OutOfOrder
from contextinfinity.storage.contract import Store
from contextinfinity.storage.loop_thread import LOOK_SECONDS, LOOP_SECONDS, PATIENCE_SECONDS, LoopThread, in_a_loop

T = TypeVar("T")

ALL = 2**31 - 1
LARGEST_PAGE = 4096
FORM = 1
"""The version of the storage format."""


class LedgerThread(Thread):
    """A live view of a thread: ``turns`` is a copy of its current turns in the ledger."""

    def __init__(self, thread_id: str, read: Callable[[], list[Turn]]) -> None:
        super().__init__(thread_id)
        self._read = read

    @property
    def turns(self) -> list[Turn]:
        """The turns of the thread; changing the copy has no effect."""
        return self._read()


class LedgerThreads:
    """A ``ThreadLog`` on a ledger, which it closes when it is closed.

    ``patience`` is the number of seconds to wait for a running turn of the same branch. Called inside an event loop
    it waits only briefly, because that turn may run on the same loop.
    """

    def __init__(self, store: Store, *, owner: Owner | None = None, patience: float = PATIENCE_SECONDS) -> None:
        self._store = store
        self._owner = owner or Owner()
        self._patience = patience
        self._loop = LoopThread("threads")
        self._given: WeakValueDictionary[str, LedgerThread] = WeakValueDictionary()
        self._giving = threading.Lock()

    def get(self, thread_id: str) -> Thread | None:
        """Return a thread, the same object as long as it is referenced; None if there is none."""
        session = self._loop.wait(lambda: self._find(thread_id))
        return None if session is None else self._view(thread_id)

    def get_or_create(self, thread_id: str) -> Thread:
        """Return a thread; create an empty one if there is none."""
        self._loop.wait(lambda: self._find_or_create(thread_id))
        return self._view(thread_id)

    def history(self, thread_id: str, max_turns: int) -> list[Turn]:
        """Return the newest turns, oldest first."""
        return self._loop.wait(lambda: self._history(thread_id, max_turns))

    def read(self, thread_id: str, work: Callable[[Store, Session], Coroutine[Any, Any, T]]) -> T | None:
        """Run ``work`` with the ledger and the session of a thread; return None if there is no such thread."""

        async def run() -> T | None:
            session = await self._find(thread_id)
            return None if session is None else await work(self._store, session)

        return self._loop.wait(run)

    def add(self, thread_id: str, turn: Turn) -> None:
        """Record one turn durably."""
        patience = min(self._patience, LOOP_SECONDS) if in_a_loop() else self._patience
        self._loop.wait(lambda: self._add(thread_id, turn, patience))

    def clear(self, thread_id: str) -> None:
        """Activate an empty branch."""
        self._loop.wait(lambda: self._clear(thread_id))

    def identity(self, thread_id: str) -> str | None:
        """Return the name of the active branch; None if there is no such thread."""
        session = self._loop.wait(lambda: self._find(thread_id))
        return None if session is None else f"branch {session.active_branch}"

    def close(self) -> None:
        """Finish pending operations, then close the ledger."""
        self._loop.close(self._store.close)

    def _view(self, thread_id: str) -> LedgerThread:
        with self._giving:
            view = self._given.get(thread_id)
            if view is None:
                view = self._given[thread_id] = LedgerThread(thread_id, partial(self.history, thread_id, ALL))
            return view

    # --- on the event loop ---

    async def _find(self, thread_id: str) -> Session | None:
        session = await self._store.sessions.get(thread_id) if is_id(thread_id) else None
        if session is None:
            return await self._store.sessions.find(self._owner, thread_id)
        return session if session.owner == self._owner else None

    async def _find_or_create(self, thread_id: str) -> Session:
        while (session := await self._find(thread_id)) is None:
            if is_id(thread_id) and await self._store.sessions.get(thread_id) is not None:
                raise NotFound(f"There is no conversation {thread_id}.")  # it belongs to another owner
            try:
                return await self._store.sessions.create(NewSession(owner=self._owner, external_id=thread_id))
            except AlreadyExists:  # created concurrently: find it
                continue
        return session

    async def _history(self, thread_id: str, most: int) -> list[Turn]:
        """Read backwards, page by page, until the start of the window is known."""
        session = await self._find(thread_id)
        turns: list[Turn] = []
        before, size, whole = None, min(max(most, 2), LARGEST_PAGE), session is None
        while session is not None and not whole and window_start(turns, most, whole=False) is None:
            page = await self._store.turns.history(session.active_branch, limit=size, before=before)
            turns[:0] = [said for turn in page for said in logged(turn)]
            whole = len(page) < size
            before = page[0].turn_seq if page else before
            size = min(2 * size, LARGEST_PAGE)
        return turns[window_start(turns, most, whole=whole) :]

    async def _add(self, thread_id: str, turn: Turn, patience: float) -> None:
        message = say(ROLES[turn.role], turn.content)
        clock = asyncio.get_running_loop().time
        end = clock() + patience
        while True:
            branch = (await self._find_or_create(thread_id)).active_branch
            try:
                await self._store.turns.log(branch, message, metadata={"threads": FORM})
                return
            except OutOfOrder:  # a turn of this branch is running, usually only for a moment
                if clock() > end:
                    raise
            await asyncio.sleep(LOOK_SECONDS)

    async def _clear(self, thread_id: str) -> None:
        session = await self._find(thread_id)
        if session is not None and await self._store.turns.history(session.active_branch, limit=1):
            await self._store.branches.rollback(session.active_branch, state=0)
