"""Chunks: searchable slices of past messages.

A chunk is a span of one message's text, referenced by offsets. Its summary, type and vector are derived data and can be
rebuilt at any time.
"""

from __future__ import annotations

import hashlib
from datetime import datetime
from typing import Literal, TypeAlias
from uuid import UUID

from msgspec import Struct

from contextinfinity.domain.ids import BranchId, ChunkId, SessionId, TurnId

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
