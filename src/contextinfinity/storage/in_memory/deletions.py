"""Deleting, in memory: rows leave their dicts, and nothing else is left of them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import get_args

from msgspec.structs import replace

from contextinfinity.domain.chunk import ChunkSide
from contextinfinity.domain.deletion import Removed
from contextinfinity.domain.ids import BranchId, SessionId, StepId, TurnId, now
from contextinfinity.domain.message import blobs_of
from contextinfinity.domain.search import Place
from contextinfinity.domain.session import Branch, Session
from contextinfinity.domain.state import State, StateDraft
from contextinfinity.domain.turn import UNFINISHED, Phase, Turn
from contextinfinity.errors import BranchBusy
from contextinfinity.storage.deletions import BATCH
from contextinfinity.storage.in_memory.jobs import enqueue
from contextinfinity.storage.in_memory.memories import remove, unsay
from contextinfinity.storage.in_memory.states import append
from contextinfinity.storage.in_memory.tables import Tables
from contextinfinity.storage.index import BORROWED_FROM
from contextinfinity.storage.rules import ENDED, drafted_state, has_expired, row_limit

OVER = frozenset({Phase.DONE, Phase.FAILED})


class InMemoryDeletions:
    """The ``Deletions`` of an ``InMemoryStore``."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    async def due(self, *, limit: int = 100) -> tuple[SessionId, ...]:
        """Name sessions with something to delete."""
        moment = now()
        with self._tables.transaction() as tables:
            due = [session.id for session in tables.sessions.values() if _is_due(tables, session, moment)]
            return tuple(due[: row_limit(limit)])

    async def is_due(self, session_id: SessionId) -> bool:
        """Tell whether there is something to delete in a session."""
        with self._tables.transaction() as tables:
            session = tables.sessions.get(session_id)
            return session is not None and _is_due(tables, session, now())

    async def begin(self, session_id: SessionId) -> None:
        """Check that a session can be deleted; all of it goes at once, so there is no intent to keep."""
        with self._tables.transaction() as tables:
            tables.session(session_id)
            for turn in _turns(tables, session_id):
                if turn.phase in UNFINISHED:
                    raise BranchBusy(
                        f"Session {session_id} cannot be deleted: its turn {turn.turn_seq} is {turn.phase}.",
                        hint="Wait for the answer, or cancel it.",
                    )

    async def begun(self) -> tuple[SessionId, ...]:
        """Name none: a deletion is one step here."""
        return ()

    async def expire(self, session_id: SessionId, *, limit: int = BATCH) -> Removed:
        """Delete turns that are past their time, and the session with its last."""
        moment = now()
        with self._tables.transaction() as tables:
            session = tables.sessions.get(session_id)
            if session is None or not _is_due(tables, session, moment):
                return Removed()
            doomed = _expired(tables, session, moment)[: row_limit(limit)]
            _remove(tables, doomed)
            _forget_in_states(tables, session_id, doomed)
            if not _turns(tables, session_id):
                _remove_session(tables, session_id)
                return Removed(turns=len(doomed), sessions=1)
            more = bool(_expired(tables, session, moment))
            return Removed(turns=len(doomed), more=more)

    async def delete(self, session_id: SessionId, *, limit: int = BATCH) -> Removed:
        """Delete a session with everything in it, all at once."""
        await self.begin(session_id)
        with self._tables.transaction() as tables:
            turns = _turns(tables, session_id)
            _remove(tables, turns)
            _remove_session(tables, session_id)
            return Removed(turns=len(turns), sessions=1)

    async def cutoffs(self, sessions: Collection[SessionId]) -> dict[SessionId, datetime]:
        """Say up to when what was said in sessions is past its time; there are no copies of what was deleted."""
        with self._tables.transaction() as tables:
            there = [tables.sessions[each] for each in sessions if each in tables.sessions]
            return {each.id: now() - timedelta(hours=each.ttl_hours) for each in there if each.ttl_hours is not None}

    async def doomed_steps(self, steps: Collection[StepId]) -> frozenset[StepId]:
        """Return the steps of turns that are past their time."""
        with self._tables.transaction() as tables:
            due = [session for session in tables.sessions.values() if _is_due(tables, session, now())]
            gone = [turn.id for session in due for turn in _expired(tables, session, now())]
            return frozenset(step for turn in gone for step in tables.steps_of.get(turn, ()) if step in steps)

    async def stray_steps(self, steps: Collection[StepId]) -> frozenset[StepId]:
        """Return none: nothing outlives this store."""
        return frozenset()

    async def sessions_of(self, branches: Collection[BranchId]) -> dict[BranchId, SessionId]:
        """Say to which session branches belong."""
        with self._tables.transaction() as tables:
            return {each: tables.branches[each].session_id for each in branches if each in tables.branches}

    async def sweep(self, *, steps: int = 16) -> bool:
        """Do nothing: memory that nobody refers to is not there."""
        return False

    async def is_wiped(self) -> bool:
        """Say so always: there is no file."""
        return True


def _turns(tables: Tables, session_id: SessionId) -> list[Turn]:
    return [tables.turns[turn] for branch in tables.branches_of[session_id] for turn in tables.turns_of[branch]]


def _expired(tables: Tables, session: Session, moment: datetime) -> list[Turn]:
    hours = session.ttl_hours
    if hours is None:
        return []
    turns = _turns(tables, session.id)
    return [turn for turn in turns if turn.phase in OVER and has_expired(turn.created_at, hours, moment)]


def _is_due(tables: Tables, session: Session, moment: datetime) -> bool:
    if _turns(tables, session.id) or session.ttl_hours is None:
        return bool(_expired(tables, session, moment))
    return has_expired(session.updated_at, session.ttl_hours, moment)


def _remove(tables: Tables, turns: Sequence[Turn]) -> None:
    """Delete turns with all that was made from them: the one place that knows what that is."""
    for turn in turns:
        last = tables.last_deleted.get(turn.session_id, 0)
        tables.last_deleted[turn.session_id] = max(last, turn.turn_seq)
        tables.deleted.add(turn.id)
        tables.turns_of[turn.branch_id].remove(turn.id)
        tables.unsettled_of[turn.branch_id].pop(turn.id, None)
        tables.uncut.discard(turn.id)
        for step_id in tables.steps_of.pop(turn.id, []):
            del tables.steps[step_id]
        tables.questions.pop(turn.id, None)
        _remove_jobs(tables, {turn.id})
        _remove_chunks(tables, turn.id)
        tables.trails.pop(turn.id, None)
        origins = tables.origins_of.pop(turn.id, [])
        if origins:
            there = tables.origins_of_session[turn.session_id]
            there[:] = [origin for origin in there if origin not in origins]
        del tables.turns[turn.id]
    unsay(tables, {turn.id for turn in turns})
    _remove_blobs(tables, turns)


def _remove_jobs(tables: Tables, turns: Collection[TurnId]) -> None:
    for job in [job for job in tables.jobs.values() if job.turn_id in turns]:
        del tables.jobs[job.id]
        del tables.job_of[job.job_type, job.branch_id, job.turn_id]


def _remove_chunks(tables: Tables, turn_id: TurnId) -> None:
    for chunk_id in tables.chunks_of.pop(turn_id, {}).values():
        del tables.chunks[chunk_id]
        for space in tables.spaces.values():
            space.vectors.pop(chunk_id, None)
    for side in get_args(ChunkSide):
        for words in (tables.numbers, tables.own, tables.lent):
            words.pop(Place(turn_id, side), None)


def _remove_blobs(tables: Tables, turns: Sequence[Turn]) -> None:
    """Delete blobs that only these turns showed."""
    shown = {sha256 for turn in turns for sha256 in _shown(turn)}
    for sha256 in shown - {sha256 for turn in tables.turns.values() for sha256 in _shown(turn)}:
        tables.blobs_shown.discard(sha256)
        tables.blobs.pop(sha256, None)


def _shown(turn: Turn) -> set[str]:
    blocks = (*turn.user_message.blocks, *(turn.answer.blocks if turn.answer else ()))
    return set(blobs_of(blocks))


def _remove_session(tables: Tables, session_id: SessionId) -> None:
    session = tables.sessions.pop(session_id)
    tables.buried[session_id] = session.owner
    tables.forget_requests(session_id)
    if session.external_id is not None:
        del tables.by_external_id[session.owner, session.external_id]
    for branch in tables.branches_of.pop(session_id):
        for rows in (tables.branches, tables.turns_of, tables.unsettled_of, tables.candidates):
            rows.pop(branch, None)
        for job in [job for job in tables.jobs.values() if job.branch_id == branch]:
            del tables.jobs[job.id]
            del tables.job_of[job.job_type, job.branch_id, job.turn_id]
    for state in [state for state in tables.states.values() if state.session_id == session_id]:
        del tables.states[state.id]
    for memory_id in [memory_id for memory_id, kept in tables.memories.items() if kept.thread == session_id]:
        remove(tables, memory_id)


def _forget_in_states(tables: Tables, session_id: SessionId, turns: Sequence[Turn]) -> None:
    """Take summaries away that cover turns that are gone, and move the heads: nobody goes on from what they held."""
    hit = []
    for branch_id in tables.branches_of[session_id]:
        branch = tables.branches[branch_id]
        stretches = {owner: (first, last) for owner, first, last in tables.lineage(branch).backwards(2**62)}
        places = [turn.turn_seq for turn in turns if _is_seen(turn, stretches.get(turn.branch_id))]
        if places:
            hit.append((branch, min(places), tables.head(branch)))
    for branch, first, head in hit:
        _return_words(tables, branch, [turn.turn_seq for turn in turns])
        gone = _all_gone(tables, branch)
        for state in [state for state in tables.states.values() if state.branch_id == branch.id]:
            if state.covers_turn_seq >= first:
                covers = min(state.covers_turn_seq, gone)
                tables.states[state.id] = replace(state, summary="", token_count_est=0, covers_turn_seq=covers)
        tables.candidates.pop(branch.id, None)
        _move_head(tables, branch, head, first, gone)


def _return_words(tables: Tables, branch: Branch, gone: Sequence[int]) -> None:
    """Take back the words that turns borrowed from those that are gone: they are cut anew, from what is left."""
    for place in gone:
        start = tables.place_on(branch.id, place)
        for turn_id in tables.turns_of[branch.id][start : start + BORROWED_FROM]:
            for side in get_args(ChunkSide):
                tables.lent.pop(Place(turn_id, side), None)
            if tables.turns[turn_id].phase in ENDED:
                tables.uncut.add(turn_id)


def _is_seen(turn: Turn, stretch: tuple[int, int] | None) -> bool:
    return stretch is not None and stretch[0] <= turn.turn_seq <= stretch[1]


def _all_gone(tables: Tables, branch: Branch) -> int:
    """Give the place up to which a branch has no turns any more."""
    for owner, first, last in reversed(list(tables.lineage(branch).backwards(2**62))):
        start, end = tables.place_on(owner, first), tables.place_on(owner, last + 1)
        for turn_id in tables.turns_of[owner][start:end]:
            return tables.turns[turn_id].turn_seq - 1
    return branch.last_turn_seq


def _move_head(tables: Tables, branch: Branch, head: State, first: int, gone: int) -> None:
    draft = StateDraft(branch_id=branch.id, reason="delete")
    if head.covers_turn_seq >= first:
        covers = min(head.covers_turn_seq, gone)
        draft = StateDraft(branch_id=branch.id, reason="delete", summary="", covers_turn_seq=covers)
        enqueue(tables, "fold_branch", branch.id, None)
    append(tables, branch, drafted_state(draft, head, head.turn_seq))
