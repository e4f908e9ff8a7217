"""The search index: keyword search, reading the results, keeping the index up to date.

The words of a message are indexed in the transaction that writes it; chunks and vectors follow with TX-C, or with
``fill`` for turns that were recorded or imported.

The table ``uncut`` lists the turns without chunks. While the index is rebuilt for a new version of its words,
``word_state`` holds the progress.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TypeAlias

from contextinfinity.domain.ids import TurnId, now, to_millis
from contextinfinity.domain.search import IndexedMessage, IndexState, NewChunk, TextPosition
from contextinfinity.domain.turn import Turn
from contextinfinity.storage.database import Connection, Database, Row
from contextinfinity.storage.invariants import ENDED, row_limit
from contextinfinity.storage.ledger.binding import StoreResource, reads, writes
from contextinfinity.storage.ledger.chunks import add_chunks, replace_chunks
from contextinfinity.storage.ledger.keyword_index import clear_samples
from contextinfinity.storage.ledger.keyword_search import find_words
from contextinfinity.storage.ledger.rows import pack, unpack
from contextinfinity.storage.ledger.search_entries import EntryReader
from contextinfinity.storage.ledger.turns import existing_turn
from contextinfinity.text.keywords import VERSION

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
