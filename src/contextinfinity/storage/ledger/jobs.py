"""The durable job queue: enqueueing, claiming and completing jobs."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Mapping
from datetime import timedelta

import msgspec

from contextinfinity.domain.ids import BranchId, TurnId, WorkerId, from_millis, now, to_millis
from contextinfinity.domain.job import Backlog, Job, JobResult, JobType, JobTypes, Took
from contextinfinity.errors import JobLost, NotFound, WorkerLost
from contextinfinity.storage.database import Connection, Database, Row, StoreResource, looks, reads, writes
from contextinfinity.storage.invariants import check_wait, row_limit
from contextinfinity.storage.ledger.rows import maybe_pack, maybe_unpack, pack, unpack

SMALL_SECONDS = 0.002
"""If a peek at the queue takes longer, the next one runs on a thread instead of the event loop."""


def enqueue_job(
    connection: Connection,
    job_type: JobType,
    branch_id: BranchId,
    turn_id: TurnId | None = None,
    *,
    after: timedelta = timedelta(),
) -> Job:
    """Enqueue a job that is due after a delay. Raises ``InvalidInput`` for a delay of more than a minute.

    At most one job of a type is queued per turn (or, without a turn, per branch). Enqueueing it again returns it,
    due at the earlier of both times; a job that waits for a retry keeps its time. A failed job is queued again. A
    branch's job that is running runs once more.
    """
    check_wait(after)
    enqueue(connection, job_type, pack(branch_id), maybe_pack(turn_id), after=after)
    values = {"job_type": job_type, "branch_id": pack(branch_id), "turn_id": maybe_pack(turn_id)}
    row = connection.one("select_job_for", values)
    if row is None:
        raise NotFound(f"There is no turn {turn_id} on a branch {branch_id}.")
    return _to_job(row)


def complete_job(
    connection: Connection,
    job_id: int,
    worker: WorkerId,
    *,
    result: JobResult | None = None,
    then: JobTypes = (),
    took: Took | None = None,
) -> Job | None:
    """Write the result of a job and delete the job; claim the next one."""
    moment = to_millis(now())
    held = {"id": job_id, "worker": worker, "now": moment}
    if result is not None and result.state is not None and result.state.turn_id is not None:
        head = ("select_head", (pack(result.state.branch_id),))
        connection.prefetch(("delete_job", held), ("select_commit", (pack(result.state.turn_id),)), head)
    ended = connection.one("delete_job", held)
    turn_id, job_type = ended or _end(connection, "run_again", job_id, worker)
    if result is not None and turn_id is not None:
        from contextinfinity.storage.ledger.job_results import write_result  # avoids a circular import

        write_result(connection, job_type, unpack(turn_id), result)
    if ended is not None and turn_id is not None:
        latencies = msgspec.json.encode(took).decode() if took else None
        connection.execute("end_turn_job", {"turn_id": turn_id, "now": moment, "took": latencies})
    if not then or connection.one("select_dead_worker", (worker,)) is not None:
        return None
    return _take(connection, worker, {"now": moment, "kinds": _kinds(then)})


def list_jobs(connection: Connection, *, limit: int = 50, branch_id: BranchId | None = None) -> tuple[Job, ...]:
    """Return jobs, oldest first; with ``branch_id``, only those of that branch."""
    sql = "select_jobs" if branch_id is None else "select_jobs_of"
    values = {"limit": row_limit(limit), "branch_id": maybe_pack(branch_id)}
    return tuple(map(_to_job, connection.many(sql, values)))


def enqueue_claimed(connection: Connection, job_type: JobType, turn_id: TurnId, worker: WorkerId) -> Job | None:
    """Enqueue a job of a turn and claim it for the worker; return None if another job of the branch comes first."""
    values = {"job_type": job_type, "turn_id": pack(turn_id), "worker": worker, "now": to_millis(now())}
    row = connection.one("enqueue_claimed", values)
    return None if row is None or row[5] != "running" else _to_job(row)


def _take(connection: Connection, worker: WorkerId, asked: Mapping[str, object]) -> Job | None:
    found = connection.one("select_next_job", asked)
    if found is None:
        return None
    return _to_job(connection.one("take_job", {"id": found[0], "worker": worker, "now": asked["now"]}))


def refuse_dead(connection: Connection, worker: WorkerId | None) -> None:
    """Raise ``WorkerLost`` if the worker was declared dead: it must register again first."""
    if worker is not None and connection.one("select_dead_worker", (worker,)) is not None:
        raise WorkerLost(f"Worker {worker} was declared dead.")


def enqueue(
    connection: Connection,
    job_type: JobType,
    branch_id: bytes,
    turn_id: bytes | None,
    *,
    after: timedelta = timedelta(),
) -> None:
    """Enqueue a job unless it is queued already."""
    name, moment = "enqueue_branch_job" if turn_id is None else "enqueue_turn_job", now()
    values = {"job_type": job_type, "branch_id": branch_id, "turn_id": turn_id}
    connection.execute(name, {**values, "now": to_millis(moment), "due": to_millis(moment + after)})


def _kinds(kinds: Collection[JobType] | None) -> str | None:
    return None if kinds is None else msgspec.json.encode(list(kinds)).decode()


def _end(
    connection: Connection, name: str, job_id: int, worker: WorkerId, **values: str | int
) -> tuple[bytes | None, JobType]:
    """End the run of a job and return (turn_id, job_type). Raises ``JobLost`` if the worker does not hold it."""
    row = connection.one(name, {"id": job_id, "worker": worker, "now": to_millis(now()), **values})
    if row is None:
        raise JobLost(f"Job {job_id} is not run by {worker} any more; nothing was written.")
    return row[0], row[1]


def _to_job(row: Row) -> Job:
    return Job(
        id=row[0],
        job_type=row[1],
        session_id=unpack(row[2]),
        branch_id=unpack(row[3]),
        turn_seq=row[4],
        state=row[5],
        run_at=from_millis(row[6]),
        created_at=from_millis(row[7]),
        updated_at=from_millis(row[8]),
        turn_id=maybe_unpack(row[9]),
        attempts=row[10],
        last_error=row[11],
        owner=row[12],
    )


def release_job(connection: Connection, job_id: int, worker: WorkerId) -> None:
    """Return a job to the queue. It is due at once, and the attempt is not counted."""
    _end(connection, "release_job", job_id, worker)


def retry_job(connection: Connection, job_id: int, worker: WorkerId, *, error: str, after: timedelta) -> None:
    """Queue a job again with a delay. For index_turn, the turn is degraded until an attempt succeeds."""
    due = to_millis(now() + after)
    turn_id, job_type = _end(connection, "put_back_job", job_id, worker, error=error, run_at=due)
    if job_type == "index_turn":
        connection.execute("mark_degraded", {"turn_id": turn_id, "now": to_millis(now())})


def give_up_job(connection: Connection, job_id: int, worker: WorkerId, *, error: str) -> None:
    """Mark a job as failed and keep it. A turn that waited for this job only becomes Done and degraded."""
    turn_id, job_type = _end(connection, "fail_job", job_id, worker, error=error)
    values = {"turn_id": turn_id, "now": to_millis(now())}
    if job_type == "index_turn":
        connection.execute("mark_unindexed", values)
    connection.execute("mark_done", values)


def claimed_jobs(connection: Connection, worker: WorkerId) -> frozenset[int]:
    """Return the ids of the jobs that a worker has claimed and not ended."""
    return frozenset(job_id for (job_id,) in connection.many("select_claimed", (worker,)))


def count_backlog(connection: Connection) -> Backlog:
    """Return the number of jobs by state and type, and the creation time of the oldest."""
    rows = connection.many("count_jobs")
    states: Counter[str] = Counter()
    types: Counter[str] = Counter()
    for state, job_type, count, _ in rows:
        states[state] += count
        types[job_type] += count
    oldest = min((first for _, _, _, first in rows), default=None)
    moment = None if oldest is None else from_millis(oldest)
    return Backlog(**states, by_type=dict(types), oldest=moment)


class Jobs(StoreResource):
    """The durable job queue. The transactions of a turn enqueue that turn's jobs."""

    enqueue = writes(enqueue_job)
    list = reads(list_jobs)

    def __init__(self, database: Database) -> None:
        self._database = database
        self._took = 0.0
        """Duration of the last peek at the queue, in seconds."""

    async def claim(self, worker: WorkerId, kinds: Collection[JobType] | None = None) -> Job | None:
        """Claim the next due job of these types (None: any type) and count the attempt.

        Jobs of one type on one branch are claimed in order. At most one fold_branch job and one other job of a branch
        run at a time. Raises ``WorkerLost`` if the worker was declared dead.
        """
        moment = to_millis(now())
        asked = {"now": moment, "kinds": _kinds(kinds)}
        # Peek first, so that idle workers do not commit.
        if not await self._peek("select_next_job", asked):
            return None

        def write(connection: Connection) -> Job | None:
            refuse_dead(connection, worker)
            return _take(connection, worker, asked)

        return await self._database.write(write)

    async def complete(
        self,
        job_id: int,
        worker: WorkerId,
        *,
        result: JobResult | None = None,
        then: JobTypes = (),
        took: Took | None = None,
    ) -> Job | None:
        """Write the result and delete the job; with ``then``, claim and return the next job of these types.

        State (TX-B), chunks (TX-C) and memories of the result are written in one transaction. A part is queued as a
        separate job if it is missing, if an earlier turn of the branch still waits for it, or if the owner's memories
        changed since they were reconciled. The turn is Done after the last of its index_turn and remember_turn jobs.
        ``took`` is stored with the turn. This and the following methods raise ``JobLost`` if the worker does not hold
        the job.
        """

        def work(connection: Connection) -> Job | None:
            return complete_job(connection, job_id, worker, result=result, then=then, took=took)

        forgets = result is not None and result.memories is not None and bool(result.memories.forget)
        return await self._database.write(work, wipe=forgets)

    release = writes(release_job)
    claimed = looks(claimed_jobs)
    retry = writes(retry_job)
    give_up = writes(give_up_job)
    backlog = reads(count_backlog)

    async def due_in(self, kinds: Collection[JobType] | None = None) -> timedelta | None:
        """Return the time until the next job of these types (None: any type) is due; zero or less means now.

        None if no queued job could be claimed even if it were due.
        """
        asked = {"now": to_millis(now()), "kinds": _kinds(kinds)}
        row = await self._peek("select_next_due", asked)
        return None if row is None or row[0] is None else from_millis(row[0]) - now()

    async def _peek(self, name: str, asked: Mapping[str, object]) -> Row | None:
        """Peek at the queue, on the event loop while that is fast, otherwise on a thread."""
        ask = self._database.look if self._took < SMALL_SECONDS else self._database.read

        def timed(connection: Connection) -> Row | None:
            began = time.perf_counter()
            row = connection.one(name, asked)
            self._took = time.perf_counter() - began
            return row

        return await ask(timed)
