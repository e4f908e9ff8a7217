"""A file of messages into an empty ledger, and the same file once more: how fast, and in how much memory.

Each import runs in a process of its own, ``python -m benchmarks.importing LEDGER FILE``, so that its memory is its own.
"""

from __future__ import annotations

import asyncio
import json
import random
import resource
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.harness import Bench, Row
from benchmarks.words import text
from contextinfinity.domain.session import Owner
from contextinfinity.exchange.importer import import_file
from contextinfinity.storage.sqlite.store import SqliteStore

LEAST_PER_SECOND = 5_000
MOST_MEGABYTES = 256
ROOT = Path(__file__).resolve().parents[1]


async def run(bench: Bench) -> list[Row]:
    """Import as many messages as the large ledger has turns, with ids and without."""
    size = bench.scale.ledgers[-1]
    rows: list[Row] = []
    with bench.scratch() as folder:
        for ids in (True, False):
            file = folder / f"{ids}.jsonl"
            _write(file, size, ids=ids)
            first, again = (_measured(folder / f"{ids}.db", file) for _ in range(2))
            rows += _rows(size, "with ids" if ids else "without ids", first, again)
    return rows


def _write(file: Path, size: int, *, ids: bool) -> None:
    """Write a conversation: questions of 60 and answers of 340 characters, a minute each."""
    rng = random.Random(1)
    with file.open("w", encoding="utf-8") as out:
        for n in range(size):
            role, length = ("assistant", 340) if n % 2 else ("user", 60)
            record = {"role": role, "content": text(rng, length), "created_at": 1_600_000_000 + 60 * n}
            out.write(json.dumps({**record, "id": f"{rng.getrandbits(128):032x}"} if ids else record) + "\n")


def _measured(ledger: Path, file: Path) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.importing", str(ledger), str(file)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, check=True)
    measured: dict[str, float] = json.loads(done.stdout)
    return measured


def _rows(size: int, kind: str, first: dict[str, float], again: dict[str, float]) -> list[Row]:
    assert (first["added"], again["added"], again["skipped"]) == (size, 0, size)
    speed, memory = size / first["seconds"], max(first["megabytes"], again["megabytes"])
    return [
        Row(
            what=f"import of {size:,} messages {kind}",
            target=f"≥ {LEAST_PER_SECOND:,} messages/s",
            result=f"{speed:,.0f} messages/s",
            met=speed >= LEAST_PER_SECOND,
            values={"messages_per_s": speed},
        ),
        Row(
            what="  peak memory",
            target=f"≤ {MOST_MEGABYTES} MB",
            result=f"{memory:.0f} MB",
            met=memory <= MOST_MEGABYTES,
            values={"megabytes": memory},
        ),
        Row(
            what="  the same file again: nothing is added",
            result=f"{size / again['seconds']:,.0f} messages/s",
            values={"messages_per_s": size / again["seconds"]},
        ),
    ]


async def main(ledger: Path, file: Path) -> None:
    """Import, and tell how it went."""
    store = SqliteStore(ledger)
    began = time.perf_counter()
    (done,) = (await import_file(store, file, owner=Owner())).sessions
    seconds = time.perf_counter() - began
    await store.close()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"seconds": seconds, "added": done.added, "skipped": done.skipped, "megabytes": peak}))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), Path(sys.argv[2])))
