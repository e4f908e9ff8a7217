"""Deletions: the only way in which data leaves a ledger.

A deletion also removes all derived data: summaries, chunks, vectors, index words, plans, raw replies, and texts and
blobs that nothing else refers to. A tombstone stays (id, position, time, and the owner of a session), so that numbers
are never reused and a session id is never given to another owner.

Deleting a session starts with an intent row (``begin``), which is durable before anything is removed; from then on the
session cannot be found. Copies outside the ledger are removed next (see ``cutoffs``, ``steps_to_delete`` and
``sessions_of``), then the ledger rows, one batch per transaction (``delete``, ``expire``). The last batch removes
the intent row. If the process is killed, the intent row remains, and ``due`` returns the session to the next process.

Database triggers allow deletes only while a ``deletion`` row exists. ``remove_turns`` is the one place that knows which
tables hold data of turns: a new table of that kind is emptied there.
``forget_in_states`` moves the heads of branches that saw the turns.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from datetime import datetime
from typing import NamedTuple

import msgspec

from contextinfinity.domain.ids import BranchId, SessionId, StepId, TurnId, from_millis, now, to_millis
from contextinfinity.domain.message import blobs_of
from contextinfinity.domain.session import Lineage, Removed
from contextinfinity.domain.state import State, StateDraft
from contextinfinity.domain.turn import AS_SENT, Phase
from contextinfinity.errors import BranchBusy
from contextinfinity.storage.database import Connection, StoreResource, looks, reads, writes
from contextinfinity.storage.invariants import LAST_PLACE, drafted_state, row_limit, ttl_millis
from contextinfinity.storage.ledger.contents import metadata_column
from contextinfinity.storage.ledger.jobs import enqueue
from contextinfinity.storage.ledger.keyword_index import BORROWED_FROM, forget_session_words, forget_words
from contextinfinity.storage.ledger.rows import must, pack, pack_hash, to_branch, to_message, unpack
from contextinfinity.storage.ledger.sessions import forget_requests, lineage_of
from contextinfinity.storage.ledger.states import append_state, head_of

BATCH = 200
"""Turns, or raw responses, deleted per transaction; this blocks other writers for some ten milliseconds."""


MADE_FROM_TURNS = (
    "delete_retrievals",
    "delete_responses",
    "delete_plans",
    "delete_steps",
    "delete_jobs",
    "delete_chunks_of_turns",
    "delete_origins",
    "delete_ends",
    "delete_trails",
    "delete_turns",
    "delete_messages",
)
"""Tables to empty, in the order of their foreign keys."""
TABLES_OF_SESSIONS = (
    *("session", "branch", "turn", "message", "step", "state", "chunk", "plan", "response", "retrieval", "trail"),
    *("branch_end", "origin", "memory_source", "blob_use", "fold_candidate", "request", "job"),
)
TABLES_OF_TURNS = ("turn", "step", "chunk", "plan", "retrieval", "trail", "branch_end", "memory_source", "job")
"""Tables with rows that name a session or a turn; ``rows_left`` counts them."""


class DeletionScope(NamedTuple):
    """A turn to be deleted: its position, its messages, and the time of its last change."""

    id: bytes
    branch_id: bytes
    turn_seq: int
    question: int
    answer: int | None
    updated_at: int

    @property
    def messages(self) -> tuple[int, ...]:
        """The keys of its messages."""
        return (self.question,) if self.answer is None else (self.question, self.answer)


def remove_turns(connection: Connection, session_id: bytes, turns: Sequence[DeletionScope], *, whole: bool) -> None:
    """Delete turns with all derived data, and leave tombstones; ``whole``: the session is deleted too."""
    if not turns:
        return
    keys = [key for turn in turns for key in turn.messages]
    values = {
        "turns": json.dumps([turn.id.hex() for turn in turns]),
        "messages": json.dumps(keys),
        "now": to_millis(now()),
        "whole": whole,
        "session_id": session_id,
    }
    connection.execute("bury_turns", values)
    connection.execute("loosen_plan_texts", values)
    chunks = [row[0] for row in connection.many("select_chunk_keys_of_turns", values)]
    connection.vectors.drop_vectors(connection, chunks)
    connection.execute("uncount_chunks", {"count": len(chunks)})
    _uncount(connection, session_id, turns, values["messages"])
    for statement in MADE_FROM_TURNS:
        connection.execute(statement, values)
    if not whole:
        _forget_in_metadata(connection, session_id, {unpack(turn.id) for turn in turns})


def _forget_in_metadata(connection: Connection, session_id: bytes, gone: Collection[TurnId]) -> None:
    """Remove the messages of deleted turns, as a client resent them, from the metadata of other turns."""
    for turn_id, text in connection.many("select_resent", {"session_id": session_id, "field": f'"{AS_SENT}"'}):
        metadata = msgspec.json.decode(text)
        sent = metadata.get(AS_SENT) if isinstance(metadata, dict) else None
        if isinstance(sent, dict) and not sent.keys().isdisjoint(gone):
            metadata[AS_SENT] = {key: messages for key, messages in sent.items() if key not in gone}
            values = {"id": turn_id, "metadata": metadata_column(metadata), "now": to_millis(now())}
            connection.execute("replace_metadata", values)


def _uncount(connection: Connection, session_id: bytes, turns: Sequence[DeletionScope], messages: object) -> None:
    """Undo the word counts and blob references of messages."""
    last_said = {key: turn.updated_at for turn in turns for key in turn.messages}
    said: list[tuple[int, str]] = []
    for key, *columns in connection.many("select_said", {"messages": messages}):
        message = to_message(*columns)
        said.append((key, message.rendered_text))
        for sha256 in blobs_of(message.blocks):
            blob = pack_hash(sha256)
            connection.execute("delete_blob_use", (blob, key))
            connection.execute("delete_blob", {"hash": blob, "shown_at": last_said[key]})
    forget_words(connection, session_id, said)


def forget_in_states(connection: Connection, session_id: bytes, turns: Sequence[DeletionScope]) -> None:
    """Replace heads whose summaries cover deleted turns, so that no branch continues from such a summary.

    The remaining turns of those summaries are shown verbatim until the next fold. Words that later turns borrowed from
    deleted ones are removed too.
    """
    branches = [to_branch(row) for row in connection.many("select_branches", (session_id,))]
    seen = [(branch, lineage_of(connection, branch.id)) for branch in branches]
    hit = [
        (branch, lineage, first) for branch, lineage in seen if (first := _first_deleted(lineage, turns)) is not None
    ]
    heads = {branch.id: head_of(connection, branch.id) for branch, _, _ in hit}
    for branch, lineage, first in hit:
        _return_words(connection, pack(branch.id), [turn.turn_seq for turn in turns])
        gone = _deleted_up_to(connection, lineage, branch.last_turn_seq)
        values = {"session_id": session_id, "branch_id": pack(branch.id), "first": first, "gone": gone}
        connection.execute("loosen_fronts", values)
        connection.execute("loosen_summaries", values)
        connection.execute("blank_states", values)
        connection.execute("delete_branch_candidate", (pack(branch.id),))
        _move_head(connection, branch.id, heads[branch.id], first, gone)


def _return_words(connection: Connection, branch_id: bytes, gone: Sequence[int]) -> None:
    """Remove words that turns borrowed from deleted ones; their chunks are rebuilt later."""
    values = {"branch_id": branch_id, "gone": json.dumps(gone), "limit": BORROWED_FROM}
    for question, answer in connection.many("select_borrowers", values):
        connection.execute("delete_borrowed", {"question": question, "answer": answer})
        connection.execute("cut_anew", (question,))


def _move_head(connection: Connection, branch_id: str, head: State, first: int, gone: int) -> None:
    draft = StateDraft(branch_id=branch_id, reason="delete")
    if head.covers_turn_seq >= first:
        covers = min(head.covers_turn_seq, gone)
        draft = StateDraft(branch_id=branch_id, reason="delete", summary="", covers_turn_seq=covers)
        enqueue(connection, "fold_branch", pack(branch_id), None)
    append_state(connection, drafted_state(draft, head, head.turn_seq))


def _first_deleted(lineage: Lineage, turns: Collection[DeletionScope]) -> int | None:
    """Return the turn_seq of the first of these turns in a lineage; None if it has none of them."""
    ends = {pack(part.branch_id): (part.first, part.last or LAST_PLACE) for part in lineage.stretches}
    seen = ((turn.turn_seq, *ends.get(turn.branch_id, (1, 0))) for turn in turns)
    return min((place for place, first, last in seen if first <= place <= last), default=None)


def _deleted_up_to(connection: Connection, lineage: Lineage, last_seq: int) -> int:
    """Return the turn_seq up to which a branch has no turns left."""
    for part in lineage.stretches:
        first = connection.one("select_first", (pack(part.branch_id), part.first, part.last or LAST_PLACE))
        if first is not None and first[0] is not None:
            return int(first[0]) - 1
    return last_seq


UNCOMMITTED = (Phase.ACCEPTED, Phase.CONTEXT_PREPARED, Phase.RESPONDING, Phase.RESPONSE_FINALIZED)
WHOLE, EXPIRED, TURN = "deleted", "expired", "turn"
"""Reasons for a deletion."""


def delete_session(connection: Connection, session_id: SessionId, *, limit: int = BATCH) -> Removed:
    """Delete one batch of a session with everything in it; call it until nothing is left.

    The first call begins the deletion if needed, and raises the errors of ``begin``.
    """
    begin_session_deletion(connection, session_id)
    return delete_batch(connection, pack(session_id), row_limit(limit))


def delete_turn(connection: Connection, turn_id: TurnId, *, unsettled: bool = False) -> Removed:
    """Delete one committed turn with everything derived from it; ``unsettled``: in any phase."""
    row = must(connection.one("select_turn_to_delete", (pack(turn_id),)), "turn", turn_id)
    session_id, phase, turn = row[0], row[1], DeletionScope(*row[2:])
    if phase in UNCOMMITTED and not unsettled:
        raise BranchBusy(
            f"Turn {turn_id} cannot be deleted: it is {phase}.", hint="Wait until it is committed, or cancel it."
        )
    begin(connection, session_id, TURN)
    remove_turns(connection, session_id, [turn], whole=False)
    forget_in_states(connection, session_id, [turn])
    connection.execute("end_deletion", (session_id,))
    return Removed(turns=1)


def count_rows_left(
    connection: Connection, sessions: Collection[SessionId], turns: Collection[TurnId] = ()
) -> dict[str, int]:
    """Count the rows of every table that still belong to sessions or turns; tombstones are not counted."""
    found = dict.fromkeys((*TABLES_OF_SESSIONS, *TABLES_OF_TURNS), 0)
    for statement, ids in (("count_rows_of_sessions", sessions), ("count_rows_of_turns", turns)):
        for table, rows in connection.many(statement, {"ids": _hexed(ids)}) if ids else ():
            found[str(table)] += int(rows)
    return found


def list_said(connection: Connection, samples: Collection[str]) -> frozenset[str]:
    """Return which of these pieces of text any stored message, memory or title contains; reads all of them."""

    def is_said(sample: str) -> bool:
        values = {"sample": sample, "escaped": json.dumps(sample, ensure_ascii=False)[1:-1]}
        return connection.one("select_saying", values) is not None

    return frozenset(filter(is_said, samples))


def shorten_retention(connection: Connection, hours: float, *, user_id: str | None = None) -> int:
    """Return every session, or those of a user, at most this time to live; return how many were changed.

    A shorter time of a session's own stays.
    """
    connection.execute("shorten_retention", {"hours": hours, "user_id": user_id})
    changed = connection.changes()
    if changed:
        connection.execute("expire_as_shortened", {"hours": hours, "ttl": ttl_millis(hours)})
    return changed


def prune_old_responses(connection: Connection, hours: float, *, limit: int = BATCH) -> int:
    """Delete a batch of the raw responses of steps that began longer ago; return how many. Their turns stay."""
    before = max(0, to_millis(now()) - ttl_millis(hours)).to_bytes(6) + bytes(10)
    connection.execute("prune_responses", {"before": before, "limit": row_limit(limit)})
    pruned = connection.changes()
    if pruned:
        connection.execute("soil_log")
    return pruned


def list_stray_steps(connection: Connection, steps: Collection[StepId]) -> frozenset[StepId]:
    """Return unknown steps that may have been deleted: something was deleted since they were created."""
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
    """Delete a batch of expired turns; ``unsettled``: also unfinished ones, which no worker will finish."""
    found = connection.one("select_expiry", (session_id,))
    if found is None:
        connection.execute("end_deletion", (session_id,))
        return Removed()
    ttl, created_at, updated_at, is_begun = found
    if is_begun:
        return delete_batch(connection, session_id, limit)
    before = moment - ttl
    values = {"session_id": session_id, "before": before, "limit": limit, "unsettled": unsettled}
    turns = [DeletionScope(*row) for row in connection.many("select_expired", values)]
    if turns:
        begin(connection, session_id, EXPIRED)
    remove_turns(connection, session_id, turns, whole=connection.one("select_unexpired", values) is None)
    oldest = connection.one("select_oldest", (session_id,))[0]  # type: ignore[index]
    if oldest is None and (_was_spoken_in(connection, session_id) or max(created_at, updated_at) <= before):
        begin(connection, session_id)
        gone = delete_batch(connection, session_id, limit)
        return Removed(turns=len(turns), sessions=gone.sessions, more=gone.more)
    if turns:
        forget_in_states(connection, session_id, turns)
        connection.execute("end_deletion", (session_id,))
    # Expired turns that are still running are checked again in a minute at the latest.
    due = max((updated_at if oldest is None else oldest) + ttl, moment + 60_000)
    more = len(turns) == limit
    connection.execute("set_due", {"session_id": session_id, "due": moment if more else due})
    return Removed(turns=len(turns), more=more)


def _was_spoken_in(connection: Connection, session_id: bytes) -> bool:
    return connection.one("select_last_buried", (session_id,))[0] is not None  # type: ignore[index]


def begin_session_deletion(connection: Connection, session_id: SessionId) -> None:
    """Write the intent to delete a session with everything in it. A second call does nothing.

    Raises ``NotFound`` if it is unknown and ``BranchBusy`` while one of its turns waits or is being answered.
    """
    key = pack(session_id)
    if connection.one("select_begun", (key,)) is not None:
        return
    must(connection.one("select_session", (key,)), "session", session_id)
    busy = connection.one("select_unfinished", (key,))
    if busy is not None:
        raise BranchBusy(
            f"Conversation {session_id} cannot be deleted: its turn {busy[0]} is {busy[1]}.",
            hint="Wait for the answer, or cancel it.",
        )
    begin(connection, key)
    connection.execute("release_name", (key,))


def begin(connection: Connection, session_id: bytes, reason: str = WHOLE) -> None:
    """Write the intent row, and mark the write-ahead log to be emptied once the rows are deleted."""
    values = {"session_id": session_id, "reason": reason, "now": to_millis(now())}
    connection.execute("begin_deletion", values)
    connection.execute("soil_log")


def delete_batch(connection: Connection, session_id: bytes, limit: int) -> Removed:
    """Delete a batch of a session: its turns, then its states, then the session itself."""
    rows = connection.many("select_turns", {"session_id": session_id, "limit": limit})
    turns = [DeletionScope(*row) for row in rows]
    remove_turns(connection, session_id, turns, whole=True)
    if len(turns) == limit or not _remove_states(connection, session_id, limit):
        return Removed(turns=len(turns), more=True)
    forget_requests(connection, session_id)
    for statement in ("bury_session", "bury_branches"):
        connection.execute(statement, {"session_id": session_id, "now": to_millis(now())})
    for statement in ("loosen_system", "delete_memories_of_session", "delete_branches", "delete_session"):
        connection.execute(statement, (session_id,))
    forget_session_words(connection, session_id)
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
    """Return sessions with expired turns or an unfinished deletion, the longest overdue first."""
    values = {"now": to_millis(now()), "limit": row_limit(limit)}
    rows = connection.many("select_due", values)
    return tuple(unpack(row[0]) for row in rows)


def is_session_due(connection: Connection, session_id: SessionId) -> bool:
    """Return whether ``expire`` may have something to do in a session; a single small read."""
    values = {"session_id": pack(session_id), "now": to_millis(now())}
    row = connection.one("select_due_of", values)
    return row is not None


def list_begun_deletions(connection: Connection) -> tuple[SessionId, ...]:
    """Return the sessions with an unfinished deletion."""
    rows = connection.many("select_all_begun")
    return tuple(unpack(row[0]) for row in rows)


def read_cutoffs(connection: Connection, sessions: Collection[SessionId]) -> dict[SessionId, datetime]:
    """Return the time up to which the text of each session is or must be deleted; others are left out."""
    values = {"sessions": _hexed(sessions), "now": to_millis(now())}
    rows = connection.many("select_cutoffs", values)
    return {unpack(key): from_millis(moment) for key, moment in rows}


def list_steps_to_delete(connection: Connection, steps: Collection[StepId]) -> frozenset[StepId]:
    """Return the steps of sessions that are being deleted, and of finished turns past their time to live."""
    values = {"steps": _hexed(steps), "now": to_millis(now())}
    rows = connection.many("select_known_steps", values)
    return frozenset(unpack(key) for key, is_doomed in rows if is_doomed)


def sessions_of_branches(connection: Connection, branches: Collection[BranchId]) -> dict[BranchId, SessionId]:
    """Return the session of each branch, also of deleted branches; unknown ones are left out."""
    values = {"branches": _hexed(branches)}
    rows = connection.many("select_branch_sessions", values)
    return {unpack(branch): unpack(session) for branch, session in rows}


class Deletions(StoreResource):
    """Deletion of sessions and of expired turns."""

    delete = writes(delete_session)
    rows_left = reads(count_rows_left)
    said = reads(list_said)
    limit_retention = writes(shorten_retention)
    prune_responses = writes(prune_old_responses)
    stray_steps = reads(list_stray_steps)
    due = reads(list_due_sessions)
    is_due = looks(is_session_due)
    begin = writes(begin_session_deletion)
    begun = looks(list_begun_deletions)

    async def delete_turn(self, turn_id: TurnId) -> Removed:
        """Delete one committed or failed turn with everything derived from it, in one transaction; later turns stay.

        Raises ``NotFound`` if it is unknown and ``BranchBusy`` before it is committed.
        """
        return await self._database.write(lambda connection: delete_turn(connection, turn_id))

    async def expire(self, session_id: SessionId, *, limit: int = BATCH) -> Removed:
        """Delete one batch of turns past the session's time to live, and the session itself when none are left.

        Turns that are not Done or Failed are kept until they are. An unfinished deletion is continued; unknown sessions
        are ignored. Summaries that cover deleted turns are deleted too and rebuilt from the remaining turns.
        """
        if not await self.is_due(session_id):
            return Removed()  # no commit in the common case
        key, moment = pack(session_id), to_millis(now())
        return await self._database.write(lambda connection: expire_turns(connection, key, moment, row_limit(limit)))

    cutoffs = reads(read_cutoffs)
    steps_to_delete = reads(list_steps_to_delete)
    sessions_of = reads(sessions_of_branches)

    async def sweep(self, *, steps: int = 16) -> bool:
        """Erase the remains of deletions from the file: index words, shared texts, free pages, the write-ahead log.

        Does at most ``steps`` steps and returns whether more can be done now.
        """
        return await self._database.sweep(steps)

    async def is_wiped(self) -> bool:
        """Return whether the files of the ledger contain no deleted text.

        They contain some until ``sweep`` has finished, and while another process reads an older snapshot.
        """
        return await self._database.is_wiped()
