"""How much a test tries: a sample in ``make test``, everything in ``make proof``.

``make proof`` sets ``CONTEXTINFINITY_PROOF=1``. Sweeps then visit every place, properties draw many more examples, and
tests marked ``proof`` run.
"""

from __future__ import annotations

import os

PROOF = os.environ.get("CONTEXTINFINITY_PROOF") == "1"


def sized(sample: int, proof: int) -> int:
    """Return the figure for this run: ``sample`` in the suite, ``proof`` in ``make proof``."""
    return proof if PROOF else sample
