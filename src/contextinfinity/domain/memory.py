"""Facts kept across conversations.

A memory is one sentence drawn from what a user said, with the turn and span it came from and the time it
held. One function makes the tags it is stored and found under.
"""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from contextinfinity.domain.ids import MemoryId, SessionId, TurnId
from contextinfinity.domain.session import Owner


class Memory(Struct, frozen=True, kw_only=True):
    """One fact about a user or a thread."""

    id: MemoryId
    owner: Owner
    content: str
    tags: tuple[str, ...]
    created_at: datetime
    confidence: float = 1.0
    source_turn: TurnId | None = None
    source_span: tuple[int, int] | None = None
    valid_from: datetime | None = None
    valid_to: datetime | None = None
    last_placed_at: datetime | None = None
    superseded_by: MemoryId | None = None


def container_tags(user_id: str, session_id: SessionId | None = None) -> tuple[str, ...]:
    """Name the shelf: the user's own, or with a session that thread's."""
    user = f"user:{user_id}"
    return (user,) if session_id is None else (user, f"thread:{session_id}")
