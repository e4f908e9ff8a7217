"""How long the stages of a turn take in this process: held until somebody takes it over, and only so much of it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import Literal, TypeAlias

Stage: TypeAlias = Literal[
    "embed", "search", "assemble", "stream", "summarise", "index", "remember", "fold", "reconcile"
]

MOST = 10_000
"""Where nobody takes it over, the oldest goes."""

_took: deque[tuple[Stage, float]] = deque(maxlen=MOST)


@contextmanager
def timed(stage: Stage) -> Iterator[None]:
    """Note how long something takes, also when it fails."""
    began = perf_counter()
    try:
        yield
    finally:
        _took.append((stage, perf_counter() - began))


def taken() -> list[tuple[Stage, float]]:
    """Take over what was noted since the last time: stages with their seconds, the oldest first."""
    return [_took.popleft() for _ in range(len(_took))]
