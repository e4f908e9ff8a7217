"""Events a second through a journal that a reader follows, and two hundred journals at once.

The events look like a provider's text deltas. The floor makes the same lines with ``json.dumps`` and writes them
into a file of its own in blocks of 8 KB, without a number, a lock, a reader or an fsync. Ours is followed to the
end while it is written, on one core: once with a wake-up for every single event, which is the worst a provider
can do, and once with the events that one network packet brings. With many journals, each gets events at
the rate of a fast model; what counts is the longest that any of them waited for the file and for the disk.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.harness import Bench, Row, Series, alternate
from contextinfinity.domain.ids import new_id, now
from contextinfinity.storage.journal import Journal, JournalFolder

ENTRIES_PER_SECOND = 20_000
PACKET = 10
DELTA = " token of the answer"
RATE = 40
"""Events a second of one stream."""
FLUSH_SECONDS, SYNC_SECONDS, SLACK = 0.25, 2.0, 1.5
BLOCK = 8192


async def run(bench: Bench) -> list[Row]:
    """Measure the rate, then the fairness."""
    scale = bench.scale
    with bench.scratch() as folder, one_core():
        stream = _Stream(folder, 400 * scale.exchanges)
        await alternate(max(1, scale.blocks // 2), (stream.followed, stream.packets, stream.alone, stream.raw))
    with bench.scratch() as folder:
        crowd = _Crowd(folder, journals=4 * scale.writers, seconds=1.5 * scale.rounds)
        await crowd.run()
    return [*_rates(stream), *_waits(crowd)]


@contextmanager
def one_core() -> Iterator[None]:
    """Keep this thread, and those it starts, on one core, where the system can."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(allowed)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


def event(number: int) -> dict[str, object]:
    """A delta as a provider sends it."""
    return {"type": "response.output_text.delta", "item_id": "msg_68a1", "output_index": number, "delta": DELTA}


class _Stream:
    """One journal after the other; a rate a block."""

    def __init__(self, folder: Path, entries: int) -> None:
        self._folder = folder
        self._events = [event(number) for number in range(entries)]
        self._rates: dict[str, list[float]] = {}

    def rate(self, name: str) -> float:
        return statistics.median(self._rates[name])

    async def followed(self) -> None:
        """A wake-up for every event."""
        await self._follow("followed", 1)

    async def packets(self) -> None:
        """A wake-up for every packet of events."""
        await self._follow("packets", PACKET)

    async def alone(self) -> None:
        """Without a reader."""
        journals = JournalFolder(self._folder / "ours")
        journal = journals.open(new_id(), "openai")
        began = time.perf_counter()
        for each in self._events:
            journal.append("response.output_text.delta", each, shown=len(DELTA))
        journal.flush()
        self._done("alone", began)
        journals.close()

    async def raw(self) -> None:
        """The floor."""
        with (self._folder / f"{new_id()}.jsonl").open("wb", buffering=BLOCK) as file:
            began = time.perf_counter()
            for number, each in enumerate(self._events, start=1):
                entry = {
                    "ts": f"{now().isoformat()[:-6]}Z",
                    "provider": "openai",
                    "event_type": "response.output_text.delta",
                    "seq": number,
                    "payload": each,
                }
                file.write(json.dumps(entry).encode() + b"\n")
            file.flush()
            self._done("raw", began)

    async def _follow(self, name: str, packet: int) -> None:
        journals = JournalFolder(self._folder / "ours")
        step = new_id()
        journal = journals.open(step, "openai")
        seen, all_seen = 0, asyncio.Event()

        async def follow() -> None:
            nonlocal seen
            async for _ in journals.tail(step):
                seen += 1
                if seen == len(self._events):
                    all_seen.set()

        following = asyncio.create_task(follow())
        await asyncio.sleep(0)
        began = time.perf_counter()
        for number, each in enumerate(self._events):
            journal.append("response.output_text.delta", each, shown=len(DELTA))
            if number % packet == 0:
                await asyncio.sleep(0)
        await all_seen.wait()
        self._done(name, began)
        journal.finish(None)
        await following
        assert seen == len(self._events) + 1
        journals.close()

    def _done(self, name: str, began: float) -> None:
        self._rates.setdefault(name, []).append(len(self._events) / (time.perf_counter() - began))


class _Watch:
    """One of many journals, and how long its text waited."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._shown: deque[tuple[float, int]] = deque()
        self._size, self._grew = 0, time.monotonic()
        self.flush_wait = self.sync_wait = 0.0

    def append(self, present: float) -> None:
        self._journal.append("response.output_text.delta", event(0), shown=len(DELTA))
        self._shown.append((present, self._journal.displayed))

    def look(self, present: float) -> None:
        """Note how long the file has not grown and how old the oldest text is that is not durable."""
        size = self._journal.path.stat().st_size
        self.flush_wait = max(self.flush_wait, present - self._grew)
        if size != self._size:
            self._size, self._grew = size, present
        while self._shown and self._shown[0][1] <= self._journal.durable:
            self._shown.popleft()
        if self._shown:
            self.sync_wait = max(self.sync_wait, present - self._shown[0][0])


class _Crowd:
    """Many journals that are written at the same time."""

    def __init__(self, folder: Path, *, journals: int, seconds: float) -> None:
        self._folder = folder
        self._seconds = seconds
        self._count = journals
        self.watches: list[_Watch] = []
        self.raw = Series()

    async def run(self) -> None:
        """Write at an even pace, looking at every journal before each event; then the floor."""
        journals = JournalFolder(self._folder / "ours")
        self.watches = [_Watch(journals.open(new_id(), "openai")) for _ in range(self._count)]
        began = time.monotonic()
        for tick in range(int(self._seconds * RATE)):
            for watch in self.watches:
                watch.look(time.monotonic())
                watch.append(time.monotonic())
            await asyncio.sleep(max(0, began + (tick + 1) / RATE - time.monotonic()))
        journals.close()
        for number in range(self._count):
            self._raw_sync(self._folder / f"{number}.jsonl")

    def _raw_sync(self, path: Path) -> None:
        """What two seconds of one stream cost when written and forced onto the disk at once."""
        data = json.dumps(event(0)).encode() * int(RATE * SYNC_SECONDS)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
        with self.raw.timed():
            os.write(descriptor, data)
            os.fsync(descriptor)
        os.close(descriptor)


def _rates(stream: _Stream) -> list[Row]:
    raw = stream.rate("raw")

    def row(name: str, what: str, wanted: int | None = None) -> Row:
        mine = stream.rate(name)
        return Row(
            what=what,
            target="" if wanted is None else f"≥ {wanted:,} entries/s",
            result=f"{mine:,.0f} entries/s",
            baseline=f"{raw:,.0f}/s",
            ratio=mine / raw,
            met=None if wanted is None else mine >= wanted,
            values={"ours_per_s": mine, "floor_per_s": raw},
        )

    return [
        row("followed", "a stream's journal, followed event by event, on one core", ENTRIES_PER_SECOND),
        row("packets", f"  followed, {PACKET} events a packet"),
        row("alone", "  followed by nobody"),
    ]


def _waits(crowd: _Crowd) -> list[Row]:
    count, raw = len(crowd.watches), sum(crowd.raw.seconds)

    def row(what: str, waits: list[float], asked: float, floor: str) -> Row:
        worst, middle = max(waits), statistics.median(waits)
        return Row(
            what=f"{count} journals at once, {RATE} entries/s each: longest delay until on the {what}",
            target=f"≤ {asked * SLACK:.3g} s, configured {asked:g} s",
            result=f"{worst:.2f} s (median {middle:.2f} s)",
            baseline=floor,
            met=worst <= asked * SLACK,
            values={"worst_s": worst, "median_s": middle},
        )

    flushes, syncs = ([w.flush_wait for w in crowd.watches], [w.sync_wait for w in crowd.watches])
    return [
        row("file", flushes, FLUSH_SECONDS, ""),
        row("disk", syncs, SYNC_SECONDS, f"{raw:.2f} s to fsync all {count} once"),
    ]
