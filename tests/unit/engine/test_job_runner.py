"""The runner of durable jobs, on a real ledger."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest

from contextinfinity.domain.job import Backlog, Job, JobType
from contextinfinity.domain.turn import Phase, Turn
from contextinfinity.engine.job_runner import MOST_HANDED_OVER, Handler, JobRunner, RetryDelays
from contextinfinity.storage.sqlite.store import SqliteStore
from contextinfinity_testing.builders import answer_turn, commit_turn, current, final_turn, new_branch

TYPES: tuple[JobType, ...] = ("summarize_turn", "index_turn", "remember_turn", "fold_branch", "reconcile_stream")
AT_ONCE = RetryDelays(attempts=3, first=timedelta(milliseconds=1), longest=timedelta(milliseconds=2))


class Work:
    """Handlers that do what the real ones do at least, and note what they did."""

    def __init__(self, store: SqliteStore) -> None:
        self.store = store
        self.done: list[tuple[str, int]] = []
        self.hold: dict[str, asyncio.Event] = {}
        self.fold_on = asyncio.Event()
        self.fold_on.set()
        self.fail: Callable[[Job], None] = lambda _: None

    async def __call__(self, job: Job) -> None:
        if job.branch_id in self.hold:
            await self.hold[job.branch_id].wait()
        if job.job_type == "fold_branch":
            await self.fold_on.wait()
        self.fail(job)
        if job.turn_id is not None and job.job_type == "summarize_turn":
            turn = await self.store.turns.get(job.turn_id)
            assert turn is not None
            await commit_turn(self.store, turn)
        if job.turn_id is not None and job.job_type == "index_turn":
            await self.store.chunks.index(job.turn_id, ())
        self.done.append((job.job_type, job.turn_seq))

    @property
    def handlers(self) -> dict[JobType, Handler]:
        return dict.fromkeys(TYPES, self)


@pytest.fixture
def work(ledger: SqliteStore) -> Work:
    return Work(ledger)


def runner(ledger: SqliteStore, work: Work, worker: str = "worker", patience: RetryDelays = AT_ONCE) -> JobRunner:
    return JobRunner(ledger.jobs, worker, work.handlers, patience=patience, look_seconds=0.02)


async def until(true: Callable[[], Awaitable[bool]], pause: float = 0.002) -> None:
    async with asyncio.timeout(100):
        while not await true():
            await asyncio.sleep(pause)


async def drained(ledger: SqliteStore, job_runner: JobRunner) -> None:
    """Wait until no job is left, whatever it takes, then stop."""

    async def empty() -> bool:
        backlog = await ledger.jobs.backlog()
        return backlog.queued + backlog.running == 0

    await until(empty)
    await job_runner.stop()


@pytest.mark.req("TURN-7")
async def test_a_final_turn_is_carried_to_its_end_without_being_asked(ledger: SqliteStore, work: Work) -> None:
    branch = await new_branch(ledger)
    turns = [await final_turn(ledger, branch.id, f"question {number}") for number in range(5)]
    afterwards = runner(ledger, work)
    afterwards.start()
    await drained(ledger, afterwards)
    assert [(await current(ledger, turn)).phase for turn in turns] == [Phase.DONE] * 5
    head = await ledger.states.head(branch.id)
    assert head.turn_seq == 5


@pytest.mark.req("TURN-7")
async def test_jobs_of_a_kind_are_done_in_the_order_of_their_branch(ledger: SqliteStore, work: Work) -> None:
    branch = await new_branch(ledger)
    for number in range(20):
        await final_turn(ledger, branch.id, f"question {number}")
    workers = [runner(ledger, work, f"worker {number}") for number in range(3)]
    for afterwards in workers:
        afterwards.start()
    for afterwards in workers:
        await drained(ledger, afterwards)
    for kind in ("summarize_turn", "index_turn", "remember_turn"):
        assert [seq for job_type, seq in work.done if job_type == kind] == list(range(1, 21))


@pytest.mark.req("TURN-7")
async def test_a_branch_that_is_held_up_does_not_hold_up_the_others(ledger: SqliteStore, work: Work) -> None:
    slow, fast = await new_branch(ledger), await new_branch(ledger)
    work.hold[slow.id] = asyncio.Event()
    waiting = await final_turn(ledger, slow.id, "slow")
    afterwards = runner(ledger, work)
    afterwards.start()
    turn = await final_turn(ledger, fast.id, "fast")
    afterwards.wake()
    await until(lambda: reached(ledger, turn, Phase.DONE))
    assert (await current(ledger, waiting)).phase is Phase.RESPONSE_FINALIZED
    work.hold[slow.id].set()
    await drained(ledger, afterwards)
    assert (await current(ledger, waiting)).phase is Phase.DONE


async def reached(ledger: SqliteStore, turn: Turn, phase: Phase) -> bool:
    return (await current(ledger, turn)).phase is phase


@pytest.mark.req("TURN-7", "TURN-5")
async def test_a_job_that_fails_is_tried_again_and_says_why(ledger: SqliteStore, work: Work) -> None:
    branch = await new_branch(ledger)
    turn = await final_turn(ledger, branch.id, "question")
    seen: list[tuple[int, str | None, bool]] = []

    def fail_twice(job: Job) -> None:
        if job.job_type == "index_turn" and len(seen) < 2:
            seen.append((job.attempts, job.last_error, True))
            raise RuntimeError(f"attempt {job.attempts} of many")

    work.fail = fail_twice
    afterwards = runner(ledger, work)
    afterwards.start()
    await drained(ledger, afterwards)
    assert seen == [(1, None, True), (2, "RuntimeError: attempt 1 of many", True)]
    done = await current(ledger, turn)
    assert (done.phase, done.degraded) == (Phase.DONE, False), "an attempt that succeeds clears the mark"


@pytest.mark.req("TURN-5", "TURN-7")
async def test_indexing_that_never_succeeds_leaves_the_turn_done_and_degraded(ledger: SqliteStore, work: Work) -> None:
    branch = await new_branch(ledger)
    turn = await final_turn(ledger, branch.id, "question")

    def fail(job: Job) -> None:
        if job.job_type == "index_turn":
            raise RuntimeError("no embedder")

    work.fail = fail
    afterwards = runner(ledger, work)
    afterwards.start()
    await drained(ledger, afterwards)
    done = await current(ledger, turn)
    assert (done.phase, done.degraded) == (Phase.DONE, True)
    (job,) = await ledger.jobs.list()
    assert (job.state, job.attempts, job.last_error) == ("failed", 3, "RuntimeError: no embedder")
    backlog = await ledger.jobs.backlog()
    assert backlog == Backlog(failed=1, by_type={"index_turn": 1}, oldest=job.created_at)


@pytest.mark.req("TURN-7")
async def test_stopping_gracefully_finishes_what_is_due(ledger: SqliteStore, work: Work) -> None:
    branches = [await new_branch(ledger) for _ in range(5)]
    turns = [await final_turn(ledger, branch.id, "question") for branch in branches]
    afterwards = runner(ledger, work)
    afterwards.start()
    await afterwards.stop(drain_seconds=20)
    assert [(await current(ledger, turn)).phase for turn in turns] == [Phase.DONE] * 5


@pytest.mark.req("TURN-7")
async def test_stopping_at_once_puts_back_what_was_begun(ledger: SqliteStore, work: Work) -> None:
    branch = await new_branch(ledger)
    turn = await final_turn(ledger, branch.id, "question")
    work.hold[branch.id] = asyncio.Event()
    afterwards = runner(ledger, work)
    afterwards.start()
    await until(lambda: running(ledger))
    await afterwards.stop()
    (job,) = await ledger.jobs.list()
    assert (job.state, job.owner, job.attempts) == ("queued", None, 0), "being stopped is no attempt"
    work.hold[branch.id].set()
    another = runner(ledger, work, "another worker")
    another.start()
    await drained(ledger, another)
    assert (await current(ledger, turn)).phase is Phase.DONE


async def running(ledger: SqliteStore, count: int = 1) -> bool:
    return (await ledger.jobs.backlog()).running == count


@pytest.mark.req("COMPACT-1", "TURN-7")
async def test_folds_that_hang_hold_up_neither_their_own_branch_nor_another(ledger: SqliteStore, work: Work) -> None:
    branches = [await new_branch(ledger) for _ in range(6)]
    for branch in branches:
        await ledger.jobs.enqueue("fold_branch", branch.id)
    work.fold_on.clear()
    afterwards = runner(ledger, work)
    afterwards.start()
    await until(lambda: running(ledger, 2))
    turns = [await final_turn(ledger, branch.id, "question") for branch in branches]
    afterwards.wake()
    assert await afterwards.drain(100)
    assert [(await current(ledger, turn)).phase for turn in turns] == [Phase.DONE] * 6
    assert {(job.job_type, job.state) for job in await ledger.jobs.list()} == {
        ("fold_branch", "running"),
        ("fold_branch", "queued"),
    }
    work.fold_on.set()
    assert await afterwards.drain(100, folds=True)
    assert await ledger.jobs.list() == ()
    await afterwards.stop()


@pytest.mark.req("COMPACT-1", "TURN-7")
async def test_stopping_gives_a_running_fold_back_without_waiting_for_it(ledger: SqliteStore, work: Work) -> None:
    branch = await new_branch(ledger)
    await ledger.jobs.enqueue("fold_branch", branch.id)
    work.fold_on.clear()
    afterwards = runner(ledger, work)
    afterwards.start()
    await until(lambda: running(ledger))
    assert not await afterwards.drain(0.01, folds=True)
    turn = await final_turn(ledger, branch.id, "question")
    async with asyncio.timeout(100):
        await afterwards.stop(drain_seconds=600)
    assert (await current(ledger, turn)).phase is Phase.DONE
    (job,) = await ledger.jobs.list()
    assert (job.job_type, job.state, job.owner, job.attempts) == ("fold_branch", "queued", None, 0)


@pytest.mark.req("COMPACT-1")
async def test_a_fold_asked_for_later_holds_up_no_drain(ledger: SqliteStore, work: Work) -> None:
    branch = await new_branch(ledger)
    await ledger.jobs.enqueue("fold_branch", branch.id, after=timedelta(minutes=1))
    afterwards = runner(ledger, work)
    afterwards.start()
    assert await afterwards.drain(100, folds=True)
    await afterwards.stop()
    assert work.done == []


@pytest.mark.req("TURN-7")
async def test_an_end_that_comes_after_another_worker_took_the_job_is_discarded(
    ledger: SqliteStore, work: Work
) -> None:
    branch = await new_branch(ledger)
    turn = await final_turn(ledger, branch.id, "question")
    work.hold[branch.id] = asyncio.Event()
    slept = runner(ledger, work, "sleeper")
    slept.start()
    await until(lambda: running(ledger))
    taken = await ledger.workers.take_over("sleeper", by="another worker")
    assert taken.jobs == 1
    job = await ledger.jobs.claim("another worker")
    assert job is not None
    work.hold[branch.id].set()
    await until(lambda: reached(ledger, turn, Phase.STATE_COMMITTED))
    assert [entry.id for entry in await ledger.jobs.list() if entry.state == "running"] == [job.id]
    await slept.stop()
    await ledger.jobs.complete(job.id, "another worker")


@pytest.mark.req("TURN-7", "SAFE-4")
async def test_a_job_whose_turn_is_deleted_meanwhile_ends_quietly(
    ledger: SqliteStore, work: Work, caplog: pytest.LogCaptureFixture
) -> None:
    branch = await new_branch(ledger)
    turn = await answer_turn(ledger, branch.id, "question")
    await ledger.jobs.enqueue("index_turn", branch.id, turn.id)
    work.hold[branch.id] = asyncio.Event()
    afterwards = runner(ledger, work)
    afterwards.start()
    await until(lambda: running(ledger))
    await ledger.deletions.delete_turn(turn.id)
    work.hold[branch.id].set()
    await drained(ledger, afterwards)
    assert await ledger.jobs.list() == ()
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


def test_the_pause_doubles_up_to_the_longest_and_is_spread() -> None:
    patience = RetryDelays(first=timedelta(seconds=1), longest=timedelta(seconds=10))
    middle = [patience.delay_after(attempts, 0.5).total_seconds() for attempts in (1, 2, 3, 4, 5, 50)]
    assert middle == [1, 2, 4, 8, 10, 10]
    assert patience.delay_after(1, 0.0) == timedelta(seconds=0.5)
    assert patience.delay_after(1, 1.0) == timedelta(seconds=1.5)


@pytest.mark.req("TURN-7")
async def test_a_job_that_was_claimed_without_an_answer_is_run(ledger: SqliteStore, work: Work) -> None:
    """The ledger failed after the commit: the worker was not told that it has the job."""
    turn = await final_turn(ledger, (await new_branch(ledger)).id, "question")
    assert await ledger.jobs.claim("worker") is not None
    afterwards = runner(ledger, work)
    afterwards.start()
    await drained(ledger, afterwards)
    assert (await current(ledger, turn)).phase is Phase.DONE


@pytest.mark.req("TURN-7")
async def test_claimed_jobs_that_wait_when_the_runner_stops_are_queued_again(ledger: SqliteStore, work: Work) -> None:
    afterwards = runner(ledger, work)
    for number in range(2 * MOST_HANDED_OVER):
        branch = await new_branch(ledger)
        work.hold[branch.id] = asyncio.Event()
        await final_turn(ledger, branch.id, f"question {number}")
        job = await ledger.jobs.claim("worker")
        assert job is not None
        afterwards.run(job)
    await asyncio.sleep(0)
    await afterwards.stop()
    assert await ledger.jobs.claimed("worker") == frozenset()
    assert (await ledger.jobs.backlog()).queued == 2 * MOST_HANDED_OVER
