"""What deleting removed."""

from __future__ import annotations

from msgspec import Struct

from contextinfinity.domain.ids import SessionId, StepId


class Removed(Struct, frozen=True, kw_only=True):
    """What one batch of a deletion took away; ``more``: there is more to take away in that session.

    ``steps``: provider calls that are gone; their journals are files beside the ledger and go by themselves.
    """

    turns: int = 0
    sessions: int = 0
    steps: tuple[StepId, ...] = ()
    more: bool = False


class Deleted(Struct, frozen=True, kw_only=True):
    """A conversation that is gone, and how many turns went with it."""

    thread_id: SessionId
    turns: int


class CleanupResult(Struct, frozen=True, kw_only=True):
    """What a clean-up did, how many seconds it took, and what went wrong; that is tried again the next time."""

    sessions_deleted: int = 0
    turns_deleted: int = 0
    execution_time: float = 0.0
    errors: tuple[str, ...] = ()
