"""Durable work, in memory: jobs are made by the verbs that call for them, under the same lock."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from datetime import datetime, timedelta
from itertools import islice

from msgspec.structs import replace

from contextinfinity.domain.ids import BranchId, TurnId, WorkerId, now
from contextinfinity.domain.turn import Phase
from contextinfinity.domain.work import FOLDING, Backlog, Job, JobType, JobTypes, Took
from contextinfinity.errors import JobLost, NotFound, WorkerLost
from contextinfinity.storage.in_memory.tables import Tables, check_text
from contextinfinity.storage.rules import check_wait, row_limit

LONGEST_PAUSE = timedelta(minutes=2)
AFTER_COMMIT: tuple[JobType, ...] = ("index_turn", "remember_turn")


class InMemoryJobs:
    """The ``Jobs`` of an ``InMemoryStore``."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    async def enqueue(
        self, job_type: JobType, branch_id: BranchId, turn_id: TurnId | None = None, *, after: timedelta = timedelta()
    ) -> Job:
        """Ask for a job."""
        check_wait(after)
        with self._tables.transaction() as tables:
            tables.branch(branch_id)
            if turn_id is not None and tables.turn(turn_id).branch_id != branch_id:
                raise NotFound(f"There is no turn {turn_id} on branch {branch_id}.")
            return enqueue(tables, job_type, branch_id, turn_id, after=after)

    async def claim(self, worker: WorkerId, kinds: Collection[JobType] | None = None) -> Job | None:
        """Take the next job that is due, and count the attempt."""
        with self._tables.transaction() as tables:
            refuse_dead(tables, worker)
            return _take(tables, worker, kinds)

    async def complete(self, job_id: int, worker: WorkerId, *, then: JobTypes = (), took: Took = None) -> Job | None:
        """The job is done and gone; the next may be taken."""
        with self._tables.transaction() as tables:
            _complete(tables, job_id, worker, took)
            return _take(tables, worker, then) if then and worker not in tables.dead_workers else None

    async def release(self, job_id: int, worker: WorkerId) -> None:
        """Give it back untried."""
        with self._tables.transaction() as tables:
            job, moment = _run_by(tables, job_id, worker), now()
            due, attempts = min(job.run_at, moment), job.attempts - 1
            given = replace(job, state="queued", owner=None, attempts=attempts, run_at=due, updated_at=moment)
            tables.jobs[job_id] = given

    async def retry(self, job_id: int, worker: WorkerId, *, error: str, after: timedelta) -> None:
        """Queue it again for later."""
        check_text(error)
        with self._tables.transaction() as tables:
            job, moment = _run_by(tables, job_id, worker), now()
            tables.jobs[job_id] = replace(
                job, state="queued", owner=None, last_error=error, run_at=moment + after, updated_at=moment
            )
            if job.job_type == "index_turn" and job.turn_id is not None:
                tables.put_turn(replace(tables.turns[job.turn_id], degraded=True, updated_at=moment))

    async def give_up(self, job_id: int, worker: WorkerId, *, error: str) -> None:
        """Keep it as failed, to be seen."""
        check_text(error)
        with self._tables.transaction() as tables:
            job, moment = _run_by(tables, job_id, worker), now()
            tables.jobs[job_id] = replace(job, state="failed", owner=None, last_error=error, updated_at=moment)
            if job.job_type == "index_turn" and job.turn_id is not None:
                turn = tables.turns[job.turn_id]
                if turn.phase is Phase.STATE_COMMITTED:
                    tables.put_turn(replace(turn, phase=Phase.INDEXED, degraded=True, updated_at=moment))
            _mark_done(tables, job.turn_id)

    async def list(self, *, limit: int = 50, branch_id: BranchId | None = None) -> tuple[Job, ...]:
        """Read the jobs there are, the oldest first."""
        with self._tables.transaction() as tables:
            jobs = (job for job in tables.jobs.values() if branch_id in (None, job.branch_id))
            return tuple(islice(jobs, row_limit(limit)))

    async def backlog(self) -> Backlog:
        """Tell what waits."""
        with self._tables.transaction() as tables:
            jobs = tuple(tables.jobs.values())
        states: Counter[str] = Counter(job.state for job in jobs)
        types: Counter[str] = Counter(job.job_type for job in jobs)
        oldest = min((job.created_at for job in jobs), default=None)
        return Backlog(**states, by_type=dict(types), oldest=oldest)

    async def due_in(self, kinds: Collection[JobType] | None = None) -> timedelta | None:
        """Tell how long until the next queued job is due."""
        with self._tables.transaction() as tables:
            moment = now()
            waits = (job.run_at - moment if _put_off(job, moment) else timedelta() for job in _takeable(tables, kinds))
            return min(waits, default=None)


def _take(tables: Tables, worker: WorkerId, kinds: Collection[JobType] | None) -> Job | None:
    moment = now()
    due = [job for job in _takeable(tables, kinds) if not _put_off(job, moment)]
    if not due:
        return None
    job = min(due, key=lambda job: (job.run_at, job.id))
    job = replace(job, state="running", owner=worker, attempts=job.attempts + 1, updated_at=moment)
    tables.jobs[job.id] = job
    tables.jobs_again.discard(job.id)
    return job


def _complete(tables: Tables, job_id: int, worker: WorkerId, took: Took) -> None:
    job, moment = _run_by(tables, job_id, worker), now()
    if job_id in tables.jobs_again:
        tables.jobs_again.discard(job_id)
        due = max(job.run_at, moment)
        again = replace(job, state="queued", owner=None, attempts=0, run_at=due, updated_at=moment)
        tables.jobs[job_id] = again
        return
    del tables.jobs[job_id]
    del tables.job_of[job.job_type, job.branch_id, job.turn_id]
    if took is not None and job.turn_id is not None:
        turn = tables.turns[job.turn_id]
        tables.put_turn(replace(turn, latency_ms={**turn.latency_ms, took[0]: took[1]}))
    _mark_done(tables, job.turn_id)


def enqueue(
    tables: Tables, job_type: JobType, branch_id: BranchId, turn_id: TurnId | None, *, after: timedelta = timedelta()
) -> Job:
    """Make a job wait, once; one that had failed waits afresh."""
    moment = now()
    known = tables.jobs.get(tables.job_of.get((job_type, branch_id, turn_id), 0))
    if known is not None:
        tables.jobs[known.id] = _asked_again(tables, known, moment, moment + after)
        return tables.jobs[known.id]
    branch = tables.branches[branch_id]
    job = Job(
        id=next(tables.job_numbers),
        job_type=job_type,
        session_id=branch.session_id,
        branch_id=branch_id,
        turn_seq=branch.last_turn_seq if turn_id is None else tables.turns[turn_id].turn_seq,
        state="queued",
        run_at=moment + after,
        created_at=moment,
        updated_at=moment,
        turn_id=turn_id,
    )
    tables.jobs[job.id] = job
    tables.job_of[job_type, branch_id, turn_id] = job.id
    return job


def _asked_again(tables: Tables, job: Job, moment: datetime, due: datetime) -> Job:
    """Give the next form of a job that is there. One that runs is due once more when its ``run_at`` has come."""
    if job.state == "failed":
        return replace(job, state="queued", attempts=0, run_at=due, updated_at=moment)
    if job.state == "queued":
        return replace(job, run_at=due, updated_at=moment) if job.attempts == 0 and due < job.run_at else job
    if job.turn_id is not None:
        return job
    asked_before = job.id in tables.jobs_again
    tables.jobs_again.add(job.id)
    return replace(job, run_at=min(job.run_at, due) if asked_before else due, updated_at=moment)


def refuse_dead(tables: Tables, worker: WorkerId | None) -> None:
    """Refuse a worker that was declared dead."""
    if worker in tables.dead_workers:
        raise WorkerLost(f"Worker {worker} was declared dead.")


def _put_off(job: Job, moment: datetime) -> bool:
    """Tell whether a job is for later. None is ever put off for two minutes: the clock went back, and it is due."""
    return moment < job.run_at <= moment + LONGEST_PAUSE


def _takeable(tables: Tables, kinds: Collection[JobType] | None) -> list[Job]:
    """The queued jobs of some kinds whose lane is free, with no earlier one of their kind before them."""
    jobs = tables.jobs.values()
    busy = {_lane(job) for job in jobs if job.state == "running"}
    asked = [job for job in jobs if job.state == "queued" and (kinds is None or job.job_type in kinds)]
    queued = sorted(asked, key=lambda job: -job.turn_seq)
    first = {(job.branch_id, job.job_type): job.turn_seq for job in queued}
    return [job for job in queued if _lane(job) not in busy and job.turn_seq == first[job.branch_id, job.job_type]]


def _lane(job: Job) -> tuple[BranchId, bool]:
    """Of the jobs of a lane one runs at a time."""
    return job.branch_id, job.job_type in FOLDING


def _run_by(tables: Tables, job_id: int, worker: WorkerId) -> Job:
    job = tables.jobs.get(job_id)
    if job is None or job.state != "running" or job.owner != worker:
        raise JobLost(f"Job {job_id} is not run by {worker} any more; nothing was written.")
    return job


def _mark_done(tables: Tables, turn_id: TurnId | None) -> None:
    """Nothing is left to do for an indexed turn once neither indexing nor remembering waits."""
    if turn_id is None or tables.turns[turn_id].phase is not Phase.INDEXED:
        return
    branch_id = tables.turns[turn_id].branch_id
    for job_type in AFTER_COMMIT:
        job = tables.jobs.get(tables.job_of.get((job_type, branch_id, turn_id), 0))
        if job is not None and job.state != "failed":
            return
    tables.put_turn(replace(tables.turns[turn_id], phase=Phase.DONE, updated_at=now()))
