"""Searching as the engine does it: how long it takes, what of it is found, how quick the index is made, what it weighs.

A question is a few words that were once said together, among others; no question comes twice. What the embedder takes
for it is measured apart and not counted. The floor is SQLite's own full-text search for the same words over the same
texts, best 64 by its rank: no vectors, no neighbours, nothing read, nothing packed.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

import apsw

from benchmarks.floor import connect
from benchmarks.harness import Bench, Row, Series
from benchmarks.ledgers import LONG_NAME
from benchmarks.library import LEDGER, PLAIN, SESSION, Stopped, engine_at, fill, index, kept, record, some_texts
from benchmarks.planted import Plant, conversation, is_in
from contextinfinity.engine.engine import Engine
from contextinfinity.storage.sqlite.store import SqliteStore
from contextinfinity_testing.builders import exchange

CHUNKS_A_SECOND, TIMES_THE_TEXT, FOUND = 500, 2, 95
IN_SESSION, EVERYWHERE = 5, {100_000: 10, 1_000_000: 25}
PLANTED_TURNS, EVERY, BUDGET, FIRST = 10_000, 20, 1_000, 10
"""Turns among which facts are planted, one in so many; tokens, or hits, among which they have to be."""
CANDIDATES = 64
FLOOR_SHARE = 5
"""The floor is asked one question of so many: it takes longer than we do."""
_RANKED = "SELECT rowid FROM said WHERE said MATCH ? ORDER BY rank LIMIT ?"
_WORD = re.compile(r"\w+")
_INDEX = """SELECT name, sum(pgsize) FROM dbstat WHERE name LIKE 'keyword%' OR name LIKE 'word\\_%' ESCAPE '\\'
  OR name LIKE '%vector%' OR name LIKE '%namespace%' OR name IN (
    SELECT name FROM sqlite_schema WHERE tbl_name IN ('chunk', 'uncut', 'word_scope', 'word_sample', 'namespace'))
  GROUP BY name ORDER BY 2 DESC"""


async def run(bench: Bench) -> list[Row]:
    """Make a session and measure it, then the large ledgers, then plant facts and look for them."""
    sizes = [size for size in bench.scale.ledgers if size in EVERYWHERE] or [bench.scale.ledgers[-1]]
    session = min(SESSION, sizes[0] // 2)
    with bench.scratch() as folder:
        seconds = await fill(folder, session)
        rows = [_rate(session, seconds), *_weight(folder)]
        rows += await _searched(bench, folder, session)
    for size in sizes:
        rows += await _searched(bench, await kept(bench, size), size)
    return [*rows, await _facts(bench)]


def _rate(chunks: int, seconds: float) -> Row:
    rate = chunks / seconds
    return Row(
        what=f"chunks indexed per second ({chunks:,} of one session)",
        target=f"≥ {CHUNKS_A_SECOND}",
        result=f"{rate:,.0f}",
        met=rate >= CHUNKS_A_SECOND,
        values={"a_second": rate},
    )


def _weight(folder: Path) -> list[Row]:
    """Compare the index with the texts."""
    connection = apsw.Connection(str(folder / LEDGER))
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    turns: int = connection.execute("SELECT count(*) FROM turn").get
    text: int = connection.execute("SELECT sum(length(CAST(text AS BLOB))) FROM message").get
    sizes = {str(name): int(str(size)) for name, size in connection.execute(_INDEX)}
    connection.close()
    total = sum(sizes.values())
    shares = [f"{name} {size / turns:.0f}" for name, size in sizes.items() if size >= total / 100]
    return [
        Row(
            what="index size per exchange of 1 KB",
            target=f"≤ {TIMES_THE_TEXT} × the text",
            result=f"{total / turns:,.0f}",
            baseline=f"{text / turns:,.0f} of text",
            ratio=total / text,
            met=total <= TIMES_THE_TEXT * text,
            values={"bytes": total / turns, **{name: round(size / turns, 1) for name, size in sizes.items()}},
        ),
        Row(what="  by part", result=", ".join(shares)),
    ]


# --- how long it takes ---


class _Sides:
    """Ours and the floor, asked the same."""

    def __init__(self, engine: Engine, embedder: Stopped, plain: apsw.Connection, thread_id: str | None) -> None:
        self._engine = engine
        self._embedder = embedder
        self._plain = plain
        self._thread_id = thread_id
        self.ours, self.placing, self.floor = Series(), Series(), Series()

    async def search(self, questions: Sequence[str]) -> None:
        """Search as the engine does."""
        for question in questions:
            began, before = time.perf_counter(), self._embedder.seconds
            found = await self._engine.search(question, thread_id=self._thread_id)
            took, placing = time.perf_counter() - began, self._embedder.seconds - before
            assert not found.missing
            self.ours.seconds.append(took - placing)
            self.placing.seconds.append(placing)

    async def search_raw(self, questions: Sequence[str]) -> None:
        """Search as SQLite does."""
        for question in questions:
            phrase = " OR ".join(f'"{word}"' for word in _WORD.findall(question))
            with self.floor.timed():
                self._plain.execute(_RANKED, (phrase, CANDIDATES)).fetchall()


async def _searched(bench: Bench, folder: Path, chunks: int) -> list[Row]:
    """Search the long session, and everything if there is more."""
    rows, embedder, plain = [], Stopped(), connect(folder / PLAIN)
    size, reads = bench.scale.blocks * bench.scale.reads, bench.scale.reads
    asked = iter(_questions(folder, 2 * (size + reads)))
    async with engine_at(folder, embedder) as engine:
        for thread_id in (LONG_NAME, None) if chunks > SESSION else (LONG_NAME,):
            await _Sides(engine, embedder, plain, thread_id).search([*islice(asked, reads)])  # loads what is needed
            sides = _Sides(engine, embedder, plain, thread_id)
            for block in range(bench.scale.blocks):
                questions = [*islice(asked, reads)]
                verbs = (sides.search, sides.search_raw)
                for verb in verbs if block % 2 else reversed(verbs):
                    await verb(questions if verb == sides.search else questions[: reads // FLOOR_SHARE + 1])
            within = f"within a session of {min(SESSION, chunks):,}" if thread_id else "over everything"
            figure = IN_SESSION if thread_id else EVERYWHERE[chunks]
            rows.append(_row(f"a search {within}, {chunks:,} chunks in total: p95", figure, sides))
    plain.close()
    return rows


def _questions(folder: Path, count: int) -> list[str]:
    """Make questions of words that stand together somewhere."""
    rng, made = random.Random(10), list[str]()
    for text in some_texts(folder, count):
        words = _WORD.findall(text)
        start = rng.randrange(max(1, len(words) - 5))
        made.append(f"What did we say about {' '.join(words[start : start + 5])}?")
    return made


def _row(what: str, figure: float, sides: _Sides) -> Row:
    ours, floor = sides.ours, sides.floor
    return Row(
        what=what,
        target=f"≤ {figure} ms",
        result=f"{ours}; placing the question {sides.placing.p50:.2g}",
        baseline=str(floor),
        ratio=ours.p50 / floor.p50,
        met=ours.p95 <= figure,
        values={"p50_ms": ours.p50, "p95_ms": ours.p95, "floor_p50_ms": floor.p50, "floor_p95_ms": floor.p95},
    )


# --- what is found ---


async def _facts(bench: Bench) -> Row:
    """Plant facts in a long conversation and ask for each."""
    turns = PLANTED_TURNS if bench.scale.blocks > 2 else 60
    said = [*conversation(turns, EVERY if turns == PLANTED_TURNS else 6)]
    plants = [one.plant for one in said if one.plant is not None]
    with bench.scratch() as folder:
        store = SqliteStore(folder / LEDGER)
        await record(store, (exchange(*(side.text for side in one.said)) for one in said), LONG_NAME)
        await index(store, folder)
        await store.close()
        async with engine_at(folder, Stopped()) as engine:
            packed = [await _is_found(engine, plant, {"budget": BUDGET}) for plant in plants]
            first = [await _is_found(engine, plant, {"limit": FIRST}) for plant in plants]
    within, among = (100 * sum(found) / len(plants) for found in (packed, first))
    return Row(
        what=f"{len(plants)} facts inserted into {turns:,} turns: found within {BUDGET:,} tokens",
        target=f"≥ {FOUND}%",
        result=f"{within:.1f}% (among the first {FIRST} hits: {among:.1f}%)",
        met=within >= FOUND,
        values={"percent": within, "among_the_first_percent": among},
    )


async def _is_found(engine: Engine, plant: Plant, most: dict[str, int]) -> bool:
    found = await engine.search(plant.question, thread_id=LONG_NAME, **most)  # type: ignore[arg-type]
    return any(is_in(plant, hit.text) for hit in found.hits)
