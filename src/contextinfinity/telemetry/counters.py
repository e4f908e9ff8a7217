"""What a process counts: counters and gauges."""

from __future__ import annotations

from collections import Counter
from threading import Lock
from typing import Literal, TypeAlias

Counted: TypeAlias = Literal[
    "stages_left_out",
    "turns_indexed",
    "indexing_failed",
    "models_replaced",
    "provider_retries",
    "summaries_made",
    "summaries_refused",
    "turn_writes_ok",
    "turn_writes_failed",
    "fallback_activations",
    "cleanup_runs",
    "cleanups_failed",
    "sessions_deleted",
    "turns_deleted",
]
Measured: TypeAlias = Literal["spool_depth"]

_counts: Counter[Counted | Measured] = Counter()
_lock = Lock()


def count(what: Counted, times: int = 1) -> None:
    """Increase a counter."""
    with _lock:
        _counts[what] += times


def level(what: Measured, amount: int) -> None:
    """Set a gauge."""
    with _lock:
        _counts[what] = amount


def counters() -> dict[str, int]:
    """Return all counters and gauges."""
    with _lock:
        return {str(what): times for what, times in _counts.items()}
