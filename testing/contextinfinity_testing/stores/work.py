"""Tests of a store: jobs, workers, cancellation, and contents stored by hash."""

from __future__ import annotations

import asyncio
import hashlib
from datetime import timedelta

import pytest
from msgspec.structs import replace

from contextinfinity.domain.ids import new_id
from contextinfinity.domain.job import Backlog, Job
from contextinfinity.domain.message import ImageBlock, Message, ToolResultBlock
from contextinfinity.domain.plan import Plan
from contextinfinity.domain.turn import Phase, Turn
from contextinfinity.errors import InvalidInput, JobLost, NotFound, TurnLost, WorkerLost
from contextinfinity.storage.contract import Store
from contextinfinity_testing.builders import (
    WORKER,
    broken_off,
    commit_turn,
    current,
    exchange,
    final_turn,
    later_than,
    new_branch,
    new_step,
    new_turn,
    turn_in,
)

SOON = timedelta(0)
LATER = timedelta(minutes=1)


async def claim(store: Store, worker: str = WORKER) -> Job:
    """Claim a job that must exist."""
    job = await store.jobs.claim(worker)
    assert job is not None
    return job


async def indexed(store: Store) -> Turn:
    """Create an indexed turn that has only the two jobs after the commit left."""
    branch = await new_branch(store)
    turn = await turn_in(store, branch.id, Phase.INDEXED)
    await store.jobs.complete((await claim(store)).id, WORKER)
    return turn


def kinds(jobs: tuple[Job, ...]) -> list[str]:
    """Return the kinds of jobs in order."""
    return [job.job_type for job in jobs]


def picture(sha256: str) -> Message:
    """Return a tool result that contains a blob."""
    image = ImageBlock(media_type="image/png", source={"type": "blob", "sha256": sha256})
    return Message(role="user", blocks=(ToolResultBlock(tool_use_id="t", content=(image,)),))


class WorkSuite:
    """Background jobs."""

    # --- jobs ---

    @pytest.mark.req("TURN-7")
    async def test_a_turns_jobs_are_made_by_the_verbs_that_call_for_them(self, store: Store) -> None:
        branch = await new_branch(store)
        await store.turns.record(branch.id, [exchange("a", "b")])
        turn = await final_turn(store, branch.id, "hello")
        (job,) = await store.jobs.list()
        assert (job.job_type, job.session_id, job.branch_id) == ("summarize_turn", branch.session_id, branch.id)
        assert (job.turn_id, job.turn_seq, job.state, job.attempts) == (turn.id, 2, "queued", 0)
        await commit_turn(store, turn)
        await commit_turn(store, turn)
        assert kinds(await store.jobs.list()) == ["summarize_turn", "index_turn", "remember_turn"]
        assert await store.jobs.list(limit=0) == await store.jobs.list(limit=-1) == ()

    @pytest.mark.req("TURN-7")
    async def test_a_job_is_taken_once_and_by_one_worker_a_branch(self, store: Store) -> None:
        branch = await new_branch(store)
        await commit_turn(store, await final_turn(store, branch.id, "hello"))
        taken = await asyncio.gather(*(store.jobs.claim(f"worker {number}") for number in range(10)))
        (job,) = [job for job in taken if job is not None]
        assert (job.job_type, job.state, job.attempts) == ("summarize_turn", "running", 1)
        with pytest.raises(JobLost):
            await store.jobs.complete(job.id, "stranger")
        await store.jobs.complete(job.id, job.owner or "")
        with pytest.raises(JobLost):
            await store.jobs.complete(job.id, job.owner or "")
        assert (await claim(store)).job_type == "index_turn"

    @pytest.mark.req("TURN-7")
    async def test_jobs_of_a_kind_are_done_in_the_order_of_the_branch(self, store: Store) -> None:
        branch = await new_branch(store)
        for word in ("first", "second"):
            await final_turn(store, branch.id, word)
        first = await claim(store)
        await store.jobs.retry(first.id, WORKER, error="busy", after=LATER)
        assert first.turn_seq == 1
        assert await store.jobs.claim(WORKER) is None, "the second waits behind the first"
        due = await store.jobs.due_in()
        assert due is not None
        assert due > SOON, "what cannot be taken yet is not due"

    @pytest.mark.req("TURN-7")
    async def test_a_job_given_back_untried_costs_no_attempt(self, store: Store) -> None:
        branch = await new_branch(store)
        await final_turn(store, branch.id, "question")
        job = await claim(store)
        await store.jobs.release(job.id, WORKER)
        with pytest.raises(JobLost):
            await store.jobs.release(job.id, WORKER)
        again = await claim(store)
        assert (again.id, again.attempts, again.last_error) == (job.id, 1, None)

    @pytest.mark.req("TURN-7")
    async def test_a_job_of_a_branch_asked_for_while_it_runs_runs_once_more(self, store: Store) -> None:
        branch = await new_branch(store)
        await store.jobs.enqueue("fold_branch", branch.id)
        job = await claim(store)
        await store.jobs.enqueue("fold_branch", branch.id)
        await store.jobs.complete(job.id, WORKER)
        again = await claim(store)
        assert (again.job_type, again.attempts) == ("fold_branch", 1)
        await store.jobs.complete(again.id, WORKER)
        assert await store.jobs.list() == ()

    @pytest.mark.req("TURN-7")
    async def test_a_worker_that_was_declared_dead_takes_on_nothing(self, store: Store) -> None:
        branch = await new_branch(store)
        await final_turn(store, branch.id, "question")
        worker = (await store.workers.enter()).id
        await store.workers.take_over(worker, by=WORKER)
        with pytest.raises(WorkerLost):
            await store.jobs.claim(worker)
        with pytest.raises(WorkerLost):
            await store.turns.accept(new_turn(branch.id, "from beyond", worker))
        assert [turn.user_message.rendered_text for turn in await store.turns.history(branch.id)] == ["question"]

    @pytest.mark.req("TURN-7")
    async def test_a_job_whose_worker_died_says_so_and_waits_longer_each_time(self, store: Store) -> None:
        branch = await new_branch(store)
        await store.jobs.enqueue("fold_branch", branch.id)
        for attempts, victim in enumerate(("first victim", "second victim"), start=1):
            assert await store.jobs.claim(victim) is not None
            await store.workers.take_over(victim, by=WORKER)
            (job,) = await store.jobs.list()
            assert (job.state, job.attempts, job.last_error) == ("queued", attempts, "The worker that ran it died.")
        assert await store.jobs.claim(WORKER) is None
        due = await store.jobs.due_in()
        assert due is not None
        assert due > SOON

    @pytest.mark.req("TURN-5", "TURN-7")
    async def test_a_turn_is_done_once_it_is_indexed_and_remembered(self, store: Store) -> None:
        turn = await indexed(store)
        await store.jobs.complete((await claim(store)).id, WORKER)
        assert (await current(store, turn)).phase is Phase.INDEXED
        await store.jobs.complete((await claim(store)).id, WORKER)
        assert (await current(store, turn)).phase is Phase.DONE
        assert await store.jobs.list() == ()
        assert await store.jobs.due_in() is None
        assert await store.jobs.backlog() == Backlog()

    @pytest.mark.req("TURN-5")
    async def test_a_turn_that_cannot_be_indexed_is_degraded_until_it_can(self, store: Store) -> None:
        branch = await new_branch(store)
        turn = await turn_in(store, branch.id, Phase.STATE_COMMITTED)
        await store.jobs.complete((await claim(store)).id, WORKER)
        await store.jobs.retry((await claim(store)).id, WORKER, error="no model", after=LATER)
        degraded = await current(store, turn)
        assert (degraded.phase, degraded.degraded) == (Phase.STATE_COMMITTED, True)
        (waiting,) = [job for job in await store.jobs.list() if job.job_type == "index_turn"]
        assert (waiting.state, waiting.attempts, waiting.last_error, waiting.owner) == ("queued", 1, "no model", None)
        await store.chunks.index(turn.id, ())
        assert (await current(store, turn)).degraded is False

    @pytest.mark.req("TURN-5")
    async def test_a_turn_whose_indexing_was_given_up_is_done_and_degraded(self, store: Store) -> None:
        branch = await new_branch(store)
        turn = await turn_in(store, branch.id, Phase.STATE_COMMITTED)
        await store.jobs.complete((await claim(store)).id, WORKER)
        index = await claim(store)
        await store.jobs.give_up(index.id, WORKER, error="no model")
        await store.jobs.complete((await claim(store)).id, WORKER)
        done = await current(store, turn)
        assert (done.phase, done.degraded) == (Phase.DONE, True)
        assert (await store.jobs.backlog()).failed == 1
        again = await store.jobs.enqueue("index_turn", branch.id, turn.id)
        assert (again.id, again.state, again.attempts) == (index.id, "queued", 0)

    @pytest.mark.req("TURN-7")
    async def test_asking_again_for_a_job_gives_the_one_that_waits(self, store: Store) -> None:
        branch = await new_branch(store)
        fork = await store.branches.fork(branch.id)
        job = await store.jobs.enqueue("fold_branch", branch.id)
        assert await store.jobs.enqueue("fold_branch", branch.id) == job
        assert (await store.jobs.enqueue("fold_branch", fork.id)).id != job.id
        backlog = await store.jobs.backlog()
        assert (backlog.queued, backlog.by_type, backlog.oldest) == (2, {"fold_branch": 2}, job.created_at)
        turn = await store.turns.accept(new_turn(branch.id, "hello"))
        for branch_id, turn_id in ((new_id(), None), (branch.id, new_id()), (fork.id, turn.id)):
            with pytest.raises(NotFound):
                await store.jobs.enqueue("index_turn", branch_id, turn_id)
        assert len(await store.jobs.list()) == 2

    # --- workers ---

    @pytest.mark.req("TURN-8")
    async def test_what_a_dead_worker_left_is_taken_over_once(self, store: Store) -> None:
        branch = await new_branch(store)
        fork = await store.branches.fork(branch.id)
        final = await final_turn(store, fork.id, "final")
        job = await claim(store, WORKER)
        turn = await turn_in(store, branch.id, Phase.RESPONDING)
        alive = await store.workers.enter()
        await store.turns.accept(new_turn(branch.id, "mine", alive.id))
        assert await store.workers.dead() == (WORKER,)
        taken = await store.workers.take_over(WORKER, by=alive.id)
        assert (taken.turns, taken.jobs) == ((turn.id,), 1)
        again = await store.workers.take_over(WORKER, by=alive.id)
        assert (again.turns, again.jobs) == ((), 0)
        assert await store.workers.dead() == ()
        assert ((await current(store, turn)).owner, (await current(store, final)).owner) == (alive.id, WORKER)
        with pytest.raises(TurnLost):
            await store.turns.fail(turn.id, WORKER, broken_off())
        with pytest.raises(JobLost):
            await store.jobs.complete(job.id, WORKER)
        assert (await claim(store, alive.id)).id == job.id

    async def test_a_worker_beats_until_it_leaves(self, store: Store) -> None:
        first = await store.workers.enter()
        await later_than(first.started_at)
        second = await store.workers.enter()
        await store.workers.beat(first.id)
        assert await store.workers.list() == (replace(first, beats=1), second)
        await store.workers.leave(first.id)
        await store.workers.leave(first.id)
        assert await store.workers.list() == (second,)
        with pytest.raises(WorkerLost):
            await store.workers.beat(first.id)

    # --- cancelling ---

    @pytest.mark.req("TURN-11")
    @pytest.mark.parametrize("phase", Phase)
    async def test_only_a_turn_that_is_not_final_can_be_asked_to_stop(self, store: Store, phase: Phase) -> None:
        branch = await new_branch(store)
        turn = await turn_in(store, branch.id, phase)
        asked = await store.turns.cancel(turn.id)
        expected = phase in (Phase.ACCEPTED, Phase.CONTEXT_PREPARED, Phase.RESPONDING)
        assert (asked.cancel_requested, asked.phase) == (expected, phase)
        assert await current(store, turn) == asked
        other = (await store.turns.accept(new_turn((await new_branch(store)).id, "other"))).id
        assert await store.turns.cancelled([other, turn.id, new_id()]) == ({turn.id} if expected else set())
        assert await store.turns.cancelled([]) == set()
        with pytest.raises(NotFound):
            await store.turns.cancel(new_id())

    # --- contents ---

    @pytest.mark.req("LEDGER-6")
    async def test_a_text_and_a_blob_are_found_by_their_hash(self, store: Store) -> None:
        text, blob = await store.contents.keep_text("Zoë\x00"), await store.contents.keep_blob(b"\x00\xff", "image/png")
        assert text == hashlib.sha256("Zoë\x00".encode()).hexdigest()
        assert blob == hashlib.sha256(b"\x00\xff").hexdigest()
        assert (await store.contents.text(text), await store.contents.blob(blob)) == (
            "Zoë\x00",
            (b"\x00\xff", "image/png"),
        )
        assert (await store.contents.text(blob), await store.contents.blob(text)) == (None, None)
        assert await store.contents.keep_text("Zoë\x00") == text

    @pytest.mark.req("LEDGER-6")
    async def test_only_what_nothing_shows_and_nobody_kept_lately_is_collected(self, store: Store) -> None:
        branch = await new_branch(store)
        shown, idle = [await store.contents.keep_blob(body, "image/png") for body in (b"shown", b"idle")]
        turn = await store.turns.accept(replace(new_turn(branch.id, ""), message=picture(shown)))
        await later_than(turn.created_at)
        assert await store.contents.collect() == 0
        assert await store.contents.collect(older_than=SOON) == 1
        assert await store.contents.blob(shown) == (b"shown", "image/png")
        assert await store.contents.blob(idle) is None

    @pytest.mark.req("CTX-10")
    async def test_what_a_plan_refers_to_is_never_collected(self, store: Store) -> None:
        branch = await new_branch(store)
        turn = await turn_in(store, branch.id, Phase.CONTEXT_PREPARED)
        names = ("front", "form", "spans", "L0", "L1", "L2", "L3", "files", "idle")
        *kept, idle = [await store.contents.keep_text(text) for text in names]
        plan = Plan(front=kept[0], form=kept[1], redactions=kept[2], workspace=tuple(kept[3:]))
        step = replace(new_step(), plan=plan)
        turn = await store.turns.open_step(turn.id, WORKER, step)
        await later_than(turn.updated_at)
        assert await store.contents.collect(older_than=SOON) == 1
        assert [await store.contents.text(hash_) for hash_ in kept] == [*names[:-1]]
        assert await store.contents.text(idle) is None

    async def test_a_message_cannot_show_a_blob_that_is_not_kept(self, store: Store) -> None:
        branch = await new_branch(store)
        message = picture("ab" * 32)
        with pytest.raises(InvalidInput):
            await store.turns.accept(replace(new_turn(branch.id, ""), message=message))
        with pytest.raises(InvalidInput):
            await store.turns.record(branch.id, [replace(exchange("a"), answer=message)])
        turn = await store.turns.accept(new_turn(branch.id, "hello"))
        with pytest.raises(InvalidInput):
            await store.turns.fail(turn.id, WORKER, replace(broken_off(), answer=message))
        assert await store.turns.history(branch.id) == (turn,)
