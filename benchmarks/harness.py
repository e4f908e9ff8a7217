"""How things are measured: in blocks that alternate between ours and the floor.

The machine is noisy, so the two sides share every mood it has; what is compared are the medians over
all blocks. A row says what was measured, the figure to reach, and whether it was reached; a row without
a figure explains another one.
"""

from __future__ import annotations

import os
import platform
import statistics
import subprocess
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import apsw
from rich.console import Console

from benchmarks.floor import connect


@dataclass(frozen=True, kw_only=True)
class Scale:
    """How much of everything."""

    ledgers: tuple[int, ...] = (100, 10_000, 100_000)
    """Turns in the ledgers that are read; the last one is the large one."""
    blocks: int = 20
    exchanges: int = 25
    """Exchanges one writer does in a block."""
    writers: int = 50
    rounds: int = 4
    """Exchanges each of many writers does in a block."""
    stored: int = 2_000
    """Exchanges whose bytes are counted."""
    reads: int = 25
    """Reads or forks of each kind in a block."""
    starts: int = 7


ORDINARY = Scale()
FULL = Scale(ledgers=(100, 10_000, 100_000, 1_000_000))
TINY = Scale(ledgers=(20, 300), blocks=2, exchanges=2, writers=4, rounds=2, stored=40, reads=3, starts=1)


@dataclass(frozen=True, kw_only=True)
class Row:
    """One line of the table; ``values`` are its numbers, in the unit their names end with."""

    what: str
    result: str
    target: str = ""
    baseline: str = ""
    ratio: float | None = None
    met: bool | None = None
    values: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Bench:
    """What every benchmark is given: a folder on the disk to be measured, and how much to do."""

    folder: Path
    scale: Scale = ORDINARY
    console: Console = field(default_factory=lambda: Console(stderr=True))

    @contextmanager
    def scratch(self) -> Iterator[Path]:
        """A folder for one benchmark, gone afterwards; beside the kept ledgers, so on the same disk."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="scratch-", dir=self.folder) as name:
            yield Path(name)


Benchmark = Callable[[Bench], Awaitable[list[Row]]]


class Series:
    """Durations of one thing, in seconds."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Add how long the block takes."""
        began = time.perf_counter()
        yield
        self.seconds.append(time.perf_counter() - began)

    @property
    def p50(self) -> float:
        """The median, in milliseconds."""
        return statistics.median(self.seconds) * 1000

    @property
    def p95(self) -> float:
        """What 95 of 100 do not exceed, in milliseconds."""
        ordered = sorted(self.seconds)
        return ordered[min(len(ordered) - 1, int(len(ordered) * 0.95))] * 1000

    def __str__(self) -> str:
        return f"{self.p50:.3g} ms (p95 {self.p95:.3g})"


async def alternate(blocks: int, sides: Sequence[Callable[[], Awaitable[None]]]) -> None:
    """Run the sides in turn, the first to go changing from block to block."""
    for block in range(blocks):
        for index in range(len(sides)):
            await sides[(block + index) % len(sides)]()


def commit_cost(folder: Path, times: int = 200) -> Series:
    """What a durable commit of one small row costs on the disk under a folder, right now."""
    series = Series()
    path = folder / "commit.db"
    connection = connect(path)
    connection.execute("CREATE TABLE IF NOT EXISTS one (key INTEGER PRIMARY KEY, value INTEGER)")
    for number in range(times):
        with series.timed():
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("INSERT OR REPLACE INTO one VALUES (1, ?)", (number,))
            connection.execute("COMMIT")
    connection.close()
    path.unlink()
    return series


def added_row(what: str, ours: Series, floor: Series, figure: float) -> Row:
    """Return what something adds to the engine alone, the floor; ``figure`` is in milliseconds."""
    added, added_p95 = max(0.0, ours.p50 - floor.p50), max(0.0, ours.p95 - floor.p95)
    return Row(
        what=what,
        target=f"p95 ≤ {figure:g} ms",
        result=f"{added:.2f} ms, p95 {added_p95:.2f} ms ({ours})",
        baseline=f"engine alone: {floor}",
        met=added_p95 <= figure,
        values={"added_ms": added, "added_p95_ms": added_p95, "ours_p95_ms": ours.p95, "floor_p95_ms": floor.p95},
    )


def machine(bench: Bench) -> str:
    """Return a description of this machine, with what a commit costs on its disk."""
    with bench.scratch() as folder:
        commit = commit_cost(folder)
    return f"{host()}, a durable commit costs {commit}"


def host() -> str:
    """Return a description of this machine, its load, and the commit that is measured."""
    load = f", load {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else ""
    command = ("git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty")
    commit = subprocess.run(command, capture_output=True, text=True).stdout.strip() or "unknown"
    return (
        f"{os.cpu_count()} cores ({platform.machine()}), {platform.system()}, Python {platform.python_version()}, "
        f"SQLite {apsw.sqlite_lib_version()}{load}, commit {commit}"
    )
