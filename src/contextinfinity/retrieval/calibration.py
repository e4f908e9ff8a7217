"""Calibrate similarity scores, so that they mean the same for every embedder.

    0      as similar as two unrelated texts are on average
    0.72   exceeded by one in a thousand unrelated texts
    1      the text itself

Two numbers per embedder map its cosines to this scale. They are known for the built-in embedders and are measured once
for any other, on the sentences of ``unrelated_sentences.txt``.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from msgspec import Struct

from contextinfinity.embedders.minilm.embedder import NAME as MINILM
from contextinfinity.embedders.static import NAME as STATIC

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from contextinfinity.embedders.contract import Embedder, Vectors

    Numbers = NDArray[np.float32]

RARE = 0.72
"""The score that one unrelated pair in a thousand exceeds."""
_ONE_IN = 1_000


class Calibration(Struct, frozen=True):
    """The cosines of unrelated pairs: their mean, and the value that one in a thousand exceeds."""

    mean: float
    rare: float

    def steps(self, values: Numbers) -> Numbers:
        """Normalise cosines: 0 is the mean of unrelated pairs, 1 is exceeded by one in a thousand."""
        steps: Numbers = (values - self.mean) / (self.rare - self.mean)
        return steps

    def step(self, value: float) -> float:
        """Normalise one cosine."""
        return (value - self.mean) / (self.rare - self.mean)


GATE, SURE, LEAST = 0.45, 0.9, 0.15
"""The sum that is mapped to a score of 0.72: GATE if the best passage is unlikely to answer the question; it falls to
LEAST as the best sum grows to SURE, because texts near a good answer are not unrelated.
"""
STRICT = 0.7
"""The same for a question with a name that no passage contains, which can hardly be answered."""
WHOLE = 1.5
"""The sum that is mapped to a score of 1."""
KNOWN = {STATIC: Calibration(0.021, 0.318), MINILM: Calibration(0.057, 0.397)}
"""Measured with ``calibration_of``."""


def confident(sums: Numbers, content: Numbers, alone: NDArray[np.bool_], *, strict: bool = False) -> Numbers:
    """Map sums of all terms to calibrated scores; ``content`` are the sums without role and recency.

    Role and recency alone cannot reach 0.72 if no content is likely to answer. Passages marked in ``alone``, good
    enough by their vector or words alone, always score at least 0.72.
    """
    import numpy as np

    top = float(content.max())
    floor = STRICT if strict else float(np.interp(top, (GATE, SURE), (GATE, LEAST)))
    if top < GATE:
        floor += max(0.0, float((sums - content).max()))
    low = RARE * sums / floor
    high = RARE + (1 - RARE) * (sums - floor) / (WHOLE - floor)
    scores = np.where(sums < floor, low, high)
    return np.where(alone & (scores < RARE), RARE + 1e-3 * scores, scores).astype(np.float32)


def of_pairs(values: Numbers) -> Calibration:
    """Calibrate from the cosines of unrelated pairs."""
    import numpy as np

    mean, rare = float(values.mean()), float(np.quantile(values, 1 - 1 / _ONE_IN))
    return Calibration(mean, min(max(rare, mean + 1e-3), 0.999))


def of_rows(rows: Vectors) -> Calibration:
    """Calibrate from the vectors of unrelated texts."""
    import numpy as np

    return of_pairs((rows @ rows.T)[np.triu_indices(len(rows), k=1)])


async def calibration_of(embedder: Embedder) -> Calibration:
    """Return the calibration of an embedder; an unknown one is measured, and the caller should cache the result."""
    known = KNOWN.get(embedder.name)
    return known if known is not None else of_rows(await embedder.embed(unrelated_sentences()))


@cache
def unrelated_sentences() -> tuple[str, ...]:
    """Return the bundled sentences, which are unrelated to each other."""
    return tuple((files(__package__) / "unrelated_sentences.txt").read_text(encoding="utf-8").splitlines())
