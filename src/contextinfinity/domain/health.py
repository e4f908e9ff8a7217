"""How an engine is: ready, or degraded, and then why and since when."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from msgspec import Struct


class StoreHealth(Struct, frozen=True, kw_only=True):
    """``degraded``: messages are answered, and some of what was said is not in the ledger yet, or may never be."""

    status: Literal["ready", "degraded"] = "ready"
    reason: str = ""
    since: datetime | None = None
    spool_depth: int = 0
    """How many turns and sessions are held for the ledger."""
