"""Search results as entries: many turns are read at once, with their chunks and the origins of their messages.

Most turns are two plain texts; all of these are read with three statements. Turns with images or tools are read one by
one.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator, Sequence
from threading import Lock
from typing import NamedTuple, TypeAlias

from contextinfinity.domain.ids import BranchId, SessionId, TurnId, from_millis
from contextinfinity.domain.search import Chunk, ChunkSide, IndexedMessage, TextPosition
from contextinfinity.domain.turn import sides_of
from contextinfinity.storage.database import Connection, Row
from contextinfinity.storage.ledger.chunks import chunks_of_turn
from contextinfinity.storage.ledger.rows import pack, unpack
from contextinfinity.storage.ledger.turns import existing_turn

MOST_KEPT = 8_192
"""Limits of the cache: turns, and characters per turn; about 20 MB, at most 150 MB."""
LONGEST_KEPT = 8_000

Origins: TypeAlias = dict[int, list[Row]]
"""Origins of messages: (external_id, said_at, name) by message key."""


class EntryReader:
    """Reads entries and caches those of answered and chunked turns, which never change.

    A deletion or new chunking in any process increments the index epoch, which empties the cache.
    """

    def __init__(self, most: int = MOST_KEPT) -> None:
        self._most = most
        self._epoch = 0
        self._kept: OrderedDict[bytes, tuple[IndexedMessage, ...]] = OrderedDict()
        self._lock = Lock()

    def places(self, connection: Connection, places: Sequence[TextPosition]) -> tuple[IndexedMessage, ...]:
        """Return the entries at these positions, in the given order."""
        turns = [pack(turn_id) for turn_id in dict.fromkeys(place.turn_id for place in places)]
        entries = {entry.place: entry for entry in self._read(connection, turns)}
        return tuple(entries[place] for place in places if place in entries)

    def around(self, connection: Connection, turn_ids: Collection[TurnId]) -> tuple[IndexedMessage, ...]:
        """Return the entries of turns and of those just before and after them."""
        near = connection.many("select_around", (_listed(map(pack, turn_ids)),))
        return tuple(self._read(connection, [row[0] for row in near]))

    def _read(self, connection: Connection, turns: Sequence[bytes]) -> list[IndexedMessage]:
        (epoch,) = connection.one("select_epoch")  # type: ignore[misc]
        with self._lock:
            if epoch != self._epoch:
                self._kept.clear()
                self._epoch = epoch
            known = {turn: self._kept[turn] for turn in turns if turn in self._kept}
            for turn in known:
                self._kept.move_to_end(turn)
        lasting, passing = _fetched(connection, [turn for turn in turns if turn not in known])
        with self._lock:
            if epoch == self._epoch:
                self._kept.update(lasting)
            while len(self._kept) > self._most:
                self._kept.popitem(last=False)
        known |= lasting | passing
        return [entry for turn in turns for entry in known.get(turn, ())]


Turns: TypeAlias = dict[bytes, tuple[IndexedMessage, ...]]


def _fetched(connection: Connection, turns: Sequence[bytes]) -> tuple[Turns, Turns]:
    """Return (turns that never change, other turns)."""
    lasting: Turns = {}
    passing: Turns = {}
    rows = connection.many("select_turns_read", (_listed(turns),)) if turns else []
    keys = json.dumps([key for row in rows for key in (row[6], row[8]) if key is not None])
    origins: Origins = {}
    for key, *origin in connection.each("select_origins_read", (keys,)):
        origins.setdefault(key, []).append(origin)
    chunks: dict[bytes, list[Row]] = {}
    for turn_id, *chunk in connection.each("select_chunks_read", (_listed(turns),)):
        chunks.setdefault(turn_id, []).append(chunk)
    for row in rows:
        is_plain = row[5] <= 1 and row[7] is not None and (row[8] is None or row[9] is not None)
        entries = tuple(_plain(row, chunks.get(row[0], ()), origins) if is_plain else _rich(connection, row, origins))
        is_small = sum(len(entry.text) for entry in entries) <= LONGEST_KEPT
        lasts = is_small and row[8] is not None and all(entry.chunks for entry in entries)
        (lasting if lasts else passing)[row[0]] = entries
    return lasting, passing


def _listed(turns: Iterable[bytes]) -> str:
    return json.dumps([turn.hex() for turn in turns])


def _plain(row: Row, chunks: Sequence[Row], origins: Origins) -> Iterator[IndexedMessage]:
    """Return the sides of a turn of two plain texts."""
    sides: tuple[tuple[ChunkSide, int | None, str | None], ...] = (
        ("user", row[6], row[7]),
        ("assistant", row[8], row[9]),
    )
    ids = _ids(row)
    for side, key, text in sides:
        if key is not None and text is not None and text.strip():
            cut = tuple(_chunk(chunk, ids, side, text) for chunk in chunks if chunk[1] == side)
            yield _entry(row, ids, (side, text), origins.get(key, ()), cut)


def _rich(connection: Connection, row: Row, origins: Origins) -> Iterator[IndexedMessage]:
    """Return the sides of a turn with other content."""
    ids = _ids(row)
    chunks = chunks_of_turn(connection, ids.turn)
    for spoken in sides_of(existing_turn(connection, ids.turn)):
        key = row[8] if spoken.side == "assistant" else row[6]
        cut = tuple(chunk for chunk in chunks if chunk.side == spoken.side)
        yield _entry(row, ids, (spoken.side, spoken.text), origins.get(key, ()), cut)


class _Ids(NamedTuple):
    """The public ids of a turn, formatted once per turn."""

    session: SessionId
    branch: BranchId
    turn: TurnId


def _ids(row: Row) -> _Ids:
    return _Ids(unpack(row[1]), unpack(row[2]), unpack(row[0]))


def _entry(
    row: Row, ids: _Ids, said: tuple[ChunkSide, str], origins: Sequence[Row], chunks: tuple[Chunk, ...]
) -> IndexedMessage:
    side, text = said
    moments = [origin[1] for origin in origins if origin[1] is not None]
    names = (origin[2] for origin in origins if isinstance(origin[2], str))
    return IndexedMessage(
        place=TextPosition(ids.turn, side),
        session_id=ids.session,
        branch_id=ids.branch,
        turn_seq=row[3],
        said_at=from_millis(min(moments) if moments else row[4]),
        text=text,
        speaker="" if side == "tool" else next(names, ""),
        external_ids=tuple(origin[0] for origin in origins if origin[0] is not None),
        chunks=chunks,
    )


def _chunk(row: Row, ids: _Ids, side: ChunkSide, text: str) -> Chunk:
    return Chunk(
        id=unpack(row[0]),
        session_id=ids.session,
        branch_id=ids.branch,
        source_turn=ids.turn,
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
