"""What a process does until it is killed: two to four conversations at once, with everything a person may do.

``python -m benchmarks.torture.life LIFE`` is a life in a process of its own; it tells on its standard output.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import random
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TypeAlias, TypeVar

import apsw
import msgspec
from msgspec import Struct

from benchmarks.torture.account import (
    Accepted,
    Deleted,
    Deleting,
    Ended,
    Fact,
    Forked,
    Importing,
    Pinned,
    Sending,
    Shown,
    Stopping,
    Teller,
    write_stacks_on_signal,
)
from benchmarks.torture.plans import Kill, Work
from benchmarks.torture.script import FAILING, KINDS, Kind, import_lines, kind_of, message, models, tools
from benchmarks.torture.traps import Trap, guarded
from contextinfinity.domain.events import Delta, TurnDone
from contextinfinity.domain.session import Owner
from contextinfinity.domain.turn import Turn
from contextinfinity.engine.engine import Engine
from contextinfinity.engine.engine_setup import Setup
from contextinfinity.errors import LedgerAway, NotFound
from contextinfinity.exchange import importer
from contextinfinity.storage.contract import Store
from contextinfinity.storage.copies import copies_of
from contextinfinity.storage.sqlite.connection import connect

T = TypeVar("T")
Tell: TypeAlias = Callable[[Fact], None]

THREADS = ("talk 0", "talk 1", "talk 2", "talk 3")
LOOK_SECONDS = 0.002
TOO_LONG = 30.0
"""Seconds after which something hangs; none of it takes a hundredth of that on a quiet machine."""


class Life(Struct, frozen=True, kw_only=True):
    """A process: where it lives, what chance it has, how it ends (None: by itself)."""

    folder: str
    name: str
    seed: str
    kill: Kill | None = None
    away: bool = False
    work: Work = "talk"


@asynccontextmanager
async def engine_on(
    folder: Path, kill: Kill | None = None, trap: Trap | None = None
) -> AsyncIterator[tuple[Engine, Store]]:
    """Open an engine as ``contextinfinity.open`` does, with a trap in it."""
    store, journals = guarded(folder, trap or Trap(kill))
    setup = Setup(tools=tools(), copies=copies_of(folder, folder / "ledger.db"))
    async with Engine(store, journals, models(), setup) as engine:
        yield engine, store


async def until_quiet(store: Store) -> bool:
    """Wait until no job waits or runs; tell whether it came to that."""
    try:
        async with asyncio.timeout(TOO_LONG):
            while (backlog := await store.jobs.backlog()).queued + backlog.running:  # noqa: ASYNC110 - as people look
                await asyncio.sleep(LOOK_SECONDS)
    except TimeoutError:
        return False
    return True


async def insisted(ask: Callable[[], Awaitable[T]]) -> T:
    """Ask until the ledger is there: on a busy machine another process holds it for longer than anyone waits."""
    while True:
        with suppress(LedgerAway):
            return await ask()
        await asyncio.sleep(LOOK_SECONDS)


class Speaker:
    """One person in one thread."""

    def __init__(self, engine: Engine, tell: Tell, thread: str, rng: random.Random) -> None:
        self._engine = engine
        self._tell = tell
        self._thread = thread
        self._rng = rng

    @property
    def thread(self) -> str:
        """The thread; of a new one its id, once something was said."""
        return self._thread

    async def talk(self, texts: list[str]) -> None:
        """Send messages one by one, or all at once."""
        if self._rng.random() < 0.5:
            for text in texts:
                await self._hear(await self._say(text))
        else:
            await self._at_once(texts)

    async def fork(self, texts: list[str]) -> None:
        """Send messages on a new branch, one queued behind the other."""
        branch = await insisted(lambda: self._engine.fork(self._thread))
        self._tell(Forked(branch.id, branch.fork_seq))
        await self._at_once(texts, branch.id)

    async def pin(self, fact: str, *, told: bool = True) -> None:
        """Pin a fact in a thread that is there; one that is to go is not told of."""
        state = await insisted(lambda: self._engine.pin(self._thread, fact))
        if told:
            self._tell(Pinned(state.branch_id, state.id, state.state_seq, fact))

    async def _at_once(self, texts: list[str], branch_id: str | None = None) -> None:
        await asyncio.gather(*[self._hear(turn) for turn in [await self._say(text, branch_id) for text in texts]])

    async def _say(self, text: str, branch_id: str | None = None) -> Turn:
        self._tell(Sending(text))
        turn, _ = await self._engine.accept(self._thread, text, branch_id=branch_id)
        self._tell(Accepted(turn.id, turn.session_id, turn.branch_id, turn.turn_seq if turn.has_place else None, text))
        if self._thread == "new":
            self._thread = turn.session_id
        return turn

    async def _hear(self, turn: Turn) -> None:
        endless = kind_of(turn.user_message.rendered_text) == "endless"
        if endless and self._rng.random() < 0.3:
            await self._stop(turn)
        async for stamped in self._engine.watch(turn.id):
            if isinstance(stamped.event, Delta):
                self._tell(Shown(turn.id, stamped.event.text))
                if endless:
                    await self._stop(turn)
                    endless = False
            elif isinstance(stamped.event, TurnDone):
                self._tell(Ended(turn.id, stamped.event.turn.outcome, stamped.event.turn.text))

    async def _stop(self, turn: Turn) -> None:
        self._tell(Stopping(turn.id))
        await self._engine.cancel(turn.id)


def messages(life: Life, rng: random.Random) -> list[str]:
    """Make what is said in a life: one that is answered, one that takes tools, one that is not, and others."""
    kinds: list[Kind] = ["plain", "tools", rng.choice(FAILING), *rng.choices(KINDS, k=rng.randint(2, 5))]
    rng.shuffle(kinds)
    return [message(kind, f"{life.name}.{number}", rng) for number, kind in enumerate(kinds)]


async def live(life: Life, tell: Tell) -> None:
    """Do the work of a life until it is done, or until the end comes."""
    match life.work:
        case "talk":
            await _talk(life, tell)
        case "delete":
            await _delete(life, tell)
        case "import":
            await _import(life, tell)
        case "replay" if life.kill is not None and life.kill.way == "moment":
            await _talk_unheard(life, tell)
        case "replay" | "migrate":
            await _open(life, tell)


async def _delete(life: Life, tell: Tell) -> None:
    """Hold a conversation and delete it; the trap counts from there on."""
    trap, rng, marker = Trap(life.kill), random.Random(life.seed), f"marker {life.name} {life.seed}"
    async with engine_on(Path(life.folder), trap=trap) as (engine, store):
        speaker = Speaker(engine, tell, "new", rng)
        await speaker.talk([f"{kind} {marker}" for kind in ("plain", "tools")])
        await speaker.pin(f"{marker} it is.", told=False)
        await until_quiet(store)
        tell(Deleting(speaker.thread, marker))
        trap.begin()
        with suppress(NotFound):  # the ledger was away after it was begun: the next start finishes it
            await insisted(lambda: engine.delete(speaker.thread))
            tell(Deleted(speaker.thread))


async def _import(life: Life, tell: Tell) -> None:
    """Import a file in small batches."""
    trap, lines = Trap(life.kill), import_lines(life.name, 40)
    path = Path(life.folder).with_name(f"{life.name}.jsonl")
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    async with engine_on(Path(life.folder), trap=trap) as (_, store):
        tell(Importing(str(path), tuple(line["content"] for line in lines)))
        trap.begin()
        await import_all(store, path)


async def import_all(store: Store, path: Path) -> None:
    """Import a file, a few messages to a transaction."""
    importer.BATCH, importer.LONGEST_BATCH = 6, 8
    await importer.import_file(store, path, owner=Owner())


async def _talk_unheard(life: Life, tell: Tell) -> None:
    """Talk while another process holds the ledger all the time: everything goes into a spool."""
    rng, folder = random.Random(life.seed), Path(life.folder)
    async with engine_on(folder) as (engine, _):
        other = connect(str(folder / "ledger.db"), patience=1.0)
        other.execute("BEGIN IMMEDIATE")
        try:
            speakers = [Speaker(engine, tell, thread, rng) for thread in THREADS[:2]]
            texts = [message("plain", f"{life.name}.{number}", rng) for number in range(8)]
            await asyncio.gather(*(speaker.talk(texts[place::2]) for place, speaker in enumerate(speakers)))
            await asyncio.sleep(TOO_LONG)  # until it is killed
        finally:
            other.close()


async def _open(life: Life, tell: Tell) -> None:
    """Open the ledger, which replays spools and migrates; the trap counts from the start."""
    trap = Trap(life.kill)
    trap.begin()
    async with engine_on(Path(life.folder), trap=trap) as (_, store):
        await until_quiet(store)


async def _talk(life: Life, tell: Tell) -> None:
    """Talk until all is said and done."""
    rng = random.Random(life.seed)
    texts = messages(life, rng)
    count = rng.randint(2, 4)
    threads = list(THREADS[:count])
    if rng.random() < 0.2 or (life.kill is not None and life.kill.boundary == "accept"):
        threads[-1] = "new"
    async with engine_on(Path(life.folder), life.kill) as (engine, store):
        speakers = [Speaker(engine, tell, thread, random.Random(rng.random())) for thread in threads]
        outages = asyncio.create_task(_outages(Path(life.folder), rng.random() if life.away else None))
        async with asyncio.TaskGroup() as talking:
            for place, speaker in enumerate(speakers[1:], start=1):
                talking.create_task(speaker.talk(texts[place::count]))
            everything = speakers[0].talk if life.away else partial(_do_everything, speakers[0], life.name, rng)
            talking.create_task(everything(texts[::count]))
        outages.cancel()
        await asyncio.wait({outages})
        await until_quiet(store)


async def _outages(folder: Path, seed: float | None) -> None:
    """Lock the ledger as another process would, repeatedly, longer than any caller waits; None: never."""
    if seed is None:
        return
    rng = random.Random(seed)
    other = connect(str(folder / "ledger.db"), patience=0.005)
    try:
        while True:
            await asyncio.sleep(rng.uniform(0.0, 0.05))
            with suppress(apsw.BusyError):
                other.execute("BEGIN IMMEDIATE")
                await asyncio.sleep(rng.uniform(0.0, 0.15))
                other.execute("ROLLBACK")
    finally:
        other.close()


async def _do_everything(speaker: Speaker, name: str, rng: random.Random, texts: list[str]) -> None:
    """Talk, pin a fact, talk on, and go on elsewhere."""
    await speaker.talk(texts[:1])
    await speaker.pin(f"Fact {name}.")
    await speaker.talk(texts[1:])
    await speaker.fork([message(kind, f"{name}.fork", rng) for kind in ("burst", "plain")])


def run(life: Life, descriptor: int) -> None:
    """Be a process."""
    logging.disable()
    asyncio.run(live(life, Teller(descriptor)))


if __name__ == "__main__":
    write_stacks_on_signal(1)
    run(msgspec.json.decode(sys.argv[1], type=Life), os.dup(1))
