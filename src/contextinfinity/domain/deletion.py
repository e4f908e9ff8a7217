"""Results of deletions and clean-ups."""

from __future__ import annotations

from msgspec import Struct

from contextinfinity.domain.ids import SessionId, TurnId


class Removed(Struct, frozen=True, kw_only=True):
    """The result of one batch of a deletion; ``more`` is True while the session has more to remove."""

    turns: int = 0
    sessions: int = 0
    more: bool = False


class ScannedPlace(Struct, frozen=True, kw_only=True):
    """A place that was searched for deleted text: what was searched, and how many rows or samples were found there."""

    place: str
    scanned: str
    found: int = 0
    note: str = ""


class Deleted(Struct, frozen=True, kw_only=True):
    """The scope of a deletion: a turn, a conversation, or all conversations and memories of a user.

    ``remaining`` lists the places where deleted text may still exist, one sentence each with the reason. It is empty
    when no such place is known. ``places`` is the proof, where one was asked for: every place that was searched.
    """

    thread_id: SessionId | None = None
    turn_id: TurnId | None = None
    user_id: str | None = None
    conversations: int = 0
    turns: int = 0
    memories: int = 0
    remaining: tuple[str, ...] = ()
    places: tuple[ScannedPlace, ...] = ()


class CleanupResult(Struct, frozen=True, kw_only=True):
    """The result of a clean-up: deletions, seconds and errors; failed deletions are retried by the next one.

    ``remaining`` lists places where deleted text may still exist, as in ``Deleted``.
    """

    sessions_deleted: int = 0
    turns_deleted: int = 0
    execution_time: float = 0.0
    errors: tuple[str, ...] = ()
    remaining: tuple[str, ...] = ()
