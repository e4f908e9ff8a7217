"""What is searched, and what is found: places where something was said.

A place is one side of one turn. Words are found there as soon as the turn is durable; chunks and their vectors come
after. What was found is read as entries, which a ranking puts in order.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Literal, TypeAlias

from msgspec import Struct

from contextinfinity.domain.chunk import Chunk, ChunkSide, ChunkType
from contextinfinity.domain.ids import BranchId, ChunkId, SessionId, TurnId
from contextinfinity.domain.session import Owner


class Scope(Struct, frozen=True, kw_only=True):
    """Where to look; what is not named admits everything."""

    owner: Owner | None = None
    session_id: SessionId | None = None
    branch_id: BranchId | None = None
    """Only turns that this branch sees: its own and those it goes on from, never a sibling's."""
    before: int | None = None
    """Of that branch only turns with a lower turn_seq."""
    sides: tuple[ChunkSide, ...] = ()
    types: tuple[ChunkType, ...] = ()
    since: datetime | None = None
    until: datetime | None = None

    def admits(self, side: ChunkSide, said_at: datetime) -> bool:
        """Tell whether what was said on that side at that time is admitted, wherever it stands."""
        return (
            (not self.sides or side in self.sides)
            and (self.since is None or said_at >= self.since)
            and (self.until is None or said_at < self.until)
        )


class TextPosition(Struct, frozen=True):
    """Where something was said."""

    turn_id: TurnId
    side: ChunkSide


def place_of(chunk: Chunk) -> TextPosition:
    """Tell where a chunk stands."""
    return TextPosition(chunk.source_turn, chunk.side)


class WordHit(Struct, frozen=True):
    """A place that holds some of the words: bit n of ``own`` says that it says word n itself, of ``lent`` that it is
    said just before."""

    place: TextPosition
    own: int
    lent: int = 0


class WordHits(Struct, frozen=True, kw_only=True):
    """What words found, the best first; ``counts`` and ``total`` tell how rare each word is."""

    hits: tuple[WordHit, ...] = ()
    counts: tuple[int, ...] = ()
    """How many places say each of the words, in the session or of the owner that was searched, or in all."""
    total: int = 0
    """How many places there are."""


class VectorHit(Struct, frozen=True):
    """A chunk whose vector is near; ``similarity`` is the cosine."""

    place: TextPosition
    chunk_id: ChunkId
    similarity: float


class IndexedMessage(Struct, frozen=True, kw_only=True):
    """A place, read."""

    place: TextPosition
    session_id: SessionId
    branch_id: BranchId
    turn_seq: int
    said_at: datetime
    """When it was said, also where that was elsewhere."""
    text: str
    """The whole text of that side of the turn: the offsets of its chunks count in it."""
    speaker: str = ""
    external_ids: tuple[str, ...] = ()
    chunks: tuple[Chunk, ...] = ()
    """Empty where the turn is not cut yet."""


class Namespace(Struct, frozen=True, kw_only=True):
    """Vectors of one embedder: the current one is searched, another is filled in the background."""

    name: str
    dim: int
    state: Literal["current", "filling", "old"]
    placed: int = 0


class IndexState(Struct, frozen=True, kw_only=True):
    """How far the index goes: it agrees with the ledger when nothing is missing and the version is ours."""

    messages: int
    indexed: int
    """Messages that are found by their words."""
    uncut: int
    """Turns that have ended and have no chunks yet."""
    chunks: int
    version: int
    """Of the words, as ``text.keywords`` counts them."""


class Hit(Struct, frozen=True, kw_only=True):
    """Something that was said and fits what is looked for, as people and programs see it."""

    thread_id: SessionId
    turn_id: TurnId
    turn_seq: int
    chunk_id: ChunkId
    role: ChunkSide
    score: float
    text: str
    offsets: tuple[int, int]
    """Where ``text`` stands in what was said on that side of the turn."""
    type: ChunkType
    created_at: datetime
    """When it was said, also where that was elsewhere."""
    external_ids: tuple[str, ...] = ()
    speaker: str = ""


class Hits(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What was found, the best first; with a budget, what would be packed into it."""

    hits: tuple[Hit, ...]
    tokens: int
    """What the texts take in all."""
    missing: tuple[str, ...] = ()
    """What could not be asked, so that there may be more."""


HowFar: TypeAlias = Callable[[int, int], None]
"""Told how much is done, and of how much; 0 where nobody knows."""


class RetrievedMessage(Struct, frozen=True, kw_only=True):
    """What of the index was brought in step with the ledger."""

    turns: int = 0
    vectors: int = 0
    """Of chunks that were there before."""
    switched: bool = False
    """Whether the vectors of another embedder are searched from now on."""
    memories: int = 0
    """Drawn from turns again."""
