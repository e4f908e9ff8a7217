"""Tests of a store: the order of jobs. Folds block nothing, and postponed jobs wait."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from contextinfinity.domain.ids import BranchId, new_id, now
from contextinfinity.domain.job import FOLDING, PROMPT, Job, JobType
from contextinfinity.errors import InvalidInput
from contextinfinity.storage.contract import Store
from contextinfinity_testing.builders import WORKER, commit_turn, final_turn, later_than, new_branch

AT_ONCE = timedelta()
SOON = timedelta(milliseconds=1)
LATER = timedelta(seconds=30)
LATEST = timedelta(minutes=1)


async def take(store: Store, *kinds: JobType, worker: str = WORKER) -> Job:
    """Claim a job that must exist; without kinds, of any kind."""
    job = await store.jobs.claim(worker, kinds or None)
    assert job is not None
    return job


async def folding_branch(store: Store) -> BranchId:
    """Create a branch with a turn to commit and a fold to make."""
    branch = await new_branch(store)
    await final_turn(store, branch.id, "question")
    await store.jobs.enqueue("fold_branch", branch.id)
    return branch.id


async def is_due(store: Store, kinds: frozenset[JobType] | None = None) -> bool:
    """Return whether a job can be claimed now."""
    wait = await store.jobs.due_in(kinds)
    return wait is not None and wait <= AT_ONCE


class LaneSuite:
    """Lanes, kinds and due times."""

    # --- lanes ---

    @pytest.mark.req("TURN-7", "COMPACT-1")
    async def test_a_fold_and_one_other_job_of_a_branch_run_at_the_same_time(self, store: Store) -> None:
        branch = await folding_branch(store)
        taken = await asyncio.gather(*(store.jobs.claim(f"worker {number}") for number in range(10)))
        running = {job.job_type: job for job in taken if job is not None}
        assert sorted(running) == ["fold_branch", "summarize_turn"]
        assert len([job for job in taken if job is not None]) == 2
        turn = await final_turn(store, branch, "the next")
        await store.jobs.enqueue("reconcile_stream", branch)
        assert await store.jobs.claim(WORKER) is None
        assert await store.jobs.due_in() is None, "what waits for a lane is not due"
        await store.jobs.complete(running["summarize_turn"].id, running["summarize_turn"].owner or "")
        assert (await take(store)).turn_id == turn.id, "the fold holds up nothing"
        await store.jobs.enqueue("fold_branch", branch)
        assert await store.jobs.claim(WORKER) is None, "one fold at a time"

    @pytest.mark.req("TURN-7", "COMPACT-1")
    async def test_no_job_holds_up_a_fold(self, store: Store) -> None:
        branch = await folding_branch(store)
        first = await take(store, "summarize_turn")
        fold = await take(store)
        assert (fold.job_type, fold.branch_id) == ("fold_branch", branch)
        await store.jobs.complete(fold.id, WORKER)
        await store.jobs.complete(first.id, WORKER)
        assert await store.jobs.list() == ()

    @pytest.mark.req("TURN-7", "TURN-8")
    async def test_both_jobs_of_a_branch_are_taken_over_from_the_dead(self, store: Store) -> None:
        await folding_branch(store)
        victim = (await store.workers.enter()).id
        jobs = {(await take(store, worker=victim)).id for _ in range(2)}
        taken = await store.workers.take_over(victim, by=WORKER)
        assert taken.jobs == 2
        assert {(await take(store)).id for _ in range(2)} == jobs

    # --- kinds ---

    @pytest.mark.req("TURN-7")
    async def test_only_jobs_of_the_kinds_asked_for_are_taken(self, store: Store) -> None:
        await folding_branch(store)
        assert await store.jobs.claim(WORKER, ()) is None
        assert await store.jobs.claim(WORKER, ["index_turn", "remember_turn"]) is None
        assert (await take(store, "index_turn", "fold_branch")).job_type == "fold_branch"
        assert await store.jobs.claim(WORKER, FOLDING) is None
        assert (await take(store, *PROMPT)).job_type == "summarize_turn"

    @pytest.mark.req("TURN-7")
    async def test_what_is_due_is_told_by_kind(self, store: Store) -> None:
        branch = await new_branch(store)
        assert [await store.jobs.due_in(kinds) for kinds in (None, FOLDING, PROMPT, ())] == [None] * 4
        await store.jobs.enqueue("fold_branch", branch.id)
        assert [await is_due(store, kinds) for kinds in (None, FOLDING, PROMPT)] == [True, True, False]
        assert await store.jobs.due_in(PROMPT) is None
        await final_turn(store, branch.id, "question")
        assert await is_due(store, PROMPT)
        await take(store, "fold_branch")
        assert [await is_due(store, kinds) for kinds in (None, FOLDING, PROMPT)] == [True, False, True]

    @pytest.mark.req("TURN-7")
    async def test_the_jobs_of_a_branch_can_be_listed_alone(self, store: Store) -> None:
        branch = await folding_branch(store)
        other = await new_branch(store)
        await commit_turn(store, await final_turn(store, other.id, "question"))
        await store.jobs.enqueue("reconcile_stream", branch)
        jobs = store.jobs
        assert [job.job_type for job in await jobs.list(branch_id=branch)] == [
            "summarize_turn",
            "fold_branch",
            "reconcile_stream",
        ]
        assert len(await jobs.list(branch_id=other.id)) == 3
        assert await jobs.list(branch_id=branch, limit=1) == (await jobs.list())[:1]
        assert await jobs.list(branch_id=branch, limit=-1) == await jobs.list(branch_id=new_id()) == ()
        assert await jobs.list(branch_id=branch.upper()) == ()
        assert len(await jobs.list(limit=10**30)) == 6

    # --- due times ---

    @pytest.mark.req("COMPACT-1", "TURN-7")
    async def test_a_job_asked_for_later_is_not_taken_before(self, store: Store) -> None:
        branch = await new_branch(store)
        job = await store.jobs.enqueue("fold_branch", branch.id, after=LATER)
        assert job.run_at - job.created_at == LATER
        assert await store.jobs.claim(WORKER) is None
        wait = await store.jobs.due_in()
        assert wait is not None
        assert AT_ONCE < wait <= LATER
        turn = await final_turn(store, branch.id, "question")
        assert (await take(store)).turn_id == turn.id, "it holds up nothing meanwhile"

    @pytest.mark.req("COMPACT-1", "TURN-7")
    async def test_a_job_is_taken_once_its_time_has_come(self, store: Store) -> None:
        branch = await new_branch(store)
        job = await store.jobs.enqueue("fold_branch", branch.id, after=SOON)
        await later_than(job.run_at)
        assert (await take(store)).id == job.id

    @pytest.mark.req("COMPACT-1", "TURN-7")
    @pytest.mark.parametrize("of_a_turn", [False, True])
    async def test_asking_again_keeps_the_earlier_time(self, store: Store, of_a_turn: bool) -> None:
        branch = await new_branch(store)
        turn_id = (await final_turn(store, branch.id, "question")).id if of_a_turn else None
        job = await store.jobs.enqueue("reconcile_stream", branch.id, turn_id, after=LATER)
        assert await store.jobs.enqueue("reconcile_stream", branch.id, turn_id, after=LATEST) == job
        sooner = await store.jobs.enqueue("reconcile_stream", branch.id, turn_id)
        assert (sooner.id, sooner.run_at < job.run_at) == (job.id, True)
        assert await store.jobs.enqueue("reconcile_stream", branch.id, turn_id, after=LATER) == sooner
        assert (await take(store, "reconcile_stream")).id == job.id

    @pytest.mark.req("TURN-7")
    async def test_asking_again_does_not_shorten_the_pause_after_a_failure(self, store: Store) -> None:
        branch = await new_branch(store)
        await store.jobs.enqueue("fold_branch", branch.id)
        await store.jobs.retry((await take(store)).id, WORKER, error="busy", after=LATER)
        (waiting,) = await store.jobs.list()
        assert await store.jobs.enqueue("fold_branch", branch.id) == waiting
        assert await store.jobs.claim(WORKER) is None

    @pytest.mark.req("TURN-7")
    async def test_a_failed_job_asked_for_later_waits(self, store: Store) -> None:
        branch = await new_branch(store)
        await store.jobs.enqueue("fold_branch", branch.id)
        await store.jobs.give_up((await take(store)).id, WORKER, error="no model")
        again = await store.jobs.enqueue("fold_branch", branch.id, after=LATER)
        assert (again.state, again.attempts) == ("queued", 0)
        assert await store.jobs.claim(WORKER) is None

    @pytest.mark.req("COMPACT-1", "TURN-7")
    async def test_a_job_asked_for_while_it_runs_runs_once_more_at_the_earliest_time(self, store: Store) -> None:
        branch = await new_branch(store)
        await store.jobs.enqueue("fold_branch", branch.id)
        job = await take(store)
        await store.jobs.enqueue("fold_branch", branch.id, after=LATER)
        await store.jobs.enqueue("fold_branch", branch.id, after=LATEST)
        await store.jobs.complete(job.id, WORKER)
        assert await store.jobs.claim(WORKER) is None
        wait = await store.jobs.due_in()
        assert wait is not None
        assert AT_ONCE < wait <= LATER
        await store.jobs.enqueue("fold_branch", branch.id)
        await store.jobs.complete((await take(store)).id, WORKER)
        assert await store.jobs.list() == (), "once more is once"

    @pytest.mark.req("TURN-7")
    async def test_a_job_given_back_is_due_at_once_and_runs_once(self, store: Store) -> None:
        branch = await new_branch(store)
        await store.jobs.enqueue("fold_branch", branch.id)
        job = await take(store)
        await store.jobs.enqueue("fold_branch", branch.id, after=LATER)
        await store.jobs.release(job.id, WORKER)
        await store.jobs.complete((await take(store)).id, WORKER)
        assert await store.jobs.list() == (), "a job that was queued while it ran has been done"

    @pytest.mark.parametrize("after", [-SOON, LATEST + SOON, timedelta.max, timedelta.min])
    async def test_a_job_cannot_be_put_off_for_longer_than_a_minute(self, store: Store, after: timedelta) -> None:
        branch = await new_branch(store)
        with pytest.raises(InvalidInput):
            await store.jobs.enqueue("fold_branch", branch.id, after=after)
        assert await store.jobs.list() == ()
        job = await store.jobs.enqueue("fold_branch", branch.id, after=LATEST)
        assert job.run_at > now()
