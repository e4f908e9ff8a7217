"""Search scopes, hits and index state.

A position is one side of one turn. Its words are searchable as soon as the turn is durable; chunks and vectors are
added later. Hits are read as ``IndexedMessage`` and then ranked.

A chunk is a searchable span of one message's text, referenced by offsets. Its summary, type and vector are derived data
and can be rebuilt at any time.

A vector is stored as a 32-bit scale, then a signed byte per component. It takes a quarter of the space of 32-bit floats
and changes the cosine of two vectors by less than 0.01.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Literal, TypeAlias
from uuid import UUID

from msgspec import Struct

from contextinfinity.domain.ids import BranchId, ChunkId, SessionId, TurnId
from contextinfinity.domain.session import Owner

ChunkType: TypeAlias = Literal["Code", "Explanation", "Decision", "UserContext", "ToolResult", "Other"]
ChunkSide: TypeAlias = Literal["user", "assistant", "tool"]
"""The part of the turn a chunk is cut from: the question, the answer, or the tool calls and results between them."""


def chunk_id(turn_id: TurnId, chunk_type: ChunkType, content_hash: str) -> ChunkId:
    """Return the deterministic id of a chunk: the same text of the same turn and type always gets the same id."""
    digest = bytearray(hashlib.sha256(f"{turn_id} {chunk_type} {content_hash}".encode()).digest()[:16])
    digest[6], digest[8] = digest[6] & 0x0F | 0x80, digest[8] & 0x3F | 0x80  # UUID version 8: custom format
    return str(UUID(bytes=bytes(digest)))


class Embedding(Struct, frozen=True, kw_only=True):
    """A vector and the name of its model; ``values`` is packed by ``domain.vectors``."""

    model: str
    dim: int
    values: bytes


class NewChunk(Struct, frozen=True, kw_only=True):
    """A span of a turn's message to index; offsets are character positions in its rendered text."""

    side: ChunkSide
    start: int
    end: int
    summary: str
    chunk_type: ChunkType
    token_est: int
    borrowed: str = ""
    """Words of the preceding message that also match this chunk in a search."""
    embedding: Embedding | None = None


class Chunk(Struct, frozen=True, kw_only=True):
    """An indexed slice of a turn."""

    id: ChunkId
    session_id: SessionId
    branch_id: BranchId
    source_turn: TurnId
    side: ChunkSide
    start: int
    end: int
    rendered_text: str
    summary: str
    chunk_type: ChunkType
    token_est: int
    content_hash: str
    created_at: datetime


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


if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Row: TypeAlias = NDArray[np.float32]
    Rows: TypeAlias = NDArray[np.float32]

HEAD = 4
"""The size of the scale in bytes."""


def packed(row: Row) -> bytes:
    """Encode a vector for storage."""
    import numpy as np

    largest = float(np.abs(row).max()) if row.size else 0.0
    scale = largest / 127 or 1.0
    body: bytes = np.rint(row / scale).astype(np.int8).tobytes()
    return struct.pack("<f", scale) + body


def unpacked(body: bytes) -> Row:
    """Decode a stored vector, with a small rounding error."""
    import numpy as np

    (scale,) = struct.unpack_from("<f", body)
    return np.frombuffer(body, dtype=np.int8, offset=HEAD).astype(np.float32) * np.float32(scale)


def unpacked_rows(bodies: Sequence[bytes]) -> Rows:
    """Decode many vectors of the same dimension at once."""
    import numpy as np

    whole = np.frombuffer(b"".join(bodies), dtype=np.int8).reshape(len(bodies), -1)
    scales = np.ascontiguousarray(whole[:, :HEAD]).view("<f4")
    rows: Rows = whole[:, HEAD:].astype(np.float32) * scales
    return rows


def dim_of(body: bytes) -> int:
    """Return the dimension of a stored vector."""
    return len(body) - HEAD
