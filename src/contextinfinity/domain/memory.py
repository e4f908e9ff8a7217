"""Facts kept across conversations.

A memory is one sentence drawn from what a user said, with the turn and span it came from and the time it
held. One function makes the tags it is stored and found under.
"""

from __future__ import annotations

from datetime import datetime
from typing import Literal, TypeAlias

from msgspec import Struct

from contextinfinity.domain.chunk import Embedding
from contextinfinity.domain.ids import BranchId, MemoryId, Position, SessionId, TurnId
from contextinfinity.domain.session import Owner

MemoryKind: TypeAlias = Literal["self", "preference", "wish", "plan", "note"]
"""What somebody is or has, likes or not, wants of the assistant, has planned for a day, or asked to be noted."""
MemoryOrigin: TypeAlias = Literal["drawn", "asked", "person"]
"""Drawn from talk; said with "remember that"; or written by a person's own hand, added or edited."""

ANONYMOUS = "anonymous"
"""Whoever did not say who they are: many people, so nothing of them follows from thread to thread."""
LONGEST_MEMORY = 500


class Memory(Struct, frozen=True, kw_only=True):
    """One fact about a user or a thread. ``about`` names what can be true once only, such as where somebody lives.

    ``valid_from`` is when it was last said, ``valid_to`` the end of what it speaks of, or when something else was said.
    """

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
    kind: MemoryKind = "note"
    about: str = ""
    origin: MemoryOrigin = "drawn"
    weight: int = 0
    """How much it belongs into every prompt."""

    @property
    def position(self) -> Position:
        """Where it stands in its owner's list."""
        return Position(self.created_at, self.id)


class NewMemory(Struct, frozen=True, kw_only=True):
    """A fact to be kept: of a user, or with ``thread`` of that thread alone."""

    owner: Owner
    content: str
    said_at: datetime
    thread: SessionId | None = None
    kind: MemoryKind = "note"
    about: str = ""
    replaces: tuple[str, ...] = ()
    """What else it makes untrue, as other memories' ``about`` name it."""
    origin: MemoryOrigin = "drawn"
    confidence: float = 1.0
    weight: int = 0
    span: tuple[int, int] | None = None
    valid_to: datetime | None = None
    vector: Embedding | None = None


class Revision(Struct, frozen=True, array_like=True):
    """A version of an owner's memories: it differs after every addition, edit or removal."""

    count: int = 0
    newest: int = 0
    said_at: int = 0


class Extraction(Struct, frozen=True, kw_only=True):
    """What one turn changes in its owner's memories."""

    owner: Owner
    new: tuple[NewMemory, ...] | None = None
    """All memories of the turn; they replace those extracted from it before. None: those stay as they are."""
    forget: tuple[MemoryId, ...] = ()
    forget_at: datetime | None = None
    only_thread: SessionId | None = None
    """The only thread whose memories an anonymous user may forget or correct."""
    placed: tuple[MemoryId, ...] = ()
    """The memories that its prompt showed."""
    placed_at: datetime | None = None
    based_on: Revision | None = None
    """The memories it was reconciled with; it is written only while they are current. None: it depends on none."""


class Recall(Struct, frozen=True, kw_only=True):
    """Which memories are looked for: what one turn may see, by the words of its question."""

    owner: Owner
    session_id: SessionId
    branch_id: BranchId
    terms: tuple[str, ...]
    at: datetime
    oldest: datetime
    """What was neither said nor shown since then has expired."""
    other_branches: bool = False
    """Whether what was learned on lines that were left counts too."""
    most: int = 48
    """How many always matter at most; half as many are found by words."""


class MemoryMatch(Struct, frozen=True, kw_only=True):
    """A memory that may matter: how well its words match, and its vector with the name of who made it."""

    memory: Memory
    match: float = 0.0
    vector: Embedding | None = None


class MemoryRecall(Struct, frozen=True, kw_only=True):
    """What was found by words, and what always matters, the weightiest and newest first."""

    found: tuple[MemoryMatch, ...] = ()
    standing: tuple[MemoryMatch, ...] = ()


class MemoryReference(Struct, frozen=True, array_like=True):
    """A memory in a prompt, by its id and the beginning of its text's hash: the text is kept in one place only."""

    id: MemoryId
    digest: str


def container_tags(user_id: str, session_id: SessionId | None = None) -> tuple[str, ...]:
    """Name the shelf: the user's own, or with a session that thread's."""
    user = f"user:{user_id}"
    return (user,) if session_id is None else (user, f"thread:{session_id}")
