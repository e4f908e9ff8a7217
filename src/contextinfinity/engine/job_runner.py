"""The job runner executes durable jobs in the background.

A handler computes the result of a job; the runner writes the result and ends the job in one transaction. The job that
commits a turn is claimed when the turn is finalised, and handed over with ``run``. All other jobs are claimed by a few
runners, in the order of their branch; other processes may do the same on the same ledger. Folds have runners of their
own, so that no other job waits for a fold. A handler that raises is retried with exponential back-off; after the last
attempt the job is kept as failed. Handlers must be idempotent.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sized
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import Any

from msgspec import Struct

from contextinfinity.domain.ids import BranchId, TurnId, WorkerId
from contextinfinity.domain.job import FOLDING, PROMPT, Job, JobResult, JobType, JobTypes
from contextinfinity.domain.turn import Phase, Turn
from contextinfinity.errors import JobLost, LedgerAway, LedgerClosed, LedgerError, WorkerLost
from contextinfinity.storage.contract import Store
from contextinfinity.storage.database import maintenance_context
from contextinfinity.storage.ledger.jobs import Jobs
from contextinfinity.telemetry.stage_times import Stage, collect, timed

log = logging.getLogger(__name__)

STAGES: dict[JobType, Stage] = {
    "summarize_turn": "summarise",
    "index_turn": "index",
    "remember_turn": "remember",
    "fold_branch": "fold",
    "reconcile_stream": "reconcile",
}
KEPT_WITH_THE_TURN: frozenset[str] = frozenset({"summarise", "index"})
"""The stages whose latencies are stored with the turn."""
NEVER_GIVEN_UP: frozenset[JobType] = frozenset({"summarize_turn"})
"""Jobs that are retried without limit: later turns of the branch cannot be committed before, and no model is called."""

MOST_HANDED_OVER = 4
"""The maximum number of handed-over jobs that run concurrently: under load answers have priority."""

ANSWER_FIRST_SECONDS = 0.001
"""The delay before a handed-over job, so that the answer reaches its caller first."""

GONE = "job %s was taken by another worker, or deleted with its turn, meanwhile"

Handler = Callable[[Job], Awaitable[JobResult | None]]
"""Computes what a job writes; returns None if there is nothing to write."""


class RetryDelays(Struct, frozen=True, kw_only=True):
    """Retry policy: exponential back-off from ``first`` to ``longest`` with 50% jitter, at most ``attempts`` times."""

    attempts: int = 5
    first: timedelta = timedelta(seconds=0.5)
    longest: timedelta = timedelta(minutes=1)

    def delay_after(self, attempts: int, chance: float) -> timedelta:
        """Return the delay after ``attempts`` attempts; ``chance`` (0 to 1) is the jitter."""
        return min(self.first * 2.0 ** min(attempts - 1, 32), self.longest) * (0.5 + chance)


class Lane:
    """The runners for some job types; ``busy`` counts those that have a job or are claiming one.

    One runner at a time claims the next job; the others wait for the lock.
    """

    def __init__(self, kinds: frozenset[JobType], runners: int) -> None:
        self.kinds = kinds
        self.runners = runners
        self.busy = 0
        self.looking = asyncio.Lock()


class JobRunner:
    """Claims and runs jobs until it is stopped."""

    def __init__(
        self,
        jobs: Jobs,
        worker: WorkerId,
        handlers: Mapping[JobType, Handler],
        *,
        patience: RetryDelays | None = None,
        runners: int = 4,
        fold_runners: int = 2,
        look_seconds: float = 1.0,
    ) -> None:
        self._jobs = jobs
        self._worker = worker
        self._handlers = handlers
        self._patience = patience or RetryDelays()
        self._lanes = (Lane(PROMPT, runners), Lane(FOLDING, fold_runners))
        self._look_seconds = look_seconds
        self._runners: list[asyncio.Task[None]] = []
        self._handed_over: set[asyncio.Task[None]] = set()
        self._room = asyncio.Semaphore(MOST_HANDED_OVER)
        self._known: set[int] = set()  # ids of jobs that run in this process
        self._unknown: frozenset[int] = frozenset()  # ids of jobs claimed for this worker that do not run here
        self._look_at_claims = 0.0
        self._news = asyncio.Event()  # set once and then replaced, so that no waiter misses a wake-up
        self._quiet = asyncio.Event()
        self._stopping = False

    def start(self) -> None:
        """Start the runners."""
        self._runners = [
            asyncio.create_task(self._run(lane), name=f"jobs-{number}")
            for lane in self._lanes
            for number in range(lane.runners)
        ]

    def wake(self) -> None:
        """Wake the runners, because a job was queued."""
        self._news.set()
        self._news = asyncio.Event()

    def run(self, job: Job) -> None:
        """Run a job that this worker has claimed; queue it again if the runner has been stopped."""
        lane = next(lane for lane in self._lanes if job.job_type in lane.kinds)
        lane.busy += 1
        self._known.add(job.id)
        task = asyncio.create_task(self._run_one(job, lane), context=maintenance_context())
        self._handed_over.add(task)
        task.add_done_callback(self._handed_over.discard)

    async def drain(self, seconds: float, *, folds: bool = False) -> bool:
        """Wait until no due job is queued or running, at most ``seconds``; return whether that is so.

        Folds are included only with ``folds``.
        """
        kinds = PROMPT | FOLDING if folds else PROMPT
        lanes = [lane for lane in self._lanes if lane.kinds <= kinds]
        with suppress(TimeoutError, LedgerError):
            async with asyncio.timeout(seconds):
                while True:
                    self._quiet.clear()
                    due = await self._something_is_due(kinds)
                    if not due and not any(lane.busy for lane in lanes) and not self._quiet.is_set():
                        return True  # no job ended, and so queued another one, during the query
                    await _within(self._look_seconds, self._quiet.wait())
        return False

    async def stop(self, *, drain_seconds: float = 0.0) -> None:
        """Drain for ``drain_seconds`` (without folds), then cancel the running jobs and queue them again."""
        if drain_seconds:
            await self.drain(drain_seconds)
        self._stopping = True
        tasks = (*self._runners, *self._handed_over)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._runners = []

    async def _run(self, lane: Lane) -> None:
        while not self._stopping:
            try:
                async with lane.looking:
                    job = await self._next(lane)
                if job is not None:
                    await self._work(job, lane)
            except LedgerClosed:
                return
            except WorkerLost as error:
                log.warning("the job runner stopped claiming jobs: %s", error)
                return

    async def _next(self, lane: Lane) -> Job | None:
        """Wait for a job and claim it; return None once the runner is stopped."""
        while not self._stopping:
            news, job = self._news, None
            lane.busy += 1
            try:
                job = await self._claim(lane)
            finally:
                if job is None:
                    self._is_free(lane)
            if job is not None:
                return job
            if lane is self._lanes[0]:
                await self._release_unknown()
            await _within(await self._until_due(lane), news.wait())
        return None

    async def _release_unknown(self) -> None:
        """Queue jobs again whose claim was committed although the ledger reported an error.

        A claim in progress looks the same, so only jobs that were already unknown at the last check are queued.
        """
        if time.monotonic() < self._look_at_claims:
            return
        self._look_at_claims = time.monotonic() + self._look_seconds
        with suppress(LedgerError, JobLost):
            unknown = await self._jobs.claimed(self._worker) - self._known
            lost, self._unknown = unknown & self._unknown, unknown
            for job_id in lost:
                log.warning("job %d is queued again: the answer to its claim was lost", job_id)
                await self._jobs.release(job_id, self._worker)
                self.wake()

    async def _work(self, job: Job, lane: Lane) -> None:
        """Run a job, and the jobs that are claimed when it ends."""
        doing: Job | None = job
        try:
            while doing is not None:
                doing = await self._run_to_end(doing, () if self._stopping else lane.kinds)
                self._quiet.set()
        finally:
            self._is_free(lane)

    async def _run_one(self, job: Job, lane: Lane) -> None:
        try:
            await asyncio.sleep(ANSWER_FIRST_SECONDS)
            async with self._room:
                if self._stopping:
                    await self._record(job, self._release_job(job))
                else:
                    await self._run_to_end(job, ())
        except asyncio.CancelledError:
            if job.id in self._known:  # it has not started yet
                await asyncio.shield(self._record(job, self._release_job(job)))
            raise
        except (LedgerClosed, WorkerLost) as error:
            log.info("job %s is left to other workers: %s", job.id, error)
        finally:
            self._known.discard(job.id)
            self._is_free(lane)

    def _is_free(self, lane: Lane) -> None:
        lane.busy -= 1
        self._quiet.set()

    async def _claim(self, lane: Lane) -> Job | None:
        try:
            return await self._taken(self._jobs.claim(self._worker, lane.kinds))
        except LedgerClosed:
            raise
        except LedgerError as error:
            log.warning("cannot claim jobs: %s", error)
            return None

    async def _run_to_end(self, job: Job, then: JobTypes) -> Job | None:
        """Run a job's handler, write its result and end the job; return the next job, claimed in the same
        transaction.
        """
        took: dict[str, float] = {}
        collect(took)
        self._known.add(job.id)
        result: JobResult | None = None
        try:
            with timed(STAGES[job.job_type]):
                result = await self._handlers[job.job_type](job)
            if result is not None and result.is_written:
                return None
            took = {stage: took[stage] for stage in KEPT_WITH_THE_TURN & took.keys()}
            ending = self._record(
                job, lambda: self._jobs.complete(job.id, self._worker, result=result, then=then, took=took)
            )
            return await (self._taken(ending) if then else ending)
        except asyncio.CancelledError:
            await asyncio.shield(self._record(job, self._release_job(job)))
            raise
        except JobLost:
            log.info(GONE, job.id)
            return None
        except (LedgerClosed, WorkerLost):
            raise
        except Exception as error:  # any failure of a handler is retried
            result = None
            await self._record(job, partial(put_back, self._jobs, self._worker, self._patience, job, error))
            return None
        finally:
            self._known.discard(job.id)
            if result is None or result.may_queue:
                self.wake()

    async def _taken(self, taking: Coroutine[Any, Any, Job | None]) -> Job | None:
        """Claim a job; if the runner is cancelled during the claim, release the job."""
        claiming = asyncio.ensure_future(taking)
        try:
            return await asyncio.shield(claiming)
        except asyncio.CancelledError:
            with suppress(LedgerError):
                if (job := await claiming) is not None:
                    await self._record(job, self._release_job(job))
            raise

    def _release_job(self, job: Job) -> Callable[[], Awaitable[Job | None]]:
        return lambda: self._jobs.release(job.id, self._worker)

    async def _record(self, job: Job, write: Callable[[], Awaitable[Job | None]]) -> Job | None:
        """Record the end of a job, retrying while the ledger fails: an open job would block its branch."""
        while True:
            try:
                return await write()
            except JobLost:
                log.info(GONE, job.id)
                return None
            except LedgerClosed:
                return None
            except LedgerError as error:
                log.warning("cannot record the end of job %s yet: %s", job.id, error)
                if self._stopping:
                    return None  # recovery finds it, because its worker is dead
                await asyncio.sleep(self._look_seconds)

    async def _something_is_due(self, kinds: frozenset[JobType]) -> bool:
        wait = await self._jobs.due_in(kinds)
        return wait is not None and wait <= timedelta()

    async def _until_due(self, lane: Lane) -> float:
        """Return the seconds until the next job is due, at most the polling interval."""
        with suppress(LedgerError):
            wait = await self._jobs.due_in(lane.kinds)
            if wait is not None and wait > timedelta():
                return min(wait.total_seconds(), self._look_seconds)
        return self._look_seconds


async def put_back(jobs: Jobs, worker: WorkerId, patience: RetryDelays, job: Job, error: Exception) -> None:
    """Queue a failed job again, or give it up, and log that. Raises ``JobLost`` if it was deleted with its turn."""
    described = f"{type(error).__name__}: {error}"
    if job.attempts >= patience.attempts and job.job_type not in NEVER_GIVEN_UP:
        await jobs.give_up(job.id, worker, error=described)
    else:
        after = patience.delay_after(job.attempts, random.random())  # noqa: S311 - jitter, not a secret
        await jobs.retry(job.id, worker, error=described, after=after)
    log.warning("job %s (%s, turn %s) failed: %s", job.id, job.job_type, job.turn_id, error, exc_info=error)


async def _within(seconds: float, awaited: Awaitable[object]) -> None:
    """Wait for an awaitable, at most ``seconds``; no error on timeout."""
    with suppress(TimeoutError):
        await asyncio.wait_for(awaited, seconds)


LOOK_SECONDS = 0.02
MOST_PENDING = 64


async def pending(store: Store, branch_id: BranchId) -> tuple[Turn, ...]:
    """Read the answered turns of a branch that are not committed, the oldest first."""
    newest = await store.turns.history(branch_id, limit=MOST_PENDING)
    return tuple(turn for turn in newest if turn.phase is Phase.RESPONSE_FINALIZED and turn.branch_id == branch_id)


async def commit_pending(store: Store, job_runner: JobRunner, branch_id: BranchId, *, seconds: float) -> int:
    """Queue the commit jobs of pending turns again, wait up to ``seconds``, and return how many turns are left.

    Jobs that were given up are retried as well. Raises ``LedgerAway`` if the ledger is still unavailable at the end.
    """
    queued: set[TurnId] = set()
    deadline = asyncio.get_running_loop().time() + seconds
    while True:
        is_over = asyncio.get_running_loop().time() >= deadline
        try:
            left = await pending(store, branch_id)
            for turn in left:
                if turn.id not in queued:
                    await store.jobs.enqueue("summarize_turn", branch_id, turn.id)
                    queued.add(turn.id)
        except LedgerAway:
            if is_over:
                raise
        else:
            if is_over or not left:
                return len(left)
        job_runner.wake()
        await asyncio.sleep(LOOK_SECONDS)


MOMENT, RESTS, LONGEST_REST = 0.001, 9, 0.05
"""The work time in seconds before a pause, the pause as a multiple of it, and the longest pause."""


class Throttle:
    """Pauses background work while turns run in this process (``running``)."""

    def __init__(self, running: Sized) -> None:
        self._running = running
        self._began = time.perf_counter()

    async def pause(self) -> None:
        """Sleep nine times the time worked since the last pause, at most 50 ms, while turns run."""
        worked = time.perf_counter() - self._began
        if worked >= MOMENT:
            await asyncio.sleep(min(RESTS * worked, LONGEST_REST) if len(self._running) else 0)
            self._began = time.perf_counter()
