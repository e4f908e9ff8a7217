"""The job runner: runs durable jobs behind the answers.

A handler works out the result of a job; the runner writes the result and ends the job in one transaction. The job that
commits a turn is claimed when the turn is finalised, and handed over with ``run``. All other jobs are claimed by a few
runners, in the order of their branch; other processes may do the same on the same ledger. Folds have runners of their
own, so that no other job waits for a fold. A handler that raises is tried again with growing pauses; after the last
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
from typing import Any

from msgspec import Struct

from contextinfinity.domain.ids import BranchId, WorkerId
from contextinfinity.domain.job import FOLDING, PROMPT, Job, JobResult, JobType, JobTypes
from contextinfinity.domain.turn import Phase, Turn
from contextinfinity.errors import JobLost, LedgerClosed, LedgerError, WorkerLost
from contextinfinity.storage.contract import Jobs, Store
from contextinfinity.telemetry.stages import Stage, collect, timed

log = logging.getLogger(__name__)

STAGES: dict[JobType, Stage] = {
    "summarize_turn": "summarise",
    "index_turn": "index",
    "remember_turn": "remember",
    "fold_branch": "fold",
    "reconcile_stream": "reconcile",
}
KEPT_WITH_THE_TURN: frozenset[str] = frozenset({"summarise", "index"})
"""The stages whose latencies a turn keeps."""
NEVER_GIVEN_UP: frozenset[JobType] = frozenset({"summarize_turn"})
"""No later turn of the branch can be committed past it, and it asks no model: it is tried for as long as it takes."""

MOST_HANDED_OVER = 4
"""Jobs of turns that were just answered that run at once: under load answers go first."""

ANSWER_FIRST_SECONDS = 0.001
"""How long such a job is put off, so that the answer reaches its caller before the work on it begins."""

Handler = Callable[[Job], Awaitable[JobResult | None]]
"""Works out what a job writes; None where there is nothing to write."""


class RetryDelays(Struct, frozen=True, kw_only=True):
    """How often a job is tried and how long between: doubling from ``first`` to ``longest``, give or take half."""

    attempts: int = 5
    first: timedelta = timedelta(seconds=0.5)
    longest: timedelta = timedelta(minutes=1)

    def pause(self, attempts: int, chance: float) -> timedelta:
        """Tell how long to wait after that many attempts; ``chance`` from 0 to 1 spreads those who failed together."""
        return min(self.first * 2.0 ** min(attempts - 1, 32), self.longest) * (0.5 + chance)


class Lane:
    """Runners for some kinds of jobs; ``busy`` are those that have one, or may have one in a moment.

    One runner at a time looks for the next job; the others wait behind it.
    """

    def __init__(self, kinds: frozenset[JobType], runners: int) -> None:
        self.kinds = kinds
        self.runners = runners
        self.busy = 0
        self.looking = asyncio.Lock()


class JobRunner:
    """Runs jobs until it is stopped."""

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
        self._known: set[int] = set()
        """The jobs that run here."""
        self._unknown: frozenset[int] = frozenset()
        """The jobs that this worker has according to the ledger and that do not run here."""
        self._look_at_claims = 0.0
        self._news = asyncio.Event()  # set once and replaced: whoever holds an old one cannot miss what came since
        self._quiet = asyncio.Event()
        self._stopping = False

    def start(self) -> None:
        """Begin to take jobs."""
        self._runners = [
            asyncio.create_task(self._run(lane), name=f"jobs-{number}")
            for lane in self._lanes
            for number in range(lane.runners)
        ]

    def wake(self) -> None:
        """Say that something was queued, so that it need not wait for the next look."""
        self._news.set()
        self._news = asyncio.Event()

    def run(self, job: Job) -> None:
        """Run a job that this worker has claimed; queue it again if the runner has been stopped."""
        lane = next(lane for lane in self._lanes if job.job_type in lane.kinds)
        lane.busy += 1
        self._known.add(job.id)
        task = asyncio.create_task(self._run_one(job, lane))
        self._handed_over.add(task)
        task.add_done_callback(self._handed_over.discard)

    async def drain(self, seconds: float, *, folds: bool = False) -> bool:
        """Wait until no due job (``folds``: nor a fold) waits or runs here, at most that long; return if it is so."""
        kinds = PROMPT | FOLDING if folds else PROMPT
        lanes = [lane for lane in self._lanes if lane.kinds <= kinds]
        with suppress(TimeoutError, LedgerError):
            async with asyncio.timeout(seconds):
                while True:
                    self._quiet.clear()
                    due = await self._something_is_due(kinds)
                    if not due and not any(lane.busy for lane in lanes) and not self._quiet.is_set():
                        return True  # and nobody finished a job, and so queued another, while we asked
                    await _within(self._look_seconds, self._quiet.wait())
        return False

    async def stop(self, *, drain_seconds: float = 0.0) -> None:
        """Finish what is due in that time, but no folds; what still runs then is queued again for others to do."""
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
                log.warning("takes no more jobs: %s", error)
                return

    async def _next(self, lane: Lane) -> Job | None:
        """Wait for a job and take it; None once there is nothing more to wait for.

        Who has one is busy, and who may have one in a moment.
        """
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
        """Queue jobs again that this worker claimed without being told: the ledger failed after the commit.

        A claim whose answer is on its way looks the same, so only jobs that were unknown a second ago are queued.
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
        """Run a job, and those that are claimed when it ends."""
        doing: Job | None = job
        try:
            while doing is not None:
                doing = await self._see_through(doing, () if self._stopping else lane.kinds)
                self._quiet.set()
        finally:
            self._is_free(lane)

    async def _run_one(self, job: Job, lane: Lane) -> None:
        try:
            await asyncio.sleep(ANSWER_FIRST_SECONDS)
            async with self._room:
                if self._stopping:
                    await self._record(job, self._given_back(job))
                else:
                    await self._see_through(job, ())
        except asyncio.CancelledError:
            if job.id in self._known:  # it was still waiting
                await asyncio.shield(self._record(job, self._given_back(job)))
            raise
        except (LedgerClosed, WorkerLost) as error:
            log.info("job %s is left to others: %s", job.id, error)
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
            log.warning("cannot take jobs: %s", error)
            return None

    async def _see_through(self, job: Job, then: JobTypes) -> Job | None:
        """Run a job's handler, write its result and end the job; return the next job, claimed with that."""
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
            await asyncio.shield(self._record(job, self._given_back(job)))
            raise
        except JobLost:
            log.info("job %s was taken by another worker meanwhile", job.id)
            return None
        except (LedgerClosed, WorkerLost):
            raise
        except Exception as error:  # a handler may fail in any way: that is what retries are for
            log.warning("job %s (%s, turn %s) failed: %s", job.id, job.job_type, job.turn_id, error, exc_info=True)
            result = None
            await self._record(job, self._failed(job, f"{type(error).__name__}: {error}"))
            return None
        finally:
            self._known.discard(job.id)
            if result is None or result.may_queue:
                self.wake()

    async def _taken(self, taking: Coroutine[Any, Any, Job | None]) -> Job | None:
        """Take a job; one that was taken while we were being stopped is given back."""
        claiming = asyncio.ensure_future(taking)
        try:
            return await asyncio.shield(claiming)
        except asyncio.CancelledError:
            with suppress(LedgerError):
                if (job := await claiming) is not None:
                    await self._record(job, self._given_back(job))
            raise

    def _failed(self, job: Job, error: str) -> Callable[[], Awaitable[Job | None]]:
        if job.attempts >= self._patience.attempts and job.job_type not in NEVER_GIVEN_UP:
            return lambda: self._jobs.give_up(job.id, self._worker, error=error)
        after = self._patience.pause(job.attempts, random.random())  # noqa: S311 - jitter, not a secret
        return lambda: self._jobs.retry(job.id, self._worker, error=error, after=after)

    def _given_back(self, job: Job) -> Callable[[], Awaitable[Job | None]]:
        return lambda: self._jobs.release(job.id, self._worker)

    async def _record(self, job: Job, write: Callable[[], Awaitable[Job | None]]) -> Job | None:
        """Write down how a job went, as often as it takes: a job nobody ends would hold up its branch."""
        while True:
            try:
                return await write()
            except JobLost:
                log.info("job %s was taken by another worker meanwhile", job.id)
                return None
            except LedgerClosed:
                return None
            except LedgerError as error:
                log.warning("cannot record the end of job %s yet: %s", job.id, error)
                if self._stopping:
                    return None  # recovery finds it: its worker is gone
                await asyncio.sleep(self._look_seconds)

    async def _something_is_due(self, kinds: frozenset[JobType]) -> bool:
        wait = await self._jobs.due_in(kinds)
        return wait is not None and wait <= timedelta()

    async def _until_due(self, lane: Lane) -> float:
        """How long to sleep: until the next job is due, but look now and then for those of other processes."""
        with suppress(LedgerError):
            wait = await self._jobs.due_in(lane.kinds)
            if wait is not None and wait > timedelta():
                return min(wait.total_seconds(), self._look_seconds)
        return self._look_seconds


async def _within(seconds: float, awaited: Awaitable[object]) -> None:
    """Wait for something, but not longer than that."""
    with suppress(TimeoutError):
        await asyncio.wait_for(awaited, seconds)


LOOK_SECONDS = 0.02
MOST_PENDING = 64


async def pending(store: Store, branch_id: BranchId) -> tuple[Turn, ...]:
    """Read the answered turns of a branch that are not committed, the oldest first."""
    newest = await store.turns.history(branch_id, limit=MOST_PENDING)
    return tuple(turn for turn in newest if turn.phase is Phase.RESPONSE_FINALIZED and turn.branch_id == branch_id)


async def commit_pending(store: Store, job_runner: JobRunner, branch_id: BranchId, *, seconds: float) -> int:
    """Have them committed, and wait for that long; tell how many are left.

    The jobs are asked for again, so that one that was given up is tried once more.
    """
    left = await pending(store, branch_id)
    for turn in left:
        await store.jobs.enqueue("summarize_turn", branch_id, turn.id)
    deadline = asyncio.get_running_loop().time() + seconds
    while left and asyncio.get_running_loop().time() < deadline:
        job_runner.wake()
        await asyncio.sleep(LOOK_SECONDS)
        left = await pending(store, branch_id)
    return len(left)


MOMENT, RESTS, LONGEST_REST = 0.001, 9, 0.05
"""After how many seconds of work it pauses, how many times as long, and for how long at most."""


class Throttle:
    """Makes background work pause while turns are being answered here (``running``)."""

    def __init__(self, running: Sized) -> None:
        self._running = running
        self._began = time.perf_counter()

    async def take(self) -> None:
        """Sleep nine times the time worked since the last pause, at most 50 ms, while turns run."""
        worked = time.perf_counter() - self._began
        if worked >= MOMENT:
            await asyncio.sleep(min(RESTS * worked, LONGEST_REST) if len(self._running) else 0)
            self._began = time.perf_counter()
