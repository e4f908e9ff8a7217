"""A small log of conversations: a thread is an id and its turns.

    add_turn("my-thread", Turn(role="user", content="Who is Donald Trump?"))
    get_history("my-thread")

These functions are plain calls: they work with or without a running event loop and from any OS thread, and when
``add_turn`` has returned, every caller can read the turn. Only ``add_turn`` and ``clear_thread`` change a thread, and
reading creates nothing. Where the turns are kept is a setting, ``[storage] threads``; ``use`` names another place.
"""

from __future__ import annotations

from contextinfinity.compat.threads import (
    THREADS,
    ThreadLog,
    add_turn,
    clear_thread,
    get_history,
    get_or_create_thread,
    get_thread,
    identity,
    use,
)
from contextinfinity.domain.thread import Thread, Turn

__all__ = [
    "THREADS",
    "Thread",
    "ThreadLog",
    "Turn",
    "add_turn",
    "clear_thread",
    "get_history",
    "get_or_create_thread",
    "get_thread",
    "identity",
    "use",
]
