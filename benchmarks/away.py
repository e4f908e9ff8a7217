"""The ledger goes away: how long a message takes then, and how quickly what was held comes in afterwards.

The model answers at once, so what is left is ours. The same messages on a ledger that is there, with and without the
standby in front of it, stand beside it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from benchmarks.harness import Bench, Row, Series
from contextinfinity.engine.engine import Engine
from contextinfinity.engine.model_choice import Model, Models
from contextinfinity.providers.scripted import ScriptedProvider, echo
from contextinfinity.storage.contract import Store
from contextinfinity.storage.journal import JournalFolder
from contextinfinity.storage.sqlite.connection import connect
from contextinfinity.storage.sqlite.store import SqliteStore
from contextinfinity.storage.standby.store import StandbyStore

LIMIT_MS = 50.0
THREAD = "a conversation"


async def run(bench: Bench) -> list[Row]:
    """Measure the messages, then the catch-up."""
    before, through, later = Series(), Series(), Series()
    count = bench.scale.exchanges * 4
    with bench.scratch() as folder, _quiet():
        async with _engine(folder / "plain", standby=False) as engine:
            await _ask(engine, before, count)
        async with _engine(folder / "away", standby=True) as engine:
            await _ask(engine, through, count)
            other = connect(str(folder / "away" / "ledger.db"))
            other.execute("BEGIN IMMEDIATE")
            await _ask(engine, first := Series(), 1)
            await _ask(engine, later, count)
            other.execute("ROLLBACK")
            other.close()
            seconds = await _until_back(engine)
    return _rows(before, through, first, later, (count + 1) / seconds)


@asynccontextmanager
async def _engine(folder: Path, *, standby: bool) -> AsyncIterator[Engine]:
    model = Model(name="m", provider=ScriptedProvider(echo), model_id="m")
    store: Store = SqliteStore(folder / "ledger.db")
    store = StandbyStore(store, folder / "spool") if standby else store
    journals = JournalFolder(folder / "streams")
    async with Engine(store, journals, Models(by_name={"m": model}, default="m")) as engine:
        await engine.ask(THREAD, "The first question takes a little longer.")
        yield engine


async def _ask(engine: Engine, series: Series, count: int) -> None:
    for number in range(count):
        with series.timed():
            await engine.ask(THREAD, f"Question {number}: what do you make of this?")


async def _until_back(engine: Engine) -> float:
    """Return how long the replay of the spool took, from the first successful probe."""
    while (health := engine.health()).since is not None:  # noqa: ASYNC110 - as people look
        await asyncio.sleep(0)
    began = time.perf_counter()
    while health.status != "ready":
        await asyncio.sleep(0.001)
        health = engine.health()
    return time.perf_counter() - began


class _quiet:  # noqa: N801 - used like a function
    """Say nothing of an outage that is wanted."""

    def __enter__(self) -> None:
        logging.disable()

    def __exit__(self, *_: object) -> None:
        logging.disable(logging.NOTSET)


def _rows(before: Series, through: Series, first: Series, later: Series, rate: float) -> list[Row]:
    added = max(0.0, later.p95 - before.p50)
    return [
        Row(
            what="message accepted while the ledger is unavailable; baseline: available",
            target=f"< {LIMIT_MS:.0f} ms more",
            result=str(later),
            baseline=str(before),
            ratio=later.p50 / before.p50,
            met=added < LIMIT_MS,
            values={"away_ms": later.p50, "away_p95_ms": later.p95, "there_ms": before.p50, "added_ms": added},
        ),
        Row(
            what="  the first message, which detects the outage (waits 250 ms for another process)",
            result=f"{first.p50:.0f} ms",
            values={"first_ms": first.p50},
        ),
        Row(
            what="  for comparison: ledger available, behind the standby store",
            result=str(through),
            baseline=str(before),
            ratio=through.p50 / before.p50,
            values={"standby_ms": through.p50, "plain_ms": before.p50},
        ),
        Row(
            what="  replay of the spool",
            result=f"{rate:,.0f} turns/s",
            values={"turns_per_second": rate},
        ),
    ]
