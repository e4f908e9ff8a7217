"""How soon a job is taken, and how long a check-up lasts."""

from __future__ import annotations

import asyncio
import time

from benchmarks.harness import Bench, Row, Series
from benchmarks.ledgers import ledger
from contextinfinity.domain.job import Job
from contextinfinity.engine.job_runner import JobRunner
from contextinfinity.settings import General, Settings, Storage
from contextinfinity.storage.sqlite.store import SqliteStore
from contextinfinity.upkeep.examine import examine
from contextinfinity_testing.builders import new_branch

HANDOVER_MS = 20.0
DOCTOR_SECONDS = 10.0


async def run(bench: Bench) -> list[Row]:
    """Measure the hand-over of jobs, then the doctor."""
    return [await _handover(bench), await _doctor(bench, bench.scale.ledgers[:3][-1])]


async def _handover(bench: Bench) -> Row:
    """From the moment a job is durable to the moment its handler begins."""
    series = Series()
    with bench.scratch() as folder:
        store = SqliteStore(folder / "ledger.db")
        began = asyncio.Event()

        async def handler(_: Job) -> None:
            began.set()

        afterwards = JobRunner(store.jobs, "bench", {"fold_branch": handler})
        afterwards.start()
        for _ in range(bench.scale.reads * 4):
            branch = await new_branch(store)
            began.clear()
            await store.jobs.enqueue("fold_branch", branch.id)
            with series.timed():
                afterwards.wake()
                await began.wait()
            await afterwards.drain(5, folds=True)
        await afterwards.stop()
        await store.close()
    return Row(
        what="delay from enqueueing a job to its handler",
        target=f"≤ {HANDOVER_MS:g} ms",
        result=str(series),
        met=series.p95 <= HANDOVER_MS,
        values={"p50_ms": series.p50, "p95_ms": series.p95},
    )


async def _doctor(bench: Bench, turns: int) -> Row:
    path = await ledger(bench, turns)
    settings = Settings(general=General(data_dir=str(path.parent)), storage=Storage(url=f"sqlite:///{path}"))
    began = time.perf_counter()
    report = await asyncio.to_thread(examine, settings)
    seconds = time.perf_counter() - began
    assert report.turns >= turns
    return Row(
        what=f"cix doctor on {turns:,} turns",
        target=f"≤ {DOCTOR_SECONDS:g} s",
        result=f"{seconds:.1f} s",
        met=seconds <= DOCTOR_SECONDS,
        values={"seconds": seconds},
    )
