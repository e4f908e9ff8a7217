"""Fork and rollback, the commit excluded: the time of the work inside the writer's transaction.

Early, in the middle and late in the long session of ledgers of growing size. Each piece of work is undone
after its time is taken, so the ledgers stay as they are. The files start out of the page cache.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, TypeVar

from benchmarks.harness import Bench, Row, Series
from benchmarks.ledgers import forget, ledger, long_branch
from contextinfinity.domain.ids import BranchId
from contextinfinity.storage.ledger.sessions import Branches
from contextinfinity.storage.sqlite.database import SqliteDatabase
from contextinfinity.storage.sqlite.named_sql import SqliteConnection
from contextinfinity.storage.sqlite.store import SqliteStore

T = TypeVar("T")
LIMIT_MS = 2.0
PLACES = {"early": 0.02, "middle": 0.5, "late": 0.98}


async def run(bench: Bench) -> list[Row]:
    """Measure forks and rollbacks at each place of each ledger, one after the other."""
    ledgers = [await _opened(await ledger(bench, turns), turns) for turns in bench.scale.ledgers]
    rng = random.Random(7)
    forks = {(each.turns, place): Series() for each in ledgers for place in PLACES}
    rollbacks = {each.turns: Series() for each in ledgers}
    for _ in range(bench.scale.blocks * bench.scale.reads // 5):
        for each in ledgers:
            for place, share in PLACES.items():
                at = min(each.length, max(1, round(each.length * (share + rng.uniform(-0.02, 0.02)))))
                with suppress(Undone):
                    await each.branches.fork(each.branch, at=at)
                forks[each.turns, place].seconds.append(each.database.last)
            with suppress(Undone):
                await each.branches.rollback(each.branch, to=rng.randint(1, each.length))
            rollbacks[each.turns].seconds.append(each.database.last)
    for each in ledgers:
        each.database.close()
    return [
        *(_row("fork", turns, [forks[turns, place] for place in PLACES]) for turns in bench.scale.ledgers),
        *(_row("rollback", turns, [rollbacks[turns]]) for turns in bench.scale.ledgers),
    ]


class Undone(Exception):
    """The work was done, timed and taken back."""


class TimedDatabase(SqliteDatabase):
    """Takes the time of a piece of work inside the writer, then undoes it."""

    last = 0.0

    async def write(self, work: Callable[[SqliteConnection], T], *, bulk: bool = False, wipe: bool = False) -> T:
        """Run, time, undo; raises ``Undone``."""

        def timed(connection: SqliteConnection) -> T:
            began = time.perf_counter()
            work(connection)
            self.last = time.perf_counter() - began
            raise Undone

        return await super().write(timed, bulk=bulk, wipe=wipe)


class _Ledger(NamedTuple):
    turns: int
    length: int
    branch: BranchId
    database: TimedDatabase
    branches: Branches


async def _opened(path: Path, turns: int) -> _Ledger:
    forget(path)
    store = SqliteStore(path)
    branch = await store.branches.get(await long_branch(store))
    await store.close()
    assert branch is not None
    database = TimedDatabase(path)
    return _Ledger(turns, branch.last_turn_seq, branch.id, database, Branches(database))


def _row(what: str, turns: int, series: list[Series]) -> Row:
    slowest = max(each.p95 for each in series)
    return Row(
        what=f"{what} without its commit, {turns:,} turns stored",
        target="≤ 2 ms at any length",
        result=" · ".join(f"{each.p50:.3f}" for each in series) + f" ms (p95 {slowest:.3f})",
        met=slowest <= LIMIT_MS,
        values={"slowest_p50_ms": max(each.p50 for each in series), "slowest_p95_ms": slowest},
    )
