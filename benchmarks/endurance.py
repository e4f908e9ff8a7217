"""Do memory, prompts and latency stay flat? One engine, one conversation after the other and one that never ends.

``python -m benchmarks.endurance [--turns N] [--bare] [--save]``; ``--bare``: without retrieval, memories, rewriting.
Memory is compared after a warm-up: the last quarter of the samples with the first. Objects the garbage collector can
count are compared too: a leak of small things shows there long before it shows in the memory. ``--save`` keeps the
samples for docs/proof.md; ``plots.py`` draws them.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import random
import statistics
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks import report
from benchmarks.harness import Row
from benchmarks.words import text
from contextinfinity.settings import load_settings
from contextinfinity.wiring import open_engine

GROWTH = 0.05
SAMPLES = 80
WINDOW, CHARACTERS = 16_384, 200
"""Of the model in tokens, and of a message."""
SETTINGS = f"""\
[general]
default_model = "echo"
[models.echo]
provider = "scripted"
context_limit = {WINDOW}
[librarian]
model = "offline"
[retrieval]
embedding_model = "static"
"""
BARE = SETTINGS + "top_k = 0\n[memory]\nenabled = false\n"
WARM_UP = 0.5
"""The part of the turns after which caches, and the prompt of the endless conversation, are full."""


@dataclass(kw_only=True)
class Endured:
    """What was seen: kilobytes and objects at each sample."""

    turns: int = 0
    kilobytes: list[int] = field(default_factory=list)
    objects: list[int] = field(default_factory=list)
    prompts: list[int] = field(default_factory=list)
    """The tokens of every prompt of the endless conversation."""
    milliseconds: list[float] = field(default_factory=list)
    """CPU of each exchange, from the message to the end of its background work."""

    @property
    def memory_growth(self) -> float:
        """How much the end lies above the beginning, as a part of it."""
        return growth(_warm(self.kilobytes))

    @property
    def object_growth(self) -> float:
        """The same for objects."""
        return growth(_warm(self.objects))

    @property
    def flat(self) -> bool:
        """Whether neither grew by more than a twentieth."""
        return self.memory_growth <= GROWTH and self.object_growth <= GROWTH

    def __str__(self) -> str:
        kilobytes, objects = _warm(self.kilobytes), _warm(self.objects)
        return (
            f"{self.turns:,} turns: memory {kilobytes[0] / 1024:.1f} → {kilobytes[-1] / 1024:.1f} MB "
            f"({self.memory_growth:+.1%}), objects {objects[0]:,} → {objects[-1]:,} "
            f"({self.object_growth:+.1%}): {'flat' if self.flat else 'GROWING'}"
        )

    def rows(self) -> list[Row]:
        """Return the rows of docs/proof.md; their values are the points of its plots."""
        each = max(1, len(self.prompts) // SAMPLES)
        prompts = {str(2 * at): float(max(self.prompts[at : at + each])) for at in range(0, len(self.prompts), each)}
        spent = {
            str(2 * at): statistics.median(self.milliseconds[at : at + each])
            for at in range(0, len(self.milliseconds), each)
        }
        memory = [one / 1024 for one in self.kilobytes]
        step = max(1, self.turns // max(1, len(memory)))
        first, *_, last = spent.values()
        sizes = f"at most {max(self.prompts):,} tokens, {self.prompts[-1]:,} at the end; the window has {WINDOW:,}"
        return [
            Row(
                what=f"prompts of a conversation of {len(self.prompts):,} turns, among as many others",
                result=sizes,
                values=prompts,
            ),
            Row(
                what="CPU of an exchange with its background work",
                result=f"{first:.1f} ms in the first {100 // SAMPLES + 1}%, {last:.1f} ms in the last",
                values=spent,
            ),
            Row(
                what="memory",
                result=str(self).partition(": ")[2],
                values={str(at * step): one for at, one in enumerate(memory)},
            ),
        ]


async def endure(folder: Path, turns: int, seen: Endured, *, bare: bool = False) -> None:
    """Answer that many turns, every other one in the same conversation, and watch the process."""
    rng = random.Random(1)
    (folder / "config.toml").write_text(BARE if bare else SETTINGS, encoding="utf-8")
    async with open_engine(load_settings(data_dir=folder).settings) as engine:
        endless = (await engine.ask("new", "This one never ends.")).thread_id
        for number in range(turns):
            began = time.process_time()
            thread = endless if number % 2 else "new"
            answered = await engine.ask(thread, text(rng, CHARACTERS), use_query_rewriter=not bare)
            await engine.job_runner.drain(60)
            seen.turns = number + 1
            if number % 2:
                seen.milliseconds.append(1000 * (time.process_time() - began))
                plan = await engine.store.turns.plan(answered.turn_id)
                seen.prompts.append(0 if plan is None else plan.tokens)
            if number % max(1, turns // SAMPLES) == 0:
                gc.collect()
                seen.kilobytes.append(resident())
                seen.objects.append(len(gc.get_objects()))
                print(f"{number:,} turns: {seen.kilobytes[-1] / 1024:.1f} MB, {seen.objects[-1]:,} objects", flush=True)


def resident(process: int | str = "self") -> int:
    """The memory a process has now, in kilobytes."""
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    raise OSError("this system does not say how much memory a process has")


def _warm(samples: list[int]) -> list[int]:
    """Return the samples after the warm-up."""
    return samples[int(len(samples) * WARM_UP) :]


def growth(samples: list[int]) -> float:
    """How much the last quarter of the samples lies above the first, as a part of it."""
    quarter = max(1, len(samples) // 4)
    first, last = statistics.median(samples[:quarter]), statistics.median(samples[-quarter:])
    return last / first - 1


def main() -> None:
    """Run it and say how it went."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.endurance", description="Does memory stay flat?")
    parser.add_argument("--turns", type=int, default=10_000)
    parser.add_argument("--bare", action="store_true", help="without retrieval, memories and rewriting")
    parser.add_argument("--save", action="store_true", help="keep the result in benchmarks/results, for docs/proof.md")
    arguments, endured = parser.parse_args(), Endured()
    with tempfile.TemporaryDirectory() as folder, suppress(KeyboardInterrupt):  # what was done until then is shown
        asyncio.run(endure(Path(folder), arguments.turns, endured, bare=arguments.bare))
    print(endured)
    if arguments.save:
        report.save_proof("endurance", endured.rows())
    sys.exit(not endured.flat)


if __name__ == "__main__":
    main()
