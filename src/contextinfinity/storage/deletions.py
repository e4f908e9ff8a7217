"""Deleting, in every store: the only way in which anything ever leaves a ledger.

What is deleted takes along all that was made from it: summaries, chunks, vectors, words, plans, raw replies, and texts
and blobs that nobody else uses. What stays is a tombstone: the id, the place, when, and whose a session was, so that
a number is never given twice, nor the id of a session to somebody else.
A batch is one transaction, so a crash leaves a session as it was before or after one; a deletion that was begun goes
on at the next clean-up, and its session is not there for anybody meanwhile.
"""

from __future__ import annotations

from typing import Protocol

from contextinfinity.domain.deletion import Removed
from contextinfinity.domain.ids import SessionId

BATCH = 200
"""How many turns one transaction deletes: it holds up others for some ten milliseconds."""


class Deletions(Protocol):
    """What is to go, and its going."""

    async def due(self, *, limit: int = 100) -> tuple[SessionId, ...]:
        """Name sessions with turns past their time to live, or whose deletion was begun; the longest overdue first."""
        ...

    async def expire(self, session_id: SessionId, *, limit: int = BATCH) -> Removed:
        """Delete turns that are past the session's time to live, and the session when none are left; once.

        Turns that are not Done or Failed wait. A deletion that was begun goes on. Unknown, or nothing to do: nothing.
        A summary that covered what is gone goes too, and is made anew of what is left.
        """
        ...

    async def delete(self, session_id: SessionId, *, limit: int = BATCH) -> Removed:
        """Delete a session with everything in it, a batch at a time: call it until there is no more.

        ``NotFound`` for an unknown one, ``BranchBusy`` while a turn of it waits or is being answered.
        """
        ...

    async def sweep(self, *, steps: int = 16) -> bool:
        """Wipe out what deletions left in the file: words in the index, shared texts, free pages, the log.

        A part of the work at a time; tells whether some is left.
        """
        ...
