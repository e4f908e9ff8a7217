"""The deletion contract: the only way in which data leaves a ledger.

A deletion also removes all derived data: summaries, chunks, vectors, index words, plans, raw replies, and texts and
blobs that nothing else refers to. A tombstone stays (id, position, time, and the owner of a session), so that numbers
are never reused and a session id is never given to another owner.

Deleting a session starts with an intent row (``begin``), which is durable before anything is removed; from then on the
session cannot be found. Copies outside the ledger are removed next (see ``cutoffs``, ``doomed_steps`` and
``sessions_of``), then the ledger rows, one batch per transaction (``delete``, ``expire``). The last batch removes
the intent row. If the process is killed, the intent row remains, and ``due`` returns the session to the next process.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Protocol

from contextinfinity.domain.deletion import Removed
from contextinfinity.domain.ids import BranchId, SessionId, StepId, TurnId

BATCH = 200
"""Turns deleted per transaction; this blocks other writers for some ten milliseconds."""


class Deletions(Protocol):
    """Deletion of sessions and of expired turns."""

    async def due(self, *, limit: int = 100) -> tuple[SessionId, ...]:
        """Return sessions with expired turns or an unfinished deletion, the longest overdue first."""
        ...

    async def is_due(self, session_id: SessionId) -> bool:
        """Return whether ``expire`` may have something to do in a session; a single small read."""
        ...

    async def begin(self, session_id: SessionId) -> None:
        """Write the intent to delete a session with everything in it. A second call does nothing.

        Raises ``NotFound`` if it is unknown and ``BranchBusy`` while one of its turns waits or is being answered.
        """
        ...

    async def begun(self) -> tuple[SessionId, ...]:
        """Return the sessions with an unfinished deletion."""
        ...

    async def expire(self, session_id: SessionId, *, limit: int = BATCH) -> Removed:
        """Delete one batch of turns past the session's time to live, and the session itself when none are left.

        Turns that are not Done or Failed are kept until they are. An unfinished deletion is continued; unknown sessions
        are ignored. Summaries that cover deleted turns are deleted too and rebuilt from the remaining turns.
        """
        ...

    async def delete(self, session_id: SessionId, *, limit: int = BATCH) -> Removed:
        """Delete one batch of a session with everything in it; call it until nothing is left.

        The first call begins the deletion if needed, and raises the errors of ``begin``.
        """
        ...

    async def delete_turn(self, turn_id: TurnId) -> Removed:
        """Delete one committed or failed turn with everything derived from it, in one transaction; later turns stay.

        Raises ``NotFound`` if it is unknown and ``BranchBusy`` before it is committed.
        """
        ...

    async def rows_left(self, sessions: Collection[SessionId], turns: Collection[TurnId] = ()) -> dict[str, int]:
        """Count the rows of every table that still belong to sessions or turns; tombstones are not counted."""
        ...

    async def said(self, samples: Collection[str]) -> frozenset[str]:
        """Return which of these pieces of text any stored message, memory or title contains; reads all of them."""
        ...

    async def limit_retention(self, hours: float, *, user_id: str | None = None) -> int:
        """Return every session, or those of a user, at most this time to live; return how many were changed.

        A shorter time of a session's own stays.
        """
        ...

    async def cutoffs(self, sessions: Collection[SessionId]) -> dict[SessionId, datetime]:
        """Return the time up to which the text of each session is or must be deleted; others are left out."""
        ...

    async def steps_to_delete(self, steps: Collection[StepId]) -> frozenset[StepId]:
        """Return the steps of sessions that are being deleted, and of finished turns past their time to live."""
        ...

    async def stray_steps(self, steps: Collection[StepId]) -> frozenset[StepId]:
        """Return unknown steps that may have been deleted: something was deleted since they were created."""
        ...

    async def sessions_of(self, branches: Collection[BranchId]) -> dict[BranchId, SessionId]:
        """Return the session of each branch, also of deleted branches; unknown ones are left out."""
        ...

    async def sweep(self, *, steps: int = 16) -> bool:
        """Erase the remains of deletions from the file: index words, shared texts, free pages, the write-ahead log.

        Does at most ``steps`` steps and returns whether more can be done now.
        """
        ...

    async def is_wiped(self) -> bool:
        """Return whether the files of the ledger contain no deleted text.

        They contain some until ``sweep`` has finished, and while another process reads an older snapshot.
        """
        ...
