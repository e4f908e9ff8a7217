"""What happened how often in this process."""

from __future__ import annotations

from collections import Counter
from threading import Lock
from typing import Literal, TypeAlias

Counted: TypeAlias = Literal["stages_left_out", "turns_indexed", "indexing_failed", "models_replaced"]

_counts: Counter[Counted] = Counter()
_lock = Lock()


def count(what: Counted, times: int = 1) -> None:
    """Note that something happened."""
    with _lock:
        _counts[what] += times


def counters() -> dict[str, int]:
    """Tell how often each thing happened."""
    with _lock:
        return {str(what): times for what, times in _counts.items()}
