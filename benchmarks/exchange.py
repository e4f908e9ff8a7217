"""A durable exchange, one writer: the four transactions of a turn, one after the other, beside the floor."""

from __future__ import annotations

import random
from pathlib import Path

from benchmarks.content import Saying, content
from benchmarks.floor import Floor, Place
from benchmarks.harness import Bench, Row, Series, alternate
from contextinfinity.domain.session import Branch
from contextinfinity.storage.sqlite.store import SqliteStore
from contextinfinity_testing.builders import new_branch

NAMES = ("TX-0 accept", "TX-P open step", "TX-A finalise", "TX-B and TX-C, end of the job")
FACTOR, MARGIN = 1.5, 1.0


async def run(bench: Bench) -> list[Row]:
    """Measure whole exchanges and each of their transactions."""
    with bench.scratch() as folder:
        floor_branch = await prepared(folder / "floor.db", 1)
        store = SqliteStore(folder / "ours.db")
        branch = await new_branch(store)
        floor, place = Floor(folder / "floor.db"), Place.of(floor_branch[0])
        ours, raw, waiting = _Times(), _Times(), Series()
        rng = random.Random(1)

        async def one_block() -> None:
            for _ in range(bench.scale.exchanges):
                verbs = Saying(store, branch.id, content(rng)).whole
                with ours.whole.timed():
                    for verb, series in zip(verbs, ours.each, strict=True):
                        with series.timed():
                            await verb()

        async def floor_block() -> None:
            for _ in range(bench.scale.exchanges):
                made = content(rng)
                with raw.whole.timed():
                    transactions = floor.whole(place, made)  # hashes and JSON are part of the work on both sides
                    for transaction, series in zip(transactions, raw.each, strict=True):
                        with series.timed():
                            floor.write(transaction)

        async def empty_block() -> None:
            for _ in range(bench.scale.exchanges):
                with waiting.timed():
                    await store.database.write(lambda _: None)

        await alternate(bench.scale.blocks, (one_block, floor_block, empty_block))
        floor.close()
        await store.close()
    return _rows(ours, raw, waiting)


async def prepared(path: Path, sessions: int) -> list[Branch]:
    """Make a file with our tables and some sessions, and let go of it; return their branches."""
    store = SqliteStore(path)
    branches = [await new_branch(store) for _ in range(sessions)]
    await store.close()
    return branches


class _Times:
    def __init__(self) -> None:
        self.whole = Series()
        self.each = tuple(Series() for _ in NAMES)


def _rows(ours: _Times, raw: _Times, waiting: Series) -> list[Row]:
    mine, floor = ours.whole.p50, raw.whole.p50
    limit = max(FACTOR * floor, floor + MARGIN)
    whole = Row(
        what="durable exchange, one writer, 4 transactions",
        target=f"≤ 1.5 × baseline or + 1 ms: {limit:.3g} ms",
        result=str(ours.whole),
        baseline=str(raw.whole),
        ratio=mine / floor,
        met=mine <= limit,
        values={"ours_ms": mine, "ours_p95_ms": ours.whole.p95, "floor_ms": floor, "floor_p95_ms": raw.whole.p95},
    )
    each = [
        Row(
            what=f"  part: {name}",
            result=str(mine),
            baseline=str(theirs),
            ratio=mine.p50 / theirs.p50,
            values={"ours_ms": mine.p50, "floor_ms": theirs.p50},
        )
        for name, mine, theirs in zip(NAMES, ours.each, raw.each, strict=True)
    ]
    empty = Row(
        what="  for comparison: an empty write (hand-over to the writer thread and back)",
        result=str(waiting),
        values={"ours_ms": waiting.p50},
    )
    return [whole, *each, empty]
