"""A workspace at size: mapping a repository, moving items between cache tiers, and the history file.

The repository is made of copies of this one's own sources, so that the references between the files are those of real
code. What only computes is measured in CPU time. The cost of cache tiers beside other orders is in
``tier_simulation``.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import msgspec

from benchmarks.harness import Bench, Row
from benchmarks.tier_simulation import simulate
from contextinfinity.workspace.history_file import HistoryMessage, HistoryStore
from contextinfinity.workspace.stability import ObservedItem, StabilityTracker
from contextinfinity.workspace.symbols import SymbolIndex

SOURCES = Path(__file__).parent.parent / "src"
FILES, TRACKED, MESSAGES, SESSION = 10_000, 5_000, 100_000, 10_000
FIRST_SECONDS, AGAIN_SECONDS, UPDATE_MS, SEARCH_MS, LOAD_MS, PREFIX = 60.0, 2.0, 5.0, 50.0, 300.0, 0.95


async def run(bench: Bench) -> list[Row]:
    """Measure all of it."""
    share = min(1.0, bench.scale.ledgers[-1] / 100_000)
    with bench.scratch() as folder:
        return [
            *_mapping(folder, max(20, int(FILES * share))),
            _tiers(max(50, int(TRACKED * share))),
            *_history(folder, max(200, int(MESSAGES * share)), max(50, int(SESSION * share))),
            _prefix(folder / "edited", 300 if share == 1 else 40),
        ]


def _mapping(folder: Path, count: int) -> list[Row]:
    root = folder / "repository"
    originals = [(path, path.read_text()) for path in sorted(SOURCES.rglob("*.py"))]
    for number in range(count):
        path, text = originals[number % len(originals)]
        copy = root / f"part_{number // len(originals)}" / path.relative_to(SOURCES)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(text)
    index = SymbolIndex(root, folder / "symbols.cache")
    first = _seconds(lambda: (index.refresh(), index.importance()))
    copy.write_text(copy.read_text() + "\n\ndef added_by_the_benchmark():\n    return 1\n")
    again = _seconds(lambda: (index.refresh(), index.importance()))
    later = _seconds(lambda: SymbolIndex(root, folder / "symbols.cache").refresh())
    return [
        _row(f"map of {count:,} files, first time", first, FIRST_SECONDS, "s"),
        _row(f"map of {count:,} files after one change", again, AGAIN_SECONDS, "s"),
        _row(f"map of {count:,} files in the next process", later, AGAIN_SECONDS, "s"),
    ]


def _tiers(count: int) -> Row:
    tracker, seconds = StabilityTracker(1126), list[float]()
    seen = {f"symbol:src/part/module_{number}.py": ObservedItem(str(number), 60) for number in range(count * 24 // 25)}
    tracker.seed({key: one.tokens} for key, one in seen.items())
    seen |= {
        f"history:{number}": ObservedItem(str(number), 200, number % 2 == 0) for number in range(count - len(seen))
    }
    for turn in range(200):
        seen[f"symbol:src/part/module_{turn % 50}.py"] = ObservedItem(f"changed {turn}", 60)
        seconds.append(_seconds(lambda: tracker.update(seen), time.process_time))
    return _row(f"CPU of an update of {count:,} tracked items, p95", _p95(seconds), UPDATE_MS, "ms")


def _history(folder: Path, count: int, session: int) -> list[Row]:
    path = folder / "history"
    path.mkdir()
    with (path / "history.jsonl").open("wb") as file:
        for number in range(count):
            message = HistoryMessage(
                id=f"{number}-00000000",
                session_id="long" if number < session else f"sess_{number // 40}",
                timestamp="2026-01-01T00:00:00Z",
                role="user" if number % 2 == 0 else "assistant",
                content=f"Message {number}: the service adds step {number % 977} to the value of the harbour. " * 4,
            )
            file.write(msgspec.json.encode(message) + b"\n")
    (folder / "one").mkdir()
    lines = (path / "history.jsonl").read_bytes().splitlines(keepends=True)[:session]
    (folder / "one" / "history.jsonl").write_bytes(b"".join(lines))
    opened = HistoryStore(folder / "one")
    load = _seconds(lambda: opened.get_session_messages_for_context("long"), time.process_time) * 1000
    store = HistoryStore(path)
    store.search("warm")
    words = [f"STEP {number * 13} to" for number in range(40)]
    seconds = [_seconds(partial(store.search, query, limit=50), time.process_time) for query in words]
    return [
        _row(f"CPU of loading a session of {session:,} messages", load, LOAD_MS, "ms"),
        _row(f"CPU of searching {count:,} messages, p95", _p95(seconds), SEARCH_MS, "ms"),
    ]


def _prefix(root: Path, turns: int) -> Row:
    bill = simulate(root, turns).bills["tiers"]
    return Row(
        what=f"share of a prompt that repeats the one before, {turns} editing turns with cache tiers",
        result=f"{bill.share:.1%}",
        target=f"≥ {PREFIX:.0%}",
        met=bill.share >= PREFIX,
        values={"share": bill.share},
    )


def _seconds(work: Callable[[], object], clock: Callable[[], float] = time.perf_counter) -> float:
    began = clock()
    work()
    return clock() - began


def _p95(seconds: list[float]) -> float:
    """Return what 95 of 100 do not exceed, in milliseconds."""
    return sorted(seconds)[min(len(seconds) - 1, int(len(seconds) * 0.95))] * 1000


def _row(what: str, measured: float, most: float, unit: str) -> Row:
    return Row(
        what=what,
        result=f"{measured:.3g} {unit}",
        target=f"≤ {most:g} {unit}",
        met=measured <= most,
        values={unit: measured},
    )
