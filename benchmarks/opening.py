"""Opening a large ledger: from the start of a fresh process to the first turns read.

The file's pages are put out of the page cache first where the system can be asked to, so this is the start
after a night, not the start after a test.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
from functools import partial
from pathlib import Path

from benchmarks.harness import Bench, Row, Series, alternate
from benchmarks.ledgers import forget, ledger

LIMIT_MS = 1000.0
ROOT = Path(__file__).resolve().parents[1]


async def run(bench: Bench) -> list[Row]:
    """Start processes, ours and raw in turn, on the largest ledger."""
    turns = bench.scale.ledgers[-1]
    path = await ledger(bench, turns)
    ours, floor = _Starts("ours"), _Starts("raw")
    await alternate(bench.scale.starts, [partial(side.start, path) for side in (ours, floor)])
    return [
        Row(
            what=f"open a ledger of {turns:,} turns in a new process and read a history",
            target="< 1 s",
            result=str(ours.whole),
            baseline=str(floor.whole),
            ratio=ours.whole.p50 / floor.whole.p50,
            met=ours.whole.p95 < LIMIT_MS,
            values={"ours_ms": ours.whole.p50, "ours_p95_ms": ours.whole.p95, "floor_ms": floor.whole.p50},
        ),
        Row(what="  by part", result=ours.parts(), baseline=floor.parts()),
    ]


class _Starts:
    """Processes of one kind."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self.whole = Series()
        self._told: list[dict[str, float]] = []

    async def start(self, path: Path) -> None:
        forget(path)
        with self.whole.timed():
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "benchmarks.start",
                self._kind,
                str(path),
                cwd=ROOT,
                stdout=asyncio.subprocess.PIPE,
            )
            assert process.stdout is not None
            line = await process.stdout.readline()
        await process.wait()
        told = json.loads(line)
        assert told.pop("turns") == 10
        self._told.append(told)

    def parts(self) -> str:
        """What took how long inside the process."""
        return ", ".join(
            f"{name} {statistics.median(told[name] for told in self._told) * 1000:.3g} ms" for name in self._told[0]
        )
