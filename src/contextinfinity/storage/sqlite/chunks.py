"""Chunks in SQLite: TX-C, and reading them back with the words they name."""

from __future__ import annotations

from collections.abc import Sequence

import apsw

from contextinfinity.domain import wire
from contextinfinity.domain.chunk import Chunk, Embedding, NewChunk
from contextinfinity.domain.ids import ChunkId, TurnId, from_millis, new_id, now, to_millis
from contextinfinity.domain.turn import Phase
from contextinfinity.storage import sql_files
from contextinfinity.storage.rules import INDEXABLE, check_phase, check_span, check_vector
from contextinfinity.storage.sqlite.database import Database
from contextinfinity.storage.sqlite.rows import Row, many, must, one, pack, to_message, unpack

SQL = sql_files.load(__package__, "chunks.sql")


class SqliteChunks:
    """``Chunks`` on a SQLite file."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def index(self, turn_id: TurnId, chunks: Sequence[NewChunk]) -> tuple[Chunk, ...]:
        """TX-C: chunks, vectors and phase Indexed together."""
        return await self._database.write(lambda connection: _index(connection, turn_id, chunks))

    async def get(self, chunk_id: ChunkId) -> Chunk | None:
        """Read one."""

        def read(connection: apsw.Connection) -> Chunk | None:
            row = one(connection, SQL["select_chunk"], (pack(chunk_id),))
            return None if row is None else _to_chunk(row)

        return await self._database.read(read)

    async def of_turn(self, turn_id: TurnId) -> tuple[Chunk, ...]:
        """Read a turn's chunks in the order of their place."""
        return await self._database.read(lambda connection: _of_turn(connection, turn_id))


def _of_turn(connection: apsw.Connection, turn_id: TurnId) -> tuple[Chunk, ...]:
    return tuple(map(_to_chunk, many(connection, SQL["select_chunks"], (pack(turn_id),))))


def _index(connection: apsw.Connection, turn_id: TurnId, chunks: Sequence[NewChunk]) -> tuple[Chunk, ...]:
    row = must(one(connection, SQL["select_turn_texts"], (pack(turn_id),)), "turn", turn_id)
    check_phase(turn_id, Phase(row[0]), INDEXABLE)
    texts = {
        "user": to_message(*row[3:6]).rendered_text,
        "assistant": None if row[6] is None else to_message(*row[6:9]).rendered_text,
    }
    place = {"turn_id": pack(turn_id), "session_id": row[1], "branch_id": row[2], "now": to_millis(now())}
    for chunk in chunks:
        text = texts[chunk.side]
        check_span(chunk.start, chunk.end, text)
        _insert(connection, chunk, (text or "")[chunk.start : chunk.end], place)
    connection.execute(SQL["mark_indexed"], {"id": pack(turn_id), "now": place["now"]})
    return _of_turn(connection, turn_id)


def _insert(connection: apsw.Connection, chunk: NewChunk, words: str, place: dict[str, bytes | int]) -> None:
    values = {
        "id": pack(new_id()),
        "side": chunk.side,
        "start": chunk.start,
        "end": chunk.end,
        "summary": chunk.summary,
        "chunk_type": chunk.chunk_type,
        "token_est": chunk.token_est,
        "content_hash": wire.text_hash(words),
        **place,
    }
    connection.execute(SQL["insert_chunk"], values)
    if chunk.embedding is not None:
        key = one(connection, SQL["select_chunk_key"], values)[0]  # type: ignore[index]
        vector = (key, _model(connection, chunk.embedding), place["session_id"], chunk.embedding.values)
        connection.execute(SQL["insert_vector"], vector)


def _model(connection: apsw.Connection, embedding: Embedding) -> int:
    """Give the number of the vector's model; all vectors of a model have one size."""
    connection.execute(SQL["insert_embedding_model"], {"name": embedding.model, "dim": embedding.dim})
    key, dim = one(connection, SQL["select_embedding_model"], (embedding.model,))  # type: ignore[misc]
    check_vector(embedding, dim)
    return int(key)


def _to_chunk(row: Row) -> Chunk:
    text = to_message(*row[12:15]).rendered_text
    return Chunk(
        id=unpack(row[0]),
        session_id=unpack(row[1]),
        branch_id=unpack(row[2]),
        source_turn=unpack(row[3]),
        side=row[4],
        start=row[5],
        end=row[6],
        rendered_text=text[row[5] : row[6]],
        summary=row[7],
        chunk_type=row[8],
        token_est=row[9],
        content_hash=row[10].hex(),
        created_at=from_millis(row[11]),
        embedding=None if row[15] is None else Embedding(model=row[15], dim=row[16], values=row[17]),
    )
