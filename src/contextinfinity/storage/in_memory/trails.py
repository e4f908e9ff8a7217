"""Trails, in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from contextinfinity.domain.ids import BranchId, SessionId
from contextinfinity.domain.message import Message
from contextinfinity.domain.session import Owner
from contextinfinity.domain.trail import TrailEnd, Walked, after, alone, beginning
from contextinfinity.domain.turn import Exchange, Phase, Trail, Turn
from contextinfinity.storage.in_memory.tables import Tables
from contextinfinity.storage.trails import gone_on


class Trod(Struct, frozen=True, kw_only=True):
    """The trails of one turn."""

    asked: int | None = None
    answered: int | None = None
    alone: int | None = None
    body: int | None = None


class InMemoryTrails:
    """The ``Trails`` of an ``InMemoryStore``."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    async def end(
        self, owner: Owner, answered: Sequence[int], *, session_id: SessionId | None = None
    ) -> tuple[int, TrailEnd] | None:
        """Find the turn that the first trail that leads anywhere leads to."""
        with self._tables.transaction() as tables:
            for place, trail in enumerate(answered):
                turns = [turn for turn, trod in _trod(tables, owner, session_id) if trod.answered == trail]
                if turns:
                    free = _free(tables, turns)
                    return place, free[0] if free else _followed(turns[0])
        return None

    async def ends_of_exchange(
        self, owner: Owner, alone: int, *, session_id: SessionId | None = None
    ) -> tuple[TrailEnd, ...]:
        """Find turns that say just this, free ones or else others."""
        with self._tables.transaction() as tables:
            turns = [turn for turn, trod in _trod(tables, owner, session_id) if trod.alone == alone]
            last = (_last(tables, branch_id) for branch_id in tables.branches)
            turns += [turn for turn in last if turn is not None and _is_said(tables, turn, owner, alone, session_id)]
            ends = _free(tables, turns) or [_followed(turn) for turn in turns]
            return tuple({end.turn_id: end for end in reversed(ends)}.values())[::-1][:2]

    async def walked(self, owner: Owner, trail: Trail) -> Walked | None:
        """Find the turn that a request made, the newest."""
        with self._tables.transaction() as tables:
            trods = _trod(tables, owner, None)
            made = (turn for turn, trod in trods if (trod.asked, trod.body) == (trail.asked, trail.body))
            turn = max(made, key=lambda turn: turn.id, default=None)
            return None if turn is None else Walked(turn_id=turn.id, phase=turn.phase, created_at=turn.created_at)


def check_follows(tables: Tables, branch_id: BranchId, trail: Trail | None) -> None:
    """Refuse a message that does not stand where its sender thinks: others have gone on there."""
    if trail is not None and trail.follows is not None:
        later = tables.turns_of[branch_id][tables.place_on(branch_id, trail.follows + 1) :]
        if any(tables.turns[turn_id].phase is not Phase.FAILED for turn_id in later):
            raise gone_on(branch_id, trail.follows)


def note_asked(tables: Tables, turn: Turn, trail: Trail | None) -> None:
    """Keep where a message stands for its sender."""
    if trail is not None:
        tables.trails[turn.id] = Trod(asked=trail.asked, alone=trail.alone, body=trail.body)


def note_answered(tables: Tables, turn: Turn) -> None:
    """Keep how it went on: from where its sender stood, or else from where the turn before it ended."""
    if turn.answer is None or turn.phase is Phase.FAILED:
        return
    known = tables.trails.get(turn.id) or Trod(asked=_asked_after(tables, turn))
    tables.trails[turn.id] = _answered(tables, known, turn, turn.answer)


def note_recorded(tables: Tables, turns: Sequence[Turn], exchanges: Sequence[Exchange]) -> None:
    """Keep the trails of turns from elsewhere, of those that brought one."""
    for turn, exchange in zip(turns, exchanges, strict=True):
        if exchange.asked is not None and turn.answer is not None:
            trod = Trod(asked=exchange.asked, alone=exchange.alone)
            tables.trails[turn.id] = _answered(tables, trod, turn, turn.answer)


def _answered(tables: Tables, trod: Trod, turn: Turn, answer: Message) -> Trod:
    answered = None if trod.asked is None else after(trod.asked, answer)
    owner = tables.sessions[turn.session_id].owner
    by_itself = alone(turn.user_message, owner) if trod.alone is None else trod.alone
    return replace(trod, answered=answered, alone=after(by_itself, answer))


def _asked_after(tables: Tables, turn: Turn) -> int | None:
    before = next(_unfailed_before(tables, turn.branch_id, turn.turn_seq), None)
    if before is None:
        return after(beginning(tables.sessions[turn.session_id].owner), turn.user_message)
    trod = tables.trails.get(before.id)
    return None if trod is None or trod.answered is None else after(trod.answered, turn.user_message)


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
