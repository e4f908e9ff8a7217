"""Results of deletions and clean-ups."""

from __future__ import annotations

from msgspec import Struct

from contextinfinity.domain.ids import SessionId


class Removed(Struct, frozen=True, kw_only=True):
    """What one batch of a deletion removed; ``more`` is True while the session has more to remove."""

    turns: int = 0
    sessions: int = 0
    more: bool = False


class Deleted(Struct, frozen=True, kw_only=True):
    """A deleted conversation and the number of turns deleted with it.

    ``remaining`` lists the places where its text may still exist, one sentence each with the reason. It is empty when
    no such place is known.
    """

    thread_id: SessionId
    turns: int
    remaining: tuple[str, ...] = ()


class CleanupResult(Struct, frozen=True, kw_only=True):
    """What a clean-up deleted, how many seconds it took, and its errors; failed deletions are retried by the next one.

    ``remaining`` lists places where deleted text may still exist, as in ``Deleted``.
    """

    sessions_deleted: int = 0
    turns_deleted: int = 0
    execution_time: float = 0.0
    errors: tuple[str, ...] = ()
    remaining: tuple[str, ...] = ()
