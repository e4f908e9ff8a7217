"""Large ledgers to read from, made once and kept.

Half of the turns are one long session (``long``), the rest are sessions of 100 turns (``short-0``, ``short-1``
…). They grow side by side, so the long session's rows lie scattered among the others', as they would in
life. All turns hold 1 KB and are recorded (one state a batch of at most 1,000). A ledger is kept under a
name that carries the schema's digest: a new schema makes new ledgers, and the old ones go.

Whether a kept file lies in the system's page cache depends on what ran before. A benchmark that reads one
has to say which it measures: ``forget`` first, or read once before the clock starts.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import random
from pathlib import Path

from rich.progress import Progress

from benchmarks.content import ANSWER, QUESTION
from benchmarks.harness import Bench
from benchmarks.words import text
from contextinfinity.domain.ids import BranchId
from contextinfinity.domain.session import NewSession, Owner
from contextinfinity.domain.turn import Exchange
from contextinfinity.storage.contract import Store
from contextinfinity.storage.sqlite.identity import mark_of
from contextinfinity.storage.sqlite.migrate import migrations
from contextinfinity.storage.sqlite.store import SqliteStore
from contextinfinity_testing.builders import exchange, new_branch

BATCH = 1_000
SHORT = 100
LONG_NAME = "long"


async def ledger(bench: Bench, turns: int) -> Path:
    """Return a ledger of that many turns, made now if it is not there."""
    path = _place(bench.folder, turns)
    if not path.exists():
        unfinished = path.with_suffix(".unfinished")
        _remove(bench.folder, f"ledger-{turns}-*")
        with Progress(console=bench.console, transient=True) as progress:
            await _build(unfinished, turns, progress)
        unfinished.rename(path)
        mark_of(unfinished).unlink(missing_ok=True)
    return path


async def long_branch(store: SqliteStore) -> BranchId:
    """The branch of the long session."""
    session = await store.sessions.find(Owner(), LONG_NAME)
    assert session is not None
    return session.active_branch


async def short_branches(store: SqliteStore, count: int) -> list[BranchId]:
    """Branches of short sessions, spread over the whole ledger."""
    found = await store.sessions.list(Owner(), limit=1_000_000)
    names = [session.active_branch for session in found if session.external_id != LONG_NAME]
    return random.Random(5).sample(names, min(count, len(names)))


def forget(path: Path) -> bool:
    """Ask the system to drop a closed ledger from its page cache; tell whether it can be asked."""
    if not hasattr(os, "posix_fadvise"):
        return False
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)  # what is not on the disk yet cannot be dropped
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)
    return True


async def _build(path: Path, turns: int, progress: Progress) -> None:
    store = SqliteStore(path)
    rng = random.Random(6)
    long = (await new_branch(store, NewSession(external_id=LONG_NAME))).id
    task = progress.add_task(f"a ledger of {turns:,} turns", total=turns)
    in_long = in_short = sessions = 0
    while in_long + in_short < turns:
        batch = min(BATCH, turns - turns // 2 - in_long)
        await store.turns.record(long, _exchanges(rng, batch))
        in_long += batch
        lengths = _split(min(in_long, turns // 2) - in_short)
        names = [f"short-{sessions + index}" for index in range(len(lengths))]
        await asyncio.gather(*(_short(store, rng, name, length) for name, length in zip(names, lengths, strict=True)))
        in_short += sum(lengths)
        sessions += len(lengths)
        progress.update(task, completed=in_long + in_short)
    await store.close()


async def _short(store: SqliteStore, rng: random.Random, name: str, length: int) -> None:
    branch = await new_branch(store, NewSession(external_id=name))
    await store.turns.record(branch.id, _exchanges(rng, length))


def _exchanges(rng: random.Random, count: int) -> list[Exchange]:
    return [exchange(text(rng, QUESTION), text(rng, ANSWER)) for _ in range(count)]


def _split(turns: int) -> list[int]:
    return [min(SHORT, turns - start) for start in range(0, turns, SHORT)]


def _place(folder: Path, turns: int) -> Path:
    return folder / f"ledger-{turns}-{digest()}.db"


def digest(*also: object) -> str:
    """Return a schema, and whatever else a ledger depends on, from all others."""
    whole = "".join(step.sql for step in migrations()) + "".join(map(str, also))
    return hashlib.sha256(whole.encode()).hexdigest()[:8]


def _remove(folder: Path, pattern: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.glob(pattern):
        path.unlink()


async def ids_by_side(store: Store) -> dict[tuple[int, str], str]:
    """Return the id that every imported message had in its source, by its turn and side."""
    ids: dict[tuple[int, str], str] = {}
    after = None
    while turns := await store.index.turns(after=after):
        origins = await store.imports.origins([turn.id for turn in turns])
        for turn in turns:
            for origin in origins.get(turn.id, ()):
                ids[turn.turn_seq, origin.side] = str(origin.external_id)
        after = turns[-1].id
    return ids
