"""Processes at work, in memory: there is one process, so who is registered is alive."""

from __future__ import annotations

import os
import socket
from datetime import datetime, timedelta

from msgspec.structs import replace

from contextinfinity.domain.ids import WorkerId, new_id, now
from contextinfinity.domain.turn import UNFINISHED, Turn
from contextinfinity.domain.work import Job, TakenOver, Worker
from contextinfinity.errors import WorkerLost
from contextinfinity.storage.in_memory.tables import Tables
from contextinfinity.storage.in_memory.trails import note_dead

MOST_DEATHS = 5


class InMemoryWorkers:
    """The ``Workers`` of an ``InMemoryStore``."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    async def enter(self) -> Worker:
        """Register as a worker."""
        worker = Worker(id=new_id(), host=socket.gethostname(), pid=os.getpid(), started_at=now())
        with self._tables.transaction() as tables:
            tables.workers[worker.id] = worker
            return worker

    async def beat(self, worker: WorkerId) -> None:
        """Count a heartbeat."""
        with self._tables.transaction() as tables:
            if (known := tables.workers.get(worker)) is None:
                raise WorkerLost(f"Worker {worker} was declared dead.")
            tables.workers[worker] = replace(known, beats=known.beats + 1)

    async def leave(self, worker: WorkerId) -> None:
        """Say goodbye."""
        with self._tables.transaction() as tables:
            tables.workers.pop(worker, None)

    async def list(self) -> tuple[Worker, ...]:
        """Read who is registered, the oldest first."""
        with self._tables.transaction() as tables:
            return tuple(sorted(tables.workers.values(), key=lambda worker: (worker.started_at, worker.id)))

    async def dead(self) -> tuple[WorkerId, ...]:
        """Name the owners of unfinished turns and running jobs that nobody registered."""
        with self._tables.transaction() as tables:
            owners = {turn.owner for turn in _unfinished(tables)}
            owners |= {job.owner for job in tables.jobs.values() if job.state == "running"}
            return tuple(sorted(owner for owner in owners - {None} if owner and owner not in tables.workers))

    async def take_over(self, dead: WorkerId, *, by: WorkerId) -> TakenOver:
        """Declare a worker dead: its unfinished turns become the taker's, its running jobs are queued again."""
        with self._tables.transaction() as tables:
            turns = sorted((t for t in _unfinished(tables) if t.owner == dead), key=lambda turn: turn.turn_seq)
            jobs = [job for job in tables.jobs.values() if job.state == "running" and job.owner == dead]
            tables.workers.pop(dead, None)
            tables.dead_workers.add(dead)
            note_dead(tables, dead)
            for turn in turns:
                tables.put_turn(replace(turn, owner=by))
            moment = now()
            for job in jobs:
                tables.jobs[job.id] = _left_by_the_dead(job, moment)
            return TakenOver(turns=tuple(turn.id for turn in turns), jobs=len(jobs))


def _unfinished(tables: Tables) -> list[Turn]:
    """All turns whose answer is not final."""
    return [turn for branch_id in tables.branches for turn in tables.unsettled(branch_id) if turn.phase in UNFINISHED]


def _left_by_the_dead(job: Job, moment: datetime) -> Job:
    """Put a job back, for a little later each time: perhaps it was the job that killed its worker."""
    hopeless = job.attempts >= MOST_DEATHS and job.job_type != "summarize_turn"
    return replace(
        job,
        state="failed" if hopeless else "queued",
        owner=None,
        last_error="The worker that ran it died.",
        run_at=moment + timedelta(seconds=job.attempts - 1),
        updated_at=moment,
    )
