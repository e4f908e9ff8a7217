"""Reading the last 20 messages (10 turns) through the store, beside the same rows read by raw SQLite.

Warm: from the long session and from short ones picked all over the ledger, each read once before the clock
starts. Cold: from short sessions no one has read since the file was dropped from the page cache; ours and
the floor read different ones, or the second would find what the first brought in.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import cycle
from pathlib import Path

from benchmarks.floor import connect
from benchmarks.harness import Bench, Row, Series, alternate
from benchmarks.ledgers import forget, ledger, long_branch, short_branches
from contextinfinity.domain.ids import BranchId
from contextinfinity.storage.ledger.rows import pack
from contextinfinity.storage.sqlite.named_sql import QUERIES
from contextinfinity.storage.sqlite.store import SqliteStore

TURNS = 10
LIMIT_MS, GROWTH = 1.0, 2.0
FEWEST_COLD = 10
"""Fewer sessions than this on a side say nothing about cold reads."""


async def run(bench: Bench) -> list[Row]:
    """Measure cold reads of each ledger, then warm reads of all of them in turn."""
    scale = bench.scale
    sides = [await _opened(await ledger(bench, turns), turns, scale.blocks * scale.reads) for turns in scale.ledgers]
    for side in sides:
        await side.read_cold()
        await side.warm_up()
    kinds = [(side, kind) for side in sides for kind in ("long", "short")]
    reads = [partial(read, side, kind, scale.reads) for side, kind in kinds for read in (_Side.ours, _Side.floor)]
    await alternate(scale.blocks, reads)
    for side in sides:
        side.connection.close()
        await side.store.close()
    return [row for side in sides for row in _rows(side, sides[0])]


class _Pair:
    """Ours and the floor's times for one kind of read."""

    def __init__(self) -> None:
        self.ours, self.floor = Series(), Series()


class _Side:
    """One ledger, open both ways."""

    def __init__(self, path: Path, turns: int) -> None:
        self.turns = turns
        self.dropped = forget(path)
        self.store = SqliteStore(path)
        self.connection = connect(path)
        self.pairs = {kind: _Pair() for kind in ("long", "short", "cold")}

    async def find(self, most: int) -> None:
        self._long = [await long_branch(self.store)]
        self._short = await short_branches(self.store, most)
        self._next = {(who, kind): cycle(self._of(kind)) for who in ("ours", "floor") for kind in ("long", "short")}

    async def read_cold(self) -> None:
        """Read each short session once, ours and the floor taking turns."""
        if not self.dropped or len(self._short) < 2 * FEWEST_COLD:
            return
        for ours, floor in zip(self._short[::2], self._short[1::2], strict=False):
            await self._read(ours, self.pairs["cold"].ours)
            self._read_raw(floor, self.pairs["cold"].floor)

    async def warm_up(self) -> None:
        for branch in (*self._long, *self._short):
            await self._read(branch, Series())
            self._read_raw(branch, Series())

    async def ours(self, kind: str, reads: int) -> None:
        for _ in range(reads):
            await self._read(next(self._next["ours", kind]), self.pairs[kind].ours)

    async def floor(self, kind: str, reads: int) -> None:
        for _ in range(reads):
            self._read_raw(next(self._next["floor", kind]), self.pairs[kind].floor)

    def _of(self, kind: str) -> Sequence[BranchId]:
        return self._long if kind == "long" else self._short

    async def _read(self, branch: BranchId, series: Series) -> None:
        with series.timed():
            turns = await self.store.turns.history(branch, limit=TURNS)
        assert len(turns) == TURNS

    def _read_raw(self, branch: BranchId, series: Series) -> None:
        values = {"branch_id": pack(branch), "first": 1, "last": 2**62, "since": -(2**62), "limit": TURNS}
        with series.timed():
            rows = self.connection.execute(QUERIES["select_stretch"], values).fetchall()
        assert len(rows) == TURNS


async def _opened(path: Path, turns: int, most: int) -> _Side:
    side = _Side(path, turns)
    await side.find(most)
    return side


def _rows(side: _Side, small: _Side) -> list[Row]:
    rows = []
    for kind in ("long", "short"):
        growth = side.pairs[kind].ours.p50 / small.pairs[kind].ours.p50
        reached = side.pairs[kind].ours.p50 <= LIMIT_MS and growth <= GROWTH
        figure = f"≤ 1 ms, ≤ 2 × of that at {small.turns}"
        rows.append(_row(side, kind, f"{kind} session, warm", figure, reached, growth))
    if cold := side.pairs["cold"].ours.seconds:
        reached = side.pairs["cold"].ours.p50 <= LIMIT_MS
        what = f"short session, cold ({len(cold)} sessions read)"
        rows.append(_row(side, "cold", what, "≤ 1 ms", reached, None))
    return rows


def _row(side: _Side, kind: str, what: str, figure: str, reached: bool, growth: float | None) -> Row:
    ours, floor = side.pairs[kind].ours, side.pairs[kind].floor
    values = {"ours_ms": ours.p50, "ours_p95_ms": ours.p95, "floor_ms": floor.p50, "floor_p95_ms": floor.p95}
    return Row(
        what=f"read the last 20 messages, {what}, {side.turns:,} turns stored",
        target=figure,
        result=str(ours) if growth is None else f"{ours}, {growth:.2f} × the smallest",
        baseline=str(floor),
        ratio=ours.p50 / floor.p50,
        met=reached,
        values=values if growth is None else {**values, "growth": growth},
    )
