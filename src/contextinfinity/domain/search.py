"""Search scopes, hits and index state.

A position is one side of one turn. Its words are searchable as soon as the turn is durable; chunks and vectors are
added later. Hits are read as ``IndexedMessage`` and then ranked.
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
    """The scope of a search; a field that is not set does not restrict it."""

    owner: Owner | None = None
    session_id: SessionId | None = None
    branch_id: BranchId | None = None
    """Only turns visible on this branch: its own and those of its ancestors, not those of siblings."""
    before: int | None = None
    """Only turns of that branch with a lower turn_seq."""
    sides: tuple[ChunkSide, ...] = ()
    types: tuple[ChunkType, ...] = ()
    since: datetime | None = None
    until: datetime | None = None

    def admits(self, side: ChunkSide, said_at: datetime) -> bool:
        """Return whether a message of that side and time is in scope, regardless of session and branch."""
        return (
            (not self.sides or side in self.sides)
            and (self.since is None or said_at >= self.since)
            and (self.until is None or said_at < self.until)
        )


class TextPosition(Struct, frozen=True):
    """One side of one turn."""

    turn_id: TurnId
    side: ChunkSide


def place_of(chunk: Chunk) -> TextPosition:
    """Return the position of a chunk."""
    return TextPosition(chunk.source_turn, chunk.side)


class WordHit(Struct, frozen=True):
    """A position that contains some of the query words.

    Bit n of ``own`` is set if it contains word n itself, bit n of ``lent`` if the preceding message does.
    """

    place: TextPosition
    own: int
    lent: int = 0


class WordHits(Struct, frozen=True, kw_only=True):
    """Results of a word search, best first; ``counts`` and ``total`` give the rarity of each word."""

    hits: tuple[WordHit, ...] = ()
    counts: tuple[int, ...] = ()
    """How many positions contain each word: in the session or owner that was searched, or in all."""
    total: int = 0
    """The total number of positions."""


class VectorHit(Struct, frozen=True):
    """A chunk with a similar vector; ``similarity`` is the cosine."""

    place: TextPosition
    chunk_id: ChunkId
    similarity: float


class IndexedMessage(Struct, frozen=True, kw_only=True):
    """A position with its text and chunks."""

    place: TextPosition
    session_id: SessionId
    branch_id: BranchId
    turn_seq: int
    said_at: datetime
    """When it was said; for an imported message, the time in its source."""
    text: str
    """The whole text of that side of the turn; chunk offsets refer to it."""
    speaker: str = ""
    external_ids: tuple[str, ...] = ()
    chunks: tuple[Chunk, ...] = ()
    """Empty if the turn has not been chunked yet."""


class Namespace(Struct, frozen=True, kw_only=True):
    """The vectors of one embedder: the current namespace is searched, another one is filled in the background."""

    name: str
    dim: int
    state: Literal["current", "filling", "old"]
    placed: int = 0


class IndexState(Struct, frozen=True, kw_only=True):
    """The state of the index; it is complete when nothing is missing and the version is current."""

    messages: int
    indexed: int
    """Messages that a word search finds."""
    uncut: int
    """Finished turns without chunks."""
    chunks: int
    version: int
    """The version of the word index (see ``text.keywords``)."""


class Hit(Struct, frozen=True, kw_only=True):
    """A search result as the APIs return it."""

    thread_id: SessionId
    turn_id: TurnId
    turn_seq: int
    chunk_id: ChunkId
    role: ChunkSide
    score: float
    text: str
    offsets: tuple[int, int]
    """The position of ``text`` in that side of the turn."""
    type: ChunkType
    created_at: datetime
    """When it was said; for an imported message, the time in its source."""
    external_ids: tuple[str, ...] = ()
    speaker: str = ""


class Hits(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Search results, best first; with a token budget, those that fit into it."""

    hits: tuple[Hit, ...]
    tokens: int
    """The number of tokens of all texts."""
    missing: tuple[str, ...] = ()
    """The parts of the search that were unavailable, so that results may be missing."""


ProgressCallback: TypeAlias = Callable[[int, int], None]
"""A progress callback: the amount done and the total, or 0 if the total is unknown."""


class IndexReport(Struct, frozen=True, kw_only=True):
    """The changes that a reconciliation of the index with the ledger made."""

    turns: int = 0
    vectors: int = 0
    """Vectors of chunks that existed before."""
    switched: bool = False
    """Whether searches now use the vectors of another embedder."""
    memories: int = 0
    """Memories extracted again from their turns."""
