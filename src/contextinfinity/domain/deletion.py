"""What deleting removed."""

from __future__ import annotations

from msgspec import Struct

from contextinfinity.domain.ids import SessionId


class Removed(Struct, frozen=True, kw_only=True):
    """What one batch of a deletion took away; ``more``: there is more to take away in that session."""

    turns: int = 0
    sessions: int = 0
    more: bool = False


class Deleted(Struct, frozen=True, kw_only=True):
    """A conversation that is gone, and how many turns went with it.

    ``remaining``: where its text can still be found, and why; one sentence a place. Empty: nowhere that we know of.
    """

    thread_id: SessionId
    turns: int
    remaining: tuple[str, ...] = ()


class CleanupResult(Struct, frozen=True, kw_only=True):
    """What a clean-up did, how many seconds it took, and what went wrong; that is tried again the next time.

    ``remaining``: where deleted text can still be found, as in ``Deleted``.
    """

    sessions_deleted: int = 0
    turns_deleted: int = 0
    execution_time: float = 0.0
    errors: tuple[str, ...] = ()
    remaining: tuple[str, ...] = ()
