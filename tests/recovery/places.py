"""Where the sweeps run and how far they go.

With ``CONTEXTINFINITY_FAULT_SEEDS=n`` they go further (then give pytest ``--timeout 0``): a conversation of up to three
rounds, every operation where otherwise one in a few is tried, and n seeds for what a power cut leaves.
"""

from __future__ import annotations

import os
from pathlib import Path

SEEDS = int(os.environ.get("CONTEXTINFINITY_FAULT_SEEDS", "1"))
ROUNDS = min(SEEDS, 3)
STRIDE = 1 if SEEDS > 1 else 5
"""Where neighbouring operations are much alike (one long transaction, page after page read) one in five is tried."""


def remove(ledger: Path) -> None:
    """Remove a ledger with everything SQLite keeps beside it."""
    for file in ledger.parent.glob(f"{ledger.name}*"):
        file.unlink()
