"""Folding as it happens: a long conversation turn by turn, and what its folds cost those who talk meanwhile.

The conversation is ``planted``; facts are pinned and let go on the way, and after every turn the head is held against
what should be there. For the cost, one conversation is talked in while another, of a trigger's length, is folded and
unfolded over and over; blocks with and without folds alternate. The floor is the same talk without folds.
"""

from __future__ import annotations

import asyncio
import random
import statistics
from datetime import timedelta
from pathlib import Path

from benchmarks.answering import models
from benchmarks.harness import Bench, Row, Series, alternate
from benchmarks.planted import conversation
from contextinfinity.domain.message import say
from contextinfinity.domain.turn import Exchange
from contextinfinity.engine.engine import Engine
from contextinfinity.engine.engine_setup import Setup
from contextinfinity.providers.scripted import ScriptedReply
from contextinfinity.storage.journal import JournalFolder
from contextinfinity.storage.sqlite.store import SqliteStore

TURNS, FULL_TURNS = 1_000, 10_000
EVERY = 20
"""One turn in so many says something to remember."""
PIN_EVERY = 37
MOST_PINS = 40
MODEL_SECONDS = 0.2
"""What the model takes in the talk beside folds: quicker than any real one."""
NOISE = 1.1
"""How much slower a turn may be, in the middle, before it is called slower."""
LONG = 160
"""Turns of the conversation that is folded over and over: about a trigger."""
SUMMARY_TOKENS = 2_560
"""The budget of a summary by default: 2% of a window of 128k."""


async def run(bench: Bench) -> list[Row]:
    """Measure the long way and the cost for others."""
    large = bench.scale.ledgers[-1] >= 1_000_000
    turns = 60 if bench.scale.blocks <= 2 else FULL_TURNS if large else TURNS
    with bench.scratch() as folder:
        rows = [await _long_way(folder / "long", turns)]
        rows.append(await _meanwhile(folder / "meanwhile", bench))
    return rows


def engine_at(folder: Path, said: list[str], setup: Setup, seconds: float = 0.0) -> Engine:
    """Open an engine whose model answers what is next in a list, and takes that long."""
    models_ = models(lambda _: ScriptedReply(text=said.pop() if said else "Fine.", delay=seconds))
    return Engine(SqliteStore(folder / "ledger.db"), JournalFolder(folder / "streams"), models_, setup)


async def _long_way(folder: Path, turns: int) -> Row:
    rng, answers = random.Random(3), list[str]()
    pins, lost, folds, largest = list[str](), 0, 0, 0
    times = list[Series]()
    async with engine_at(folder, answers, Setup(fold_pause=timedelta())) as engine:
        thread, head = "new", None
        count = engine.models.named(None).counter.count
        for number, exchange in enumerate(conversation(turns, EVERY)):
            times += [Series()] if number % max(1, turns // 4) == 0 else []
            question, answer = (one.text for one in exchange.said)
            answers.append(answer)
            with times[-1].timed():
                turn = await engine.ask(thread, question)
            thread = turn.thread_id
            if number % PIN_EVERY == 0:
                await _pin(engine, thread, pins, f"Fact {number}.", rng)
            await engine.job_runner.drain(60, folds=True)
            before, head = head, await engine.store.states.head(turn.branch_id)
            lost += head.pinned_facts != tuple(pins)
            if before is not None and head.covers_turn_seq > before.covers_turn_seq:
                folds, largest = folds + 1, max(largest, count(head.summary))
    growth = times[3].p50 / times[0].p50
    return Row(
        what=f"{turns:,} turns with folds: lost pins, largest summary",
        target=f"0, ≤ {SUMMARY_TOKENS:,} tokens",
        result=f"{lost} of {len(pins)} lost, {largest} tokens; {folds} folds; turns at the end take {growth:.2f} ×",
        met=lost == 0 and largest <= SUMMARY_TOKENS,
        values={"pins_lost": lost, "largest_tokens": largest, "growth": growth, "folds": folds},
    )


async def _pin(engine: Engine, thread: str, pins: list[str], fact: str, rng: random.Random) -> None:
    """Pin one more, and let one go where there are many."""
    if len(pins) >= MOST_PINS:
        place = rng.randrange(len(pins))
        await engine.unpin(thread, place + 1)
        del pins[place]
    await engine.pin(thread, fact)
    pins.append(fact)


async def _meanwhile(folder: Path, bench: Bench) -> Row:
    alone, beside, folded = Series(), Series(), Series()
    turns = max(4, bench.scale.exchanges // 2)
    async with engine_at(folder, [], Setup(folds=False), MODEL_SECONDS) as engine:
        other = await _long_thread(engine)

        async def talk(series: Series) -> None:
            thread = "new"
            for _ in range(turns):
                with series.timed():
                    thread = (await engine.ask(thread, "And what about the harbour?")).thread_id

        async def talk_alone() -> None:
            await talk(alone)

        async def talk_beside() -> None:
            enough = asyncio.Event()
            folds = asyncio.create_task(_over_and_over(engine, other, folded, enough))
            await talk(beside)
            enough.set()
            await folds

        await alternate(max(2, bench.scale.blocks // 4), [talk_alone, talk_beside])
    ratio = beside.p50 / alone.p50
    fold_ms = statistics.median(folded.seconds) * 1000
    return Row(
        what=f"a turn with a model of {MODEL_SECONDS:g} s while folds run without a pause",
        target=f"≤ {NOISE:g} × the median without folds",
        result=f"{beside}, {beside.p50 - alone.p50:+.0f} ms; a fold of {LONG} turns takes {fold_ms:.0f} ms",
        baseline=str(alone),
        ratio=ratio,
        met=ratio <= NOISE,
        values={"alone_ms": alone.p50, "beside_ms": beside.p50, "fold_ms": fold_ms},
    )


async def _long_thread(engine: Engine) -> str:
    thread = (await engine.ask("new", "Hello")).thread_id
    await engine.job_runner.drain(10)
    branch = (await engine.session(thread)).active_branch
    said = [
        Exchange(message=say("user", one.said[0].text), answer=say("assistant", one.said[1].text))
        for one in conversation(LONG, EVERY, seed=5)
    ]
    await engine.store.turns.record(branch, said)
    return thread


async def _over_and_over(engine: Engine, thread: str, series: Series, enough: asyncio.Event) -> None:
    while not enough.is_set():
        with series.timed():
            await engine.fold(thread)
        await engine.unfold(thread)
