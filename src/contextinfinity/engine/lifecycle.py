"""The life cycle of an engine: start, accept messages, background maintenance, close; and the lease of its worker.

Starting recovers from a crash; closing finishes the running turns or marks them as interrupted. Every minute, expired
journals are removed and the turns of dead workers are ended. The public operations are in ``engine``.

Each process is one worker. On the same host a released lock shows at once that a worker is dead. A process that hangs
or is paused still holds its lock, so heartbeats are watched too: a worker whose heartbeat count does not change for the
length of a lease, by the observer's own monotonic clock, is considered dead. Wall clocks are never compared, so a clock
jump cannot expire a lease.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import time
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from types import TracebackType
from typing import TYPE_CHECKING, Self

from msgspec.structs import replace

from contextinfinity.domain.ids import TurnId, WorkerId, new_id
from contextinfinity.domain.session import Session
from contextinfinity.domain.turn import NewTurn, Phase, Turn
from contextinfinity.domain.worker import Worker
from contextinfinity.engine.deleting import Cleaner
from contextinfinity.engine.engine_setup import Setup
from contextinfinity.engine.lazy_modules import FOR_THE_INDEX, loaded, preload
from contextinfinity.engine.model_choice import Models
from contextinfinity.engine.running_turn import LOOK_SECONDS, Broadcast, RunningTurn, SendOptions
from contextinfinity.engine.stages import Stages
from contextinfinity.engine.step import watch_for_cancels
from contextinfinity.engine.turn import wait_for_any
from contextinfinity.errors import LedgerError, LedgerFull, LedgerReadOnly, WorkerLost
from contextinfinity.storage.contract import Store
from contextinfinity.storage.copies import Copies, Journals
from contextinfinity.storage.database import for_all_owners, maintenance_context
from contextinfinity.storage.journal import JournalFolder
from contextinfinity.storage.ledger.workers import Workers
from contextinfinity.telemetry.counters import count

if TYPE_CHECKING:
    from contextinfinity.engine.indexing import Indexer


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


log = logging.getLogger(__name__)

QUEUE_LIMIT = 16
"""The maximum number of messages that wait on a branch."""
HOUSEKEEPING_SECONDS = 60.0
RECOVERY_SECONDS = 2.0
"""The interval for repeating a failed recovery; while turns of dead workers are open, their branches cannot go on."""
INDEX_SECONDS = 2.0
"""The first interval between indexing runs, which doubles up to a minute; a short command ends before the first run."""
LONGEST_SWEEP_SECONDS = 600.0
"""The time limit of a background sweep of deleted text."""
WIPE_SECONDS = 5.0
"""The interval for checking whether deleted text in a log that another process used can be wiped."""
MARK_SECONDS = 2.0
"""The time limit for recording the end of an interrupted turn; after it, recovery does that."""


class Lifecycle:
    """One process that works on a ledger."""

    def __init__(self, store: Store, journals: JournalFolder, models: Models, setup: Setup | None = None) -> None:
        self.store = store
        self.models = models
        setup = setup or Setup()
        self.setup = setup if setup.copies else dataclasses.replace(setup, copies=Copies(Journals(journals.folder)))
        self.worker_lease = WorkerLease(store.workers)
        self.tasks: set[asyncio.Task[None]] = set()
        self.unindexed = asyncio.Event()
        """Set this when turns were added that no job will index."""
        self.cleaner = Cleaner(store, self.setup.copies, self.setup.retention)
        self._journals = journals
        self.streams_folder = journals.folder
        """The folder of the journals, inside the data_dir."""
        self._running: dict[TurnId, RunningTurn] = {}
        self._fold_events = Broadcast()
        self._accepting: set[asyncio.Task[Turn]] = set()
        self._closed = False
        self._upkeep: set[asyncio.Task[None]] = set()
        self._watching_cancels: asyncio.Task[None] | None = None
        self._unwritable: LedgerReadOnly | LedgerFull | None = None
        """Why this engine is read-only: the error of the last attempt to write."""
        self._beginning = asyncio.Lock()

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as undo:
            undo.push_async_callback(self._release)
            try:
                await self._begin_work()
            except (LedgerReadOnly, LedgerFull) as error:
                log.warning("the ledger is read-only: %s", error.message)
                self._unwritable = error
                self._take_up_work(new_id())
            undo.pop_all()
        return self

    async def _begin_work(self) -> None:
        """Register this process as a worker, recover the turns of dead workers, and start the background tasks."""
        await self.cleaner.finish()  # before anything reads here, so that the log can be emptied
        async with AsyncExitStack() as undo:
            await undo.enter_async_context(self.worker_lease)
            self._take_up_work(self.worker_lease.worker.id)
            await self._stages.recovery.recover(await self.worker_lease.find_dead())
            undo.pop_all()
        self._unwritable = None
        self.job_runner.start()
        self._upkeep = {
            asyncio.create_task(self._run_periodic_cleanup(), name="housekeeping"),
            asyncio.create_task(self._keep_index(), name="indexing"),
            asyncio.create_task(self._keep_clean(), name="cleaning"),
            asyncio.create_task(preload(self._count), name="preloading"),
        }

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self, *, answer_seconds: float = 5.0, job_seconds: float = 2.0) -> None:
        """Let turns and jobs finish for the given times, interrupt the rest, and release all resources.

        Closing twice does nothing.
        """
        if self._closed:
            return
        self._closed = True
        if self._accepting:
            await asyncio.wait(self._accepting, timeout=answer_seconds)
        if self.tasks:
            await asyncio.wait(self.tasks, timeout=answer_seconds)
        watching = set() if self._watching_cancels is None else {self._watching_cancels}
        await _stop({*self.tasks, *self._upkeep, *watching})
        if self._unwritable is None:
            await self.job_runner.stop(drain_seconds=job_seconds)
            with suppress(LedgerError):
                self._journals.close()  # while this worker is registered: no other stores entries in a shared ledger
            await self.worker_lease.__aexit__(None, None, None)
        await self._release()

    async def accept_turn(
        self, new: NewTurn, options: SendOptions, *, found: bool, session: Session | None = None
    ) -> Turn:
        """Make a message durable (TX-0) and start to answer it; every API calls this.

        ``found`` says whether its thread existed; ``session`` is the thread if the caller has just read it. A durable
        message is answered even if its caller disconnects.
        Raise ``LedgerReadOnly`` or ``LedgerFull`` if nothing can be written.
        """
        async with self._beginning:
            if self._unwritable is not None:  # the ledger may be writable again
                await for_all_owners(self._begin_work)()  # not for the user of this message only
        new = replace(new, queue_limit=QUEUE_LIMIT, begin=True)
        accepting = asyncio.create_task(self._accept(new, options, session), name="accept")
        self._accepting.add(accepting)
        accepting.add_done_callback(self._accepted)
        turn = await asyncio.shield(accepting)
        there, place, loaded = "found" if found else "created", turn.branch_id, turn.turn_seq - 1
        log.info("thread %s %s, branch %s, turn %d, turns loaded %d", turn.session_id, there, place, loaded + 1, loaded)
        return turn

    def _take_up_work(self, worker: WorkerId) -> None:
        store, journals, running, events = self.store, self._journals, self._running, self._fold_events
        self._stages = Stages(
            store, journals, self.models, self.setup, worker=worker, running=running, fold_events=events
        )
        self.job_runner = self._stages.job_runner

    def _indexer(self) -> Indexer:
        """Return what indexes the turns of this ledger; its module is slow to import."""
        from contextinfinity.engine.indexing import Indexer

        setup = self.setup
        return Indexer(store=self.store, retrieval=setup.retrieval, redactor=setup.redactor, running=self._running)

    def _count(self, text: str) -> int:
        return self.models.named(None).counter.count(text)

    async def _release(self) -> None:
        with suppress(LedgerError):
            self._journals.close()
        await self.models.close()
        if self.setup.retrieval is not None:
            await self.setup.retrieval.embedders.close()
        await self.store.close()

    async def _accept(self, new: NewTurn, options: SendOptions, session: Session | None) -> Turn:
        while True:
            try:
                turn = await self.store.turns.accept(replace(new, owner=self._stages.worker))
            except WorkerLost:  # housekeeping registers a new worker in a moment
                if self._closed:
                    raise
                self.worker_lease.lost.set()
                await asyncio.sleep(LOOK_SECONDS)
            else:
                if self._is_to_be_begun(turn):
                    self._begin(turn, options, session)
                return turn

    def _is_to_be_begun(self, turn: Turn) -> bool:
        """Return whether the turn is new and must be started here.

        An idempotent repeat returns an existing turn, which runs here or elsewhere, has ended, or will be
        recovered.
        """
        is_waiting = turn.phase in (Phase.ACCEPTED, Phase.CONTEXT_PREPARED)
        is_known = turn.id in self._running or turn.id in self._stages.recovery.taken_over
        return is_waiting and turn.owner == self._stages.worker and not is_known

    def _accepted(self, done: asyncio.Task[Turn]) -> None:
        self._accepting.discard(done)
        if not done.cancelled():
            done.exception()  # marks it as retrieved; the caller gets it, unless it has disconnected

    def _begin(self, turn: Turn, options: SendOptions, session: Session | None) -> None:
        running = self._running[turn.id] = RunningTurn(turn, options)
        if turn.phase is Phase.CONTEXT_PREPARED:  # otherwise it waits for earlier turns, and the session may change
            running.session = session
        if self._watching_cancels is None or self._watching_cancels.done():
            self._watching_cancels = asyncio.create_task(
                watch_for_cancels(self.store.turns, self._running), name="cancels", context=maintenance_context()
            )
        task = asyncio.create_task(self._stages.turns.answer(running), name=f"turn-{turn.turn_seq}")
        self.tasks.add(task)

        def over(done: asyncio.Task[None]) -> None:
            self.tasks.discard(done)
            self._running.pop(turn.id, None)
            self.job_runner.wake()

        task.add_done_callback(over)

    async def _run_periodic_cleanup(self) -> None:
        """Every minute, and when a worker died, remove expired journals and recover the turns of dead workers.

        A recovery that could not end all of them, as the ledger was unavailable, is repeated soon. A journal is needed
        until its turn is settled, so none is removed before. If this worker was declared dead, it registers again as
        a new one.
        """
        is_open = False  # all was recovered at the start
        while True:
            try:
                if not is_open:
                    await asyncio.to_thread(self._journals.prune, self.setup.keep_journals)
                self._stages.caches.drop_idle()
                lease = self.worker_lease
                seconds = RECOVERY_SECONDS if is_open or self._stages.recovery.taken_over else HOUSEKEEPING_SECONDS
                is_open = True
                await wait_for_any(lease.lost, lease.found_dead, seconds=seconds)
                lease.found_dead.clear()
                if lease.lost.is_set():
                    await self._enter_again()
                dead = await self.worker_lease.find_dead()
                await self._stages.recovery.recover(dead)
                is_open = bool(self._stages.recovery.taken_over or (dead and await self.worker_lease.find_dead()))
            except Exception as error:  # housekeeping must go on after any failure
                _warn("housekeeping", error)
                if not isinstance(error, LedgerError):
                    await asyncio.sleep(HOUSEKEEPING_SECONDS)

    async def _keep_index(self) -> None:
        """Periodically index what is missing: imports, data of older releases, gaps after a crash."""
        pause, is_looked_over = INDEX_SECONDS, False
        while self.setup.retrieval is not None:
            await wait_for_any(self.unindexed, seconds=pause)
            self.unindexed.clear()
            pause = min(2 * pause, HOUSEKEEPING_SECONDS)
            try:
                await loaded(*FOR_THE_INDEX)
                indexer = self._indexer()
                if not is_looked_over:
                    await indexer.reconcile()
                    is_looked_over = True
                await indexer.complete()
            except Exception as error:  # until it succeeds, messages are found by keywords only
                count("indexing_failed")
                _warn("indexing", error)

    async def _keep_clean(self) -> None:
        """Delete expired conversations soon after the start and then every few hours; the next run retries
        failures.

        While another process keeps deleted text in the log, check every few seconds whether it can be wiped.
        """
        every = self.setup.clean_up_every.total_seconds()
        due = time.monotonic() + min(HOUSEKEEPING_SECONDS, every)
        while True:
            await asyncio.sleep(min(max(due - time.monotonic(), 0), WIPE_SECONDS))
            try:
                if time.monotonic() >= due:
                    due = time.monotonic() + every
                    await self.cleaner.clean_up()
                    self._stages.caches.forget()
                    await self.cleaner.sweep(LONGEST_SWEEP_SECONDS)
                elif not await self.store.deletions.is_wiped():
                    await self.cleaner.sweep()
            except Exception as error:  # the next run retries
                _warn("the clean-up", error)

    async def _enter_again(self) -> None:
        """Register as a new worker: other workers have taken over our turns, and our results for them are discarded."""
        await _stop(set(self.tasks))
        await self.job_runner.stop()
        await self.worker_lease.__aexit__(None, None, None)
        self.worker_lease = WorkerLease(self.store.workers)
        await self.worker_lease.__aenter__()
        self._take_up_work(self.worker_lease.worker.id)
        self.job_runner.start()


def _warn(what: str, error: Exception) -> None:
    """Log that background work failed, with the stack unless the ledger refused."""
    log.warning("%s failed; it is tried again later: %s", what, error, exc_info=not isinstance(error, LedgerError))


async def _stop(tasks: set[asyncio.Task[None]]) -> None:
    """Cancel tasks and wait for their last writes, with a time limit in case the ledger cannot be written."""
    waiting, patience = tasks, MARK_SECONDS
    while waiting:
        for task in waiting:
            task.cancel()
        _, waiting = await asyncio.wait(waiting, timeout=patience)
        patience = 0.1
    await asyncio.gather(*tasks, return_exceptions=True)
