"""Does memory stay flat? One engine, one conversation after the other and one that never ends.

``python -m benchmarks.endurance [--turns N]``. After a warm-up the memory of the process is sampled; what counts is
how much the last quarter of the samples lies above the first. Objects the garbage collector can count are compared
too: a leak of small things shows there long before it shows in the memory.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import statistics
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.answering import models
from contextinfinity.engine.engine import Engine
from contextinfinity.providers.scripted import echo
from contextinfinity.storage.journal import JournalFolder
from contextinfinity.storage.sqlite.store import SqliteStore

GROWTH = 0.05
SAMPLES = 40
WARM_UP = 0.5
"""The part of the turns after which caches, and the prompt of the endless conversation, are full."""


@dataclass(frozen=True, kw_only=True)
class Endured:
    """What was seen: kilobytes and objects at each sample."""

    turns: int
    kilobytes: list[int]
    objects: list[int]

    @property
    def memory_growth(self) -> float:
        """How much the end lies above the beginning, as a part of it."""
        return growth(self.kilobytes)

    @property
    def object_growth(self) -> float:
        """The same for objects."""
        return growth(self.objects)

    @property
    def flat(self) -> bool:
        """Whether neither grew by more than a twentieth."""
        return self.memory_growth <= GROWTH and self.object_growth <= GROWTH

    def __str__(self) -> str:
        return (
            f"{self.turns:,} turns: memory {self.kilobytes[0] / 1024:.1f} → {self.kilobytes[-1] / 1024:.1f} MB "
            f"({self.memory_growth:+.1%}), objects {self.objects[0]:,} → {self.objects[-1]:,} "
            f"({self.object_growth:+.1%}): {'flat' if self.flat else 'GROWING'}"
        )


async def endure(folder: Path, turns: int, tell: Callable[[str], None] = lambda _: None) -> Endured:
    """Answer that many turns, every other one in the same conversation, and watch the memory."""
    kilobytes, objects = [], []
    async with Engine(SqliteStore(folder / "ledger.db"), JournalFolder(folder / "streams"), models(echo)) as engine:
        endless = (await engine.ask("new", "This one never ends.")).thread_id
        for number in range(turns):
            await engine.ask(endless if number % 2 else "new", f"Message {number}, and some words more.")
            if number >= turns * WARM_UP and number % max(1, turns // SAMPLES) == 0:
                gc.collect()
                kilobytes.append(resident())
                objects.append(len(gc.get_objects()))
                tell(f"{number:,} turns: {kilobytes[-1] / 1024:.1f} MB, {objects[-1]:,} objects")
    return Endured(turns=turns, kilobytes=kilobytes, objects=objects)


def resident(process: int | str = "self") -> int:
    """The memory a process has now, in kilobytes."""
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    raise OSError("this system does not say how much memory a process has")


def growth(samples: list[int]) -> float:
    """How much the last quarter of the samples lies above the first, as a part of it."""
    quarter = max(1, len(samples) // 4)
    first, last = statistics.median(samples[:quarter]), statistics.median(samples[-quarter:])
    return last / first - 1


def main() -> None:
    """Run it and say how it went."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.endurance", description="Does memory stay flat?")
    parser.add_argument("--turns", type=int, default=10_000)
    with tempfile.TemporaryDirectory() as folder:
        endured = asyncio.run(endure(Path(folder), parser.parse_args().turns, print))
    print(endured)
    sys.exit(not endured.flat)


if __name__ == "__main__":
    main()
