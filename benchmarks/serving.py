"""What the server adds to the engine, how many requests it serves at once, and whether its memory stays flat.

The server is a real process. The model is a script that answers as fast as it can, or at a model's pace where streams
have to be running. The load generator is another process on the same machine; its share of the CPU is shown. Retrieval,
memories and rewriting are off unless a row says otherwise.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import aclosing, contextmanager
from pathlib import Path

from benchmarks.endurance import GROWTH, WARM_UP, growth, resident
from benchmarks.harness import Bench, Row, Series, added_row, alternate
from benchmarks.ledgers import LONG_NAME, ledger
from benchmarks.server_process import CixServer, HttpConnection
from contextinfinity.client.contract import Client
from contextinfinity.settings import load_settings
from contextinfinity.wiring import open_client

ADDED = "time that the server adds to an exchange"
ADDED_MS, FIRST_EVENT_MS, HISTORY_MS = 3.0, 20.0, 20.0
PER_SECOND = (350.0, 280.0)
"""Exchanges with retrieval, memories and rewriting off and on."""
PACE_SECONDS = 0.05
"""Between two words of a running stream: what a quick model does."""
LONG_TALK = 100_000
TURNS_A_THREAD = 20
SAMPLES = 40
SETTINGS = """\
[general]
default_model = "echo"
[models.echo]
provider = "scripted"
[models.talks]
provider = "scripted"
path = "talks.json"
[server]
requests_per_minute = 0
streams_per_user = 10000
shutdown_seconds = 1.0
"""
OFF = "[retrieval]\ntop_k = 0\n[memory]\nenabled = false\n"
QUESTION = "How far is it from the harbour to the old lighthouse?"


async def run(bench: Bench) -> list[Row]:
    """Measure everything."""
    rows = []
    with bench.scratch() as folder:
        with serving(folder / "quiet") as server:
            rows += [*await _added(bench, server, folder / "engine"), await _first_event(bench, server)]
        with serving(folder / "busy") as server:
            rows += [await _crowd(bench, server, "one worker"), await _memory(bench, server)]
        with serving(folder / "two", workers=2) as server:
            rows.append(await _crowd(bench, server, "two workers"))
        with serving(folder / "on", "") as server:
            rows.append(await _crowd(bench, server, "one worker, retrieval, memories and rewriting on", is_off=False))
        rows.append(await _history(bench, folder / "large"))
    return rows


@contextmanager
def serving(folder: Path, settings: str = OFF, *, workers: int = 1) -> Iterator[CixServer]:
    """Run a server."""
    folder.mkdir(parents=True, exist_ok=True)
    talking = {"pieces": ("word ",) * LONG_TALK, "delay": PACE_SECONDS}
    (folder / "talks.json").write_text(json.dumps([talking]), encoding="utf-8")
    with CixServer(folder, SETTINGS + settings, workers=workers) as server:
        yield server


def _engine(folder: Path) -> Client:
    """Return the same engine for this process."""
    folder.mkdir()
    (folder / "config.toml").write_text(SETTINGS.partition("[models.talks]")[0] + OFF, encoding="utf-8")
    return open_client(load_settings(data_dir=folder).settings)


async def _added(bench: Bench, server: CixServer, folder: Path) -> list[Row]:
    """Exchanges one at a time, through the server and without it, in turn."""
    ours, floor, spoken, line = Series(), Series(), Series(), server.line()
    async with _engine(folder) as client:

        async def served_block() -> None:
            thread = "new"
            for _ in range(bench.scale.exchanges):
                with ours.timed():
                    thread = (await _ask(line, thread))["thread_id"]

        async def streamed_block() -> None:
            thread = "new"
            for _ in range(bench.scale.exchanges):
                with spoken.timed():
                    thread = await _listen(line, thread)

        async def engine_block() -> None:
            thread = "new"
            for _ in range(bench.scale.exchanges):
                with floor.timed():
                    asked = client.conversations.ask(thread, QUESTION, use_query_rewriter=False, use_memory=False)
                    thread = (await asked).thread_id

        sides = (served_block, engine_block, streamed_block)
        await alternate(1, sides)
        for series in (ours, floor, spoken):
            series.seconds.clear()  # the first block loaded what loads late
        await alternate(max(2, bench.scale.blocks // 2), sides)
        line.close()
    return [
        added_row(f"{ADDED}, not streamed", ours, floor, ADDED_MS),
        added_row(f"{ADDED}, streamed", spoken, floor, ADDED_MS),
    ]


async def _first_event(bench: Bench, server: CixServer) -> Row:
    """New streams, one after the other, while others speak at a model's pace."""
    running = 2 * bench.scale.writers
    first, heard, going, line = Series(), 0, asyncio.Semaphore(0), server.line()

    async def speak() -> None:
        nonlocal heard
        is_new = True
        async for event in server.line().stream("/threads/new/messages/stream", _body(model="talks")):
            if event.name == "delta":
                heard += 1
                if is_new:
                    going.release()
                    is_new = False

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(speak()) for _ in range(running)]
        for _ in tasks:
            await going.acquire()
        await _listen(line, "new")
        heard, began = 0, time.perf_counter()
        for _ in range(bench.scale.blocks * bench.scale.reads // 5):
            await _listen(line, "new", first)
        words = heard / (time.perf_counter() - began)
        line.close()
        for task in tasks:
            task.cancel()
    return Row(
        what=f"first event of a new stream while {running} streams run",
        target=f"p95 ≤ {FIRST_EVENT_MS:g} ms",
        result=f"{first}, beside {words:,.0f} deltas/s",
        met=first.p95 <= FIRST_EVENT_MS,
        values={"first_ms": first.p50, "first_p95_ms": first.p95, "words_per_s": words},
    )


async def _crowd(bench: Bench, server: CixServer, what: str, *, is_off: bool = True) -> Row:
    """Exchanges of many at once, each in threads of its own, as many as go."""
    talkers, rounds = bench.scale.writers, max(2, bench.scale.blocks * bench.scale.rounds // 5)
    wanted = PER_SECOND[0 if is_off else 1]

    async def talk(turns: int) -> None:
        line, thread = server.line(), "new"
        for index in range(turns):
            place = "new" if index % TURNS_A_THREAD == 0 else thread
            thread = (await _ask(line, place, use_query_rewriter=not is_off, use_memory=not is_off))["thread_id"]
        line.close()

    await asyncio.gather(*(talk(1) for _ in range(talkers)))
    busy, own, began = server.cpu_seconds(), time.process_time(), time.perf_counter()
    await asyncio.gather(*(talk(rounds) for _ in range(talkers)))
    seconds = time.perf_counter() - began
    spent = server.cpu_seconds() - busy
    busy, own = spent / seconds, (time.process_time() - own) / seconds
    rate, load = talkers * rounds / seconds, os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    return Row(
        what=f"exchanges over HTTP, {talkers} at once, {what}",
        target=f"≥ {wanted:g}/s",
        result=f"{rate:.0f}/s ({1000 * spent / (talkers * rounds):.2f} ms CPU each; cores: server {busy:.2f}, "
        f"load generator {own:.2f}; load {load:.1f})",
        met=rate >= wanted,
        values={
            "per_s": rate,
            "cpu_ms": 1000 * spent / (talkers * rounds),
            "server_cores": busy,
            "generator_cores": own,
        },
    )


async def _history(bench: Bench, folder: Path) -> Row:
    """The newest messages of a long thread in a large ledger; a copy, because a server works on what it finds."""
    turns, series = bench.scale.ledgers[-1], Series()
    await asyncio.to_thread(_copied, await ledger(bench, turns), folder)
    with serving(folder) as server:
        line = server.line()
        thread = (await line.get(f"/threads/{LONG_NAME}")).value()["thread_id"]
        path = f"/threads/{thread}/messages?limit=20"
        assert len((await line.get(path)).value()["messages"]) == 20
        for _ in range(bench.scale.blocks * bench.scale.reads):
            with series.timed():
                await line.get(path)
        line.close()
    return Row(
        what=f"last 20 messages over HTTP, {turns:,} turns stored",
        target=f"p95 ≤ {HISTORY_MS:g} ms",
        result=str(series),
        met=series.p95 <= HISTORY_MS,
        values={"ours_ms": series.p50, "ours_p95_ms": series.p95},
    )


def _copied(kept: Path, folder: Path) -> None:
    folder.mkdir()
    shutil.copyfile(kept, folder / "ledger.db")


async def _memory(bench: Bench, server: CixServer) -> Row:
    """Requests of all kinds, and the memory of the server all the while."""
    wanted = bench.scale.ledgers[-1] // 10  # 100,000 in a full run
    kilobytes: list[int] = []
    done, (pid,), lines = 0, server.workers(), [server.line() for _ in range(8)]
    while done < wanted:
        done += sum(await asyncio.gather(*map(_visit, lines)))
        if done >= wanted * (WARM_UP + len(kilobytes) * (1 - WARM_UP) / SAMPLES):
            kilobytes.append(resident(pid))
    for line in lines:
        line.close()
    grown = growth(kilobytes)
    return Row(
        what=f"growth of the server's memory, second half of {wanted:,} requests",
        target=f"flat: ≤ {GROWTH:.0%} more",
        result=f"{kilobytes[0] / 1024:.1f} → {kilobytes[-1] / 1024:.1f} MB ({grown:+.1%})",
        met=grown <= GROWTH,
        values={"first_mb": kilobytes[0] / 1024, "last_mb": kilobytes[-1] / 1024},
    )


async def _visit(line: HttpConnection) -> int:
    """Do what a client does in a visit, and some things it should not; give how many requests that took."""
    thread = (await _ask(line, "new"))["thread_id"]
    await _listen(line, thread)
    paths = [f"/threads/{thread}", f"/threads/{thread}/messages", "/threads?limit=20", "/healthz", "/models"]
    refused = ["/threads/nobody-made-this", f"/threads/{thread}/messages?limit=0", "/nowhere"]
    for path in (*paths, *refused):
        assert (await line.get(path)).status == (200 if path in paths else 404 if "limit=0" not in path else 422)
    return 2 + len(paths) + len(refused)


async def _ask(line: HttpConnection, thread: str, **more: object) -> dict[str, str]:
    """Send a message and wait for the whole answer."""
    turn: dict[str, str] = (await line.post(f"/threads/{thread}/messages", _body(**more))).value()
    return turn


async def _listen(line: HttpConnection, thread: str, first: Series | None = None) -> str:
    """Send a message, read all events, and note how long the first one took."""
    began, found = time.perf_counter(), ""
    async with aclosing(line.stream(f"/threads/{thread}/messages/stream", _body())) as events:
        async for event in events:
            if event.name == "turn":
                found = event.data["thread_id"]
                if first is not None:
                    first.seconds.append(time.perf_counter() - began)
    return found


def _body(**more: object) -> dict[str, object]:
    return {"content": QUESTION, "use_query_rewriter": False, "use_memory": False, "may_ask_back": False, **more}
