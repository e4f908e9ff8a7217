"""What was found, read: many turns at once, with their chunks and where their messages came from.

Most turns are two plain texts, and are read in three statements however many they are. One that is more (pictures,
tools) is read by itself.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from typing import TypeAlias

import apsw

from contextinfinity.domain.chunk import Chunk, ChunkSide
from contextinfinity.domain.ids import TurnId, from_millis
from contextinfinity.domain.search import Entry, Place
from contextinfinity.domain.sides import sides_of
from contextinfinity.storage import sql_files
from contextinfinity.storage.sqlite.chunks import chunks_of_turn
from contextinfinity.storage.sqlite.rows import Row, many, pack, unpack
from contextinfinity.storage.sqlite.turns import existing_turn

SQL = sql_files.load(__package__, "index.sql")

Origins: TypeAlias = dict[int, list[Row]]
"""Where messages came from: (external_id, said_at, name), by the key of the message."""


def read_places(connection: apsw.Connection, places: Sequence[Place]) -> tuple[Entry, ...]:
    """Read places in the order asked for."""
    turns = json.dumps([pack(turn_id).hex() for turn_id in dict.fromkeys(place.turn_id for place in places)])
    entries = {entry.place: entry for entry in _read(connection, many(connection, SQL["select_turns_read"], (turns,)))}
    return tuple(entries[place] for place in places if place in entries)


def read_around(connection: apsw.Connection, turn_ids: Collection[TurnId]) -> tuple[Entry, ...]:
    """Read all that was said in turns, and in those just before and after them."""
    turns = json.dumps([pack(turn_id).hex() for turn_id in turn_ids])
    return tuple(_read(connection, many(connection, SQL["select_turns_around"], (turns,))))


def _read(connection: apsw.Connection, rows: Sequence[Row]) -> Iterator[Entry]:
    keys = json.dumps([key for row in rows for key in (row[6], row[9]) if key is not None])
    origins: Origins = {}
    for key, *origin in connection.execute(SQL["select_origins_read"], (keys,)):
        origins.setdefault(key, []).append(origin)
    chunks: dict[bytes, list[Row]] = {}
    turns = json.dumps([row[0].hex() for row in rows])
    for turn_id, *chunk in connection.execute(SQL["select_chunks_read"], (turns,)):
        chunks.setdefault(turn_id, []).append(chunk)
    for row in rows:
        if row[5] > 1 or row[7] is None or (row[9] is not None and row[10] is None):
            yield from _rich(connection, row, origins)
        else:
            yield from _plain(row, chunks.get(row[0], ()), origins)


def _plain(row: Row, chunks: Sequence[Row], origins: Origins) -> Iterator[Entry]:
    """Give the sides of a turn of two plain texts."""
    sides: tuple[tuple[ChunkSide, int | None, str | None], ...] = (
        ("user", row[6], row[7]),
        ("assistant", row[9], row[10]),
    )
    for side, key, text in sides:
        if key is not None and text is not None and text.strip():
            place = (unpack(row[1]), unpack(row[2]), unpack(row[0]))
            cut = tuple(_chunk(chunk, place, side, text) for chunk in chunks if chunk[1] == side)
            yield _entry(row, side, text, origins.get(key, ()), cut)


def _rich(connection: apsw.Connection, row: Row, origins: Origins) -> Iterator[Entry]:
    """Give the sides of a turn that is more than that."""
    turn_id = unpack(row[0])
    chunks = chunks_of_turn(connection, turn_id)
    for spoken in sides_of(existing_turn(connection, turn_id)):
        key = row[9] if spoken.side == "assistant" else row[6]
        cut = tuple(chunk for chunk in chunks if chunk.side == spoken.side)
        yield _entry(row, spoken.side, spoken.text, origins.get(key, ()), cut)


def _entry(row: Row, side: ChunkSide, text: str, origins: Sequence[Row], chunks: tuple[Chunk, ...]) -> Entry:
    moments = [origin[1] for origin in origins if origin[1] is not None]
    names = (origin[2] for origin in origins if isinstance(origin[2], str))
    return Entry(
        place=Place(unpack(row[0]), side),
        session_id=unpack(row[1]),
        branch_id=unpack(row[2]),
        turn_seq=row[3],
        said_at=from_millis(min(moments) if moments else row[4]),
        text=text,
        speaker="" if side == "tool" else next(names, ""),
        external_ids=tuple(origin[0] for origin in origins if origin[0] is not None),
        chunks=chunks,
    )


def _chunk(row: Row, place: tuple[str, str, str], side: ChunkSide, text: str) -> Chunk:
    session_id, branch_id, turn_id = place
    return Chunk(
        id=unpack(row[0]),
        session_id=session_id,
        branch_id=branch_id,
        source_turn=turn_id,
        side=side,
        start=row[2],
        end=row[3],
        rendered_text=text[row[2] : row[3]],
        summary=row[4],
        chunk_type=row[5],
        token_est=row[6],
        content_hash=row[7].hex(),
        created_at=from_millis(row[8]),
    )
