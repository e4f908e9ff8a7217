"""Conformance tests for embedders.

To test an embedder, subclass the suite::

    class TestMyEmbedder(EmbedderSuite):
        @pytest.fixture
        async def embedder(self):
            embedder = MyEmbedder()
            yield embedder
            await embedder.close()

The tests use the embedder through its contract only.
"""

# ruff: noqa: D102 - the name of a promise is its docstring

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from contextinfinity.embedders.contract import Embedder, Kind

SAYINGS = ("The cat sleeps on the sofa.", "Our kitten naps on the couch.", "Interest rates rose by a quarter point.")
STRANGE = ("\ud800 half a pair", "\x00", "🎉" * 3, "日本語", "a" * 500_000, "</s><unk>", "\u202eback", "x\n" * 5_000)


class EmbedderSuite:
    """All tests of the contract. A subclass defines the fixture ``embedder``."""

    async def test_a_text_has_a_row_of_length_one(self, embedder: Embedder) -> None:
        rows = await embedder.embed(SAYINGS)
        assert rows.shape == (len(SAYINGS), embedder.dim)
        assert rows.dtype == np.float32
        assert np.linalg.norm(rows, axis=1) == pytest.approx(1.0, abs=1e-5)

    async def test_rows_come_in_the_order_of_the_texts(self, embedder: Embedder) -> None:
        forth = await embedder.embed(SAYINGS)
        back = await embedder.embed(SAYINGS[::-1])
        assert np.allclose(forth, back[::-1], atol=1e-5)

    async def test_a_text_has_the_same_row_alone_and_among_others(self, embedder: Embedder) -> None:
        together = await embedder.embed([*SAYINGS, *SAYINGS, "a longer text " * 50])
        for place, saying in enumerate(SAYINGS):
            (alone,) = await embedder.embed([saying])
            assert np.allclose(alone, together[place], atol=1e-5)
            assert np.allclose(alone, together[place + len(SAYINGS)], atol=1e-5)

    @pytest.mark.parametrize("blank", ["", " ", "\n\t \u00a0"])
    async def test_a_text_that_says_nothing_has_a_row_of_zeros(self, embedder: Embedder, blank: str) -> None:
        rows = await embedder.embed([SAYINGS[0], blank, SAYINGS[1]])
        assert not rows[1].any()
        assert np.linalg.norm(rows[[0, 2]], axis=1) == pytest.approx(1.0, abs=1e-5)

    @pytest.mark.parametrize("kind", ["query", "passage"])
    async def test_no_texts_have_no_rows(self, embedder: Embedder, kind: Kind) -> None:
        rows = await embedder.embed([], kind=kind)
        assert rows.shape == (0, embedder.dim)
        assert rows.dtype == np.float32

    async def test_whatever_a_text_holds_it_has_a_row(self, embedder: Embedder) -> None:
        rows = await embedder.embed(STRANGE)
        assert rows.shape == (len(STRANGE), embedder.dim)
        assert np.isfinite(rows).all()

    async def test_texts_that_mean_the_same_are_nearer_than_others(self, embedder: Embedder) -> None:
        cat, kitten, rates = await embedder.embed(SAYINGS)
        assert cat @ kitten > cat @ rates

    async def test_a_question_is_near_what_answers_it(self, embedder: Embedder) -> None:
        (question,) = await embedder.embed(["Where does the cat sleep?"], kind="query")
        cat, _, rates = await embedder.embed(SAYINGS, kind="passage")
        assert question @ cat > question @ rates

    async def test_many_may_ask_at_the_same_time(self, embedder: Embedder) -> None:
        (alone,) = await embedder.embed([SAYINGS[0]])
        batches = [[SAYINGS[0], f"and something of its own, {number} " * 400] for number in range(8)]
        placed = await asyncio.gather(*[embedder.embed(batch) for batch in batches])
        assert all(np.allclose(rows[0], alone, atol=1e-5) for rows in placed)
        assert len({rows[1].tobytes() for rows in placed}) > 1

    async def test_a_row_given_out_is_the_callers_own(self, embedder: Embedder) -> None:
        first = await embedder.embed([SAYINGS[0]])
        kept = first.copy()
        first[:] = 7.0
        assert np.allclose(await embedder.embed([SAYINGS[0]]), kept, atol=1e-5)

    async def test_it_says_what_it_is(self, embedder: Embedder) -> None:
        assert embedder.name.strip()
        assert embedder.dim > 0

    async def test_closing_twice_does_nothing(self, embedder: Embedder) -> None:
        await embedder.close()
        await embedder.close()
