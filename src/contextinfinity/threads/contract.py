"""What every backend of the small log can do.

- **unknown**: reading a thread that is not there gives None or an empty list and makes nothing; writing makes it.
- **at once**: what a verb that changes something has returned is there for every reader.
- **checked**: callers pass ids and turns that ``values`` has let through.
- Any number of OS threads may call at the same time; none of them needs an event loop.
"""

from __future__ import annotations

from typing import Protocol

from contextinfinity.threads.values import Thread, Turn


class ThreadLog(Protocol):
    """A place where threads are kept."""

    def get(self, thread_id: str) -> Thread | None:
        """Give a thread, the same object each time; None if there is none."""
        ...

    def get_or_create(self, thread_id: str) -> Thread:
        """Give a thread, an empty one if there was none."""
        ...

    def history(self, thread_id: str, max_turns: int) -> list[Turn]:
        """Give a copy of the newest turns, oldest first, as ``window`` says; empty if there is no such thread."""
        ...

    def add(self, thread_id: str, turn: Turn) -> None:
        """Append one turn, to a new thread if there was none."""
        ...

    def clear(self, thread_id: str) -> None:
        """Go on with no turns. A thread that is not there stays so."""
        ...

    def identity(self, thread_id: str) -> str | None:
        """Name what the thread is kept in, for the log: the same as long as the thread goes on; None: no thread."""
        ...

    def close(self) -> None:
        """Let go of files and OS threads. Closing twice does nothing."""
        ...
