"""The search index: keyword search, reading the results, keeping the index up to date.

The words of a message are indexed in the transaction that writes it; chunks and vectors follow with TX-C, or with
``fill`` for turns that were recorded or imported.

The table ``uncut`` lists the turns without chunks. While the index is rebuilt for a new version of its words,
``word_state`` holds the progress.

Results are read as entries: many turns at once, with their chunks and the origins of their messages. Most turns are
two plain texts; all of these are read with three statements. Turns with images or tools are read one by one.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator, Sequence
from threading import Lock
from typing import NamedTuple, TypeAlias

from contextinfinity.domain.ids import BranchId, SessionId, TurnId, from_millis, now, to_millis
from contextinfinity.domain.search import Chunk, ChunkSide, IndexedMessage, IndexState, NewChunk, TextPosition
from contextinfinity.domain.turn import Turn, sides_of
from contextinfinity.storage.database import Connection, Database, Row, StoreResource, reads, writes
from contextinfinity.storage.invariants import ENDED, row_limit
from contextinfinity.storage.ledger.chunks import add_chunks, chunks_of_turn, replace_chunks
from contextinfinity.storage.ledger.keyword_index import clear_samples
from contextinfinity.storage.ledger.keyword_search import find_words
from contextinfinity.storage.ledger.rows import pack, unpack
from contextinfinity.storage.ledger.turns import existing_turn
from contextinfinity.text.keywords import VERSION

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


CutTurn: TypeAlias = tuple[TurnId, Sequence[NewChunk]]


LOOKED_OVER = 2_048
"""Messages checked per call."""


# --- keeping the index up to date ---


def list_uncut_turns(connection: Connection, *, limit: int = 256) -> tuple[Turn, ...]:
    """Return finished turns (Indexed, Done, Failed) without chunks, oldest first."""
    rows = connection.many("select_uncut", (row_limit(limit),))
    return tuple(existing_turn(connection, unpack(row[0])) for row in rows)


def list_indexed_turns(connection: Connection, *, after: TurnId | None = None, limit: int = 256) -> tuple[Turn, ...]:
    """Return turns in any phase, oldest first; with ``after``, those accepted after that turn.

    To rebuild the index, pass all pages to ``replace``.
    """
    return _turns(connection, after, row_limit(limit))


def _turns(connection: Connection, after: TurnId | None, limit: int) -> tuple[Turn, ...]:
    row = None if after is None else connection.one("select_keys", (pack(after),))
    if after is not None and row is None:
        return ()
    rows = connection.many("select_turns_after", (0 if row is None else row[0], limit))
    return tuple(existing_turn(connection, unpack(turn_id)) for turn_id, _ in rows)


def _fill(connection: Connection, cut: Sequence[CutTurn]) -> None:
    for turn_id, chunks in cut:
        add_chunks(connection, turn_id, chunks, ENDED)
        connection.execute("restore_turn", {"id": pack(turn_id), "now": to_millis(now())})


def _replace(connection: Connection, cut: Sequence[CutTurn]) -> None:
    renewing = _begin_renewing(connection)
    for turn_id, chunks in cut:
        replace_chunks(connection, turn_id, chunks, other=renewing)
    if renewing:
        _advance_renewal(connection, {pack(turn_id) for turn_id, _ in cut})


def _begin_renewing(connection: Connection) -> bool:
    """Return whether the index is being rebuilt for another version; start the rebuild if it is needed."""
    version, renewing = connection.many("select_marks")[0][:2]
    if version in (None, VERSION):
        return False
    if renewing != VERSION:
        connection.execute("begin_renewing", {"version": VERSION})
        clear_samples(connection)
    return True


def _advance_renewal(connection: Connection, done: set[bytes]) -> None:
    """Advance the progress mark past finished turns; after the last one, switch to the new version."""
    _, _, made, upto = connection.many("select_marks")[0]
    rows = connection.many("select_turns_after", (made, len(done) + 1))
    for turn_id, question in rows:
        if question > upto or turn_id not in done:
            break
        made = question
    if made >= upto:
        connection.execute("end_renewing")
    else:
        connection.execute("go_on_renewing", {"made": made})


def fill_index(connection: Connection, cut: Sequence[CutTurn]) -> None:
    """Add the chunks and missing index words of finished turns; an empty turn is passed without chunks.

    Raises ``WrongPhase`` for a turn that has not ended.
    """
    _fill(connection, cut)


def replace_index(connection: Connection, cut: Sequence[CutTurn]) -> None:
    """Replace the words, chunks and vectors of these turns in one transaction; searches keep working.

    A turn that has not ended is passed without chunks: only its words are replaced.
    """
    _replace(connection, cut)


def read_index_state(connection: Connection) -> IndexState:
    """Return how complete the index is."""
    messages, indexed, uncut, chunks, version = connection.many("select_index_state")[0]
    return IndexState(
        messages=messages,
        indexed=indexed,
        uncut=uncut,
        chunks=chunks,
        version=VERSION if version is None else version,
    )


class Index(StoreResource):
    """The search index. All of it is derived from the messages and can be rebuilt."""

    find_words = reads(find_words)
    uncut = reads(list_uncut_turns)
    turns = reads(list_indexed_turns)

    def __init__(self, database: Database) -> None:
        self._database = database
        self._shelf = EntryReader()

    async def read(self, places: Sequence[TextPosition]) -> tuple[IndexedMessage, ...]:
        """Return the messages at these positions, in the given order; unknown and empty ones are left out."""
        return await self._database.read(lambda connection: self._shelf.places(connection, places))

    async def around(self, turn_ids: Collection[TurnId]) -> tuple[IndexedMessage, ...]:
        """Return the messages of these turns and of the turns just before and after them in the same branch."""
        return await self._database.read(lambda connection: self._shelf.around(connection, turn_ids))

    async def check(self, *, after: int = 0) -> int | None:
        """Check a batch of messages, oldest first, for missing index words and chunks.

        Incomplete turns are returned by ``uncut`` from then on. Returns ``after`` for the next call; None at the end.
        """

        def astray(connection: Connection) -> tuple[list[Row], int]:
            (last,) = connection.one("select_last_question")  # type: ignore[misc]
            window = {"first": after + 1, "last": after + LOOKED_OVER}
            return connection.many("select_astray", window), last

        found, last = await self._database.read(astray)
        if found:
            await self._database.write(lambda connection: connection.execute_many("insert_uncut", found))
        return after + LOOKED_OVER if after + LOOKED_OVER < last else None

    fill = writes(fill_index, bulk=True)
    replace = writes(replace_index, bulk=True)
    state = reads(read_index_state)
