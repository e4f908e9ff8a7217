"""The index in memory: every place is asked for its words, one after the other."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from msgspec.structs import replace

from contextinfinity.domain.chunk import NewChunk
from contextinfinity.domain.ids import TurnId, now
from contextinfinity.domain.search import Entry, IndexState, Place, Scope, WordHit, WordHits
from contextinfinity.domain.sides import sides_of
from contextinfinity.domain.turn import Turn
from contextinfinity.storage.in_memory.chunks import add_chunks, check_chunks, chunks_of_turn, replace_chunks
from contextinfinity.storage.in_memory.tables import Tables, check_text
from contextinfinity.storage.index import MOST_TERMS, CutTurn, weight
from contextinfinity.storage.rules import ENDED, check_phase, end_place, row_limit
from contextinfinity.text.keywords import VERSION


class InMemoryIndex:
    """The ``Index`` of an ``InMemoryStore``."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    async def find_words(self, terms: Sequence[str], scope: Scope, *, most: int = 128) -> WordHits:
        """Find places that hold any of the terms."""
        asked = list(terms[:MOST_TERMS])
        with self._tables.transaction() as tables:
            within = [place for place in tables.own if _is_within(tables, place, scope)]
            counts = {term: sum(term in tables.own[place] for place in within) for term in asked}
            weights = {term: weight(counts[term], len(within)) for term in counts}
            held = [place for place in within if any(term in _held(tables, place) for term in asked)]
            admitted = [place for place in held if _is_admitted(tables, place, scope)]
            admitted.sort(key=lambda place: (-_score(tables, place, weights), -tables.numbers[place]))
            return WordHits(
                hits=tuple(_hit(tables, place, asked) for place in admitted[: row_limit(most)]),
                counts=tuple(counts[term] for term in asked),
                total=len(within),
            )

    async def read(self, places: Sequence[Place]) -> tuple[Entry, ...]:
        """Read places in the order asked for."""
        with self._tables.transaction() as tables:
            return tuple(entry for place in places for entry in _entries(tables, place))

    async def around(self, turn_ids: Collection[TurnId]) -> tuple[Entry, ...]:
        """Read all that was said in turns and in their neighbours."""
        with self._tables.transaction() as tables:
            found = dict.fromkeys(place for turn_id in turn_ids for place in _around(tables, turn_id))
            return tuple(entry for place in found for entry in _entries(tables, place))

    async def uncut(self, *, limit: int = 256) -> tuple[Turn, ...]:
        """Read turns that have ended and have no chunks yet."""
        with self._tables.transaction() as tables:
            return _oldest(tables, tables.uncut, limit)

    async def turns(self, *, after: TurnId | None = None, limit: int = 256) -> tuple[Turn, ...]:
        """Read turns in any phase, the oldest first."""
        with self._tables.transaction() as tables:
            if after is None:
                return _oldest(tables, tables.turns, limit)
            if after not in tables.turns:
                return ()
            place = _number(tables, after)
            return _oldest(tables, (turn_id for turn_id in tables.turns if _number(tables, turn_id) > place), limit)

    async def check(self, *, after: int = 0) -> int | None:
        """Find nothing missing: what is there and what is not changes together."""
        return None

    async def fill(self, cut: Sequence[CutTurn]) -> None:
        """Add the chunks of turns that have ended."""
        check_text(cut)
        with self._tables.transaction() as tables:
            for turn, chunks in _checked(tables, cut, always=True):
                add_chunks(tables, turn, chunks)
                if turn.degraded:
                    tables.put_turn(replace(turn, degraded=False, updated_at=now()))

    async def replace(self, cut: Sequence[CutTurn]) -> None:
        """Make chunks of turns anew; words always are as they should be."""
        check_text(cut)
        with self._tables.transaction() as tables:
            for turn, chunks in _checked(tables, cut, always=False):
                if chunks:  # a turn that was running when it was read may have been cut since
                    replace_chunks(tables, turn, chunks)

    async def state(self) -> IndexState:
        """Tell how far the index goes."""
        with self._tables.transaction() as tables:
            messages = sum(place.side != "tool" for place in tables.numbers)
            return IndexState(
                messages=messages,
                indexed=messages,
                uncut=len(tables.uncut),
                chunks=len(tables.chunks),
                version=VERSION,
            )


def _checked(tables: Tables, cut: Sequence[CutTurn], *, always: bool) -> list[tuple[Turn, Sequence[NewChunk]]]:
    found = [(tables.turn(turn_id), chunks) for turn_id, chunks in cut]
    for turn, chunks in found:
        if chunks or always:
            check_phase(turn.id, turn.phase, ENDED)
    check_chunks(tables, found)
    return found


def _number(tables: Tables, turn_id: TurnId) -> int:
    return tables.numbers[Place(turn_id, "user")]


def _oldest(tables: Tables, turn_ids: Iterable[TurnId], limit: int) -> tuple[Turn, ...]:
    oldest = sorted(turn_ids, key=lambda turn_id: _number(tables, turn_id))
    return tuple(tables.turns[turn_id] for turn_id in oldest[: row_limit(limit)])


# --- finding ---


def _held(tables: Tables, place: Place) -> frozenset[str]:
    return tables.own[place] | tables.lent.get(place, frozenset())


def _hit(tables: Tables, place: Place, asked: Sequence[str]) -> WordHit:
    own, lent = tables.own[place], tables.lent.get(place, frozenset())
    return WordHit(
        place,
        sum((term in own) << at for at, term in enumerate(asked)),
        sum((term in lent) << at for at, term in enumerate(asked)),
    )


def _score(tables: Tables, place: Place, weights: dict[str, int]) -> int:
    own, lent = tables.own[place], tables.lent.get(place, frozenset())
    return sum(each if term in own else each // 2 if term in lent else 0 for term, each in weights.items())


def _is_within(tables: Tables, place: Place, scope: Scope) -> bool:
    """Tell whether a place is of the session or the owner that is searched."""
    turn = tables.turns[place.turn_id]
    if scope.branch_id is not None:
        branch = tables.branches.get(scope.branch_id)
        if branch is None or branch.session_id != turn.session_id:
            return False
    return scope.session_id in (None, turn.session_id) and scope.owner in (
        None,
        tables.sessions[turn.session_id].owner,
    )


def _is_admitted(tables: Tables, place: Place, scope: Scope) -> bool:
    turn = tables.turns[place.turn_id]
    if not tables.is_living(turn):
        return False
    types = {chunk.chunk_type for chunk in chunks_of_turn(tables, turn.id) if chunk.side == place.side}
    return (
        scope.admits(place.side, tables.said_at(place))
        and (not scope.types or not types.isdisjoint(scope.types))
        and (scope.branch_id is None or _is_seen(tables, turn, scope))
    )


def _is_seen(tables: Tables, turn: Turn, scope: Scope) -> bool:
    line = tables.lineage(tables.branches[scope.branch_id or ""]).backwards(end_place(scope.before))
    return any(branch == turn.branch_id and first <= turn.turn_seq <= last for branch, first, last in line)


# --- reading ---


def _entries(tables: Tables, place: Place) -> Iterator[Entry]:
    turn = tables.turns.get(place.turn_id)
    for spoken in () if turn is None or not tables.is_living(turn) else sides_of(turn):
        if turn is None or spoken.side != place.side:
            continue
        origins = tables.origins_at(place)
        yield Entry(
            place=place,
            session_id=turn.session_id,
            branch_id=turn.branch_id,
            turn_seq=turn.turn_seq,
            said_at=tables.said_at(place),
            text=spoken.text,
            speaker="" if place.side == "tool" else next((origin.name for origin in origins if origin.name), ""),
            external_ids=tuple(origin.external_id for origin in origins if origin.external_id is not None),
            chunks=tuple(chunk for chunk in chunks_of_turn(tables, turn.id) if chunk.side == place.side),
        )


def _around(tables: Tables, turn_id: TurnId) -> Iterator[Place]:
    if (turn := tables.turns.get(turn_id)) is None:
        return
    line = tables.turns_of[turn.branch_id]
    at = tables.place_on(turn.branch_id, turn.turn_seq)
    for neighbour in line[max(at - 1, 0) : at + 2]:
        if abs(tables.turns[neighbour].turn_seq - turn.turn_seq) <= 1:
            yield from (Place(neighbour, spoken.side) for spoken in sides_of(tables.turns[neighbour]))
