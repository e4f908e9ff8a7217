"""Putting a request together: how long it takes, however much is stored; how large it is, however long it goes on.

The chat is that of ``prefix``, held in a copy of each kept ledger, on a branch of its long session, with a fold before
it and folds in it. Timed is what happens between a durable message and the call of the model: reading back, retrieval
that has its answer ready, the front, measuring, laying out. Each time there is a turn that no one has read or counted.
The CPU beside it tells what of that is ours, and what is waiting for others on the same machine.

For the size turns are recorded and folded as they would be; measured are whole epochs, early and late.
"""

from __future__ import annotations

import random
import shutil
import statistics
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from benchmarks.harness import Bench, Row, Series, alternate
from benchmarks.ledgers import LONG_NAME, ledger, long_branch
from benchmarks.prefix import ANSWERED, ASKED, DRAIN_SECONDS, artifacts, reference_models, words
from contextinfinity.domain.ids import BranchId, new_id, now
from contextinfinity.domain.message import say
from contextinfinity.domain.state import StateDraft
from contextinfinity.domain.turn import Exchange, Phase, Turn
from contextinfinity.engine.engine import Engine
from contextinfinity.engine.engine_setup import AuxiliaryModels, Setup
from contextinfinity.engine.folding import Folding, said
from contextinfinity.engine.gathering import Gathering
from contextinfinity.engine.model_choice import ModelChoice
from contextinfinity.engine.prompt_material import PromptMaterial, prepare
from contextinfinity.engine.recall import ContextReader
from contextinfinity.engine.running_turn import RunningTurn, TurnNotification
from contextinfinity.engine.turn_cache import Caches
from contextinfinity.librarian.contract import Task
from contextinfinity.librarian.offline_librarian import OfflineLibrarian
from contextinfinity.prompt.assemble import Assembled, assemble
from contextinfinity.prompt.measure import Ceilings, Measure, divide_window
from contextinfinity.prompt.prompt_sections import Artifact, shown_turns
from contextinfinity.storage.journal import JournalFolder
from contextinfinity.storage.sqlite.store import SqliteStore
from contextinfinity.text.tokens import Counter
from contextinfinity_testing.builders import exchange, new_branch

CONTEXT_MS, LARGE_MS = 10.0, 15.0
LARGE = 1_000_000
"""Turns from which a ledger counts as large."""
GROWTH = 2.0
FLAT = 0.05
EARLY = 500
UNFOLDED = 10
"""Turns that a fold leaves."""
DIFFERENT = 200
"""Exchanges that the long walk is made of, over and over."""
EPOCH = 55
"""Turns after which a fold is due at the latest."""


async def run(bench: Bench) -> list[Row]:
    """Measure the time, then the size."""
    rows = await _times(bench)
    with bench.scratch() as folder:
        rows.append(await _size(bench, folder))
    return rows


# --- time ---


class Talk:
    """The chat on a branch of a ledger, and the time it takes to put each of its requests together."""

    def __init__(self, path: Path, folder: Path, turns: int) -> None:
        self.turns, self.tokens = turns, list[int]()
        self.series, self.cpu = Series(), Series()
        self._store = SqliteStore(path)
        self._rng = random.Random(turns)
        self._ready: tuple[Artifact, ...] = ()
        setup = Setup(helpers=AuxiliaryModels(retrieve=self._retrieve))
        models = reference_models(self._rng, lambda _: None)
        self.engine = Engine(self._store, JournalFolder(folder / f"streams-{turns}"), models, setup)
        self._assembly = Assembly(self._store, setup, self._rng)

    async def begin(self) -> None:
        """Leave the long session on a branch of its own, folded but for its last turns."""
        branch = await self._store.branches.fork(await long_branch(self._store))
        self.branch, self.session_turns = branch.id, branch.last_turn_seq
        await fold_all_but(self._store, self._assembly.counter, self.branch, UNFOLDED)

    async def talk(self, turns: int) -> None:
        """Put requests together, and hold the chat meanwhile."""
        for _ in range(turns):
            question = words(self._rng, ASKED)
            asking = await asked(self._store, self.branch, question)
            self._ready = artifacts(self._rng)
            began = time.process_time()
            with self.series.timed():
                assembled = await self._assembly.put_together(asking)
            self.cpu.seconds.append(time.process_time() - began)
            self.tokens.append(assembled.tokens)
            await self.engine.ask(LONG_NAME, question, branch_id=self.branch)
            await self.engine.job_runner.drain(DRAIN_SECONDS, folds=True)

    async def _retrieve(self, turn: Turn, rewritten: str | None) -> tuple[Artifact, ...]:
        return self._ready


class Assembly:
    """What is done before the model is asked, without an engine around it."""

    def __init__(self, store: SqliteStore, setup: Setup, rng: random.Random) -> None:
        models = reference_models(rng, lambda _: None)
        self._store, self._setup, self._caches = store, setup, Caches(store)
        self.counter = models.named(None).counter
        self.folding = Folding(store=store, models=models, setup=setup)
        self._choice = ModelChoice(models=models, router=setup.router, ceilings=setup.ceilings)
        reader = ContextReader(
            store=store, caches=self._caches, choice=self._choice, setup=setup, turn_ends=TurnNotification()
        )
        self._gathering = Gathering(store=store, setup=setup, models=models, reader=reader, folding=self.folding)

    async def put_together(self, asking: Turn) -> Assembled:
        """Assemble the prompt of a turn."""
        running, setup = RunningTurn(asking), self._setup
        recalled = await self._gathering.reader.read(running)
        found = await self._gathering.retrieve(running, recalled, None)
        material = PromptMaterial(recalled=recalled, explicit=None, artifacts=found)
        self._choice.choose(asking, running.asked, material)
        ready = await prepare(setup, self._caches.texts, self._store.turns, running, material, recalled.home)
        return assemble(ready.sections, ready.frame, ready.measure, reason=ready.reason)


async def asked(store: SqliteStore, branch: BranchId, question: str) -> Turn:
    """Make the turn that a question on a branch would be."""
    (last,) = await store.turns.history(branch, limit=1)
    return replace(
        last,
        id=new_id(),
        branch_id=branch,
        turn_seq=last.turn_seq + 1,
        phase=Phase.CONTEXT_PREPARED,
        user_message=say("user", question),
        created_at=now(),
    )


async def fold_all_but(store: SqliteStore, counter: Counter, branch: BranchId, kept: int) -> None:
    """Commit the state that folds would have led to."""
    measure = Measure(counter)
    head = await store.states.head(branch)
    turns = await store.turns.history(branch, limit=5 * kept)
    *older, newest = turns[: max(1, len(turns) - kept)]
    told = tuple(one for shown in shown_turns(older, newest) for one in said(shown))
    summary = await OfflineLibrarian().summarise(
        Task(said=told, budget=divide_window(128_000, Ceilings()).summary), measure.text
    )
    draft = StateDraft(branch_id=branch, reason="fold", summary=summary.text, covers_turn_seq=newest.turn_seq)
    await store.states.commit(draft, expected_head=head.id)


async def _times(bench: Bench) -> list[Row]:
    """Talk on all ledgers by turns: moods of the machine hit all alike."""
    block = max(2, bench.scale.reads // 5)
    with bench.scratch() as folder:
        async with AsyncExitStack() as stack:
            talks = [Talk(await _copy(bench, folder, turns), folder, turns) for turns in bench.scale.ledgers]
            for talk in talks:
                await stack.enter_async_context(talk.engine)
                await talk.begin()
                await talk.talk(block)
                for series in (talk.series, talk.cpu):
                    series.seconds.clear()  # the tokenizer was loaded in there
            await alternate(bench.scale.blocks, [partial(talk.talk, block) for talk in talks])
    return [_time(talk, talks[0]) for talk in talks]


async def _copy(bench: Bench, folder: Path, turns: int) -> Path:
    return Path(shutil.copy(await ledger(bench, turns), folder / f"ledger-{turns}.db"))


def _time(talk: Talk, smallest: Talk) -> Row:
    limit = LARGE_MS if talk.turns >= LARGE else CONTEXT_MS
    series, cpu = talk.series, talk.cpu
    growth = series.p95 / smallest.series.p95
    return Row(
        what=f"build the next request, {talk.turns:,} turns stored, {talk.session_turns:,} in the session, with folds",
        target=f"p95 ≤ {limit:g} ms, ≤ {GROWTH:g} × the time at {smallest.turns}",
        result=f"{series}, CPU {cpu}, {growth:.2f} × the smallest; {statistics.mean(talk.tokens):,.0f} tokens",
        met=series.p95 <= limit and growth <= GROWTH,
        values={
            "p50_ms": series.p50,
            "p95_ms": series.p95,
            "cpu_p50_ms": cpu.p50,
            "cpu_p95_ms": cpu.p95,
            "growth": growth,
        },
    )


# --- size ---


class Walk:
    """A conversation that goes on and on: recorded, folded, and looked at in between."""

    def __init__(self, folder: Path) -> None:
        self.store = SqliteStore(folder / "ledger.db")
        self._rng = random.Random(12)
        self._said = [exchange(words(self._rng, ASKED), words(self._rng, ANSWERED)) for _ in range(DIFFERENT)]
        self._ready: tuple[Artifact, ...] = ()
        setup = Setup(helpers=AuxiliaryModels(retrieve=self._retrieve))
        self._assembly = Assembly(self.store, setup, self._rng)
        self.turns = 0

    async def begin(self) -> None:
        """Open the conversation."""
        self._branch = (await new_branch(self.store)).id
        await self._say(1)

    async def go_to(self, turn: int) -> None:
        """Say what is said until then, in whole epochs."""
        while self.turns < turn:
            await self._say(EPOCH)
            await self._assembly.folding.fold(self._branch)

    async def epochs(self, count: int) -> float:
        """Go on for that many whole epochs; tell how many tokens a request has on average."""
        await self._epoch()
        return statistics.mean([tokens for _ in range(count) for tokens in await self._epoch()])

    async def _epoch(self) -> list[int]:
        """Go on to the next fold; tell the size of each request on the way."""
        sizes = list[int]()
        while True:
            asking = await asked(self.store, self._branch, self._said[self.turns % DIFFERENT].message.rendered_text)
            self._ready = self._ready or artifacts(self._rng)
            sizes.append((await self._assembly.put_together(asking)).tokens)
            await self._say(1)
            if await self._assembly.folding.fold(self._branch):
                return sizes

    async def _say(self, count: int) -> None:
        said: Sequence[Exchange] = self._rng.choices(self._said, k=count)
        await self.store.turns.record(self._branch, said)
        self.turns += count

    async def _retrieve(self, turn: Turn, rewritten: str | None) -> tuple[Artifact, ...]:
        return self._ready


async def _size(bench: Bench, folder: Path) -> Row:
    early, late, epochs = _stretch(bench)
    walk = Walk(folder)
    await walk.begin()
    means = list[float]()
    for turn in (early, late):
        await walk.go_to(turn)
        means.append(await walk.epochs(epochs))
    await walk.store.close()
    growth = means[1] / means[0] - 1
    return Row(
        what=f"growth of the prompt from turn {early:,} to {late:,}, mean over {epochs} whole epochs each",
        target=f"≤ {FLAT:.0%}",
        result=f"{growth:+.2%}: {means[0]:,.0f} → {means[1]:,.0f} tokens",
        met=abs(growth) <= FLAT,
        values={"growth": abs(growth), "early_tokens": means[0], "late_tokens": means[1]},
    )


def _stretch(bench: Bench) -> tuple[int, int, int]:
    """Choose between which turns to look, and for how many epochs."""
    if bench.scale.blocks <= 2:
        return 0, EPOCH, 1
    return (EARLY, 50_000, 20) if bench.scale.ledgers[-1] >= LARGE else (EARLY, 5_000, 3)
