"""Trails in SQLite: written inside the transactions of turns, and where they lead."""

from __future__ import annotations

import json
from collections.abc import Sequence

import apsw

from contextinfinity.domain.ids import BranchId, SessionId
from contextinfinity.domain.message import Message
from contextinfinity.domain.session import Owner
from contextinfinity.domain.trail import TrailEnd, Walked, after, alone, beginning
from contextinfinity.domain.turn import Exchange, Phase, Trail, Turn
from contextinfinity.storage import sql_files
from contextinfinity.storage.sqlite.database import Database
from contextinfinity.storage.sqlite.rows import Row, many, maybe_pack, one, pack, unpack
from contextinfinity.storage.sqlite.sessions import lineage_of
from contextinfinity.storage.trails import MOST_ENDS, gone_on

SQL = sql_files.load(__package__, "trails.sql")


class SqliteTrails:
    """``Trails`` on a SQLite file."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def ends(
        self, owner: Owner, answered: Sequence[int], *, session_id: SessionId | None = None
    ) -> tuple[int, tuple[TrailEnd, ...]] | None:
        """Find the turns that the first trail that leads anywhere leads to."""
        asked = {**_whose(owner, session_id), "trails": json.dumps(list(answered)), "limit": MOST_ENDS}

        def read(connection: apsw.Connection) -> tuple[int, tuple[TrailEnd, ...]] | None:
            rows = many(connection, SQL["select_ends"], asked)
            if not rows:
                return None
            first = rows[0][0]
            found = (_free(connection, _to_end(row)) for row in rows if row[0] == first)
            return first, tuple(sorted(found, key=lambda end: not end.is_free))

        return await self._database.read(read)

    async def ends_of_exchange(
        self, owner: Owner, alone: int, *, session_id: SessionId | None = None
    ) -> tuple[TrailEnd, ...]:
        """Find the free turns that say just this."""
        asked = {**_whose(owner, session_id), "alone": alone, "limit": 2}
        return await self._database.read(
            lambda connection: tuple(map(_to_end, many(connection, SQL["select_exchange"], asked)))
        )

    async def walked(self, owner: Owner, trail: Trail) -> Walked | None:
        """Find the turn that a request made, the newest."""
        asked = {"user_id": owner.user_id, "org_id": owner.org_id, "asked": trail.asked, "body": trail.body}
        row = await self._database.look(lambda connection: one(connection, SQL["select_walked"], asked))
        return None if row is None else Walked(turn_id=unpack(row[0]), phase=Phase(row[1]))


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
    if answer is None or phase is Phase.FAILED:
        return
    row = one(connection, SQL["select_asked"], (pack(turn.id),))
    asked, by_itself = (_asked_after(connection, turn), None) if row is None else row
    connection.execute(SQL["answer_trail"], _columns(turn, asked, by_itself, answer))


def note_recorded(connection: apsw.Connection, turns: Sequence[Turn], exchanges: Sequence[Exchange]) -> None:
    """Write the trails of turns from elsewhere, of those that brought one."""
    rows = [
        _columns(turn, exchange.asked, exchange.alone, turn.answer) | {"body": None}
        for turn, exchange in zip(turns, exchanges, strict=True)
        if exchange.asked is not None and turn.answer is not None
    ]
    connection.executemany(SQL["insert_trail"], rows)


def _columns(turn: Turn, asked: int | None, by_itself: int | None, answer: Message) -> dict[str, object]:
    return {
        "turn_id": pack(turn.id),
        "session_id": pack(turn.session_id),
        "asked": asked,
        "answered": None if asked is None else after(asked, answer),
        "alone": after(alone(turn.user_message) if by_itself is None else by_itself, answer),
    }


def _asked_after(connection: apsw.Connection, turn: Turn) -> int | None:
    """Go on from the turn before; None: that has no trail."""
    for branch, first, last in lineage_of(connection, turn.branch_id).backwards(turn.turn_seq):
        place = {"branch_id": pack(branch), "first": first, "last": last}
        if (row := one(connection, SQL["select_before"], place)) is not None:
            return None if row[0] is None else after(row[0], turn.user_message)
    return after(beginning(), turn.user_message)


def _whose(owner: Owner, session_id: SessionId | None) -> dict[str, object]:
    return {"user_id": owner.user_id, "org_id": owner.org_id, "session_id": maybe_pack(session_id)}


def _to_end(row: Row) -> TrailEnd:
    _, session_id, branch_id, turn_id, turn_seq, free = row
    return TrailEnd(
        session_id=unpack(session_id),
        branch_id=unpack(branch_id),
        turn_id=unpack(turn_id),
        turn_seq=turn_seq,
        is_free=bool(free),
    )


def _free(connection: apsw.Connection, end: TrailEnd) -> TrailEnd:
    """Give the place on a branch that was begun after the turn and says nothing yet, where its own goes on."""
    if end.is_free:
        return end
    place = {"session_id": pack(end.session_id), "branch_id": pack(end.branch_id), "turn_seq": end.turn_seq}
    row = one(connection, SQL["select_fresh_branch"], place)
    return (
        end
        if row is None
        else TrailEnd(
            session_id=end.session_id,
            branch_id=unpack(row[0]),
            turn_id=end.turn_id,
            turn_seq=end.turn_seq,
            is_free=True,
            is_fresh=True,
        )
    )
