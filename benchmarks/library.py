"""Ledgers that are indexed as the engine does it, to be searched; large ones are made once and kept.

Exchanges of 1 KB, 200 characters asked and 800 answered, so two chunks each. One session is long, the others are of
all lengths. Beside a ledger lies the floor: SQLite's own full-text search over the same texts, with nothing else.
"""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Iterator, Sequence
from itertools import chain, cycle, islice
from pathlib import Path
from typing import TYPE_CHECKING

import apsw

from benchmarks.answering import models
from benchmarks.floor import connect
from benchmarks.harness import Bench
from benchmarks.ledgers import LONG_NAME, digest
from benchmarks.words import speech
from contextinfinity.domain.session import NewSession
from contextinfinity.domain.turn import Exchange
from contextinfinity.embedders.choice import Embedders
from contextinfinity.embedders.contract import Kind
from contextinfinity.embedders.static import NAME, StaticEmbedder, built_in
from contextinfinity.engine.engine import Engine
from contextinfinity.engine.engine_setup import RetrievalParts, Setup
from contextinfinity.engine.indexing import Indexer
from contextinfinity.storage.journal import JournalFolder
from contextinfinity.storage.sqlite.store import SqliteStore
from contextinfinity.text.keywords import VERSION
from contextinfinity_testing.builders import exchange, new_branch

if TYPE_CHECKING:
    from contextinfinity.embedders.contract import Vectors

QUESTION, ANSWER = 200, 800
SESSION = 10_000
"""Chunks of the long session."""
LENGTHS = (20, 100, 500)
"""Turns of the others."""
LEDGER, PLAIN = "ledger.db", "plain.db"
_BATCH = 250


class Stopped:
    """The built-in embedder, with a clock: ``seconds`` is what it took in all."""

    name, dim, is_remote = NAME, StaticEmbedder.dim, False

    def __init__(self) -> None:
        self.seconds = 0.0

    async def embed(self, texts: Sequence[str], *, kind: Kind = "passage") -> Vectors:
        """Return the rows of texts."""
        began = time.perf_counter()
        rows = await built_in().embed(texts, kind=kind)
        self.seconds += time.perf_counter() - began
        return rows

    async def close(self) -> None:
        """Do nothing."""


def engine_at(folder: Path, embedder: Stopped) -> Engine:
    """Open an engine on an indexed ledger."""
    journals = JournalFolder(folder / "streams")
    return Engine(SqliteStore(folder / LEDGER), journals, models(lambda _: "Fine."), _setup(embedder))


def _setup(embedder: Stopped) -> Setup:
    return Setup(retrieval=RetrievalParts(embedders=Embedders(lambda: embedder)), folds=False)


async def kept(bench: Bench, chunks: int) -> Path:
    """Return the folder of an indexed ledger of that many chunks, made now if it is not there."""
    folder = bench.folder / f"library-{chunks}-{digest(VERSION, NAME)}"
    if not folder.exists():
        for old in bench.folder.glob(f"library-{chunks}-*"):
            shutil.rmtree(old)
        unfinished = folder.with_suffix(".unfinished")
        unfinished.mkdir(parents=True)
        await fill(unfinished, chunks)
        unfinished.rename(folder)
    return folder


async def fill(folder: Path, chunks: int) -> float:
    """Record exchanges and index them; return the seconds that the index took."""
    rng, store, left = random.Random(8), SqliteStore(folder / LEDGER), chunks // 2
    name: str | None = LONG_NAME
    for length in chain([SESSION // 2], cycle(LENGTHS)):
        turns = min(left, length)
        await record(store, (exchange(speech(rng, QUESTION), speech(rng, ANSWER)) for _ in range(turns)), name)
        left, name = left - turns, None
        if not left:
            break
    seconds = await index(store, folder)
    await store.close()
    _fill_floor(folder)
    return seconds


async def record(store: SqliteStore, said: Iterator[Exchange], name: str | None) -> None:
    """Record exchanges as a session."""
    branch = await new_branch(store, NewSession(external_id=name))
    while batch := [*islice(said, _BATCH)]:
        await store.turns.record(branch.id, batch)


async def index(store: SqliteStore, folder: Path) -> float:
    """Index what was recorded as the engine does in the background; return the seconds."""
    indexer = Indexer(store=store, retrieval=_setup(Stopped()).retrieval)
    built_in()  # reading it is not part of the work
    began = time.perf_counter()
    await indexer.complete()
    return time.perf_counter() - began


def _fill_floor(folder: Path) -> None:
    connection = connect(folder / PLAIN)
    connection.execute("CREATE VIRTUAL TABLE said USING fts5 (text, content = '')")
    connection.execute("ATTACH ? AS ours", (str(folder / LEDGER),))
    connection.execute("INSERT INTO said (rowid, text) SELECT key, text FROM ours.message")
    connection.execute("INSERT INTO said (said) VALUES ('optimize')")
    connection.close()


def some_texts(folder: Path, count: int) -> list[str]:
    """Give texts of a ledger, from all over it."""
    connection = apsw.Connection(str(folder / LEDGER))
    newest: int = connection.execute("SELECT max(key) FROM message").get
    keys = random.Random(9).sample(range(1, newest + 1), min(count, newest))
    texts = [str(connection.execute("SELECT text FROM message WHERE key = ?", (key,)).get) for key in keys]
    connection.close()
    return texts
