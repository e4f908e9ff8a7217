"""What encryption costs: the same exchanges on a plain and on an encrypted ledger, block by block in one run."""

from __future__ import annotations

import os
import random
from collections.abc import Awaitable, Callable
from pathlib import Path
from time import process_time

from benchmarks.content import Saying, content
from benchmarks.harness import Bench, Row, Series, alternate
from contextinfinity.domain.ids import new_id
from contextinfinity.storage.encryption.header import HEADER, create_header, new_data_key, write_header
from contextinfinity.storage.encryption.key_sources import VARIABLE, KeySource, new_key
from contextinfinity.storage.journal import JournalFolder
from contextinfinity.storage.sqlite.store import SqliteStore
from contextinfinity_testing.builders import new_branch

MOST = 1.15
"""An encrypted exchange may take so much of a plain one."""
PIECES = 40
"""Pieces of an answer that are written to its journal."""


async def run(bench: Bench) -> list[Row]:
    """Measure a durable exchange with the journal of its answer, with and without encryption."""
    os.environ[VARIABLE] = key = new_key()
    with bench.scratch() as folder:
        (folder / "sealed").mkdir()
        source = KeySource(kind="environment", name=VARIABLE)
        write_header(folder / "sealed" / HEADER, create_header(new_data_key(), key, source))
        plain, sealed = await _Side.opened(folder / "plain"), await _Side.opened(folder / "sealed")
        await alternate(bench.scale.blocks, (plain.block(bench), sealed.block(bench)))
        await plain.close()
        await sealed.close()
    del os.environ[VARIABLE]
    what = f"durable exchange with a journal of {PIECES} pieces, encrypted"
    wall, cpu = sealed.times.p50 / plain.times.p50, sealed.cpu_seconds / plain.cpu_seconds
    exchanges = bench.scale.blocks * bench.scale.exchanges
    used = [f"{1000 * side.cpu_seconds / exchanges:.2f} ms" for side in (sealed, plain)]
    return [
        _row(what, wall, str(sealed.times), str(plain.times)),
        _row(f"{what}: CPU, all threads", cpu, *used),
    ]


def _row(what: str, ratio: float, measured: str, floor: str) -> Row:
    figure = f"≤ {MOST} × plain"
    return Row(what=what, target=figure, result=measured, baseline=floor, ratio=ratio, met=ratio <= MOST)


class _Side:
    def __init__(self, folder: Path, store: SqliteStore, branch_id: str) -> None:
        self.times = Series()
        self.cpu_seconds = 0.0
        self._store, self._branch_id = store, branch_id
        self._journals = JournalFolder(folder / "streams")
        self._rng = random.Random(1)

    @classmethod
    async def opened(cls, folder: Path) -> _Side:
        store = SqliteStore(folder / "ledger.db", data_dir=folder)
        return cls(folder, store, (await new_branch(store)).id)

    def block(self, bench: Bench) -> Callable[[], Awaitable[None]]:
        async def block() -> None:
            begin = process_time()
            for _ in range(bench.scale.exchanges):
                verbs = Saying(self._store, self._branch_id, content(self._rng)).whole
                with self.times.timed():
                    for verb in verbs[:2]:
                        await verb()
                    journal = self._journals.open(new_id(), "scripted")
                    for number in range(PIECES):
                        journal.append("text", {"text": f"piece {number} of an answer "}, 20)
                    journal.finish({"outcome": "completed"})
                    for verb in verbs[2:]:
                        await verb()
            self.cpu_seconds += process_time() - begin

        return block

    async def close(self) -> None:
        self._journals.close()
        await self._store.close()
