"""Slices of turns, in memory. A turn's chunks are kept under (type, hash), so each is there once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

from msgspec.structs import replace

from contextinfinity.domain import wire
from contextinfinity.domain.chunk import Chunk, ChunkSide, NewChunk
from contextinfinity.domain.chunk import chunk_id as id_of
from contextinfinity.domain.ids import ChunkId, TurnId, now
from contextinfinity.domain.search import Place
from contextinfinity.domain.turn import Phase, Turn
from contextinfinity.storage.in_memory.tables import Tables, check_text
from contextinfinity.storage.in_memory.vectors import check_embeddings, opened
from contextinfinity.storage.rules import INDEXABLE, check_phase, check_span, texts_of
from contextinfinity.text.keywords import terms


class InMemoryChunks:
    """The ``Chunks`` of an ``InMemoryStore``."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    async def index(self, turn_id: TurnId, chunks: Sequence[NewChunk]) -> tuple[Chunk, ...]:
        """TX-C: chunks, vectors and phase Indexed together; gives all chunks of the turn."""
        check_text(chunks)
        with self._tables.transaction() as tables:
            turn = tables.turn(turn_id)
            check_phase(turn_id, turn.phase, INDEXABLE)
            check_chunks(tables, [(turn, chunks)])  # raises before anything is written
            add_chunks(tables, turn, chunks)
            if turn.phase is Phase.STATE_COMMITTED:
                tables.put_turn(replace(turn, phase=Phase.INDEXED, degraded=False, updated_at=now()))
            return chunks_of_turn(tables, turn_id)

    async def get(self, chunk_id: ChunkId) -> Chunk | None:
        """Read one."""
        with self._tables.transaction() as tables:
            return tables.chunks.get(chunk_id)

    async def of_turn(self, turn_id: TurnId) -> tuple[Chunk, ...]:
        """Read a turn's chunks in the order of their place."""
        with self._tables.transaction() as tables:
            return chunks_of_turn(tables, turn_id)


def check_chunks(tables: Tables, cut: Sequence[tuple[Turn, Sequence[NewChunk]]]) -> None:
    """Refuse spans outside their texts, and vectors of another size than their model's others."""
    for turn, chunks in cut:
        texts = texts_of(turn)
        for new in chunks:
            check_span(new.start, new.end, texts[new.side])
    check_embeddings(tables, [new.embedding for _, chunks in cut for new in chunks if new.embedding is not None])


def add_chunks(tables: Tables, turn: Turn, chunks: Sequence[NewChunk]) -> None:
    """Add chunks that were checked, and the words that come with them."""
    texts = texts_of(turn)
    for new in chunks:
        _put(tables, turn, new, (texts[new.side] or "")[new.start : new.end])
    if tool := texts["tool"]:
        place = Place(turn.id, "tool")
        tables.numbers[place] = tables.numbers[Place(turn.id, "user")] + 1
        tables.own[place] = frozenset(terms(tool))
    for side in {new.side for new in chunks}:
        borrowed = " ".join(new.borrowed for new in chunks if new.side == side)
        tables.lent[Place(turn.id, side)] = frozenset(terms(borrowed))
    tables.uncut.discard(turn.id)


def replace_chunks(tables: Tables, turn: Turn, chunks: Sequence[NewChunk]) -> None:
    """Make the chunks of a turn anew."""
    there = set(tables.chunks_of.pop(turn.id, {}).values())
    for chunk_id in there:
        del tables.chunks[chunk_id]
    for side in get_args(ChunkSide):
        tables.lent.pop(Place(turn.id, side), None)
    add_chunks(tables, turn, chunks)
    for chunk_id in there - set(tables.chunks_of.get(turn.id, {}).values()):
        for space in tables.spaces.values():
            space.vectors.pop(chunk_id, None)


def _put(tables: Tables, turn: Turn, new: NewChunk, words: str) -> None:
    """Store a chunk unless its words are there, and its vector unless it has one in its namespace."""
    known = tables.chunks_of.setdefault(turn.id, {})
    content_hash = wire.text_hash(words).hex()
    chunk_id = known.setdefault((new.chunk_type, content_hash), id_of(turn.id, new.chunk_type, content_hash))
    if chunk_id not in tables.chunks:
        tables.chunks[chunk_id] = _chunk(turn, new, words, chunk_id)
    vector = new.embedding
    if vector is not None:
        opened(tables, vector.model, vector.dim).vectors.setdefault(chunk_id, vector.values)


def _chunk(turn: Turn, new: NewChunk, words: str, chunk_id: ChunkId) -> Chunk:
    return Chunk(
        id=chunk_id,
        session_id=turn.session_id,
        branch_id=turn.branch_id,
        source_turn=turn.id,
        side=new.side,
        start=new.start,
        end=new.end,
        rendered_text=words,
        summary=new.summary,
        chunk_type=new.chunk_type,
        token_est=new.token_est,
        content_hash=wire.text_hash(words).hex(),
        created_at=now(),
    )


_SIDES: dict[ChunkSide, int] = {"user": 0, "tool": 1, "assistant": 2}


def chunks_of_turn(tables: Tables, turn_id: TurnId) -> tuple[Chunk, ...]:
    """Give a turn's chunks in the order of their place."""
    chunks = (tables.chunks[chunk_id] for chunk_id in tables.chunks_of.get(turn_id, {}).values())
    return tuple(sorted(chunks, key=_stands))


def _stands(chunk: Chunk) -> tuple[int, int, int, str, str]:
    return _SIDES[chunk.side], chunk.start, chunk.end, chunk.chunk_type, chunk.id
