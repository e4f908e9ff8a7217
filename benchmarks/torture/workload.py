"""What a process does until it is killed: two to four conversations at once, with everything a person may do.

``python -m benchmarks.torture.workload WORKLOAD`` runs one in a process of its own, which reports on standard output.
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

from benchmarks.torture.kill_points import KillPoint, guarded
from benchmarks.torture.observations import (
    Accepted,
    Deleted,
    Deleting,
    Ended,
    Event,
    Forked,
    Importing,
    Pinned,
    Reporter,
    Sending,
    Shown,
    Stopping,
    write_stacks_on_signal,
)
from benchmarks.torture.plans import Kill, Work
from benchmarks.torture.script import FAILING, KINDS, Kind, import_lines, kind_of, message, models, tools
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
Report: TypeAlias = Callable[[Event], None]

THREADS = ("talk 0", "talk 1", "talk 2", "talk 3")
POLL_SECONDS = 0.002
TOO_LONG = 30.0
"""Seconds after which something hangs; none of it takes a hundredth of that on a quiet machine."""


class Workload(Struct, frozen=True, kw_only=True):
    """A process: its data_dir, its random seed, and how it ends (None: by itself)."""

    folder: str
    name: str
    seed: str
    kill: Kill | None = None
    away: bool = False
    work: Work = "talk"


@asynccontextmanager
async def engine_on(
    folder: Path, kill: Kill | None = None, kill_point: KillPoint | None = None
) -> AsyncIterator[tuple[Engine, Store]]:
    """Open an engine as ``contextinfinity.open`` does, with a kill point in it."""
    store, journals = guarded(folder, kill_point or KillPoint(kill))
    setup = Setup(tools=tools(), copies=copies_of(folder, folder / "ledger.db"))
    async with Engine(store, journals, models(), setup) as engine:
        yield engine, store


async def until_quiet(store: Store) -> bool:
    """Wait until no job waits or runs; return whether that happened."""
    try:
        async with asyncio.timeout(TOO_LONG):
            while (backlog := await store.jobs.backlog()).queued + backlog.running:  # noqa: ASYNC110 - as people look
                await asyncio.sleep(POLL_SECONDS)
    except TimeoutError:
        return False
    return True


async def retried_while_away(ask: Callable[[], Awaitable[T]]) -> T:
    """Ask until the ledger is there: on a busy machine another process holds it for longer than anyone waits."""
    while True:
        with suppress(LedgerAway):
            return await ask()
        await asyncio.sleep(POLL_SECONDS)


class ChatClient:
    """One person in one thread."""

    def __init__(self, engine: Engine, report: Report, thread: str, rng: random.Random) -> None:
        self._engine = engine
        self._tell = report
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
                await self._read_answer(await self._say(text))
        else:
            await self._at_once(texts)

    async def fork(self, texts: list[str]) -> None:
        """Send messages on a new branch, one queued behind the other."""
        branch = await retried_while_away(lambda: self._engine.fork(self._thread))
        self._tell(Forked(branch.id, branch.fork_seq))
        await self._at_once(texts, branch.id)

    async def pin(self, event: str, *, reported: bool = True) -> None:
        """Pin a fact in a thread that is there; one that will be removed is not reported."""
        state = await retried_while_away(lambda: self._engine.pin(self._thread, event))
        if reported:
            self._tell(Pinned(state.branch_id, state.id, state.state_seq, event))

    async def _at_once(self, texts: list[str], branch_id: str | None = None) -> None:
        await asyncio.gather(
            *[self._read_answer(turn) for turn in [await self._say(text, branch_id) for text in texts]]
        )

    async def _say(self, text: str, branch_id: str | None = None) -> Turn:
        self._tell(Sending(text))
        turn, _ = await self._engine.accept(self._thread, text, branch_id=branch_id)
        self._tell(Accepted(turn.id, turn.session_id, turn.branch_id, turn.turn_seq if turn.has_place else None, text))
        if self._thread == "new":
            self._thread = turn.session_id
        return turn

    async def _read_answer(self, turn: Turn) -> None:
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


def messages(workload: Workload, rng: random.Random) -> list[str]:
    """Make the messages of a workload: one that is answered, one that takes tools, one that is not, and others."""
    kinds: list[Kind] = ["plain", "tools", rng.choice(FAILING), *rng.choices(KINDS, k=rng.randint(2, 5))]
    rng.shuffle(kinds)
    return [message(kind, f"{workload.name}.{number}", rng) for number, kind in enumerate(kinds)]


async def run_workload(workload: Workload, report: Report) -> None:
    """Do the work until it is done, or until the process is killed."""
    match workload.work:
        case "talk":
            await _talk(workload, report)
        case "delete":
            await _delete(workload, report)
        case "import":
            await _import(workload, report)
        case "replay" if workload.kill is not None and workload.kill.way == "moment":
            await _chat_without_reading(workload, report)
        case "replay" | "migrate":
            await _open(workload, report)


async def _delete(workload: Workload, report: Report) -> None:
    """Hold a conversation and delete it; the kill point counts from there on."""
    kill_point, rng, marker = (
        KillPoint(workload.kill),
        random.Random(workload.seed),
        f"marker {workload.name} {workload.seed}",
    )
    async with engine_on(Path(workload.folder), kill_point=kill_point) as (engine, store):
        client = ChatClient(engine, report, "new", rng)
        await client.talk([f"{kind} {marker}" for kind in ("plain", "tools")])
        await client.pin(f"{marker} it is.", reported=False)
        await until_quiet(store)
        report(Deleting(client.thread, marker))
        kill_point.begin()
        with suppress(NotFound):  # the ledger was away after it was begun: the next start finishes it
            await retried_while_away(lambda: engine.delete(client.thread))
            report(Deleted(client.thread))


async def _import(workload: Workload, report: Report) -> None:
    """Import a file in small batches."""
    kill_point, lines = KillPoint(workload.kill), import_lines(workload.name, 40)
    path = Path(workload.folder).with_name(f"{workload.name}.jsonl")
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    async with engine_on(Path(workload.folder), kill_point=kill_point) as (_, store):
        report(Importing(str(path), tuple(line["content"] for line in lines)))
        kill_point.begin()
        await import_all(store, path)


async def import_all(store: Store, path: Path) -> None:
    """Import a file, a few messages to a transaction."""
    importer.BATCH, importer.LONGEST_BATCH = 6, 8
    await importer.import_file(store, path, owner=Owner())


async def _chat_without_reading(workload: Workload, report: Report) -> None:
    """Talk while another process holds the ledger all the time: everything goes into a spool."""
    rng, folder = random.Random(workload.seed), Path(workload.folder)
    async with engine_on(folder) as (engine, _):
        other = connect(str(folder / "ledger.db"), patience=1.0)
        other.execute("BEGIN IMMEDIATE")
        try:
            clients = [ChatClient(engine, report, thread, rng) for thread in THREADS[:2]]
            texts = [message("plain", f"{workload.name}.{number}", rng) for number in range(8)]
            await asyncio.gather(*(client.talk(texts[place::2]) for place, client in enumerate(clients)))
            await asyncio.sleep(TOO_LONG)  # until it is killed
        finally:
            other.close()


async def _open(workload: Workload, report: Report) -> None:
    """Open the ledger, which replays spools and migrates; the kill point counts from the start."""
    kill_point = KillPoint(workload.kill)
    kill_point.begin()
    async with engine_on(Path(workload.folder), kill_point=kill_point) as (_, store):
        await until_quiet(store)


async def _talk(workload: Workload, report: Report) -> None:
    """Talk until all is said and done."""
    rng = random.Random(workload.seed)
    texts = messages(workload, rng)
    count = rng.randint(2, 4)
    threads = list(THREADS[:count])
    if rng.random() < 0.2 or (workload.kill is not None and workload.kill.boundary == "accept"):
        threads[-1] = "new"
    async with engine_on(Path(workload.folder), workload.kill) as (engine, store):
        clients = [ChatClient(engine, report, thread, random.Random(rng.random())) for thread in threads]
        outages = asyncio.create_task(_outages(Path(workload.folder), rng.random() if workload.away else None))
        async with asyncio.TaskGroup() as talking:
            for place, client in enumerate(clients[1:], start=1):
                talking.create_task(client.talk(texts[place::count]))
            everything = clients[0].talk if workload.away else partial(_do_everything, clients[0], workload.name, rng)
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


async def _do_everything(client: ChatClient, name: str, rng: random.Random, texts: list[str]) -> None:
    """Talk, pin a fact, talk on, and go on elsewhere."""
    await client.talk(texts[:1])
    await client.pin(f"Fact {name}.")
    await client.talk(texts[1:])
    await client.fork([message(kind, f"{name}.fork", rng) for kind in ("burst", "plain")])


def run(workload: Workload, descriptor: int) -> None:
    """Be a process."""
    logging.disable()
    asyncio.run(run_workload(workload, Reporter(descriptor)))


if __name__ == "__main__":
    write_stacks_on_signal(1)
    run(msgspec.json.decode(sys.argv[1], type=Workload), os.dup(1))
