"""Whatever the order and the sizes in which vectors come and go: a search is what looking at each of them gives."""

from __future__ import annotations

import asyncio
import random
import tempfile
from collections.abc import Sequence
from pathlib import Path

import apsw
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contextinfinity.domain.ids import ChunkId
from contextinfinity.domain.search import Scope, packed, unpacked
from contextinfinity.storage.contract import Store
from contextinfinity_testing.builders import exchange, new_branch, slice_of
from tests.ledgers import open_store
from tests.sizes import sized

SPACE, DIM, MOST = "small", 4, 40

batches = st.lists(
    st.tuples(
        st.integers(0, 2),  # in which session
        st.sampled_from([0, 1, 2, 30, 255, 256, 257, 520]),  # how many chunks
        st.sampled_from([1, 7, 100, 256, 1000]),  # placed how many at a time
        st.booleans(),  # the newest first
        st.booleans(),  # searched in between
    ),
    min_size=1,
    max_size=4,
)


class Lot:
    """What is in a store: the vectors of every session, in plain dicts."""

    def __init__(self, store: Store, seed: int) -> None:
        self.store = store
        self.rng = np.random.default_rng(seed)
        self.names = random.Random(seed)
        self.known: dict[str, dict[ChunkId, bytes]] = {}

    def row(self) -> bytes:
        return packed(self.rng.normal(size=DIM).astype(np.float32))

    async def place(self, branch: tuple[str, str], size: int, at_once: int, backwards: bool) -> None:
        session_id, branch_id = branch
        text = "".join(f"<{self.names.random():.12f}>" for _ in range(size))
        (turn,) = await self.store.turns.record(branch_id, [exchange(text or "nothing")])
        news = [slice_of(text, text[at : at + 16]) for at in range(0, len(text), 16)]
        vectors = [(chunk.id, self.row()) for chunk in await self.store.chunks.index(turn.id, news)]
        vectors = vectors[::-1] if backwards else vectors
        for start in range(0, len(vectors), at_once):
            await self.store.vectors.place(SPACE, vectors[start : start + at_once])
        self.known.setdefault(session_id, {}).update(vectors)

    async def check(self) -> None:
        """Search everywhere and in each session."""
        everything = {name: body for own in self.known.values() for name, body in own.items()}
        await self._check(everything, Scope())
        for session_id, own in self.known.items():
            await self._check(own, Scope(session_id=session_id))

    async def _check(self, wanted: dict[ChunkId, bytes], scope: Scope) -> None:
        question = self.row()
        hits = await self.store.vectors.near(question, SPACE, scope, most=MOST)
        cosines = {name: _cosine(question, body) for name, body in wanted.items()}
        best = sorted(cosines.values(), reverse=True)[:MOST]
        assert [hit.similarity for hit in hits] == pytest.approx(best, abs=1e-5)
        assert [cosines[hit.chunk_id] for hit in hits] == pytest.approx(best, abs=1e-5)
        assert len({hit.chunk_id for hit in hits}) == len(hits)
        assert await self.store.vectors.bodies(SPACE, list(wanted)) == tuple(wanted.values())


def _cosine(one: bytes, other: bytes) -> float:
    left, right = unpacked(one), unpacked(other)
    return float(left @ right / np.linalg.norm(left) / np.linalg.norm(right))


async def run(store: Store, steps: Sequence[tuple[int, int, int, bool, bool]], seed: int) -> None:
    await store.vectors.open(SPACE, DIM)
    made = [await new_branch(store) for _ in range(3)]
    lot = Lot(store, seed)
    for number, size, at_once, backwards, searched in steps:
        await lot.place((made[number].session_id, made[number].id), size, at_once, backwards)
        if searched:
            await lot.check()
    await lot.check()
    await store.close()


@pytest.mark.sqlite_file("it opens the file beside the store")
@pytest.mark.req("RETRIEVE-2")
@settings(max_examples=sized(6, 60), deadline=None)
@given(batches, st.integers(0, 1000))
def test_a_search_gives_what_looking_at_each_vector_gives(
    steps: list[tuple[int, int, int, bool, bool]], seed: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ledger.db"
        asyncio.run(run(open_store(path), steps, seed))
        connection = apsw.Connection(str(path))
        loose: int = connection.execute(
            "SELECT coalesce(max(n), 0) FROM (SELECT count(*) AS n FROM loose_vector GROUP BY session_id)"
        ).get
        connection.close()
    assert loose < 256
