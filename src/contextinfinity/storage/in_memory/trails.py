"""Prefix hashes, in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from msgspec import Struct
from msgspec.structs import replace

from contextinfinity.domain.ids import BranchId, SessionId, TurnId, WorkerId, now
from contextinfinity.domain.message import Message
from contextinfinity.domain.session import Owner
from contextinfinity.domain.trail import TrailEnd, Walked, after, alone, beginning
from contextinfinity.domain.turn import Exchange, NewTurn, Phase, Trail, Turn
from contextinfinity.storage.in_memory.tables import Tables
from contextinfinity.storage.prefix_hashes import MOST_CANDIDATES, MOST_CONTINUATIONS, gone_on, not_on_branch


class Trod(Struct, frozen=True, kw_only=True):
    """The hashes of one turn."""

    asked: int | None = None
    before: int | None = None
    answered: int | None = None
    alone: int | None = None
    body: int | None = None
    broken_at: datetime | None = None
    is_open: bool = False


class InMemoryTrails:
    """The ``Trails`` of an ``InMemoryStore``."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    async def end(self, owner: Owner, answered: int, *, session_id: SessionId | None = None) -> TrailEnd | None:
        """Find the turn up to which exactly this was said."""
        with self._tables.transaction() as tables:
            turns = [turn for turn, trod in _trod(tables, owner, session_id) if trod.answered == answered]
            if free := _free(tables, turns):
                return free[0]
            followed = {
                trod.asked
                for turn, trod in _trod(tables, owner, None)
                if trod.before == answered and turn.phase is not Phase.FAILED
            }
            continuations = min(len(followed), MOST_CONTINUATIONS)
            return replace(_followed(turns[0]), continuations=continuations) if turns else None

    async def exchanges(self, owner: Owner, alone: int, *, session_id: SessionId | None = None) -> tuple[TrailEnd, ...]:
        """Find the turns that say just this exchange."""
        with self._tables.transaction() as tables:
            turns = [turn for turn, trod in _trod(tables, owner, session_id) if trod.alone == alone]
            last = (_last(tables, branch_id) for branch_id in tables.branches)
            turns += [turn for turn in last if turn is not None and _is_said(tables, turn, owner, alone, session_id)]
            by_turn = dict[TurnId, TrailEnd]()
            for end in (*_free(tables, turns), *map(_followed, turns)):
                by_turn.setdefault(end.turn_id, end)
            return tuple(by_turn.values())[: MOST_CANDIDATES + 1]

    async def note_broken(self, turn_id: TurnId) -> None:
        """Record that the connection of a turn's request broke."""
        with self._tables.transaction() as tables:
            if (trod := tables.trails.get(turn_id)) is not None and trod.body is not None:
                tables.trails[turn_id] = replace(trod, broken_at=now(), is_open=False)

    async def note_delivered(self, turn_ids: Sequence[TurnId]) -> None:
        """Record that requests were answered."""
        with self._tables.transaction() as tables:
            for turn_id in tables.trails.keys() & set(turn_ids):
                tables.trails[turn_id] = replace(tables.trails[turn_id], broken_at=None, is_open=False)

    async def join_broken(self, owner: Owner, body: int, *, since: datetime) -> TurnId | None:
        """Return a turn whose connection broke, and clear the record of it."""
        with self._tables.transaction() as tables:
            broken = (
                turn.id
                for turn, trod in _trod(tables, owner, None)
                if trod.body == body and trod.broken_at is not None and trod.broken_at >= since
                if turn.phase is not Phase.FAILED and turn.outcome != "cancelled"
            )
            if (turn_id := min(broken, default=None)) is not None:
                tables.trails[turn_id] = replace(tables.trails[turn_id], broken_at=None, is_open=True)
            return turn_id

    async def walked(self, owner: Owner, trail: Trail) -> Walked | None:
        """Find the newest turn that a request made."""
        with self._tables.transaction() as tables:
            trods = _trod(tables, owner, None)
            made = (turn for turn, trod in trods if (trod.asked, trod.body) == (trail.asked, trail.body))
            turn = max(made, key=lambda turn: turn.id, default=None)
            return None if turn is None else Walked(turn_id=turn.id, phase=turn.phase)


def check_place(tables: Tables, new: NewTurn) -> None:
    """Refuse a message whose branch has gone on since its place was looked for, or has no turn that it retries."""
    branch_id, trail = new.branch_id, new.trail
    if trail is not None and trail.follows is not None:
        later = tables.turns_of[branch_id][tables.place_on(branch_id, trail.follows + 1) :]
        if any(tables.turns[turn_id].phase is not Phase.FAILED for turn_id in later):
            raise gone_on(branch_id, trail.follows)
    if new.retry_of is not None:
        turn, lineage = tables.turns.get(new.retry_of), tables.lineage(tables.branches[branch_id])
        if turn is None or lineage.owner_of(turn.turn_seq) != turn.branch_id:
            raise not_on_branch(branch_id, new.retry_of)


def note_asked(tables: Tables, turn: Turn, trail: Trail | None) -> None:
    """Keep the hashes that a message brought."""
    if trail is not None:
        hashes = Trod(asked=trail.asked, before=trail.before, alone=trail.alone, body=trail.body)
        tables.trails[turn.id] = replace(hashes, is_open=trail.is_open)


def note_answered(tables: Tables, turn: Turn) -> None:
    """Keep the hashes of an answered turn: after those it brought, else after those of the turn before it."""
    if turn.answer is None or turn.phase is Phase.FAILED:
        return
    known = tables.trails.get(turn.id) or Trod()
    if known.asked is None:
        before = _answered_before(tables, turn)
        known = replace(known, before=before, asked=None if before is None else after(before, turn.user_message))
    tables.trails[turn.id] = _answered(tables, known, turn, turn.answer)


def note_dead(tables: Tables, worker: WorkerId) -> None:
    """Keep that all connections of a dead worker broke."""
    for turn_id, trod in list(tables.trails.items()):
        if trod.is_open and tables.turns[turn_id].owner == worker:
            tables.trails[turn_id] = replace(trod, broken_at=now(), is_open=False)


def placed_here(tables: Tables, branch_id: BranchId, trail: Trail | None) -> Trail | None:
    """Drop the prefix hash of a message that lands behind other turns than its sender knew."""
    if trail is None:
        return None
    turn, trail = _last(tables, branch_id), replace(trail, is_open=False)
    trod = None if turn is None else tables.trails.get(turn.id)
    is_known = trail.before is not None and (turn is None or (trod is not None and trod.answered == trail.before))
    return trail if is_known else replace(trail, asked=None, before=None)


def note_recorded(tables: Tables, turns: Sequence[Turn], exchanges: Sequence[Exchange]) -> None:
    """Keep the hashes of recorded turns, of those that brought them."""
    before: int | None = None
    for turn, exchange in zip(turns, exchanges, strict=True):
        if exchange.asked is not None and turn.answer is not None:
            trod = Trod(asked=exchange.asked, before=before, alone=exchange.alone)
            tables.trails[turn.id] = _answered(tables, trod, turn, turn.answer)
            before = tables.trails[turn.id].answered


def _answered(tables: Tables, trod: Trod, turn: Turn, answer: Message) -> Trod:
    answered = None if trod.asked is None else after(trod.asked, answer)
    owner = tables.sessions[turn.session_id].owner
    by_itself = alone(turn.user_message, owner) if trod.alone is None else trod.alone
    return replace(trod, answered=answered, alone=after(by_itself, answer))


def _answered_before(tables: Tables, turn: Turn) -> int | None:
    """Give the prefix hash in front of a turn; None: it is not known, as behind imported turns."""
    before = next(_unfailed_before(tables, turn.branch_id, turn.turn_seq), None)
    if before is None:
        return beginning(tables.sessions[turn.session_id].owner)
    trod = tables.trails.get(before.id)
    return None if trod is None else trod.answered


def _unfailed_before(tables: Tables, branch_id: BranchId, turn_seq: int) -> Iterator[Turn]:
    for owner, first, last in tables.lineage(tables.branches[branch_id]).backwards(turn_seq):
        stretch = tables.turns_of[owner][tables.place_on(owner, first) : tables.place_on(owner, last + 1)]
        turns = (tables.turns[turn_id] for turn_id in reversed(stretch))
        yield from (turn for turn in turns if turn.phase is not Phase.FAILED)


def _trod(tables: Tables, owner: Owner, session_id: SessionId | None) -> Iterator[tuple[Turn, Trod]]:
    """Give the turns of an owner's threads with their trails, those of the newest thread first."""
    turns = [(tables.turns[turn_id], trod) for turn_id, trod in tables.trails.items()]
    for turn, trod in sorted(turns, key=lambda one: (one[0].session_id, one[0].id), reverse=True):
        if _is_theirs(tables, turn, owner, session_id):
            yield turn, trod


def _is_theirs(tables: Tables, turn: Turn, owner: Owner, session_id: SessionId | None) -> bool:
    session = tables.sessions[turn.session_id]
    return session.owner == owner and session.kind == "thread" and session_id in (None, session.id)


def _is_said(tables: Tables, turn: Turn, owner: Owner, number: int, session_id: SessionId | None) -> bool:
    """Tell whether a turn from elsewhere, which left no trail, says just this."""
    if turn.id in tables.trails or turn.answer is None or not _is_theirs(tables, turn, owner, session_id):
        return False
    return after(alone(turn.user_message, owner), turn.answer) == number


def _last(tables: Tables, branch_id: BranchId) -> Turn | None:
    """Give the last turn that a branch sees and that did not fail."""
    return next(_unfailed_before(tables, branch_id, 2**62), None)


def _free(tables: Tables, turns: Sequence[Turn]) -> list[TrailEnd]:
    """Give the branches that leave off with one of the turns: first those whose own it is, the newest first."""
    ids = {turn.id for turn in turns}
    ends = []
    for branch_id in sorted(tables.branches, reverse=True):
        last = _last(tables, branch_id)
        if last is not None and last.id in ids:
            fresh = last.branch_id != branch_id
            ends.append(replace(_followed(last), branch_id=branch_id, is_free=True, is_fresh=fresh))
    return sorted(ends, key=lambda end: end.is_fresh)


def _followed(turn: Turn) -> TrailEnd:
    return TrailEnd(
        session_id=turn.session_id,
        branch_id=turn.branch_id,
        turn_id=turn.id,
        turn_seq=turn.turn_seq,
        is_free=False,
    )
