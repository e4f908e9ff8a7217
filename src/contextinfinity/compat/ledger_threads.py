"""The durable backends of threads: the ledger, and Redis or Valkey.

In the ledger a thread is the owner's session whose ``external_id`` (or id) is the thread id; its turns are those of the
active branch. Logged turns are recorded unchanged: final from the start, without a worker, outside recovery. A user,
system or tool turn of the log opens a ledger turn, and an assistant turn right after it is its answer; any other is a
ledger turn by itself. Read back, a ledger turn yields its message and its answer, so that all four roles are preserved
in any order. Clearing activates an empty branch; the old turns stay in the ledger.

In Redis a thread is a list. Its first entry holds the storage format and the thread's identity, so that a thread
without turns exists as well; every further entry is a turn as JSON. Each change is one atomic command or script. What
survives a crash of the server depends on its persistence: if nothing may be lost, use the ledger, or shadow one with
the other.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar
from weakref import WeakValueDictionary

import msgspec
import redis

from contextinfinity.compat.threads import window_start
from contextinfinity.domain.ids import is_id, new_id
from contextinfinity.domain.message import say
from contextinfinity.domain.session import NewSession, Owner, Session
from contextinfinity.domain.thread import ROLES, Thread, Turn, logged
from contextinfinity.errors import AlreadyExists, LedgerCorrupt, LedgerFailed, NotFound, OutOfOrder
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


SECONDS = 2.0
"""The timeout of a server request."""

_APPEND = """
if redis.call('EXISTS', KEYS[1]) == 0 then redis.call('RPUSH', KEYS[1], ARGV[1]) end
if ARGV[2] then redis.call('RPUSH', KEYS[1], ARGV[2]) end
return 1
"""


class _Opening(msgspec.Struct, frozen=True):
    """The first entry of a list."""

    v: int
    id: str


class _StoredTurn(msgspec.Struct, frozen=True):
    """The stored form of a turn."""

    role: str
    content: str


class RedisThreads:
    """A ``ThreadLog`` on a Redis or Valkey server; ``prefix`` precedes every key."""

    def __init__(self, url: str, *, prefix: str = "contextinfinity:thread:") -> None:
        self._name = url.rpartition("@")[2]
        self._prefix = prefix
        self._client: Any = redis.Redis.from_url(url, socket_timeout=SECONDS, socket_connect_timeout=SECONDS)
        self._append = self._client.register_script(_APPEND)
        self._given: WeakValueDictionary[str, LedgerThread] = WeakValueDictionary()
        self._giving = threading.Lock()

    def get(self, thread_id: str) -> Thread | None:
        """Return a thread, the same object as long as it is referenced; None if there is none."""
        with self._translated():
            return self._view(thread_id) if self._client.exists(self._key(thread_id)) else None

    def get_or_create(self, thread_id: str) -> Thread:
        """Return a thread; create an empty one if there is none."""
        with self._translated():
            self._append(keys=[self._key(thread_id)], args=[_opening()])
        return self._view(thread_id)

    def history(self, thread_id: str, max_turns: int) -> list[Turn]:
        """Return the newest turns; read backwards until the start of the window is known."""
        size = min(max(max_turns, 2), LARGEST_PAGE) + 1
        with self._translated():
            while True:
                entries: list[bytes] = self._client.lrange(self._key(thread_id), -size, -1)
                if not entries:
                    return []
                whole = len(entries) < size or entries[0].startswith(b'{"v":')
                if whole:
                    self._check(entries.pop(0), thread_id)
                turns = [_turn(entry) for entry in entries]
                start = window_start(turns, max_turns, whole=whole)
                if start is not None:
                    return turns[start:]
                size *= 2

    def add(self, thread_id: str, turn: Turn) -> None:
        """Append one turn; create the thread if there is none."""
        with self._translated():
            self._append(keys=[self._key(thread_id)], args=[_opening(), _entry(turn)])

    def clear(self, thread_id: str) -> None:
        """Remove all turns; the thread stays."""
        with self._translated():
            self._client.ltrim(self._key(thread_id), 0, 0)

    def remove(self, thread_id: str, turns: Sequence[Turn]) -> None:
        """Remove one turn for each of these; what is not there is ignored."""
        with self._translated():
            for turn in turns:
                self._client.lrem(self._key(thread_id), 1, _entry(turn))

    def identity(self, thread_id: str) -> str | None:
        """Return the identity of the stored list; None if there is no such thread."""
        with self._translated():
            first: bytes | None = self._client.lindex(self._key(thread_id), 0)
            return None if first is None else f"list {self._check(first, thread_id).id}"

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _key(self, thread_id: str) -> str:
        return self._prefix + thread_id

    def _view(self, thread_id: str) -> LedgerThread:
        with self._giving:
            view = self._given.get(thread_id)
            if view is None:
                view = self._given[thread_id] = LedgerThread(thread_id, partial(self.history, thread_id, ALL))
            return view

    def _check(self, entry: bytes, thread_id: str) -> _Opening:
        opening = msgspec.json.decode(entry, type=_Opening)
        if opening.v > FORM:
            raise LedgerCorrupt(
                f"Thread {thread_id} in Redis has format version {opening.v}; this release reads versions up "
                f"to {FORM}.",
                hint="Upgrade ContextInfinity; the thread was left as it is.",
            )
        return opening

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except redis.ResponseError as error:
            raise LedgerFailed(f"The Redis server {self._name} returned an error: {error}.", hint=_HINT) from error
        except redis.RedisError as error:
            raise LedgerFailed(f"The Redis server {self._name} cannot be reached: {error}.", hint=_HINT) from error
        except msgspec.MsgspecError as error:
            raise LedgerCorrupt(f"Redis holds something under {self._prefix} that is no thread: {error}.") from error


_HINT = "Check that the server runs and that storage.redis_url is right, then try again."


def _opening() -> bytes:
    return msgspec.json.encode(_Opening(FORM, new_id()))


def _entry(turn: Turn) -> bytes:
    return msgspec.json.encode(_StoredTurn(turn.role, turn.content))


def _turn(entry: bytes) -> Turn:
    said = msgspec.json.decode(entry, type=_StoredTurn)
    return Turn(role=said.role, content=said.content)
