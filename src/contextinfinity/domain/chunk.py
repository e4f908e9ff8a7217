"""Slices of the past that can be found again.

A chunk is a span of one message's text. Its words are the message's own, named by offsets; its summary,
type and vector are derived and can be made anew at any time.
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
"""Whose words: the question, the answer, or what went to and fro with tools between them."""


def chunk_id(turn_id: TurnId, chunk_type: ChunkType, content_hash: str) -> ChunkId:
    """Give the id of a chunk: the same words of the same turn and type always have the same, also when cut anew."""
    digest = bytearray(hashlib.sha256(f"{turn_id} {chunk_type} {content_hash}".encode()).digest()[:16])
    digest[6], digest[8] = digest[6] & 0x0F | 0x80, digest[8] & 0x3F | 0x80  # a UUID of version 8: made our own way
    return str(UUID(bytes=bytes(digest)))


class Embedding(Struct, frozen=True, kw_only=True):
    """A vector and the model it came from; ``values`` are as ``domain.vectors`` packs them."""

    model: str
    dim: int
    values: bytes


class NewChunk(Struct, frozen=True, kw_only=True):
    """A span of a turn's message to be indexed; offsets count characters of its rendered text."""

    side: ChunkSide
    start: int
    end: int
    summary: str
    chunk_type: ChunkType
    token_est: int
    borrowed: str = ""
    """Words it is found by as well: of what was said just before."""
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
