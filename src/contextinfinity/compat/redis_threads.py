"""Threads in Redis or Valkey: fast, and shared by every process that uses the server.

A thread is a list. Its first entry holds the storage format and the thread's identity, so that a thread without turns
exists as well; every further entry is a turn as JSON. Each change is one atomic command or script. What survives a
crash of the server depends on its persistence: if nothing may be lost, use the ledger, or shadow one with the other.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any
from weakref import WeakValueDictionary

import msgspec
import redis

from contextinfinity.compat.ledger_threads import ALL, LedgerThread
from contextinfinity.compat.thread_log import window_start
from contextinfinity.domain.ids import new_id
from contextinfinity.domain.thread import Thread, Turn
from contextinfinity.errors import LedgerCorrupt, LedgerFailed

FORM = 1
"""The version of the storage format."""

LARGEST_PAGE = 4096
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
