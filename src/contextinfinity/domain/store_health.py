"""The health of a ledger: ready or degraded, with the reason and the start time."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from msgspec import Struct


class StoreHealth(Struct, frozen=True, kw_only=True):
    """``degraded``: messages are answered, but some turns are not in the ledger yet or may never be."""

    status: Literal["ready", "degraded"] = "ready"
    reason: str = ""
    since: datetime | None = None
    spool_depth: int = 0
    """The number of turns and sessions that wait in the local spool."""
