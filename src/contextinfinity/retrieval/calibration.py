"""Scores that mean the same for every embedder.

    0      as alike as any two texts are on average
    0.72   more alike than all but one of a thousand pairs of texts that have nothing to do with each other
    1      the same

Two numbers of an embedder say where these lie. They are known for the built-in embedder; for any other one they are
measured once, on sentences of our own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from contextinfinity.embedders.static import NAME as STATIC

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from contextinfinity.embedders.contract import Embedder, Vectors

    Numbers = NDArray[np.float32]

RARE = 0.72
"""The score that one random pair in a thousand exceeds."""
_ONE_IN = 1_000


class Calibration(Struct, frozen=True):
    """Where the values of random pairs lie: their mean, and what one in a thousand exceeds."""

    mean: float
    rare: float

    @property
    def most_steps(self) -> float:
        """The steps of a text to itself."""
        return (1 - self.mean) / (self.rare - self.mean)

    def steps(self, values: Numbers) -> Numbers:
        """Give values in steps of what separates a rare pair from an ordinary one: scores without a bend, to add up."""
        steps: Numbers = (values - self.mean) / (self.rare - self.mean)
        return steps

    def scores(self, values: Numbers) -> Numbers:
        """Give values as scores; what is less alike than any two are is below 0."""
        import numpy as np

        low = RARE * (values - self.mean) / (self.rare - self.mean)
        high = RARE + (1 - RARE) * (values - self.rare) / max(1 - self.rare, 1e-6)
        return np.where(values < self.rare, low, high).astype(np.float32)


SHARES = Calibration(0.0, 0.25)
"""Of the words of a question that are met, and of all that speaks for a text: shares of what the question itself would
reach. Measured on the same sentences; embedders make no difference."""
KNOWN = {STATIC: Calibration(0.021, 0.318)}
"""Measured with ``measured``, over the same sentences."""


def of_pairs(values: Numbers) -> Calibration:
    """Draw both numbers from the values of random pairs."""
    import numpy as np

    mean, rare = float(values.mean()), float(np.quantile(values, 1 - 1 / _ONE_IN))
    return Calibration(mean, min(max(rare, mean + 1e-3), 0.999))


def of_rows(rows: Vectors) -> Calibration:
    """Draw both numbers from the rows of texts that have nothing to do with each other."""
    import numpy as np

    return of_pairs((rows @ rows.T)[np.triu_indices(len(rows), k=1)])


async def calibration_of(embedder: Embedder) -> Calibration:
    """Give what is known of an embedder, or measure it; whoever asks keeps the answer."""
    from contextinfinity.retrieval.yardstick import SENTENCES

    known = KNOWN.get(embedder.name)
    return known if known is not None else of_rows(await embedder.embed(SENTENCES))
