"""Threads in this process: one dict, the same thread object each time, gone when the process ends.

``THREADS`` is the registry. It is there to be looked at; only this module changes it, and a thread in it is never
replaced, nor is its list of turns.

The registry has a bound, since nothing here is kept anywhere else. At the bound, threads without turns make room,
the one unused for longest first: nothing is lost with them. When there is none, what would go beyond is refused
with ``Refused`` before any of it is kept: a turn that was acknowledged never leaves a thread unasked. (Threads of
the ledger take no room here: they are read where they are.)
"""

from __future__ import annotations

import threading
from collections import OrderedDict

from contextinfinity.errors import Refused
from contextinfinity.threads.values import Thread, Turn
from contextinfinity.threads.window import window_start

THREADS: dict[str, Thread] = {}

MOST_THREADS = 100_000
MOST_CHARACTERS = 200_000_000
"""Of all threads together."""
TURN_CHARACTERS = 100
"""What a turn counts for besides its words: empty ones take room, too."""

ROOM = 'Clear threads that nobody needs any more, or keep them in the ledger: [storage] threads = "ledger".'


class InProcessThreads:
    """``ThreadLog`` in a dict."""

    def __init__(
        self, threads: dict[str, Thread], *, most_threads: int = MOST_THREADS, most_characters: int = MOST_CHARACTERS
    ) -> None:
        self._threads = threads
        self._most_threads = most_threads
        self._most_characters = most_characters
        self._sizes: dict[str, int] = {}
        self._characters = 0
        self._empty: OrderedDict[str, None] = OrderedDict()  # the one unused for longest first
        self._lock = threading.RLock()

    def get(self, thread_id: str) -> Thread | None:
        """Give a thread, the same object each time."""
        with self._lock:
            if thread_id in self._empty:
                self._empty.move_to_end(thread_id)
            return self._threads.get(thread_id)

    def get_or_create(self, thread_id: str) -> Thread:
        """Give a thread, an empty one if there was none."""
        with self._lock:
            return self.get(thread_id) or self._create(thread_id)

    def history(self, thread_id: str, max_turns: int) -> list[Turn]:
        """Give a copy of the newest turns."""
        with self._lock:
            thread = self.get(thread_id)
            return [] if thread is None else thread.turns[window_start(thread.turns, max_turns, whole=True) :]

    def add(self, thread_id: str, turn: Turn) -> None:
        """Append one turn."""
        size = len(turn.content) + TURN_CHARACTERS
        with self._lock:
            if self._characters + size > self._most_characters:
                raise Refused(f"The threads of this process hold {self._characters:,} characters already.", hint=ROOM)
            self.get_or_create(thread_id).turns.append(turn)
            self._empty.pop(thread_id, None)
            self._count(thread_id, size)

    def clear(self, thread_id: str) -> None:
        """Empty the list of turns; the thread stays."""
        with self._lock:
            if (thread := self._threads.get(thread_id)) is not None:
                thread.turns.clear()
                self._count(thread_id, -self._sizes.pop(thread_id, 0))
                self._empty[thread_id] = None
                self._empty.move_to_end(thread_id)

    def identity(self, thread_id: str) -> str | None:
        """Name the object."""
        thread = self.get(thread_id)
        return None if thread is None else f"object {id(thread)}"

    def close(self) -> None:
        """Do nothing: the registry is there as long as the process."""

    def _create(self, thread_id: str) -> Thread:
        if len(self._threads) >= self._most_threads:
            self._make_room()
        thread = self._threads[thread_id] = Thread(thread_id)
        self._empty[thread_id] = None
        return thread

    def _make_room(self) -> None:
        if not self._empty:
            raise Refused(f"This process holds {len(self._threads):,} threads already.", hint=ROOM)
        unused, _ = self._empty.popitem(last=False)
        del self._threads[unused]

    def _count(self, thread_id: str, size: int) -> None:
        self._characters += size
        if size > 0:
            self._sizes[thread_id] = self._sizes.get(thread_id, 0) + size


IN_PROCESS = InProcessThreads(THREADS)
"""The one that keeps the registry."""
