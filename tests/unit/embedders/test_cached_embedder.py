"""An embedder with a memory asks for what it does not know, once, and forgets in order."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pytest

from contextinfinity.embedders.choice import CachedEmbedder
from contextinfinity.embedders.contract import Kind
from contextinfinity.errors import ProviderError

if TYPE_CHECKING:
    from contextinfinity.embedders.contract import Vectors

A_ROW = 4 * 2 + 300


class Counting:
    """An embedder that keeps what it was asked; a row is made of the length of the text and its kind."""

    name = "counting/1"
    dim = 2
    is_remote = False

    def __init__(self) -> None:
        self.asked: list[list[str]] = []
        self.closed = 0
        self.failing = False

    async def embed(self, texts: Sequence[str], *, kind: Kind = "passage") -> Vectors:
        self.asked.append(list(texts))
        if self.failing:
            raise ProviderError("Not now.", kind="overloaded")
        self.given = np.array([[len(text), len(kind)] for text in texts], dtype=np.float32).reshape(-1, 2)
        return self.given

    async def close(self) -> None:
        self.closed += 1


@pytest.fixture
def inner() -> Counting:
    return Counting()


@pytest.fixture
def cached(inner: Counting) -> CachedEmbedder:
    return CachedEmbedder(inner, most_bytes=3 * A_ROW)


async def test_a_batch_asks_once_for_what_is_missing(inner: Counting, cached: CachedEmbedder) -> None:
    await cached.embed(["b", "dd"])
    rows = await cached.embed(["b", "ccc", "dd", "ccc", "eeee"])
    assert inner.asked == [["b", "dd"], ["ccc", "eeee"]]
    assert rows[:, 0].tolist() == [1, 3, 2, 3, 4]


async def test_nothing_is_asked_when_all_is_known(inner: Counting, cached: CachedEmbedder) -> None:
    await cached.embed(["b"])
    await cached.embed(["b", "b"])
    await cached.embed([])
    assert inner.asked == [["b"]]


async def test_the_least_recently_used_goes_first(inner: Counting, cached: CachedEmbedder) -> None:
    await cached.embed(["one", "two", "three"])
    await cached.embed(["one"])
    await cached.embed(["four"])
    await cached.embed(["one", "three", "four"])
    assert inner.asked[2:] == []
    await cached.embed(["two"])
    assert inner.asked[2:] == [["two"]]


async def test_a_batch_beyond_its_room_is_still_answered(inner: Counting, cached: CachedEmbedder) -> None:
    rows = await cached.embed(["x" * size for size in range(1, 50)])
    assert rows[:, 0].tolist() == list(range(1, 50))
    assert len(inner.asked) == 1


async def test_a_question_and_a_passage_are_kept_apart(inner: Counting, cached: CachedEmbedder) -> None:
    passage = await cached.embed(["b"])
    query = await cached.embed(["b"], kind="query")
    assert passage.tolist() != query.tolist()


async def test_a_failure_is_not_remembered(inner: Counting, cached: CachedEmbedder) -> None:
    inner.failing = True
    with pytest.raises(ProviderError):
        await cached.embed(["b"])
    inner.failing = False
    assert (await cached.embed(["b"])).tolist() == [[1, 7]]


async def test_what_is_kept_does_not_hang_on_the_batch_it_came_with(inner: Counting, cached: CachedEmbedder) -> None:
    await cached.embed(["b"])
    inner.given[:] = 9
    assert (await cached.embed(["b"])).tolist() == [[1, 7]]


async def test_many_at_the_same_time_get_their_own_rows(cached: CachedEmbedder) -> None:
    placed = await asyncio.gather(*[cached.embed(["x" * size]) for size in range(1, 40)])
    assert [rows[0, 0] for rows in placed] == list(range(1, 40))


async def test_it_goes_by_the_name_of_the_one_behind_it(inner: Counting, cached: CachedEmbedder) -> None:
    assert (cached.name, cached.dim) == (inner.name, inner.dim)


async def test_closing_closes_the_one_behind_it(inner: Counting, cached: CachedEmbedder) -> None:
    await cached.close()
    assert inner.closed == 1
