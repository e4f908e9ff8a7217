"""Workers: registration, heartbeats and take-over. The backend decides whether a worker's process is alive."""

from __future__ import annotations

import os
import socket
from typing import Protocol

from contextinfinity.domain.ids import WorkerId, from_millis, new_id, now, to_millis
from contextinfinity.domain.worker import TakenOver, Worker
from contextinfinity.errors import WorkerLost
from contextinfinity.storage.database import Connection, Database, StoreResource, reads
from contextinfinity.storage.ledger.prefix_hashes import note_dead
from contextinfinity.storage.ledger.rows import unpack

MOST_DEATHS = 5
"""A job fails after this many deaths of its worker: it is probably the cause."""


class Liveness(Protocol):
    """A backend's test of whether a worker's process is alive."""

    def hold(self, worker: WorkerId) -> None:
        """Mark this process's worker as alive until it is released or the process ends."""
        ...

    def release(self, worker: WorkerId) -> None:
        """Mark a worker as gone."""
        ...

    def is_free(self, worker: WorkerId) -> bool:
        """Return whether a worker is dead."""
        ...


def list_workers(connection: Connection) -> tuple[Worker, ...]:
    """Return the registered workers, oldest first."""
    rows = connection.many("select_workers")
    return tuple(
        Worker(id=name, host=host, pid=pid, started_at=from_millis(started), beats=beats)
        for name, host, pid, started, beats in rows
    )


def known_workers(connection: Connection) -> set[WorkerId]:
    """Return the workers that are registered, and those that own a turn or a job."""
    return {row[0] for name in ("select_workers", "select_owners") for row in connection.many(name)}


def take_over(connection: Connection, dead: WorkerId, by: WorkerId) -> TakenOver:
    """Declare a worker dead, assign its unfinished turns to ``by`` and queue its running jobs again."""
    values = {"dead": dead, "now": to_millis(now()), "most": MOST_DEATHS}
    connection.execute("bury_worker", values)
    note_dead(connection, dead)
    turns = connection.many("take_turns", {"dead": dead, "by": by})
    jobs = connection.many("put_back_jobs", values)
    turns.sort(key=lambda row: row[1])
    return TakenOver(turns=tuple(unpack(turn_id) for turn_id, _ in turns), jobs=len(jobs))


class Workers(StoreResource):
    """Worker processes. A dead worker is detected by its free lock at once, otherwise by missed heartbeats."""

    def __init__(self, database: Database, locks: Liveness) -> None:
        self._database = database
        self._locks = locks

    async def enter(self) -> Worker:
        """Register this process as a worker."""
        worker = Worker(id=new_id(), host=socket.gethostname(), pid=os.getpid(), started_at=now())
        self._locks.hold(worker.id)
        values = {"id": worker.id, "host": worker.host, "pid": worker.pid, "now": to_millis(worker.started_at)}

        def write(connection: Connection) -> None:
            connection.execute("forget_dead", values)
            connection.execute("insert_worker", values)

        await self._database.write(write)
        return worker

    async def beat(self, worker: WorkerId) -> None:
        """Write a heartbeat. Raises ``WorkerLost`` if the worker was declared dead: it must register again."""
        if await self._database.write(lambda connection: connection.one("beat", (worker,))) is None:
            self._locks.release(worker)
            raise WorkerLost(f"Worker {worker} was declared dead.")

    async def leave(self, worker: WorkerId) -> None:
        """Unregister a worker. Unknown workers are ignored."""
        await self._database.write(lambda connection: connection.many("delete_worker", (worker,)))
        self._locks.release(worker)

    list = reads(list_workers)

    async def dead(self) -> tuple[WorkerId, ...]:
        """Return the workers known to be dead, and owners of turns or jobs that are not registered."""
        known = await self._database.read(known_workers)
        return tuple(sorted(name for name in known if self._locks.is_free(name)))

    async def take_over(self, dead: WorkerId, *, by: WorkerId) -> TakenOver:
        """Declare a worker dead, assign its unfinished turns to ``by`` and queue its running jobs again.

        Later writes of the dead worker are rejected, and it cannot claim new work. A job is delayed longer each time
        its worker dies, and fails at the fifth death, except summarize_turn. A second take-over does nothing.
        """
        taken = await self._database.write(lambda connection: take_over(connection, dead, by))
        self._locks.release(dead)
        return taken
