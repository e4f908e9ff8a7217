"""Deletions: which turns are deleted, and when. What is deleted with a turn is in ``turn_removal``."""

from __future__ import annotations

import json
from collections.abc import Collection
from datetime import datetime

from contextinfinity.domain.deletion import Removed
from contextinfinity.domain.ids import BranchId, SessionId, StepId, from_millis, now, to_millis
from contextinfinity.errors import BranchBusy
from contextinfinity.storage.database import Connection
from contextinfinity.storage.deletions import BATCH
from contextinfinity.storage.ledger.binding import Noun, looks, reads, writes
from contextinfinity.storage.ledger.idempotency import forget_requests
from contextinfinity.storage.ledger.rows import must, pack, unpack
from contextinfinity.storage.ledger.turn_removal import Doomed, forget_in_states, remove_turns
from contextinfinity.storage.rules import row_limit

WHOLE, EXPIRED = "deleted", "expired"
"""Why a session may be deleted from."""


def delete_session(connection: Connection, session_id: SessionId, *, limit: int = BATCH) -> Removed:
    """Delete a session with everything in it, a batch at a time."""
    _begin_whole(connection, session_id)
    return go_on(connection, pack(session_id), row_limit(limit))


def list_stray_steps(connection: Connection, steps: Collection[StepId]) -> frozenset[StepId]:
    """Return the steps that are not known, if something was deleted since they were made."""
    rows = connection.many("select_known_steps", {"steps": _hexed(steps), "now": 0})
    unknown = set(steps) - {unpack(key) for key, _ in rows}
    last = connection.one("select_last_deleted") if unknown else None
    if last is None or last[0] is None:
        return frozenset()
    return frozenset(step for step in unknown if int(step[:8] + step[9:13], 16) <= last[0])


def _hexed(ids: Collection[str]) -> str:
    return json.dumps([pack(each).hex() for each in ids])


def expire_turns(
    connection: Connection, session_id: bytes, moment: int, limit: int, *, unsettled: bool = False
) -> Removed:
    """Delete a batch of turns that are past their time; ``unsettled``: also those that nobody will finish."""
    found = connection.one("select_expiry", (session_id,))
    if found is None:
        connection.execute("end_deletion", (session_id,))
        return Removed()
    ttl, created_at, updated_at, is_begun = found
    if is_begun:
        return go_on(connection, session_id, limit)
    before = moment - ttl
    values = {"session_id": session_id, "before": before, "limit": limit, "unsettled": unsettled}
    turns = [Doomed(*row) for row in connection.many("select_expired", values)]
    if turns:
        begin(connection, session_id, EXPIRED)
    remove_turns(connection, session_id, turns, whole=connection.one("select_unexpired", values) is None)
    oldest = connection.one("select_oldest", (session_id,))[0]  # type: ignore[index]
    if oldest is None and (_was_spoken_in(connection, session_id) or max(created_at, updated_at) <= before):
        begin(connection, session_id)
        gone = go_on(connection, session_id, limit)
        return Removed(turns=len(turns), sessions=gone.sessions, more=gone.more)
    if turns:
        forget_in_states(connection, session_id, turns)
        connection.execute("end_deletion", (session_id,))
    # What is past its time and still worked at is looked at again when it is over: in a minute at the latest.
    due = max((updated_at if oldest is None else oldest) + ttl, moment + 60_000)
    more = len(turns) == limit
    connection.execute("set_due", {"session_id": session_id, "due": moment if more else due})
    return Removed(turns=len(turns), more=more)


def _was_spoken_in(connection: Connection, session_id: bytes) -> bool:
    return connection.one("select_last_buried", (session_id,))[0] is not None  # type: ignore[index]


def _begin_whole(connection: Connection, session_id: SessionId) -> None:
    key = pack(session_id)
    if connection.one("select_begun", (key,)) is not None:
        return
    must(connection.one("select_session", (key,)), "session", session_id)
    busy = connection.one("select_unfinished", (key,))
    if busy is not None:
        raise BranchBusy(
            f"Session {session_id} cannot be deleted: its turn {busy[0]} is {busy[1]}.",
            hint="Wait for the answer, or cancel it.",
        )
    begin(connection, key)
    connection.execute("release_name", (key,))


def begin(connection: Connection, session_id: bytes, reason: str = WHOLE) -> None:
    """Write the intent row; the log has to be emptied once the rows are gone."""
    values = {"session_id": session_id, "reason": reason, "now": to_millis(now())}
    connection.execute("begin_deletion", values)
    connection.execute("soil_log")


def go_on(connection: Connection, session_id: bytes, limit: int) -> Removed:
    """Delete a batch of a session that is to go: its turns, then its states, at last itself."""
    rows = connection.many("select_turns", {"session_id": session_id, "limit": limit})
    turns = [Doomed(*row) for row in rows]
    remove_turns(connection, session_id, turns, whole=True)
    if len(turns) == limit or not _remove_states(connection, session_id, limit):
        return Removed(turns=len(turns), more=True)
    forget_requests(connection, session_id)
    for statement in ("bury_session", "bury_branches"):
        connection.execute(statement, {"session_id": session_id, "now": to_millis(now())})
    for statement in ("loosen_system", "delete_memories_of_session", "delete_branches", "delete_session"):
        connection.execute(statement, (session_id,))
    connection.search.forget_session(connection, session_id)
    connection.execute("end_deletion", (session_id,))
    return Removed(turns=len(turns), sessions=1)


def _remove_states(connection: Connection, session_id: bytes, limit: int) -> bool:
    """Delete states of a session without turns, some of each branch; return whether none are left."""
    is_over = True
    for branch in connection.many("select_branches", (session_id,)):
        values = {"branch_id": branch[0], "limit": 4 * limit}
        connection.execute("delete_branch_candidate", (branch[0],))
        connection.execute("delete_branch_jobs", (branch[0],))
        connection.execute("loosen_states", values)
        connection.execute("delete_states", values)
        is_over &= connection.changes() < 4 * limit
    return is_over


def list_due_sessions(connection: Connection, *, limit: int = 100) -> tuple[SessionId, ...]:
    """Name sessions with something to delete."""
    values = {"now": to_millis(now()), "limit": row_limit(limit)}
    rows = connection.many("select_due", values)
    return tuple(unpack(row[0]) for row in rows)


def is_session_due(connection: Connection, session_id: SessionId) -> bool:
    """Return whether there may be something to delete; the times that are looked at are kept by the database."""
    values = {"session_id": pack(session_id), "now": to_millis(now())}
    row = connection.one("select_due_of", values)
    return row is not None


def begin_session_deletion(connection: Connection, session_id: SessionId) -> None:
    """Write the intent to delete a session."""
    _begin_whole(connection, session_id)


def list_begun_deletions(connection: Connection) -> tuple[SessionId, ...]:
    """Name the sessions whose deletion was begun."""
    rows = connection.many("select_all_begun")
    return tuple(unpack(row[0]) for row in rows)


def read_cutoffs(connection: Connection, sessions: Collection[SessionId]) -> dict[SessionId, datetime]:
    """Say up to when what was said in sessions must go."""
    values = {"sessions": _hexed(sessions), "now": to_millis(now())}
    rows = connection.many("select_cutoffs", values)
    return {unpack(key): from_millis(moment) for key, moment in rows}


def list_doomed_steps(connection: Connection, steps: Collection[StepId]) -> frozenset[StepId]:
    """Return the steps whose journals must go."""
    values = {"steps": _hexed(steps), "now": to_millis(now())}
    rows = connection.many("select_known_steps", values)
    return frozenset(unpack(key) for key, is_doomed in rows if is_doomed)


def sessions_of_branches(connection: Connection, branches: Collection[BranchId]) -> dict[BranchId, SessionId]:
    """Say to which session branches belong or belonged."""
    values = {"branches": _hexed(branches)}
    rows = connection.many("select_branch_sessions", values)
    return {unpack(branch): unpack(session) for branch, session in rows}


class LedgerDeletions(Noun):
    """``Deletions`` of the contract, on a database."""

    delete = writes(delete_session)
    stray_steps = reads(list_stray_steps)
    due = reads(list_due_sessions)
    is_due = looks(is_session_due)
    begin = writes(begin_session_deletion)
    begun = looks(list_begun_deletions)

    async def expire(self, session_id: SessionId, *, limit: int = BATCH) -> Removed:
        """Delete turns that are past their time, and the session with its last."""
        if not await self.is_due(session_id):
            return Removed()  # the ordinary case costs no commit
        key, moment = pack(session_id), to_millis(now())
        return await self._database.write(lambda connection: expire_turns(connection, key, moment, row_limit(limit)))

    cutoffs = reads(read_cutoffs)
    doomed_steps = reads(list_doomed_steps)
    sessions_of = reads(sessions_of_branches)

    async def sweep(self, *, steps: int = 16) -> bool:
        """Wipe out what deletions left in the file."""
        return await self._database.sweep(steps)

    async def is_wiped(self) -> bool:
        """Return whether nothing of what was deleted is in the files."""
        return await self._database.is_wiped()
