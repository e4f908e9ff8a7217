"""How far the sweeps over failing operations go: a sample of the places in the suite, all of them in ``make proof``."""

from __future__ import annotations

from pathlib import Path

from tests.sizes import sized

SEEDS = sized(1, 20)
"""How many ways a power cut may leave what was not flushed."""
ROUNDS = sized(1, 3)
"""How long the conversation is that a fault interrupts."""
STRIDE = sized(23, 1)
"""Try one operation in so many. A prime, so that a sweep does not always meet the same step of a commit."""
LONG_STRIDE = sized(89, 1)
"""The same where neighbouring operations are much alike: one long transaction, page after page read."""


def remove(ledger: Path) -> None:
    """Remove a ledger with everything SQLite keeps beside it."""
    for file in ledger.parent.glob(f"{ledger.name}*"):
        file.unlink()
