"""Vectors: how long a search takes in a session and in everything, how much of it is right, what a vector weighs.

The vectors are the built-in embedder's, of texts that all differ. A session holds 10,000 of them; everything is one
chunk a turn of the large ledger. What is right is what looking at each vector gives.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

import apsw
import numpy as np
from numpy.typing import NDArray

from benchmarks.harness import Bench, Row, Series
from benchmarks.words import text
from contextinfinity.domain.search import Embedding, NewChunk, Scope, packed
from contextinfinity.embedders.static import StaticEmbedder
from contextinfinity.storage.contract import Vectors
from contextinfinity.storage.sqlite.store import SqliteStore
from contextinfinity.storage.sqlite.vector_table import SqliteVectors
from contextinfinity_testing.builders import exchange, new_branch

LENGTH, PER_TURN, SESSION, LEAST = 300, 20, 10_000, 50_000
EVERYWHERE = Scope()
Row32: TypeAlias = NDArray[np.float32]


async def run(bench: Bench) -> list[Row]:
    """Fill a ledger, search it exactly, build a generation, search again."""
    total, rng, embedder = bench.scale.ledgers[-1], random.Random(11), StaticEmbedder()
    questions = [packed(row) for row in embedder.encode([text(rng, 80) for _ in range(20 * bench.scale.reads)])]
    with bench.scratch() as folder:
        path = folder / "ledger.db"
        store = SqliteStore(path)
        sessions, rate = await _fill(store, embedder, rng, total)
        rows = [
            Row(what="vectors written per second", result=f"{rate:,.0f}", values={"a_second": rate}),
            _weight(path, total),
            await _cold(path, sessions, questions[0], total),
            await _warm(store, sessions[0], questions, min(SESSION, total)),
            *await _everything(store, folder, questions, total),
        ]
        await store.close()
    return rows


async def _fill(
    store: SqliteStore, embedder: StaticEmbedder, rng: random.Random, total: int
) -> tuple[list[str], float]:
    sessions: list[str] = []
    seconds, left = 0.0, total
    while left > 0:
        branch = await new_branch(store)
        sessions.append(branch.session_id)
        for _ in range(0, min(left, SESSION), PER_TURN):
            words = [text(rng, LENGTH) for _ in range(PER_TURN)]
            (turn,) = await store.turns.record(branch.id, [exchange("".join(words))])
            chunks = [_chunk(at * LENGTH, row, embedder) for at, row in enumerate(embedder.encode(words))]
            began = time.perf_counter()
            await store.chunks.index(turn.id, chunks)
            seconds += time.perf_counter() - began
        left -= SESSION
    return sessions, total / seconds


def _chunk(start: int, row: Row32, embedder: StaticEmbedder) -> NewChunk:
    return NewChunk(
        side="user",
        start=start,
        end=start + LENGTH,
        summary="",
        chunk_type="Other",
        token_est=LENGTH // 4,
        embedding=Embedding(model=embedder.name, dim=embedder.dim, values=packed(row)),
    )


def _weight(path: Path, total: int) -> Row:
    connection = apsw.Connection(str(path))
    size: int = connection.execute("SELECT sum(pgsize) FROM dbstat WHERE name LIKE '%vector%'").get
    connection.close()
    each = size / total
    return Row(what="bytes per vector in the ledger", result=f"{each:.0f}", values={"bytes": each})


async def _cold(path: Path, sessions: Sequence[str], question: bytes, total: int) -> Row:
    """Search sessions for the first time in a process that has searched another."""
    series, store = Series(), SqliteStore(path)
    await store.vectors.near(question, StaticEmbedder.name, Scope(session_id=sessions[-1]))
    for session in sessions[:8]:
        with series.timed():
            await store.vectors.near(question, StaticEmbedder.name, Scope(session_id=session))
    await store.close()
    return _timed(f"the first search of a session of {min(SESSION, total):,}", series.p50, 10, series)


async def _warm(store: SqliteStore, session: str, questions: Sequence[bytes], size: int) -> Row:
    series = await _searched(store.vectors, questions, Scope(session_id=session))
    return _timed(f"a search of a session of {size:,}", series.p50, 2, series)


async def _everything(store: SqliteStore, folder: Path, questions: Sequence[bytes], total: int) -> list[Row]:
    vectors = SqliteVectors(store.database, folder / "vectors", least=min(LEAST, total // 2))
    exact = await _best(vectors, questions)
    began = time.perf_counter()
    await vectors.build()
    seconds = time.perf_counter() - began
    (file,) = (folder / "vectors").glob("*.usearch")
    found = await _best(vectors, questions)
    series = await _searched(vectors, questions, EVERYWHERE)
    right = [np.mean(np.array(ours) >= theirs[-1] - 1e-6) for ours, theirs in zip(found, exact, strict=True)]
    recall = float(np.mean(right))
    return [
        Row(what=f"build a generation of {total:,}", result=f"{seconds:.0f} s", values={"s": seconds}),
        Row(what="bytes per vector in the generation", result=f"{file.stat().st_size / total:.0f}"),
        _timed(f"a search of everything, {total:,}: p95", series.p95, 3 if total <= 100_000 else 8, series),
        Row(
            what="recall of the ten nearest",
            result=f"{recall:.1%}",
            target="≥ 98%",
            met=recall >= 0.98,
            values={"part": recall},
        ),
    ]


async def _best(vectors: SqliteVectors, questions: Sequence[bytes]) -> list[list[float]]:
    """Return the cosines of the ten nearest to each question."""
    found = [await vectors.near(question, StaticEmbedder.name, EVERYWHERE) for question in questions[:100]]
    return [[hit.similarity for hit in hits[:10]] for hits in found]


async def _searched(vectors: Vectors, questions: Sequence[bytes], scope: Scope) -> Series:
    series = Series()
    await vectors.near(questions[0], StaticEmbedder.name, scope)
    for question in questions:
        with series.timed():
            await vectors.near(question, StaticEmbedder.name, scope)
    return series


def _timed(what: str, judged: float, figure: float, series: Series) -> Row:
    return Row(what=what, result=str(series), target=f"≤ {figure} ms", met=judged <= figure, values={"ms": judged})
