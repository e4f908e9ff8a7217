"""Scores that mean the same for every embedder."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pytest

from contextinfinity.embedders.static import StaticEmbedder, built_in
from contextinfinity.retrieval.calibration import (
    KNOWN,
    Calibration,
    calibration_of,
    of_pairs,
    of_rows,
    unrelated_sentences,
)

if TYPE_CHECKING:
    from contextinfinity.embedders.contract import Vectors


class Crowded(StaticEmbedder):
    """One whose vectors all lie close together, as those of some models do."""

    name = "crowded/1"

    def encode(self, texts: Sequence[str]) -> Vectors:
        rows = super().encode(texts) + 0.15
        placed: Vectors = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        return placed


@pytest.mark.req("RETRIEVE-4")
def test_cosines_are_counted_in_steps_from_an_average_to_a_rare_pair() -> None:
    scale = Calibration(0.2, 0.6)
    assert scale.steps(np.array([0.2, 0.6, 1.0], dtype=np.float32)) == pytest.approx([0, 1, 2])


@pytest.mark.req("RETRIEVE-4")
def test_what_is_known_of_the_built_in_embedder_is_what_is_measured() -> None:
    measured = of_rows(built_in().encode(unrelated_sentences()))
    known = KNOWN[built_in().name]
    assert (known.mean, known.rare) == pytest.approx((measured.mean, measured.rare), abs=0.005)


@pytest.mark.req("RETRIEVE-4")
async def test_another_embedder_is_measured() -> None:
    measured = await calibration_of(Crowded())
    assert measured.mean > 0.5, "any two texts are alike there"
    assert measured.steps(np.array([measured.mean], dtype=np.float32)) == pytest.approx([0], abs=1e-5)
    assert await calibration_of(built_in()) == KNOWN[built_in().name]


def test_an_embedder_that_tells_nothing_apart_still_has_a_scale() -> None:
    flat = of_pairs(np.ones(1000, dtype=np.float32))
    assert np.isfinite(flat.steps(np.array([0.0, 1.0], dtype=np.float32))).all()


def test_the_sentences_are_different_and_enough() -> None:
    assert len(set(unrelated_sentences())) == len(unrelated_sentences()) >= 160
