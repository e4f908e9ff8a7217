"""Deleting, in every store: the only way in which anything ever leaves a ledger.

What is deleted takes along all that was made from it: summaries, chunks, vectors, words, plans, raw replies, and texts
and blobs that nobody else uses. What stays is a tombstone: the id, the place, when, and whose a session was, so that
a number is never given twice, nor the id of a session to somebody else.

Deleting a session starts with an intent row (``begin``), which is durable before anything is removed. From then on
nobody finds the session. Copies outside the ledger are removed next (``cutoffs``, ``doomed_steps`` and ``sessions_of``
say which), the rows of the ledger last, a batch per transaction (``delete``, ``expire``); the last batch removes the
intent row. A process that is killed leaves the intent row behind, and ``due`` names the session to the next process.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Protocol

from contextinfinity.domain.deletion import Removed
from contextinfinity.domain.ids import BranchId, SessionId, StepId

BATCH = 200
"""How many turns one transaction deletes: it holds up others for some ten milliseconds."""


class Deletions(Protocol):
    """What is to go, and its going."""

    async def due(self, *, limit: int = 100) -> tuple[SessionId, ...]:
        """Name sessions with turns past their time to live, or whose deletion was begun; the longest overdue first."""
        ...

    async def is_due(self, session_id: SessionId) -> bool:
        """Tell whether ``expire`` may have something to do in a session; a single small read."""
        ...

    async def begin(self, session_id: SessionId) -> None:
        """Write the intent to delete a session with everything in it. Beginning twice does nothing.

        ``NotFound`` for an unknown one, ``BranchBusy`` while a turn of it waits or is being answered.
        """
        ...

    async def begun(self) -> tuple[SessionId, ...]:
        """Name the sessions whose deletion was begun and has not ended."""
        ...

    async def expire(self, session_id: SessionId, *, limit: int = BATCH) -> Removed:
        """Delete turns that are past the session's time to live, and the session when none are left; once.

        Turns that are not Done or Failed wait. A deletion that was begun goes on. Unknown, or nothing to do: nothing.
        A summary that covered what is gone goes too, and is made anew of what is left.
        """
        ...

    async def delete(self, session_id: SessionId, *, limit: int = BATCH) -> Removed:
        """Delete a session with everything in it, a batch at a time: call it until there is no more.

        A deletion that was not begun is begun here, with the errors of ``begin``.
        """
        ...

    async def cutoffs(self, sessions: Collection[SessionId]) -> dict[SessionId, datetime]:
        """Say up to when what was said in sessions is gone or must go; a session with nothing to remove is left out."""
        ...

    async def doomed_steps(self, steps: Collection[StepId]) -> frozenset[StepId]:
        """Return the steps of sessions whose deletion was begun, and of turns that are over and past their time."""
        ...

    async def stray_steps(self, steps: Collection[StepId]) -> frozenset[StepId]:
        """Return the steps that are not known, if something was deleted since they were made: it may have been they."""
        ...

    async def sessions_of(self, branches: Collection[BranchId]) -> dict[BranchId, SessionId]:
        """Say to which session branches belong or, before they were deleted, belonged; unknown ones are left out."""
        ...

    async def sweep(self, *, steps: int = 16) -> bool:
        """Wipe out what deletions left in the file: words in the index, shared texts, free pages, the log.

        A part of the work at a time; tells whether some is left that can be done now.
        """
        ...

    async def is_wiped(self) -> bool:
        """Tell whether the files of the ledger hold nothing of what was deleted.

        They do as long as ``sweep`` has not ended, or while another process reads an older moment of the file.
        """
        ...
