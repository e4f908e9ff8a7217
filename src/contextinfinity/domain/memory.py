"""Memories: facts kept across conversations.

A memory is one sentence extracted from a user's message, with its source turn and span and the time for which it is
valid. ``container_tags`` makes the tags under which it is stored and found.
"""

from __future__ import annotations

from datetime import datetime
from typing import Literal, TypeAlias

from msgspec import Struct

from contextinfinity.domain.ids import BranchId, MemoryId, Position, SessionId, TurnId
from contextinfinity.domain.search import Embedding
from contextinfinity.domain.session import Owner

MemoryKind: TypeAlias = Literal["self", "preference", "wish", "plan", "note"]
"""A fact about the user, a preference, an instruction to the assistant, a dated plan, or a note made on request."""
MemoryOrigin: TypeAlias = Literal["drawn", "asked", "person"]
"""``drawn``: extracted from a message; ``asked``: from "remember that"; ``person``: added or edited by hand."""

ANONYMOUS = "anonymous"
"""The user id of unidentified users. It may be many people, so their memories never leave their thread."""
LONGEST_MEMORY = 500


class Memory(Struct, frozen=True, kw_only=True):
    """One fact about a user or a thread. ``about`` names an attribute with a single value, such as where a user lives.

    ``valid_from`` is when it was last stated. ``valid_to`` is the end of the period it refers to, or the time at which
    it was superseded.
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
    """The priority for inclusion in every prompt."""

    @property
    def position(self) -> Position:
        """Its position in its owner's list."""
        return Position(self.created_at, self.id)


class NewMemory(Struct, frozen=True, kw_only=True):
    """A memory to store: for the user, or for one thread only if ``thread`` is set."""

    owner: Owner
    content: str
    said_at: datetime
    thread: SessionId | None = None
    kind: MemoryKind = "note"
    about: str = ""
    replaces: tuple[str, ...] = ()
    """The ``about`` values of other memories that it supersedes."""
    origin: MemoryOrigin = "drawn"
    confidence: float = 1.0
    weight: int = 0
    span: tuple[int, int] | None = None
    valid_to: datetime | None = None
    vector: Embedding | None = None


class Revision(Struct, frozen=True, array_like=True):
    """A version of an owner's memories; it changes with every addition, edit or removal."""

    count: int = 0
    newest: int = 0
    said_at: int = 0


class Extraction(Struct, frozen=True, kw_only=True):
    """The changes that one turn makes to its owner's memories."""

    owner: Owner
    new: tuple[NewMemory, ...] | None = None
    """All memories of the turn; they replace those extracted from it before. None: those stay as they are."""
    forget: tuple[MemoryId, ...] = ()
    forget_at: datetime | None = None
    only_thread: SessionId | None = None
    """The only thread whose memories an anonymous user may forget or correct."""
    placed: tuple[MemoryId, ...] = ()
    """The memories that were included in its prompt."""
    placed_at: datetime | None = None
    based_on: Revision | None = None
    """The memories it was reconciled with; it is written only while they are current. None: it depends on none."""


class Recall(Struct, frozen=True, kw_only=True):
    """A query for the memories that are visible to one turn and match the terms of its question."""

    owner: Owner
    session_id: SessionId
    branch_id: BranchId
    terms: tuple[str, ...]
    at: datetime
    oldest: datetime
    """Memories that were neither stated nor shown since then have expired."""
    other_branches: bool = False
    """Whether to include memories from abandoned branches."""
    most: int = 48
    """The maximum number of standing memories; half as many are returned as term matches."""


class MemoryMatch(Struct, frozen=True, kw_only=True):
    """A candidate memory: its term match score and its vector."""

    memory: Memory
    match: float = 0.0
    vector: Embedding | None = None


class MemoryRecall(Struct, frozen=True, kw_only=True):
    """Memories found by terms, and standing memories by weight and recency, highest first."""

    found: tuple[MemoryMatch, ...] = ()
    standing: tuple[MemoryMatch, ...] = ()


class MemoryReference(Struct, frozen=True, array_like=True):
    """A memory in a prompt, by id and a prefix of its text hash, so that the text is stored only once."""

    id: MemoryId
    digest: str


def container_tags(user_id: str, session_id: SessionId | None = None) -> tuple[str, ...]:
    """Return the container tags of a user, or of one of the user's threads."""
    user = f"user:{user_id}"
    return (user,) if session_id is None else (user, f"thread:{session_id}")
