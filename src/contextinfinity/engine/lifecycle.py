"""An engine at work: it opens, takes on messages, keeps house and closes.

Entering recovers what a crash left, leaving finishes what runs or marks it. Every minute journals whose time is over
are removed and what dead workers left is brought to its end. What people do with an engine is in ``engine``.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import time
from contextlib import AsyncExitStack, suppress
from types import TracebackType
from typing import Self

from msgspec.structs import replace

from contextinfinity.domain.ids import TurnId, WorkerId, new_id
from contextinfinity.domain.turn import NewTurn, Phase, Turn
from contextinfinity.engine.cleanup import Cleaner
from contextinfinity.engine.configured_models import Models
from contextinfinity.engine.engine_setup import Setup
from contextinfinity.engine.handlers import handlers
from contextinfinity.engine.job_runner import JobRunner
from contextinfinity.engine.lazy_modules import FOR_THE_INDEX, loaded, preload
from contextinfinity.engine.parts import Parts
from contextinfinity.engine.recovery import recover
from contextinfinity.engine.running_turn import RunningTurn, SendOptions
from contextinfinity.engine.step import watch_for_cancels
from contextinfinity.engine.turn import answer, wait_for_any
from contextinfinity.engine.turn_cache import Caches
from contextinfinity.engine.worker_lease import WorkerLease
from contextinfinity.errors import LedgerError, LedgerFull, LedgerReadOnly, WorkerLost
from contextinfinity.storage.contract import Store
from contextinfinity.storage.copies import Copies, Journals
from contextinfinity.storage.journal import JournalFolder
from contextinfinity.telemetry.counters import count

log = logging.getLogger(__name__)

QUEUE_LIMIT = 16
"""Messages that may wait on a branch."""
HOUSEKEEPING_SECONDS = 60.0
INDEX_SECONDS = 2.0
"""How long after the start, and how often, the index is brought in step; a short command ends before that."""
LONGEST_SWEEP_SECONDS = 600.0
"""How long what was deleted may be wiped out at a time, behind all else."""
WIPE_SECONDS = 5.0
"""How often to look whether deleted text that another process kept in the log can be wiped."""
MARK_SECONDS = 2.0
"""How long the end of an interrupted answer may take to be written; recovery writes it otherwise."""


class Lifecycle:
    """One process's share of the work on a ledger."""

    def __init__(self, store: Store, journals: JournalFolder, models: Models, setup: Setup | None = None) -> None:
        self.store = store
        self.models = models
        setup = setup or Setup()
        self.setup = setup if setup.copies else dataclasses.replace(setup, copies=Copies(Journals(journals.folder)))
        self.worker_lease = WorkerLease(store.workers)
        self.tasks: set[asyncio.Task[None]] = set()
        self.unindexed = asyncio.Event()
        """To be set when turns came that no job will index."""
        self.cleaner = Cleaner(store, self.setup.copies)
        self._journals = journals
        self.streams_folder = journals.folder
        """The folder of the journals, which is in the data_dir."""
        self._running: dict[TurnId, RunningTurn] = {}
        self._accepting: set[asyncio.Task[Turn]] = set()
        self._closed = False
        self._upkeep: set[asyncio.Task[None]] = set()
        self._watching_cancels: asyncio.Task[None] | None = None
        self._unwritable: LedgerReadOnly | LedgerFull | None = None
        """Why this engine only reads: its ledger could not be written when it was last tried."""
        self._beginning = asyncio.Lock()

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as undo:
            undo.push_async_callback(self._let_go)
            try:
                await self._begin_work()
            except (LedgerReadOnly, LedgerFull) as error:
                log.warning("nothing can be written, only read: %s", error.message)
                self._unwritable = error
                self._take_up_work(new_id())
            undo.pop_all()
        return self

    async def _begin_work(self) -> None:
        """Register this process as a worker, finish what dead ones left, and start the background work."""
        await self.cleaner.finish()  # while nobody reads here, so that the log can be emptied
        async with AsyncExitStack() as undo:
            await undo.enter_async_context(self.worker_lease)
            self._take_up_work(self.worker_lease.worker.id)
            await recover(self._parts, await self.worker_lease.find_dead())
            undo.pop_all()
        self._unwritable = None
        self.job_runner.start()
        self._upkeep = {
            asyncio.create_task(self._keep_house(), name="housekeeping"),
            asyncio.create_task(self._keep_index(), name="indexing"),
            asyncio.create_task(self._keep_clean(), name="cleaning"),
            asyncio.create_task(preload(self._count), name="preloading"),
        }

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self, *, answer_seconds: float = 5.0, job_seconds: float = 2.0) -> None:
        """Let answers and jobs finish for that long; mark what is still running then, and let go of everything.

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
            await self.worker_lease.__aexit__(None, None, None)
        await self._let_go()

    async def accept_turn(self, new: NewTurn, options: SendOptions, *, found: bool) -> Turn:
        """Make a message durable (TX-0) and begin to answer it: the way in for every door.

        ``found`` says whether its thread existed. Once the message is durable it is answered, even if its caller has
        left. ``LedgerReadOnly`` or ``LedgerFull`` where nothing can be written.
        """
        async with self._beginning:
            if self._unwritable is not None:  # the disk may have room by now
                await self._begin_work()
        new = replace(new, queue_limit=QUEUE_LIMIT, begin=True)
        accepting = asyncio.create_task(self._accept(new, options), name="accept")
        self._accepting.add(accepting)
        accepting.add_done_callback(self._accepted)
        turn = await asyncio.shield(accepting)
        there, place, loaded = "found" if found else "created", turn.branch_id, turn.turn_seq - 1
        log.info("thread %s %s, branch %s, turn %d, turns loaded %d", turn.session_id, there, place, loaded + 1, loaded)
        return turn

    def _take_up_work(self, worker: WorkerId) -> None:
        self._parts = Parts(
            store=self.store,
            journals=self._journals,
            models=self.models,
            setup=self.setup,
            worker=worker,
            caches=Caches(self.store, self.setup.cached_bytes),
            running=self._running,
            run_job=lambda job: self.job_runner.run(job),
        )
        self.job_runner = JobRunner(self.store.jobs, worker, handlers(self._parts))

    def _count(self, text: str) -> int:
        return self.models.named(None).counter.count(text)

    async def _let_go(self) -> None:
        with suppress(LedgerError):
            self._journals.close()
        await self.models.close()
        if self.setup.retrieval is not None:
            await self.setup.retrieval.embedders.close()
        await self.store.close()

    async def _accept(self, new: NewTurn, options: SendOptions) -> Turn:
        while True:
            try:
                turn = await self.store.turns.accept(replace(new, owner=self._parts.worker))
            except WorkerLost:  # housekeeping makes us a new worker in a moment
                if self._closed:
                    raise
                self.worker_lease.lost.set()
                await asyncio.sleep(self._parts.look_seconds)
            else:
                if self._is_to_be_begun(turn):
                    self._begin(turn, options)
                return turn

    def _is_to_be_begun(self, turn: Turn) -> bool:
        """Tell a new turn from one that its request made before.

        That one is answered here or elsewhere, or is over, or will be in a moment: its worker died.
        """
        is_waiting = turn.phase in (Phase.ACCEPTED, Phase.CONTEXT_PREPARED)
        is_known = turn.id in self._running or turn.id in self._parts.taken_over
        return is_waiting and turn.owner == self._parts.worker and not is_known

    def _accepted(self, done: asyncio.Task[Turn]) -> None:
        self._accepting.discard(done)
        if not done.cancelled():
            done.exception()  # its caller hears of it, or has gone

    def _begin(self, turn: Turn, options: SendOptions) -> None:
        running = self._running[turn.id] = RunningTurn(turn, options)
        if self._watching_cancels is None or self._watching_cancels.done():
            self._watching_cancels = asyncio.create_task(watch_for_cancels(self._parts), name="cancels")
        task = asyncio.create_task(answer(self._parts, running), name=f"turn-{turn.turn_seq}")
        self.tasks.add(task)

        def over(done: asyncio.Task[None]) -> None:
            self.tasks.discard(done)
            self._running.pop(turn.id, None)
            self.job_runner.wake()

        task.add_done_callback(over)

    async def _keep_house(self) -> None:
        """Every minute: remove journals whose time is over, and bring to an end what dead workers left.

        A journal is needed until the turn of its step is settled, so none is removed after a recovery that failed.
        When we ourselves were declared dead, we go on as a new worker.
        """
        settled = True  # the start has seen to that
        while True:
            try:
                if settled:
                    await asyncio.to_thread(self._journals.prune, self.setup.keep_journals)
                settled = False
                self._parts.caches.turns.drop_idle()
                await wait_for_any(self.worker_lease.lost, seconds=HOUSEKEEPING_SECONDS)
                if self.worker_lease.lost.is_set():
                    await self._enter_again()
                await recover(self._parts, await self.worker_lease.find_dead())
                settled = True
            except Exception as error:  # whatever it is, it must not end the housekeeping
                log.warning("housekeeping has to wait: %s", error, exc_info=not isinstance(error, LedgerError))
                await asyncio.sleep(HOUSEKEEPING_SECONDS)

    async def _keep_index(self) -> None:
        """Now and then do what is missing in the index: of imports, of older releases, after a crash."""
        pause, is_looked_over = INDEX_SECONDS, False
        while self.setup.retrieval is not None:
            await wait_for_any(self.unindexed, seconds=pause)
            self.unindexed.clear()
            pause = min(2 * pause, HOUSEKEEPING_SECONDS)
            try:
                await loaded(*FOR_THE_INDEX)
                from contextinfinity.engine.indexing import bring_in_step, look_over

                if not is_looked_over:
                    await look_over(self._parts)
                    is_looked_over = True
                await bring_in_step(self._parts)
            except Exception as error:  # whatever it is: what was said is found by its words meanwhile
                count("indexing_failed")
                log.warning("the index has to wait: %s", error, exc_info=not isinstance(error, LedgerError))

    async def _keep_clean(self) -> None:
        """Delete what is past its time to live: soon after the start, then every few hours, whatever went wrong.

        While another process keeps deleted text in the log, look every few seconds whether it can be wiped.
        """
        every = self.setup.clean_up_every.total_seconds()
        due = time.monotonic() + min(HOUSEKEEPING_SECONDS, every)
        while True:
            await asyncio.sleep(min(max(due - time.monotonic(), 0), WIPE_SECONDS))
            try:
                if time.monotonic() >= due:
                    due = time.monotonic() + every
                    await self.cleaner.clean_up()
                    self._parts.caches.forget()
                    await self.cleaner.sweep(LONGEST_SWEEP_SECONDS)
                elif not await self.store.deletions.is_wiped():
                    await self.cleaner.sweep()
            except Exception as error:  # whatever it is: the next run tries again
                log.warning("the clean-up has to wait: %s", error, exc_info=not isinstance(error, LedgerError))

    async def _enter_again(self) -> None:
        """Become a new worker: our turns belong to others by now, and what we did for them is discarded."""
        await _stop(set(self.tasks))
        await self.job_runner.stop()
        await self.worker_lease.__aexit__(None, None, None)
        self.worker_lease = WorkerLease(self.store.workers)
        await self.worker_lease.__aenter__()
        self._take_up_work(self.worker_lease.worker.id)
        self.job_runner.start()


async def _stop(tasks: set[asyncio.Task[None]]) -> None:
    """Cancel tasks and wait for what they still have to write; not for ever, the ledger may take nothing any more."""
    waiting, patience = tasks, MARK_SECONDS
    while waiting:
        for task in waiting:
            task.cancel()
        _, waiting = await asyncio.wait(waiting, timeout=patience)
        patience = 0.1
    await asyncio.gather(*tasks, return_exceptions=True)
