"""The functions of ``contextinfinity.threads``, the contract of their backends, and the in-process backend.

The backend is chosen on first use: the one passed to ``use``, otherwise the one from the settings.

The contract of a backend:

- **unknown**: reading an unknown thread returns None or an empty list and creates nothing; writing creates it.
- **immediate**: when a method that changes something has returned, every reader sees the change.
- **validated**: callers pass ids and turns that ``domain.thread`` has accepted.
- Any number of OS threads may call concurrently; none of them needs an event loop.

``THREADS`` is the registry of the in-process backend: one dict with the same thread object each time, lost when the
process ends. It may be read; only this module changes it, and neither a thread in it nor its list of turns is replaced.
The registry is bounded, because its data is stored nowhere else. At the limit, threads without turns are evicted, least
recently used first. If there are none, a further turn is rejected with ``Refused`` before any of it is stored.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Protocol

from contextinfinity.domain.thread import Thread, Turn, can_be_a_thread, check_thread_id, check_turn
from contextinfinity.errors import Refused

if TYPE_CHECKING:
    from contextinfinity.settings import Settings

SMALLEST_WINDOW = 2
DEFAULT_WINDOW = 20

THREADS: dict[str, Thread] = {}

MOST_THREADS = 100_000
MOST_CHARACTERS = 200_000_000
"""The maximum number of characters of all threads together."""
TURN_CHARACTERS = 100
"""The overhead of a turn in characters, so that empty ones count as well."""

ROOM = 'Clear threads that are no longer needed, or store them in the ledger: [storage] threads = "ledger".'


class ThreadLog(Protocol):
    """A backend that stores threads."""

    def get(self, thread_id: str) -> Thread | None:
        """Return a thread, the same object each time; None if there is none."""
        ...

    def get_or_create(self, thread_id: str) -> Thread:
        """Return a thread; create an empty one if there is none."""
        ...

    def history(self, thread_id: str, max_turns: int) -> list[Turn]:
        """Return a copy of the newest turns, oldest first, from ``window_start`` on; empty if there is no such
        thread.
        """
        ...

    def add(self, thread_id: str, turn: Turn) -> None:
        """Append one turn; create the thread if there is none."""
        ...

    def clear(self, thread_id: str) -> None:
        """Clear the thread, which continues without turns; an unknown thread is not created."""
        ...

    def identity(self, thread_id: str) -> str | None:
        """Return the identity of the stored thread for logs, which does not change; None if there is no such thread."""
        ...

    def close(self) -> None:
        """Release files and OS threads. Closing twice does nothing."""
        ...


def window_start(turns: Sequence[Turn], most: int, *, whole: bool) -> int | None:
    """Return the index where a window of ``most`` turns begins among the newest turns of a thread.

    A window has at least ``most`` turns, and never fewer than two. One that omits turns begins with a user turn and
    contains the last answered user turn with its answer. ``whole`` means that these are all turns of the thread;
    otherwise None means that earlier turns must be read first.
    """
    cut = len(turns) - max(most, SMALLEST_WINDOW)
    if cut <= 0:
        return 0 if whole else None
    opening = _last_of("user", turns, cut)
    answer = _last_of("assistant", turns, len(turns) - 1)
    asked = None if answer is None else _last_of("user", turns, answer)
    if not whole and (opening is None or asked is None):
        return None
    return min(cut if opening is None else opening, cut if asked is None else asked)


def _last_of(role: str, turns: Sequence[Turn], place: int) -> int | None:
    """Return the index of the last turn of a role up to ``place``."""
    while place >= 0 and turns[place].role != role:
        place -= 1
    return None if place < 0 else place


class InProcessThreads:
    """A ``ThreadLog`` in a dict."""

    def __init__(
        self, threads: dict[str, Thread], *, most_threads: int = MOST_THREADS, most_characters: int = MOST_CHARACTERS
    ) -> None:
        self._threads = threads
        self._most_threads = most_threads
        self._most_characters = most_characters
        self._sizes: dict[str, int] = {}
        self._characters = 0
        self._empty: OrderedDict[str, None] = OrderedDict()  # least recently used first
        self._lock = threading.RLock()

    def get(self, thread_id: str) -> Thread | None:
        """Return a thread, the same object each time; None if there is none."""
        with self._lock:
            if thread_id in self._empty:
                self._empty.move_to_end(thread_id)
            return self._threads.get(thread_id)

    def get_or_create(self, thread_id: str) -> Thread:
        """Return a thread; create an empty one if there is none."""
        with self._lock:
            return self.get(thread_id) or self._create(thread_id)

    def history(self, thread_id: str, max_turns: int) -> list[Turn]:
        """Return a copy of the newest turns."""
        with self._lock:
            thread = self.get(thread_id)
            return [] if thread is None else thread.turns[window_start(thread.turns, max_turns, whole=True) :]

    def add(self, thread_id: str, turn: Turn) -> None:
        """Append one turn; raise ``Refused`` if the registry is full."""
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

    def remove(self, thread_id: str, turns: Sequence[Turn]) -> None:
        """Remove one turn for each of these; what is not there is ignored."""
        with self._lock:
            thread = self._threads.get(thread_id)
            left = [] if thread is None else [*thread.turns]
            for turn in turns:
                if turn in left:
                    left.remove(turn)
            self.clear(thread_id)
            for turn in left:
                self.add(thread_id, turn)

    def identity(self, thread_id: str) -> str | None:
        """Return the identity of the thread object; None if there is no such thread."""
        thread = self.get(thread_id)
        return None if thread is None else f"object {id(thread)}"

    def close(self) -> None:
        """Do nothing: the registry lives as long as the process."""

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
"""The backend of the registry."""


WIRING = "contextinfinity.wiring"
"""The package that opens a backend from settings. It is a higher layer, so it is imported by name at run time."""


class _StoreInUse:
    """The backend in use. A backend that was opened here is closed here; one that was passed in is closed by its
    owner.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._settings: Settings | None = None
        self._given: ThreadLog | None = None
        self._opened: ThreadLog | None = None

    def change(self, *, given: ThreadLog | None = None, settings: Settings | None = None) -> None:
        with self._lock:
            former, self._opened = self._opened, None
            self._given, self._settings = given, settings
        if former is not None:
            former.close()

    def log(self) -> ThreadLog:
        with self._lock:
            if self._given is not None:
                return self._given
            if self._opened is None:
                self._opened = import_module(WIRING).open_threads(self._settings)
            return self._opened


_choice = _StoreInUse()


def place() -> ThreadLog:
    """Return the backend in use."""
    return _choice.log()


def use(place: ThreadLog | Settings | None) -> None:
    """Set the backend for threads, or the settings that choose it; None: the machine's settings.

    Threads are not moved: those of the previous backend are not visible in the new one.
    """
    from contextinfinity.settings import Settings

    if isinstance(place, Settings):
        _choice.change(settings=place)
    else:
        _choice.change(given=place)


def get_thread(thread_id: str) -> Thread | None:
    """Return a thread; None if there is none."""
    return _choice.log().get(thread_id) if can_be_a_thread(thread_id) else None


def get_or_create_thread(thread_id: str) -> Thread:
    """Return a thread; create an empty one if there is none."""
    check_thread_id(thread_id)
    return _choice.log().get_or_create(thread_id)


def get_history(thread_id: str, max_turns: int = DEFAULT_WINDOW) -> list[Turn]:
    """Return a copy of the newest turns, oldest first; an empty list if there is no such thread.

    ``max_turns`` below 2 is treated as 2. A window begins with a user turn and contains the last answered one with
    its answer, and is longer than ``max_turns`` if necessary.
    """
    return _choice.log().history(thread_id, max_turns) if can_be_a_thread(thread_id) else []


def add_turn(thread_id: str, turn: Turn) -> None:
    """Append one turn to a thread; create the thread if there is none."""
    check_thread_id(thread_id)
    check_turn(turn)
    _choice.log().add(thread_id, turn)


def clear_thread(thread_id: str) -> None:
    """Clear a thread: in process the list is emptied, in the ledger an empty branch becomes active."""
    if can_be_a_thread(thread_id):
        _choice.log().clear(thread_id)


def identity(thread_id: str) -> str | None:
    """Return the identity of a thread for logs: its object or its branch; None if there is no such thread."""
    return _choice.log().identity(thread_id) if can_be_a_thread(thread_id) else None
