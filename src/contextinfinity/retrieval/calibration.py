"""Scores that mean the same for every embedder.

    0      as similar as two unrelated texts are on average
    0.72   exceeded by one of a thousand unrelated texts
    1      the text itself

Two numbers of an embedder place its cosines on this scale. They are known for the embedders that come with the
project, and measured once for any other one, on the sentences of ``unrelated_sentences.txt``.
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
    """The cosines of unrelated pairs: their mean, and what one in a thousand exceeds."""

    mean: float
    rare: float

    def steps(self, values: Numbers) -> Numbers:
        """Return cosines in steps: 0 is the mean of unrelated pairs, 1 is exceeded by one of a thousand."""
        steps: Numbers = (values - self.mean) / (self.rare - self.mean)
        return steps


GATE, SURE, LEAST = 0.45, 0.9, 0.15
"""The score for which 0.72 stands: GATE if nothing in the conversation is likely to answer the question. The more the
best passage speaks for an answer, the lower, down to LEAST from SURE on: then texts around the best are not unrelated.
"""
WHOLE = 1.5
"""The score that counts as 1."""
KNOWN = {STATIC: Calibration(0.021, 0.318), MINILM: Calibration(0.057, 0.397)}
"""Measured with ``calibration_of``."""


def confident(sums: Numbers, content: Numbers, alone: NDArray[np.bool_]) -> Numbers:
    """Return calibrated scores for sums of all terms; ``content`` are the same without role and recency.

    Those two let nothing pass while no content is likely to answer. What is ``alone`` enough, by its vector or by its
    words, passes whatever the rest says.
    """
    import numpy as np

    top = float(content.max())
    floor = float(np.interp(top, (GATE, SURE), (GATE, LEAST)))
    if top < GATE:
        floor += max(0.0, float((sums - content).max()))
    low = RARE * sums / floor
    high = RARE + (1 - RARE) * (sums - floor) / (WHOLE - floor)
    scores = np.where(sums < floor, low, high)
    return np.where(alone & (scores < RARE), RARE + 1e-3 * scores, scores).astype(np.float32)


def of_pairs(values: Numbers) -> Calibration:
    """Calibrate by the cosines of unrelated pairs."""
    import numpy as np

    mean, rare = float(values.mean()), float(np.quantile(values, 1 - 1 / _ONE_IN))
    return Calibration(mean, min(max(rare, mean + 1e-3), 0.999))


def of_rows(rows: Vectors) -> Calibration:
    """Calibrate by the vectors of unrelated texts."""
    import numpy as np

    return of_pairs((rows @ rows.T)[np.triu_indices(len(rows), k=1)])


async def calibration_of(embedder: Embedder) -> Calibration:
    """Return the calibration of an embedder, measured if it is not known; the caller keeps it."""
    known = KNOWN.get(embedder.name)
    return known if known is not None else of_rows(await embedder.embed(unrelated_sentences()))


@cache
def unrelated_sentences() -> tuple[str, ...]:
    """Return sentences that have nothing to do with each other."""
    return tuple((files(__package__) / "unrelated_sentences.txt").read_text(encoding="utf-8").splitlines())
