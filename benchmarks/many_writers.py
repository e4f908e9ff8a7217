"""Fifty conversations writing at once, beside one commit per exchange and one commit per fifty exchanges.

Each of fifty tasks carries exchanges through TX-0, the move to ContextPrepared, TX-P and TX-A in a session
of its own; the writer groups what waits into one commit. The floor writes the same rows one exchange after
the other, one commit each. For comparison: the floor with one commit per transaction (as durable at each
step as ours is), and exchanges recorded whole, one transaction each, as small logs and imports do.
"""

from __future__ import annotations

import asyncio
import random
import statistics
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.content import ANSWER, QUESTION, Saying, Verb, content
from benchmarks.exchange import prepared
from benchmarks.floor import Floor, Place, Transaction
from benchmarks.harness import Bench, Row, alternate, commit_cost
from benchmarks.words import text
from contextinfinity.domain.ids import new_id
from contextinfinity.domain.session import Branch
from contextinfinity.domain.turn import Exchange
from contextinfinity.storage.ledger.rows import pack
from contextinfinity.storage.sqlite.store import SqliteStore
from contextinfinity_testing.builders import exchange, new_branch

QUIET, BUSY, BUSY_COMMIT = 3.0, 5.0, 1.0
GROUPED = 0.7


async def run(bench: Bench) -> list[Row]:
    """Measure exchanges a second."""
    scale = bench.scale
    with bench.scratch() as folder:
        floor = _FloorSide(folder / "floor.db", await prepared(folder / "floor.db", scale.writers), scale.rounds)
        store = SqliteStore(folder / "ours.db")
        ours = _OurSide(store, scale.writers, scale.rounds)
        commits: list[float] = []

        async def commit_block() -> None:
            commits.append(commit_cost(folder, 20).p50)

        sides = (ours.answered, floor.a_commit_an_exchange, floor.a_commit_a_transaction, ours.whole, floor.grouped)
        recorded = (ours.recorded, floor.recorded)
        await alternate(max(2, scale.blocks // 2), (commit_block, *sides, *recorded))
        floor.close()
        await store.close()
    return _rows(ours, floor, statistics.median(commits), scale.writers)


class _Rates:
    """Exchanges a second, one entry a block."""

    def __init__(self) -> None:
        self.rates: dict[str, list[float]] = {}

    def done(self, name: str, exchanges: int, began: float) -> None:
        self.rates.setdefault(name, []).append(exchanges / (time.perf_counter() - began))

    def rate(self, name: str) -> float:
        return statistics.median(self.rates[name])


class _OurSide(_Rates):
    """Many tasks, each with a session of its own."""

    def __init__(self, store: SqliteStore, writers: int, rounds: int) -> None:
        super().__init__()
        self._store = store
        self._writers = writers
        self._rounds = rounds
        self._rng = random.Random(2)

    async def answered(self) -> None:
        """TX-0, TX-P, TX-A."""
        await self._converse("answered", lambda saying: saying.answering)

    async def whole(self) -> None:
        """All four transactions."""
        await self._converse("whole", lambda saying: saying.whole)

    async def _converse(self, name: str, verbs: Callable[[Saying], tuple[Verb, ...]]) -> None:
        made = [[content(self._rng) for _ in range(self._rounds)] for _ in range(self._writers)]
        branches = await self._new_branches()

        async def converse(branch: Branch, index: int) -> None:
            for each in made[index]:
                for verb in verbs(Saying(self._store, branch.id, each)):
                    await verb()

        began = time.perf_counter()
        await asyncio.gather(*(converse(branch, index) for index, branch in enumerate(branches)))
        self.done(name, len(branches) * self._rounds, began)

    async def recorded(self) -> None:
        """One transaction an exchange."""
        made = [[_exchange(self._rng) for _ in range(self._rounds)] for _ in range(self._writers)]
        branches = await self._new_branches()

        async def log(branch: Branch, index: int) -> None:
            for each in made[index]:
                await self._store.turns.record(branch.id, [each])

        began = time.perf_counter()
        await asyncio.gather(*(log(branch, index) for index, branch in enumerate(branches)))
        self.done("recorded", len(branches) * self._rounds, began)

    async def _new_branches(self) -> list[Branch]:
        """Sessions without turns: in life the jobs of earlier turns would be done by now."""
        return [await new_branch(self._store) for _ in range(self._writers)]


class _FloorSide(_Rates):
    """One thread, one exchange after the other, going round the sessions."""

    def __init__(self, path: Path, branches: list[Branch], rounds: int) -> None:
        super().__init__()
        self._floor = Floor(path)
        self._writers = len(branches)
        self._places = [Place.of(branch) for branch in branches] * rounds
        self._rng = random.Random(3)
        self.close = self._floor.close

    async def a_commit_an_exchange(self) -> None:
        """All rows of an exchange in one commit."""
        made = self._made()
        began = time.perf_counter()
        for transactions in made:
            self._floor.write(*transactions)
        self.done("exchange", len(made), began)

    async def a_commit_a_transaction(self) -> None:
        """Each of the four transactions in a commit of its own."""
        made = self._made()
        began = time.perf_counter()
        for transactions in made:
            for transaction in transactions:
                self._floor.write(transaction)
        self.done("transaction", len(made), began)

    async def grouped(self) -> None:
        """All rows of whole exchanges, one of each writer in one commit."""
        made = [self._floor.whole(place, content(self._rng)) for place in self._places]
        began = time.perf_counter()
        for first in range(0, len(made), self._writers):
            group = made[first : first + self._writers]
            self._floor.write(*(transaction for transactions in group for transaction in transactions))
        self.done("grouped", len(made), began)

    async def recorded(self) -> None:
        """The rows of a recorded exchange, one commit each."""
        made = [self._floor.recorded(place, _exchange(self._rng)) for place in self._places]
        began = time.perf_counter()
        for transaction in made:
            self._floor.write(transaction)
        self.done("recorded", len(made), began)

    def _made(self) -> list[tuple[Transaction, ...]]:
        return [self._floor.answering(place, content(self._rng), pack(new_id())) for place in self._places]


def _exchange(rng: random.Random) -> Exchange:
    return exchange(text(rng, QUESTION), text(rng, ANSWER))


def _rows(ours: _OurSide, floor: _FloorSide, commit: float, writers: int) -> list[Row]:
    mine, theirs = ours.rate("answered"), floor.rate("exchange")
    wanted = BUSY if commit >= BUSY_COMMIT else QUIET
    return [
        Row(
            what=f"exchanges per second, {writers} conversations at once",
            target=f"≥ {wanted:.0f} × one commit per exchange",
            result=f"{mine:.0f} exchanges/s (a commit costs {commit:.2g} ms)",
            baseline=f"{theirs:.0f}/s",
            ratio=mine / theirs,
            met=mine >= wanted * theirs,
            values={"ours_per_s": mine, "floor_per_s": theirs, "commit_ms": commit},
        ),
        _comparison("  baseline: one commit per transaction", mine, floor.rate("transaction")),
        _grouped(writers, ours.rate("whole"), floor.rate("grouped")),
        _comparison("  each exchange recorded in one transaction", ours.rate("recorded"), floor.rate("recorded")),
    ]


def _grouped(writers: int, mine: float, theirs: float) -> Row:
    return Row(
        what=f"exchanges per second, {writers} conversations at once, background work included",
        target=f"≥ {GROUPED:g} × {writers} exchanges a commit",
        result=f"{mine:.0f} exchanges/s",
        baseline=f"{theirs:.0f}/s",
        ratio=mine / theirs,
        met=mine >= GROUPED * theirs,
        values={"ours_per_s": mine, "floor_per_s": theirs},
    )


def _comparison(what: str, mine: float, theirs: float) -> Row:
    return Row(
        what=what,
        result=f"{mine:.0f} exchanges/s",
        baseline=f"{theirs:.0f}/s",
        ratio=mine / theirs,
        values={"ours_per_s": mine, "floor_per_s": theirs},
    )
