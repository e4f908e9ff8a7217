"""Reading the last 20 messages (10 turns) through the store, beside the same rows read by raw SQLite.

From the long session, and from short sessions picked all over the ledger; the smallest and the largest
ledger in turns.
"""

from __future__ import annotations

from functools import partial
from itertools import cycle
from pathlib import Path

from benchmarks.floor import connect
from benchmarks.harness import Bench, Row, Series, alternate
from benchmarks.ledgers import ledger, long_branch, short_branches
from contextinfinity.storage.sqlite.rows import pack
from contextinfinity.storage.sqlite.store import SqliteStore
from contextinfinity.storage.sqlite.turns import SQL

TURNS = 10
LIMIT_MS, GROWTH = 1.0, 2.0


async def run(bench: Bench) -> list[Row]:
    """Measure reads of each ledger, one after the other."""
    sides = [await _opened(await ledger(bench, turns), turns) for turns in bench.scale.ledgers]
    reads = bench.scale.reads
    await alternate(
        bench.scale.blocks,
        [
            partial(read, reads)
            for side in sides
            for read in (side.ours_long, side.floor_long, side.ours_short, side.floor_short)
        ],
    )
    for side in sides:
        side.connection.close()
        await side.store.close()
    small = sides[0]
    return [row for side in sides for row in _rows(side, small)]


class _Side:
    """One ledger, open both ways."""

    def __init__(self, path: Path, turns: int) -> None:
        self.turns = turns
        self.store = SqliteStore(path)
        self.connection = connect(path)
        self.series = {name: Series() for name in ("ours long", "floor long", "ours short", "floor short")}

    async def find(self) -> None:
        self._long = cycle([await long_branch(self.store)])
        self._short = cycle(await short_branches(self.store, 2_000))
        self._floor_short = cycle(await short_branches(self.store, 2_000))

    async def ours_long(self, reads: int) -> None:
        await self._ours("ours long", self._long, reads)

    async def ours_short(self, reads: int) -> None:
        await self._ours("ours short", self._short, reads)

    async def floor_long(self, reads: int) -> None:
        self._floor("floor long", self._long, reads)

    async def floor_short(self, reads: int) -> None:
        self._floor("floor short", self._floor_short, reads)

    async def _ours(self, name: str, branches: cycle[str], reads: int) -> None:
        for _ in range(reads):
            branch = next(branches)
            with self.series[name].timed():
                turns = await self.store.turns.history(branch, limit=TURNS)
            assert len(turns) == TURNS

    def _floor(self, name: str, branches: cycle[str], reads: int) -> None:
        for _ in range(reads):
            values = {"branch_id": pack(next(branches)), "first": 1, "last": 2**62, "limit": TURNS}
            with self.series[name].timed():
                rows = self.connection.execute(SQL["select_stretch"], values).fetchall()
            assert len(rows) == TURNS


async def _opened(path: Path, turns: int) -> _Side:
    side = _Side(path, turns)
    await side.find()
    return side


def _rows(side: _Side, small: _Side) -> list[Row]:
    rows = []
    for kind in ("long", "short"):
        ours, floor = side.series[f"ours {kind}"], side.series[f"floor {kind}"]
        growth = ours.p50 / small.series[f"ours {kind}"].p50
        rows.append(
            Row(
                what=f"last 20 messages of a {kind} session, {side.turns:,} turns stored",
                figure=f"≤ 1 ms, ≤ 2 × of that at {small.turns}",
                measured=f"{ours}, {growth:.2f} × of that at {small.turns}",
                floor=str(floor),
                ratio=ours.p50 / floor.p50,
                reached=ours.p50 <= LIMIT_MS and growth <= GROWTH,
                values={"ours_ms": ours.p50, "ours_p95_ms": ours.p95, "floor_ms": floor.p50, "growth": growth},
            )
        )
    return rows
