"""Worker leases: one worker per process, its heartbeat, and the detection of dead workers.

On the same host a released lock shows at once that a worker is dead. A process that hangs or is paused still holds its
lock, so heartbeats are watched too: a worker whose heartbeat count does not change for the length of a lease, by the
observer's own monotonic clock, is considered dead. Wall clocks are never compared, so a clock jump cannot expire a
lease.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType

from contextinfinity.domain.ids import WorkerId
from contextinfinity.domain.job import Worker
from contextinfinity.errors import LedgerError, WorkerLost
from contextinfinity.storage.ledger.workers import Workers

log = logging.getLogger(__name__)


class WorkerLease:
    """Registers this process as a worker for the duration of an ``async with``."""

    worker: Worker

    def __init__(
        self,
        workers: Workers,
        *,
        beat_seconds: float = 5.0,
        lease_seconds: float = 60.0,
        watch_seconds: float = 1.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._workers = workers
        self._beat_seconds = beat_seconds
        self._lease_seconds = lease_seconds
        self._watch_seconds = watch_seconds
        self._clock = clock
        self._seen: dict[WorkerId, tuple[int, float]] = {}
        self.lost = asyncio.Event()
        """Set when this worker was declared dead: it must stop, because others have taken over its turns."""
        self.found_dead = asyncio.Event()
        """Set when another worker is found dead for the first time: its turns can be recovered now."""

    async def __aenter__(self) -> WorkerLease:
        self.worker = await self._workers.enter()
        self._beating = asyncio.create_task(self._beat(), name="heartbeat")
        self._watching = asyncio.create_task(self._watch_others(), name="dead-workers")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for task in (self._beating, self._watching):
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        with suppress(LedgerError):
            await self._workers.leave(self.worker.id)

    async def find_dead(self) -> tuple[WorkerId, ...]:
        """Return the workers that are dead or have missed their heartbeats for a whole lease."""
        dead = set(await self._workers.dead())
        moment = self._clock()
        registered = await self._workers.list()
        self._seen = {worker.id: self._watch(worker, moment) for worker in registered}
        still = {name for name, (_, since) in self._seen.items() if moment - since > self._lease_seconds}
        return tuple(sorted((dead | still) - {self.worker.id}))

    def _watch(self, worker: Worker, moment: float) -> tuple[int, float]:
        """Return a worker's heartbeat count and since when it has not changed."""
        beats, since = self._seen.get(worker.id, (-1, moment))
        return (beats, since) if beats == worker.beats else (worker.beats, moment)

    async def _watch_others(self) -> None:
        """Look for workers that died since the last look; each is reported once.

        The first look reports all: one that died during the start may be too late for the recovery at the start.
        """
        reported: set[WorkerId] = set()
        while True:
            dead = set(await self._dead())
            if dead - reported - {self.worker.id}:
                self.found_dead.set()
            reported = dead
            await asyncio.sleep(self._watch_seconds)

    async def _dead(self) -> tuple[WorkerId, ...]:
        try:
            return await self._workers.dead()
        except (LedgerError, OSError):
            return ()

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(self._beat_seconds)
            try:
                await self._workers.beat(self.worker.id)
            except WorkerLost:
                log.warning("worker %s missed its heartbeats and was declared dead", self.worker.id)
                self.lost.set()
                return
            except LedgerError as error:
                log.warning("heartbeat missed: %s", error)
