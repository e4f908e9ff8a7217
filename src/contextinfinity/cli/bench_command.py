"""``cix bench``: what this machine and its disk need for an exchange, measured in a folder that is removed afterwards.

The model is a script that answers at once, so that all of the time is ours. No conversation of the user is touched.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from contextinfinity.cli.command_options import CommonOptions, command_without_owner

if TYPE_CHECKING:
    from collections.abc import Iterator

    from contextinfinity.engine.engine import Engine

Turns = Annotated[
    int, typer.Option("--turns", metavar="N", min=20, max=100_000, help="How long the conversation becomes.")
]
SETTINGS = '[general]\ndefault_model = "bench"\n[models.bench]\nprovider = "scripted"\n'
TEXT = (
    "harbour lighthouse engine winter garden letter market bridge river teacher music window kitchen doctor train "
    "budget report deadline server release colour mountain recipe ticket account language holiday meeting"
)
WORDS = TEXT.split()
LOADED = 20
DRAIN_SECONDS = 600
SYNCED = 50
Times = dict[str, list[float]]


@command_without_owner
def bench(options: CommonOptions, turns: Turns = 200) -> None:
    """Measure exchanges, reads and searches on this machine, in a folder that is removed afterwards."""
    import asyncio
    import tempfile

    from contextinfinity.cli.command_options import settings_for
    from contextinfinity.cli.output import print_json, print_notice, print_table
    from contextinfinity.settings import load_settings
    from contextinfinity.wiring import open_engine

    there = settings_for(options.config, options.data_dir, creates=False).settings.data_dir
    disk = next(folder for folder in (there, *there.parents) if folder.is_dir())
    with tempfile.TemporaryDirectory(prefix=".cix-bench-", dir=disk) as name:
        folder = Path(name)
        (folder / "config.toml").write_text(SETTINGS, encoding="utf-8")
        print_notice(f"Measuring {turns} turns in {folder} …")
        times: Times = {"sync": list(_syncs(folder / "sync"))}
        empty = 0

        async def measure() -> None:
            nonlocal empty
            settings = load_settings(folder / "config.toml", folder, {}).settings
            async with open_engine(settings):
                pass  # makes the ledger
            empty = _size(folder)
            async with open_engine(settings) as engine:
                await _measure(engine, turns, times)

        asyncio.run(measure())
        each = (_size(folder) - empty) // turns
    rows = [(what, *_figures(times[key])) for key, what in ROWS.items()]
    if options.as_json:
        figures = {key: {"median_ms": row[1], "p95_ms": row[2]} for key, row in zip(ROWS, rows, strict=True)}
        return print_json(figures | {"turns": turns, "bytes_a_turn": each, "folder": str(disk)})
    print_table(["what", "median", "95%"], [(what, f"{mid:.1f} ms", f"{high:.1f} ms") for what, mid, high in rows])
    return print_notice(f"{each:,} bytes a turn with its index, on the disk of {disk}.")


ROWS = {
    "sync": "write 4 KB and sync it (the disk alone)",
    "exchange": "message to durable answer",
    "context": "message to the model's request",
    "load": f"load the last {LOADED} turns",
    "search": "search the conversation",
}


def _figures(seconds: list[float]) -> tuple[float, float]:
    """Return the median and what 95 of 100 do not exceed, in milliseconds."""
    ordered = sorted(seconds)
    return 1000 * ordered[len(ordered) // 2], 1000 * ordered[min(len(ordered) - 1, int(0.95 * len(ordered)))]


def _syncs(path: Path) -> Iterator[float]:
    import os

    with path.open("wb", buffering=0) as file:
        for _ in range(SYNCED):
            began = time.perf_counter()
            file.write(bytes(4096))
            os.fsync(file.fileno())
            yield time.perf_counter() - began


async def _measure(engine: Engine, turns: int, times: Times) -> None:
    """Talk, then read and search."""
    from contextinfinity.domain.events import StepStarted, TurnStarted

    thread, branch = "new", ""
    times |= {"exchange": [], "context": [], "load": [], "search": []}
    for number in range(turns):
        began = time.perf_counter()
        async for event in engine.send(thread, f"Note {number}: {_sentence(number)}"):
            if isinstance(event, TurnStarted):
                thread, branch = event.thread_id, event.branch_id
            elif isinstance(event, StepStarted):
                times["context"].append(time.perf_counter() - began)
        times["exchange"].append(time.perf_counter() - began)
    await engine.job_runner.drain(DRAIN_SECONDS)
    for number in range(max(20, turns // 10)):
        began = time.perf_counter()
        await engine.store.turns.history(branch, limit=LOADED)
        times["load"].append(time.perf_counter() - began)
        question = f"Which note is about {WORDS[number % len(WORDS)]} and {WORDS[(5 * number + 1) % len(WORDS)]}?"
        began = time.perf_counter()
        await engine.search(question, thread_id=thread)
        times["search"].append(time.perf_counter() - began)


def _sentence(number: int) -> str:
    """Return 60 words, others for each number."""
    return " ".join(WORDS[(number * place + place * place // 3) % len(WORDS)] for place in range(60)) + "."


def _size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
