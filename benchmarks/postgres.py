"""What an exchange costs with PostgreSQL beside SQLite: CPU of worker and server, round trips, row-level security.

Twenty conversations at once say the same on each side: the four transactions of an exchange and a read of the last
20 turns. The server is the one of the tests, on this machine, and does not wait for its disk.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

import psycopg

from benchmarks.content import Saying, content
from benchmarks.harness import Bench, Row
from contextinfinity.domain.session import Owner
from contextinfinity.storage.contract import Store
from contextinfinity.storage.database import act_for
from contextinfinity.storage.postgres.silence import ServerSilence
from contextinfinity.storage.postgres.store import PostgresStore
from contextinfinity.storage.sqlite.store import SqliteStore
from contextinfinity_testing.builders import new_branch

AT_ONCE, FACTOR, SECURITY = 20, 1.5, 10
_TICK = os.sysconf("SC_CLK_TCK")


async def run(bench: Bench) -> list[Row]:
    """Alternate between the sides, and compare their medians."""
    from tests.postgres import empty_database, secured_database

    with bench.scratch() as folder:
        secured = secured_database("measured")
        stores: dict[str, Store] = {
            "SQLite": SqliteStore(folder / "ledger.db"),
            "PostgreSQL": PostgresStore(empty_database(), folder / "one"),
            "row security": PostgresStore(secured[0], folder / "two", serving_url=secured[1]),
        }
        sides = {name: _Side(store, acts=name == "row security") for name, store in stores.items()}
        for _ in range(bench.scale.blocks):
            for side in sides.values():
                await side.block(bench.scale.exchanges)
        for store in stores.values():
            await store.close()
    return _rows(sides["SQLite"], sides["PostgreSQL"], sides["row security"])


class _Side:
    def __init__(self, store: Store, *, acts: bool) -> None:
        self._store = store
        self._acts = acts
        self._branches: list[str] = []
        self._rng = random.Random(1)
        self.worker: list[float] = []
        self.server: list[float] = []
        self.trips = self.said = 0

    async def block(self, exchanges: int) -> None:
        """Let every conversation say something a few times."""
        if self._acts:
            act_for(Owner())
        if not self._branches:
            self._branches = [(await new_branch(self._store)).id for _ in range(AT_ONCE)]
            await self._say()  # prepares the statements
        rounds = max(1, exchanges // 5)
        with self._counted():
            began, at = time.process_time(), _server_seconds()
            for _ in range(rounds):
                await self._say()
            said = AT_ONCE * rounds
            self.worker.append(1000 * (time.process_time() - began) / said)
            self.server.append(1000 * (_server_seconds() - at) / said)
            self.said += said
        act_for(None)

    async def _say(self) -> None:
        async def one(branch_id: str) -> None:
            for verb in Saying(self._store, branch_id, content(self._rng)).whole:
                await verb()
            await self._store.turns.history(branch_id, limit=20)

        await asyncio.gather(*(one(branch_id) for branch_id in self._branches))

    @contextmanager
    def _counted(self) -> Iterator[None]:
        """Count how often the worker waits for the server."""
        if not isinstance(self._store, PostgresStore):
            yield
            return
        kind = type(self._store.database.silence)
        begin = kind.__enter__

        def counting(silence: ServerSilence) -> None:
            self.trips += 1
            begin(silence)

        with patch.object(kind, "__enter__", counting):
            yield


def _server_seconds() -> float:
    """Return the CPU time of all processes of the server."""
    from tests.postgres import server_url

    with psycopg.connect(server_url()) as connection:
        folder = connection.execute("SHOW data_directory").fetchall()[0][0]
    postmaster = int(Path(folder, "postmaster.pid").read_text().splitlines()[0])
    total = 0
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if postmaster in (int(fields[1]), int(status.parent.name)):
            total += int(fields[11]) + int(fields[12])
            total += int(fields[13]) + int(fields[14]) if int(status.parent.name) == postmaster else 0
    return total / _TICK


def _rows(sqlite: _Side, postgres: _Side, secured: _Side) -> list[Row]:
    ours, floor, served, over = (
        sorted(series)[len(series) // 2] for series in (postgres.worker, sqlite.worker, postgres.server, secured.worker)
    )
    cost = 100 * (over + sorted(secured.server)[len(secured.server) // 2]) / (ours + served) - 100
    return [
        Row(
            what="CPU of a worker for storage an exchange, PostgreSQL beside SQLite",
            target=f"≤ {FACTOR} ×",
            result=f"{ours:.2f} ms",
            baseline=f"{floor:.2f} ms",
            ratio=ours / floor,
            met=ours <= FACTOR * floor,
            values={"ours_ms": ours, "sqlite_ms": floor},
        ),
        Row(what="CPU of the database server an exchange", result=f"{served:.2f} ms", values={"ms": served}),
        Row(
            what="round trips an exchange",
            result=f"{postgres.trips / postgres.said:.1f}",
            values={"trips": postgres.trips / postgres.said},
        ),
        Row(
            what="cost of row-level security, worker and server",
            target=f"≤ {SECURITY}%",
            result=f"{cost:+.1f}%",
            met=cost <= SECURITY,
            values={"percent": max(cost, 0.0)},
        ),
    ]
