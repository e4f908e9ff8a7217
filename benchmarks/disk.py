"""Bytes on disk per exchange of 1 KB, after the jobs are done and the WAL is folded into the file."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import apsw

from benchmarks.content import Saying, content
from benchmarks.harness import Bench, Row
from contextinfinity.domain.session import Branch
from contextinfinity.storage.sqlite.store import SqliteStore
from contextinfinity_testing.builders import new_branch

SESSIONS = 20
LEAN_KB, ALL_KB = 3.0, 6.0
KB = 1024


async def run(bench: Bench) -> list[Row]:
    """Measure the file's growth, and where it went."""
    with bench.scratch() as folder:
        lean = await _grown(folder / "lean.db", bench.scale.stored, lean=True)
        everything = await _grown(folder / "all.db", bench.scale.stored, lean=False)
    return [
        *_rows("without raw responses, plans and vectors", lean, LEAN_KB),
        *_rows("with all of them", everything, ALL_KB),
    ]


async def _grown(path: Path, exchanges: int, *, lean: bool) -> dict[str, float]:
    """Say that many exchanges in a few sessions at once; give bytes per exchange by table, indexes apart."""
    store = SqliteStore(path)
    branches = [await new_branch(store) for _ in range(SESSIONS)]
    before = await store.database.write(lambda connection: _pages(connection.raw))
    rng = random.Random(4)
    rounds = max(1, exchanges // SESSIONS)
    for _ in range(rounds):
        await asyncio.gather(*(_say(store, branch, rng, lean) for branch in branches))
    await store.close()
    after = _checkpointed_pages(path)
    names = sorted(after, key=lambda name: before.get(name, 0) - after[name])
    return {name: (after[name] - before.get(name, 0)) / (rounds * SESSIONS) for name in names}


async def _say(store: SqliteStore, branch: Branch, rng: random.Random, lean: bool) -> None:
    for verb in Saying(store, branch.id, content(rng, lean=lean)).whole:
        await verb()


def _pages(connection: apsw.Connection) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for name, size in connection.execute("SELECT name, sum(pgsize) FROM dbstat GROUP BY name"):
        sizes[str(name)] = int(size)
    page_size: int = connection.execute("PRAGMA page_size").get
    sizes["free pages"] = connection.execute("PRAGMA freelist_count").get * page_size
    there = connection.execute("PRAGMA page_count").get * page_size
    sizes["maps of pages"] = there - sum(sizes.values())  # what lets a file shrink again; no table owns them
    return sizes


def _checkpointed_pages(path: Path) -> dict[str, int]:
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    sizes = _pages(connection)
    assert sum(sizes.values()) == path.stat().st_size
    connection.close()
    return sizes


def _rows(which: str, grown: dict[str, float], limit: float) -> list[Row]:
    total = sum(grown.values())
    shares = [f"{name} {size:.0f}" for name, size in grown.items() if size >= total / 100]
    return [
        Row(
            what=f"disk space per exchange of 1 KB, {which}",
            target=f"≤ {limit:.0f} KB",
            result=f"{total / KB:.2f} KB",
            baseline="the text: 0.98 KB",
            ratio=total / 1000,
            met=total <= limit * KB,
            values={name: round(size, 1) for name, size in {"bytes": total, **grown}.items()},
        ),
        Row(what="  by table", result=", ".join(shares)),
    ]
