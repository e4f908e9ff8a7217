"""Trails in SQLite: written inside the transactions of turns, and where they lead."""

from __future__ import annotations

import json
from collections.abc import Sequence

import apsw

from contextinfinity.domain.ids import BranchId, SessionId, from_millis
from contextinfinity.domain.message import Message
from contextinfinity.domain.session import Owner
from contextinfinity.domain.trail import TrailEnd, Walked, after, alone, beginning
from contextinfinity.domain.turn import Exchange, Phase, Trail, Turn
from contextinfinity.storage import sql_files
from contextinfinity.storage.sqlite.database import Database
from contextinfinity.storage.sqlite.rows import Row, many, maybe_pack, must, one, pack, unpack
from contextinfinity.storage.sqlite.sessions import lineage_of
from contextinfinity.storage.trails import gone_on

SQL = sql_files.load(__package__, "trails.sql")

MOST_FREE = 20
"""Branches that are looked at; several may have been begun after one turn."""


class SqliteTrails:
    """``Trails`` on a SQLite file."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def end(
        self, owner: Owner, answered: Sequence[int], *, session_id: SessionId | None = None
    ) -> tuple[int, TrailEnd] | None:
        """Find the turn that the first trail that leads anywhere leads to."""
        whose = _whose(owner, session_id)

        def read(connection: apsw.Connection) -> tuple[int, TrailEnd] | None:
            found = one(connection, SQL["select_first_known"], {**whose, "trails": json.dumps(list(answered))})
            if found is None or found[0] is None:
                return None
            asked = {**whose, "number": answered[found[0]], "limit": 1}
            row = one(connection, SQL["select_free_after_answer"], asked) or one(
                connection, SQL["select_after_answer"], asked
            )
            return None if row is None else (found[0], _to_end(row))

        is_small = len(answered) == 1  # as it mostly is: the newest is looked for first
        return await (self._database.look(read) if is_small else self._database.read(read))

    async def ends_of_exchange(
        self, owner: Owner, alone: int, *, session_id: SessionId | None = None
    ) -> tuple[TrailEnd, ...]:
        """Find turns that say just this, free ones or else others."""
        asked = {**_whose(owner, session_id), "number": alone}

        def read(connection: apsw.Connection) -> tuple[TrailEnd, ...]:
            free = many(connection, SQL["select_free_after_exchange"], {**asked, "limit": MOST_FREE})
            rows = free or many(connection, SQL["select_after_exchange"], {**asked, "limit": 2})
            by_turn = {end.turn_id: end for end in map(_to_end, reversed(rows))}
            return tuple(reversed(by_turn.values()))[:2]

        return await self._database.look(read)

    async def walked(self, owner: Owner, trail: Trail) -> Walked | None:
        """Find the turn that a request made, the newest."""
        asked = {"user_id": owner.user_id, "org_id": owner.org_id, "asked": trail.asked, "body": trail.body}
        row = await self._database.look(lambda connection: one(connection, SQL["select_walked"], asked))
        if row is None:
            return None
        return Walked(turn_id=unpack(row[0]), phase=Phase(row[1]), created_at=from_millis(row[2]))


def check_follows(connection: apsw.Connection, branch_id: BranchId, trail: Trail | None) -> None:
    """Refuse a message that does not stand where its sender thinks: others have gone on there."""
    if trail is not None and trail.follows is not None:
        place = {"branch_id": pack(branch_id), "first": trail.follows + 1, "last": 2**62}
        if one(connection, SQL["select_before"], place) is not None:
            raise gone_on(branch_id, trail.follows)


def note_asked(connection: apsw.Connection, turn: Turn, trail: Trail | None) -> None:
    """Write where a message stands for its sender."""
    if trail is not None:
        values = {"turn_id": pack(turn.id), "session_id": pack(turn.session_id), "answered": None}
        said = {"asked": trail.asked, "alone": trail.alone, "body": trail.body}
        connection.execute(SQL["insert_trail"], {**values, **said})


def note_answered(connection: apsw.Connection, turn: Turn, phase: Phase, answer: Message | None) -> None:
    """Write how it went on: from where its sender stood, or else from where the turn before it ended."""
    if phase is Phase.FAILED:
        return
    if answer is None:
        _set_end(connection, turn, None)
        return
    owner, is_thread = _owner_of(connection, turn)
    row = one(connection, SQL["select_asked"], (pack(turn.id),))
    asked, by_itself = (_asked_after(connection, turn, owner), None) if row is None else row
    columns = _columns(turn, asked, alone(turn.user_message, owner) if by_itself is None else by_itself, answer)
    connection.execute(SQL["answer_trail"], columns)
    if is_thread:
        _set_end(connection, turn, columns)


def note_recorded(connection: apsw.Connection, turns: Sequence[Turn], exchanges: Sequence[Exchange]) -> None:
    """Write the trails of turns from elsewhere, of those that brought one, and where they leave off."""
    owner, is_thread = _owner_of(connection, turns[-1])
    told = zip(turns, exchanges, strict=True)
    rows = [_told(turn, one, owner) for turn, one in told if one.asked is not None and turn.answer is not None]
    connection.executemany(SQL["insert_trail"], [{**(row or {}), "body": None} for row in rows])
    if is_thread:
        _set_end(connection, turns[-1], _told(turns[-1], exchanges[-1], owner))


def note_logged(connection: apsw.Connection, turn: Turn) -> None:
    """Write that a branch leaves off with a turn from elsewhere that was answered later."""
    owner, is_thread = _owner_of(connection, turn)
    if is_thread:
        _set_end(connection, turn, _told(turn, Exchange(message=turn.user_message), owner))


def _told(turn: Turn, exchange: Exchange, owner: Owner) -> dict[str, object] | None:
    """Give the trails of a turn from elsewhere; None: it was not answered."""
    if turn.answer is None:
        return None
    by_itself = alone(turn.user_message, owner) if exchange.alone is None else exchange.alone
    return _columns(turn, exchange.asked, by_itself, turn.answer)


def _set_end(connection: apsw.Connection, turn: Turn, columns: dict[str, object] | None) -> None:
    """Write that a branch leaves off with a turn, or with something that leads nowhere."""
    place = {"branch_id": pack(turn.branch_id), "turn_seq": turn.turn_seq}
    connection.execute(SQL["drop_end" if columns is None else "set_end"], {**place, **(columns or {})})


def _owner_of(connection: apsw.Connection, turn: Turn) -> tuple[Owner, bool]:
    """Tell whose a turn is, and whether it is one of a thread."""
    row = one(connection, SQL["select_whose"], (pack(turn.session_id),))
    user_id, org_id, kind = must(row, "session", turn.session_id)
    return Owner(user_id=user_id, org_id=org_id), kind == "thread"


def _columns(turn: Turn, asked: int | None, by_itself: int, answer: Message) -> dict[str, object]:
    return {
        "turn_id": pack(turn.id),
        "session_id": pack(turn.session_id),
        "asked": asked,
        "answered": None if asked is None else after(asked, answer),
        "alone": after(by_itself, answer),
    }


def _asked_after(connection: apsw.Connection, turn: Turn, owner: Owner) -> int | None:
    """Go on from the turn before; None: that has no trail."""
    for branch, first, last in lineage_of(connection, turn.branch_id).backwards(turn.turn_seq):
        place = {"branch_id": pack(branch), "first": first, "last": last}
        if (row := one(connection, SQL["select_before"], place)) is not None:
            return None if row[0] is None else after(row[0], turn.user_message)
    return after(beginning(owner), turn.user_message)


def _whose(owner: Owner, session_id: SessionId | None) -> dict[str, object]:
    return {"user_id": owner.user_id, "org_id": owner.org_id, "session_id": maybe_pack(session_id)}


def _to_end(row: Row) -> TrailEnd:
    session_id, branch_id, turn_id, turn_seq, free, fresh = row
    return TrailEnd(
        session_id=unpack(session_id),
        branch_id=unpack(branch_id),
        turn_id=unpack(turn_id),
        turn_seq=turn_seq,
        is_free=bool(free),
        is_fresh=bool(fresh),
    )
