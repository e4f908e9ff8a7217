"""Writes the result of a job: TX-B, TX-C and the memories of a turn, together or separately."""

from __future__ import annotations

from contextinfinity.domain.ids import TurnId, now, to_millis
from contextinfinity.domain.job import JobResult, JobType
from contextinfinity.domain.memory import Extraction
from contextinfinity.domain.turn import Phase
from contextinfinity.storage.database import Connection, Values
from contextinfinity.storage.ledger.chunks import index_turn
from contextinfinity.storage.ledger.jobs import enqueue
from contextinfinity.storage.ledger.memories import is_current, write_extraction
from contextinfinity.storage.ledger.rows import must, pack
from contextinfinity.storage.ledger.states import AFTER_COMMIT, commit_state, settled_before

MOST_LATER = 512
"""Turns accepted after one whose memories were just stored that are processed again."""


def write_result(connection: Connection, job_type: JobType, turn_id: TurnId, result: JobResult) -> None:
    """Write a job's result for a turn; parts that cannot be written now are queued as separate jobs."""
    turn = must(connection.one("select_commit", (pack(turn_id),)), "turn", turn_id)
    phase, branch_id, turn_seq, _ = turn
    connection.prefetch(_earlier_kinds(branch_id, turn_seq), settled_before(branch_id, turn_seq))
    ready = _ready(connection, job_type, (branch_id, turn_seq), result)
    if result.state is not None:
        commit_state(connection, result.state, expected_head=None, queue=AFTER_COMMIT - ready, turn=turn)
        if phase != Phase.RESPONSE_FINALIZED.value:
            return  # it was committed before, and its other jobs are queued or done
    elif not ready:
        enqueue(connection, job_type, branch_id, pack(turn_id))
    if result.chunks is not None and "index_turn" in ready:
        index_turn(connection, turn_id, result.chunks)
    if result.memories is None or "remember_turn" not in ready:
        return
    if write_extraction(connection, turn_id, result.memories):
        _repeat_later_turns(connection, turn_id, branch_id, result.memories)


def _ready(
    connection: Connection, job_type: JobType, place: tuple[bytes, int], result: JobResult
) -> frozenset[JobType]:
    """Return the jobs whose part of the result can be written: in branch order, with memories that are current."""
    parts: dict[JobType, bool] = {"index_turn": result.chunks is not None}
    parts["remember_turn"] = result.memories is not None and is_current(connection, result.memories)
    ready = {kind for kind, is_there in parts.items() if is_there}
    if job_type == "summarize_turn" and ready:
        ready -= {kind for (kind,) in connection.many(*_earlier_kinds(*place))}
    return frozenset(ready)


def _earlier_kinds(branch_id: bytes, turn_seq: int) -> tuple[str, Values]:
    return "select_earlier_kinds", {"branch_id": branch_id, "turn_seq": turn_seq}


def _repeat_later_turns(connection: Connection, turn_id: TurnId, branch_id: bytes, changed: Extraction) -> None:
    """Queue the memory jobs again of later turns of the same owner that were processed before this turn.

    Jobs of different branches run in any order, so a later turn that corrects, ends or forgets what this turn says may
    have been processed first, and found nothing to correct.
    """
    owner, only = changed.owner, changed.only_thread
    values = {
        "turn_id": pack(turn_id),
        "branch_id": branch_id,
        "org_id": owner.org_id,
        "user_id": owner.user_id,
        "session_id": None if only is None else pack(only),
        "limit": MOST_LATER,
    }
    moment = to_millis(now())
    for (later,) in connection.many("select_later_processed", values):
        connection.execute("requeue_turn_job", {"job_type": "remember_turn", "turn_id": later, "now": moment})
