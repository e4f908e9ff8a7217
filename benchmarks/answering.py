"""What the engine adds to a model: carrying the stream, recovering after a crash.

The stream is a script that speaks as fast as it can, so that everything measured is ours.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from benchmarks.harness import Bench, Row
from benchmarks.ledgers import ledger, long_branch
from contextinfinity.domain.events import Delta
from contextinfinity.domain.ids import new_id, now
from contextinfinity.domain.message import say
from contextinfinity.domain.turn import NewTurn, Phase, Turn
from contextinfinity.engine.engine import Engine
from contextinfinity.engine.model_choice import Model, Models
from contextinfinity.engine.recovery import Recovery
from contextinfinity.providers.scripted import Script, ScriptedProvider, ScriptedReply
from contextinfinity.settings import load_settings
from contextinfinity.storage.journal import JournalFolder
from contextinfinity.storage.sqlite.store import SqliteStore
from contextinfinity.wiring import open_engine

DELTAS_PER_SECOND = 20_000
RECOVERY_SECONDS = 1.0
CPU_MS = (2.2, 3.0)
"""With the stages off and on."""
PIECES = 20_000
QUESTION = "How far is it from the harbour to the old lighthouse?"
OFF = "[retrieval]\ntop_k = 0\n[memory]\nenabled = false\n"
SETTINGS = '[general]\ndefault_model = "echo"\n[models.echo]\nprovider = "scripted"\n'


async def run(bench: Bench) -> list[Row]:
    """Measure the stream, the crowd and the recovery."""
    with bench.scratch() as folder:
        rows = [await _one_stream(folder, bench), await _many_streams(folder, bench)]
        rows += [await _cpu(folder, bench, is_on=is_on) for is_on in (False, True)]
    rows.append(await _recovery(bench, bench.scale.ledgers[-1]))
    return rows


def models(script: Script) -> Models:
    """One model that follows a script."""
    model = Model(name="scripted", provider=ScriptedProvider(script), model_id="scripted")
    return Models(by_name={"scripted": model}, default="scripted")


async def _one_stream(folder: Path, bench: Bench) -> Row:
    pieces = PIECES if bench.scale.blocks > 2 else 200
    heard, best = 0, 0.0
    for number in range(max(1, bench.scale.blocks // 5)):
        place = folder / f"one-{number}"
        script: Script = lambda _: ScriptedReply(pieces=("word ",) * pieces)  # noqa: E731 - one line says it
        async with Engine(SqliteStore(place / "ledger.db"), JournalFolder(place / "streams"), models(script)) as engine:
            began = time.perf_counter()
            heard = sum([isinstance(event, Delta) async for event in engine.send("new", "go")])
            best = max(best, heard / (time.perf_counter() - began))
    return Row(
        what=f"streamed deltas through journal and events (one turn of {pieces:,} deltas)",
        target=f"≥ {DELTAS_PER_SECOND:,}/s",
        result=f"{best:,.0f}/s, {pieces - heard} lost",
        met=best >= DELTAS_PER_SECOND and heard == pieces,
        values={"deltas_per_s": best},
    )


async def _many_streams(folder: Path, bench: Bench) -> Row:
    streams, pieces = 4 * bench.scale.writers, 200
    place = folder / "many"
    script: Script = lambda _: ScriptedReply(pieces=("word ",) * pieces)  # noqa: E731 - one line says it
    async with Engine(SqliteStore(place / "ledger.db"), JournalFolder(place / "streams"), models(script)) as engine:

        async def hear() -> int:
            return sum([isinstance(event, Delta) async for event in engine.send("new", "go")])

        began = time.perf_counter()
        heard = sum(await asyncio.gather(*(hear() for _ in range(streams))))
        seconds = time.perf_counter() - began
    lost = streams * pieces - heard
    return Row(
        what=f"{streams} streams at once, {pieces} deltas each",
        target="none lost",
        result=f"{lost} lost, {heard / seconds:,.0f} deltas/s in total",
        met=lost == 0,
        values={"deltas_per_s": heard / seconds, "lost": lost},
    )


async def _cpu(folder: Path, bench: Bench, *, is_on: bool) -> Row:
    """CPU of the whole process for an exchange, many conversations at once, until the background work is done."""
    talkers, rounds, limit = bench.scale.writers, max(2, bench.scale.rounds), CPU_MS[is_on]
    place = folder / f"cpu-{is_on}"
    place.mkdir()
    (place / "config.toml").write_text(SETTINGS + ("" if is_on else OFF), encoding="utf-8")
    async with open_engine(load_settings(data_dir=place).settings) as engine:

        async def talk(turns: int) -> None:
            thread = "new"
            for _ in range(turns):
                asked = engine.ask(thread, QUESTION, use_query_rewriter=is_on, use_memory=is_on)
                thread = (await asked).thread_id

        await asyncio.gather(*(talk(1) for _ in range(talkers)))
        await engine.job_runner.drain(60)
        began = time.process_time()
        await asyncio.gather(*(talk(rounds) for _ in range(talkers)))
        await engine.job_runner.drain(60)
        each = 1000 * (time.process_time() - began) / (talkers * rounds)
    stages = f"rewriting, retrieval and memories {'on' if is_on else 'off'}"
    return Row(
        what=f"CPU of the engine per exchange, {talkers} conversations at once, {stages}",
        target=f"≤ {limit:g} ms",
        result=f"{each:.2f} ms",
        met=each <= limit,
        values={"cpu_ms": each},
    )


async def _recovery(bench: Bench, turns: int) -> Row:
    """Leave a turn in the middle as a dead worker would, then recover."""
    store = SqliteStore(await ledger(bench, turns))
    with bench.scratch() as folder:
        recovery = Recovery(store=store, journals=JournalFolder(folder / "streams"), worker=new_id())
        branch = (await store.branches.fork(await long_branch(store))).id
        left: Turn = await store.turns.accept(
            NewTurn(branch_id=branch, message=say("user", f"left at {now()}"), owner=new_id())
        )
        began = time.perf_counter()
        settled = await recovery.recover(await store.workers.dead())
        seconds = time.perf_counter() - began
        ended = await store.turns.get(left.id)
    await store.close()
    assert ended is not None
    assert ended.phase is Phase.FAILED
    return Row(
        what=f"recovery with {turns:,} turns stored",
        target=f"< {RECOVERY_SECONDS:g} s",
        result=f"{seconds * 1000:.1f} ms ({settled} left by a dead worker)",
        met=seconds < RECOVERY_SECONDS,
        values={"seconds": seconds},
    )
