"""Chunks: TX-C, and reading chunks with their text."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple, get_args

from contextinfinity.domain import wire
from contextinfinity.domain.ids import ChunkId, TurnId, from_millis, now, to_millis
from contextinfinity.domain.search import Chunk, ChunkSide, Embedding, NewChunk
from contextinfinity.domain.search import chunk_id as id_of
from contextinfinity.domain.turn import Phase, Turn, side_text
from contextinfinity.storage.database import Connection, Row, StoreResource, reads
from contextinfinity.storage.invariants import ENDED, INDEXABLE, check_phase, check_span, texts_of
from contextinfinity.storage.ledger.keyword_index import index_again, index_missing, index_sides
from contextinfinity.storage.ledger.rows import pack, to_message, unpack
from contextinfinity.storage.ledger.turns import existing_turn, turn_and_keys


def get_chunk(connection: Connection, chunk_id: ChunkId) -> Chunk | None:
    """Return one chunk."""
    return chunk_of(connection, pack(chunk_id))


def chunk_of(connection: Connection, chunk_id: bytes) -> Chunk | None:
    """Return one chunk by its packed id."""
    return next(iter(_to_chunks(connection, connection.many("select_chunk", (chunk_id,)))), None)


def chunks_of_turn(connection: Connection, turn_id: TurnId) -> tuple[Chunk, ...]:
    """Return a turn's chunks, ordered by position."""
    return _to_chunks(connection, connection.many("select_chunks", (pack(turn_id),)))


def index_turn(connection: Connection, turn_id: TurnId, chunks: Sequence[NewChunk]) -> None:
    """TX-C: write chunks, vectors and phase Indexed."""
    add_chunks(connection, turn_id, chunks, INDEXABLE)
    connection.execute("mark_indexed", {"id": pack(turn_id), "now": to_millis(now())})


def add_chunks(connection: Connection, turn_id: TurnId, chunks: Sequence[NewChunk], phases: frozenset[Phase]) -> None:
    """Add chunks, vectors and their index words, and missing index words of the messages.

    Raises ``WrongPhase`` if the turn is in another phase.
    """
    turn, of = _messages(connection, turn_id)
    check_phase(turn_id, turn.phase, phases)
    _add(connection, turn, of, chunks, {})
    index_missing(connection, of.session_id, of.said)
    _index_borrowed_words(connection, of, chunks, {chunk.side for chunk in chunks})


def replace_chunks(connection: Connection, turn_id: TurnId, chunks: Sequence[NewChunk], *, other: bool) -> None:
    """Replace words, chunks and vectors; an existing chunk keeps its key. ``other``: the words have another version.

    Without chunks only the words are replaced: a turn that was running when it was read may have chunks by now.
    """
    turn, of = _messages(connection, turn_id)
    if chunks:
        check_phase(turn_id, turn.phase, ENDED)
        _add(connection, turn, of, chunks, _removed(connection, turn, of, chunks))
    index_again(connection, of.session_id, of.said, other=other)
    if chunks:
        _index_borrowed_words(connection, of, chunks, set(get_args(ChunkSide)))


class _TurnMessages(NamedTuple):
    """The messages of a turn: their keys, their texts, and the text of each side."""

    session_id: bytes
    question: int
    answer: int | None
    texts: dict[ChunkSide, str | None]

    @property
    def said(self) -> list[tuple[int, str]]:
        """Keys and texts of the messages."""
        keys = ((self.question, self.texts["user"]), (self.answer, self.texts["assistant"]))
        return [(key, text or "") for key, text in keys if key is not None]


def _messages(connection: Connection, turn_id: TurnId) -> tuple[Turn, _TurnMessages]:
    turn, question, answer = turn_and_keys(connection, turn_id)
    return turn, _TurnMessages(pack(turn.session_id), question, answer, texts_of(turn))


def _add(
    connection: Connection, turn: Turn, of: _TurnMessages, chunks: Sequence[NewChunk], keys: dict[bytes, int]
) -> None:
    """Add chunks under their previous keys and their vectors, count them, and mark the turn as chunked."""
    added, placed = -len(keys), list[tuple[int, Embedding]]()
    rows = [_row(turn, of, chunk, keys) for chunk in chunks]
    connection.prefetch(*(("insert_chunk", row) for row in rows))
    for chunk, row in zip(chunks, rows, strict=True):
        key, is_new = _insert(connection, row)
        added += is_new
        if chunk.embedding is not None:
            placed.append((key, chunk.embedding))
    if added:
        connection.execute("count_chunks", (added,))
    connection.vectors.put_embeddings(connection, of.session_id, placed)
    connection.execute("delete_uncut", (of.question,))


def _removed(connection: Connection, turn: Turn, of: _TurnMessages, chunks: Sequence[NewChunk]) -> dict[bytes, int]:
    """Remove a turn's chunks, and the vectors of those that are not added again; return the keys by chunk id."""
    keys: dict[bytes, int] = dict(connection.many("select_chunk_keys", (pack(turn.id),)))
    back = {_id(turn, chunk, (of.texts[chunk.side] or "")[chunk.start : chunk.end]) for chunk in chunks}
    connection.vectors.drop_vectors(connection, (key for chunk_id, key in keys.items() if chunk_id not in back))
    connection.execute("defer_references")  # kept vectors refer to chunks that are inserted again below
    for statement in ("begin_recut", "delete_chunks", "end_recut"):
        connection.execute(statement, (pack(turn.id),))
    return keys


def _index_borrowed_words(
    connection: Connection, of: _TurnMessages, chunks: Sequence[NewChunk], sides: Collection[ChunkSide]
) -> None:
    """Index the words of the tool side, and the words that the sides borrow."""
    borrowed = {side: " ".join(chunk.borrowed for chunk in chunks if chunk.side == side) for side in sides}
    keys = (of.question, of.answer)
    index_sides(connection, of.session_id, keys, of.texts["tool"] or "", borrowed)


def _id(turn: Turn, chunk: NewChunk, words: str) -> bytes:
    return pack(id_of(turn.id, chunk.chunk_type, wire.text_hash(words).hex()))


def _row(turn: Turn, of: _TurnMessages, chunk: NewChunk, keys: dict[bytes, int]) -> dict[str, object]:
    """Return the columns of a chunk."""
    text = of.texts[chunk.side]
    check_span(chunk.start, chunk.end, text)
    digest = wire.text_hash((text or "")[chunk.start : chunk.end])
    chunk_id = pack(id_of(turn.id, chunk.chunk_type, digest.hex()))
    return {
        "key": keys.get(chunk_id),
        "id": chunk_id,
        "turn_id": pack(turn.id),
        "session_id": of.session_id,
        "branch_id": pack(turn.branch_id),
        "side": chunk.side,
        "start": chunk.start,
        "end": chunk.end,
        "summary": chunk.summary,
        "chunk_type": chunk.chunk_type,
        "token_est": chunk.token_est,
        "content_hash": digest,
        "now": to_millis(now()),
    }


def _insert(connection: Connection, row: dict[str, object]) -> tuple[int, bool]:
    """Add a chunk unless it exists; return its key and whether it is new."""
    if (made := connection.one("insert_chunk", row)) is not None:
        return made[0], True
    return connection.one("select_chunk_key", (row["id"],))[0], False  # type: ignore[index]


def _to_chunks(connection: Connection, rows: Sequence[Row]) -> tuple[Chunk, ...]:
    """Decode rows of ``select_chunk*``; tool text is assembled from the steps of its turn."""
    tools: dict[bytes, str] = {}
    for row in rows:
        if row[4] == "tool" and row[3] not in tools:
            tools[row[3]] = side_text(existing_turn(connection, unpack(row[3])), "tool")
    texts = (tools[row[3]] if row[4] == "tool" else to_message(*row[12:15]).rendered_text for row in rows)
    return tuple(_to_chunk(row, text) for row, text in zip(rows, texts, strict=True))


def _to_chunk(row: Row, text: str) -> Chunk:
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
    )


class Chunks(StoreResource):
    """Chunks: the searchable pieces of turns."""

    get = reads(get_chunk)
    of_turn = reads(chunks_of_turn)

    async def index(self, turn_id: TurnId, chunks: Sequence[NewChunk]) -> tuple[Chunk, ...]:
        """TX-C: write chunks, vectors and phase Indexed; return all chunks of the turn.

        Idempotent: equal text of one type is stored once per turn regardless of its span, and existing vectors are
        kept. Raises ``WrongPhase`` before the turn is committed, and ``InvalidInput`` for a span outside its message or
        a vector whose dimension differs from its namespace.
        """

        def work(connection: Connection) -> tuple[Chunk, ...]:
            index_turn(connection, turn_id, chunks)
            return chunks_of_turn(connection, turn_id)

        return await self._database.write(work)
