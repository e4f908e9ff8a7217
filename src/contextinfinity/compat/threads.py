"""The functions of ``contextinfinity.threads``, and the backend they use.

The backend is chosen on first use: the one passed to ``use``, otherwise the one from the settings.
"""

from __future__ import annotations

import threading
from importlib import import_module
from typing import TYPE_CHECKING

from contextinfinity.compat.thread_log import DEFAULT_WINDOW, ThreadLog
from contextinfinity.domain.thread import Thread, Turn, can_be_a_thread, check_thread_id, check_turn

if TYPE_CHECKING:
    from contextinfinity.settings import Settings

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
