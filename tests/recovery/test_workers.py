"""Workers that die, sleep and wake: real processes, real signals."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from contextinfinity.domain.turn import Phase
from contextinfinity.engine.lifecycle import WorkerLease
from contextinfinity.errors import WorkerLost
from contextinfinity.storage.sqlite.store import SqliteStore
from contextinfinity_testing.builders import broken_off, current, final_turn, new_branch, new_turn

WORKER = """
import asyncio, json, pathlib, sys
from contextinfinity.errors import Refused
from contextinfinity.storage.sqlite.store import SqliteStore
from contextinfinity_testing.builders import new_step, new_turn, turn_end

async def attempt(name, awaited):
    try:
        await awaited
        return [name, "done"]
    except Refused as error:
        return [name, error.code]

async def main(path, branch):
    store = SqliteStore(pathlib.Path(path))
    me = await store.workers.enter()
    turn = await store.turns.accept(new_turn(branch, "still there?", me.id))
    await store.turns.prepare(turn.id, me.id)
    step = new_step()
    await store.turns.open_step(turn.id, me.id, step)
    job = await store.jobs.claim(me.id)
    print(json.dumps({"worker": me.id, "turn": turn.id, "job": job and job.id}), flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    results = [await attempt("finalise", store.turns.finalise(turn.id, me.id, turn_end(step, "late")))]
    results.append(await attempt("fail", store.turns.fail(turn.id, me.id, turn_end(step, "late"))))
    if job:
        results.append(await attempt("complete", store.jobs.complete(job.id, me.id)))
    results.append(await attempt("beat", store.workers.beat(me.id)))
    print(json.dumps(results), flush=True)
    await store.close()

asyncio.run(main(*sys.argv[1:]))
"""


@contextmanager
def working(path: Path, branch_id: str) -> Iterator[tuple[subprocess.Popen[str], dict[str, Any]]]:
    """Start a worker process that answers a turn and runs a job, and waits in the middle of both."""
    command = [sys.executable, "-c", WORKER, str(path), branch_id]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield process, json.loads(process.stdout.readline())
    finally:
        process.kill()
        process.communicate()


@pytest.mark.sqlite_file("its processes open the file")
@pytest.mark.req("TURN-8", "TURN-9")
async def test_a_killed_worker_is_known_to_be_dead_at_once(ledger: SqliteStore, ledger_path: Path) -> None:
    branch = await new_branch(ledger)
    with working(ledger_path, branch.id) as (process, told):
        assert await ledger.workers.dead() == (), "it lives"
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert await ledger.workers.dead() == (told["worker"],)
    taken = await ledger.workers.take_over(told["worker"], by="me")
    assert taken.turns == (told["turn"],)
    assert await ledger.workers.dead() == ("me",), "an owner nobody registered counts as dead"
    failed = await ledger.turns.fail(told["turn"], "me", broken_off())
    assert failed.phase is Phase.FAILED
    assert await ledger.workers.dead() == ()


@pytest.mark.sqlite_file("its processes open the file")
@pytest.mark.req("TURN-7", "TURN-9")
async def test_a_paused_worker_that_wakes_after_it_was_declared_dead_changes_nothing(
    ledger: SqliteStore, ledger_path: Path
) -> None:
    branch, other = await new_branch(ledger), await new_branch(ledger)
    await final_turn(ledger, other.id, "leaves a job")
    now = 0.0
    async with WorkerLease(ledger.workers, lease_seconds=60, clock=lambda: now) as presence:
        with working(ledger_path, branch.id) as (process, told):
            process.send_signal(signal.SIGSTOP)
            assert await presence.find_dead() == ()
            now = 59.0
            assert await presence.find_dead() == (), "a lease is a lease"
            now = 61.0
            assert await presence.find_dead() == (told["worker"],)
            taken = await ledger.workers.take_over(told["worker"], by=presence.worker.id)
            assert (taken.turns, taken.jobs) == ((told["turn"],), 1)
            failed = await ledger.turns.fail(told["turn"], presence.worker.id, broken_off())
            job = await ledger.jobs.claim(presence.worker.id)
            assert job is not None
            assert job.id == told["job"]
            process.send_signal(signal.SIGCONT)
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write("go on\n")
            process.stdin.flush()
            results = json.loads(await asyncio.to_thread(process.stdout.readline))
        assert results == [
            ["finalise", "turn_lost"],
            ["fail", "turn_lost"],
            ["complete", "job_lost"],
            ["beat", "worker_lost"],
        ]
        assert await current(ledger, failed) == failed
        assert [entry.owner for entry in await ledger.jobs.list()] == [presence.worker.id]


@pytest.mark.req("TURN-8")
async def test_a_beating_heart_is_never_dead_however_the_clock_jumps(ledger: SqliteStore) -> None:
    now = 0.0
    async with WorkerLease(ledger.workers, clock=lambda: now) as presence:
        other = await ledger.workers.enter()
        for moment in (0.0, 59.0, 118.0, 177.0):
            now = moment
            await ledger.workers.beat(other.id)
            assert await presence.find_dead() == ()
        now = 300.0
        assert await presence.find_dead() == (other.id,)


@pytest.mark.sqlite_file("its processes open the file")
@pytest.mark.req("TURN-8", "TURN-9")
async def test_a_worker_that_dies_while_another_starts_is_found(ledger: SqliteStore, ledger_path: Path) -> None:
    """It lived when the other looked for turns to recover, and was dead at its first look for deaths."""
    branch = await new_branch(ledger)
    with working(ledger_path, branch.id) as (process, _):
        async with WorkerLease(ledger.workers, watch_seconds=0.001) as presence:
            process.kill()
            process.wait()
            async with asyncio.timeout(100):
                await presence.found_dead.wait()


@pytest.mark.req("TURN-8")
async def test_one_heartbeat_a_process_goes_on_by_itself(ledger: SqliteStore) -> None:
    async with WorkerLease(ledger.workers, beat_seconds=0.001) as presence:
        async with asyncio.timeout(100):
            while (await ledger.workers.list())[0].beats < 3:
                await asyncio.sleep(0)
        await ledger.workers.take_over(presence.worker.id, by="somebody")
        await presence.lost.wait()
    assert await ledger.workers.list() == ()


@pytest.mark.sqlite_file("its processes open the file")
@pytest.mark.req("TURN-7")
@pytest.mark.parametrize(("job_type", "state"), [("fold_branch", "failed"), ("summarize_turn", "queued")])
async def test_a_job_that_keeps_killing_its_workers_is_given_up_unless_the_head_waits_for_it(
    ledger: SqliteStore, job_type: str, state: str
) -> None:
    branch = await new_branch(ledger)
    if job_type == "summarize_turn":
        await final_turn(ledger, branch.id, "question")
    else:
        await ledger.jobs.enqueue("fold_branch", branch.id)
    await ledger.database.write(lambda connection: connection.raw.execute("UPDATE job SET attempts = 4").fetchall())
    assert await ledger.jobs.claim("fifth victim") is not None
    await ledger.workers.take_over("fifth victim", by="me")
    (job,) = await ledger.jobs.list()
    assert (job.job_type, job.state, job.attempts) == (job_type, state, 5)


async def test_a_worker_that_leaves_is_forgotten_with_its_lock(ledger: SqliteStore, ledger_path: Path) -> None:
    worker = await ledger.workers.enter()
    lock = ledger_path.parent / "workers" / f"{worker.id}.lock"
    assert lock.exists()
    await ledger.workers.leave(worker.id)
    await ledger.workers.leave(worker.id)
    assert not lock.exists()
    with pytest.raises(WorkerLost, match="declared dead"):
        await ledger.workers.beat(worker.id)


@pytest.mark.req("TURN-8")
async def test_turns_nobody_owns_are_never_taken_for_a_dead_workers(ledger: SqliteStore) -> None:
    branch = await new_branch(ledger)
    await ledger.turns.accept(new_turn(branch.id, "from a small log", None))
    assert await ledger.workers.dead() == ()
