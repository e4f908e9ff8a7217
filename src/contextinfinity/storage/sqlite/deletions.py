"""Deletions in SQLite: the noun, and which turns go. What a turn takes along is in ``removing``."""

from __future__ import annotations

import apsw

from contextinfinity.domain.deletion import Removed
from contextinfinity.domain.ids import SessionId, now, to_millis
from contextinfinity.errors import BranchBusy
from contextinfinity.storage import sql_files
from contextinfinity.storage.deletions import BATCH
from contextinfinity.storage.rules import row_limit
from contextinfinity.storage.sqlite.database import Database
from contextinfinity.storage.sqlite.keywords import session_token
from contextinfinity.storage.sqlite.removing import Doomed, forget_in_states, remove_turns
from contextinfinity.storage.sqlite.requests import forget_requests
from contextinfinity.storage.sqlite.rows import many, must, one, pack, unpack
from contextinfinity.storage.sqlite.sweeping import sweep

SQL = sql_files.load(__package__, "deletions.sql")
SESSION_SQL = sql_files.load(__package__, "sessions.sql")

WHOLE, EXPIRED = "deleted", "expired"
"""Why a session may be deleted from."""


class SqliteDeletions:
    """``Deletions`` on a SQLite file."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def due(self, *, limit: int = 100) -> tuple[SessionId, ...]:
        """Name sessions with something to delete."""
        values = {"now": to_millis(now()), "limit": row_limit(limit)}
        rows = await self._database.read(lambda connection: many(connection, SQL["select_due"], values))
        return tuple(unpack(row[0]) for row in rows)

    async def expire(self, session_id: SessionId, *, limit: int = BATCH) -> Removed:
        """Delete turns that are past their time, and the session with its last."""
        moment, key = to_millis(now()), pack(session_id)
        if not await self._database.look(lambda connection: _has_expired(connection, key, moment)):
            return Removed()  # the ordinary case costs no commit
        return await self._database.write(lambda connection: _expire(connection, key, moment, row_limit(limit)))

    async def delete(self, session_id: SessionId, *, limit: int = BATCH) -> Removed:
        """Delete a session with everything in it, a batch at a time."""
        return await self._database.write(lambda connection: _delete(connection, session_id, row_limit(limit)))

    async def sweep(self, *, steps: int = 16) -> bool:
        """Wipe out what deletions left in the file."""
        return await sweep(self._database, steps)


def _has_expired(connection: apsw.Connection, session_id: bytes, moment: int) -> bool:
    """Tell whether there may be something to delete; the times that are looked at are kept by the database itself."""
    row = one(connection, SQL["select_due_of"], {"session_id": session_id, "now": moment})
    return row is not None


def _expire(connection: apsw.Connection, session_id: bytes, moment: int, limit: int) -> Removed:
    found = one(connection, SQL["select_expiry"], (session_id,))
    if found is None:
        connection.execute(SQL["end_deletion"], (session_id,))
        return Removed()
    ttl, created_at, updated_at, is_begun = found
    if is_begun:
        return _go_on(connection, session_id, limit)
    before = moment - ttl
    values = {"session_id": session_id, "before": before, "limit": limit}
    turns = [Doomed(*row) for row in many(connection, SQL["select_expired"], values)]
    if turns:
        _begin(connection, session_id, EXPIRED)
    steps = remove_turns(connection, session_id, turns, whole=False) if turns else ()
    oldest = one(connection, SQL["select_oldest"], (session_id,))[0]  # type: ignore[index]
    if oldest is None and (_was_spoken_in(connection, session_id) or max(created_at, updated_at) <= before):
        _begin(connection, session_id, WHOLE)
        gone = _go_on(connection, session_id, limit)
        return Removed(turns=len(turns), sessions=gone.sessions, steps=steps, more=gone.more)
    if turns:
        forget_in_states(connection, session_id, turns)
        connection.execute(SQL["end_deletion"], (session_id,))
    # What is past its time and still worked at is looked at again when it is over: in a minute at the latest.
    due = max((updated_at if oldest is None else oldest) + ttl, moment + 60_000)
    more = len(turns) == limit
    connection.execute(SQL["set_due"], {"session_id": session_id, "due": moment if more else due})
    return Removed(turns=len(turns), steps=steps, more=more)


def _was_spoken_in(connection: apsw.Connection, session_id: bytes) -> bool:
    return one(connection, SQL["select_last_buried"], (session_id,))[0] is not None  # type: ignore[index]


def _delete(connection: apsw.Connection, session_id: SessionId, limit: int) -> Removed:
    key = pack(session_id)
    if one(connection, SQL["select_begun"], (key,)) is None:
        must(one(connection, SESSION_SQL["select_session"], (key,)), "session", session_id)
        busy = one(connection, SQL["select_unfinished"], (key,))
        if busy is not None:
            raise BranchBusy(
                f"Session {session_id} cannot be deleted: its turn {busy[0]} is {busy[1]}.",
                hint="Wait for the answer, or cancel it.",
            )
        _begin(connection, key, WHOLE)
        connection.execute(SQL["release_name"], (key,))
    return _go_on(connection, key, limit)


def _begin(connection: apsw.Connection, session_id: bytes, reason: str) -> None:
    values = {"session_id": session_id, "reason": reason, "now": to_millis(now())}
    connection.execute(SQL["begin_deletion"], values)


def _go_on(connection: apsw.Connection, session_id: bytes, limit: int) -> Removed:
    """Delete a batch of a session that is to go: its turns, then its states, at last itself."""
    rows = many(connection, SQL["select_turns"], {"session_id": session_id, "limit": limit})
    turns = [Doomed(*row) for row in rows]
    steps = remove_turns(connection, session_id, turns, whole=True) if turns else ()
    if len(turns) == limit or not _remove_states(connection, session_id, limit):
        return Removed(turns=len(turns), steps=steps, more=True)
    forget_requests(connection, session_id)
    connection.execute(SQL["bury_session"], {"session_id": session_id, "now": to_millis(now())})
    for statement in ("loosen_system", "delete_memories", "delete_branches", "delete_session"):
        connection.execute(SQL[statement], (session_id,))
    connection.execute(SQL["delete_scope"], (session_token(session_id),))
    connection.execute(SQL["end_deletion"], (session_id,))
    return Removed(turns=len(turns), sessions=1, steps=steps)


def _remove_states(connection: apsw.Connection, session_id: bytes, limit: int) -> bool:
    """Delete states of a session without turns, some of each branch; tell whether none are left."""
    is_over = True
    for branch in many(connection, SESSION_SQL["select_branches"], (session_id,)):
        values = {"branch_id": branch[0], "limit": 4 * limit}
        connection.execute(SQL["delete_candidate"], (branch[0],))
        connection.execute(SQL["delete_branch_jobs"], (branch[0],))
        connection.execute(SQL["loosen_states"], values)
        connection.execute(SQL["delete_states"], values)
        is_over &= connection.changes() < 4 * limit
    return is_over
