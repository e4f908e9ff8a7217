"""Deletion in the backend of threads that is used beside the ledger: Redis, or the registry of this process.

Only threads of the owner that ``contextinfinity.threads`` acts for have a copy; its name is the thread id.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

from contextinfinity.domain.session import Owner, Session
from contextinfinity.domain.thread import Turn as ThreadTurn
from contextinfinity.domain.thread import logged
from contextinfinity.domain.turn import Turn


class ErasableThreads(Protocol):
    """A backend of threads whose turns can be removed."""

    def clear(self, thread_id: str) -> None:
        """Remove all turns of a thread."""
        ...

    def remove(self, thread_id: str, turns: Sequence[ThreadTurn]) -> None:
        """Remove one turn of a thread for each of these; what is not there is ignored."""
        ...

    def close(self) -> None:
        """Release files and connections."""
        ...


class CopiedThreads:
    """A ``ThreadCopy`` in the backend that ``open_threads`` opens."""

    def __init__(self, open_threads: Callable[[], ErasableThreads]) -> None:
        self._open_threads = open_threads

    async def clear(self, session: Session, turn: Turn | None = None) -> None:
        """Remove the thread of a session, or what one turn says."""
        if session.owner == Owner():
            name = session.external_id or session.id
            await asyncio.to_thread(self._clear, name, None if turn is None else logged(turn))

    def _clear(self, name: str, turns: Sequence[ThreadTurn] | None) -> None:
        threads = self._open_threads()
        try:
            if turns is None:
                threads.clear(name)
            else:
                threads.remove(name, turns)
        finally:
            threads.close()
