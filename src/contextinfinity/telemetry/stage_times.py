"""The durations of the stages of a turn, kept until they are collected, up to a limit.

A turn collects its own latencies while it is answered (``collect``): the context of its task determines the turn of a
stage.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from time import perf_counter
from typing import Literal, TypeAlias

MOST = 10_000
"""If they are not collected, the oldest are dropped."""

Stage: TypeAlias = Literal[
    "embed", "search", "assemble", "first_token", "stream", "summarise", "index", "remember", "fold", "reconcile"
]

_took: deque[tuple[Stage, float]] = deque(maxlen=MOST)

_collected: ContextVar[dict[str, float] | None] = ContextVar("latencies", default=None)


@contextmanager
def timed(stage: Stage) -> Iterator[None]:
    """Measure the duration of a block, even if it fails."""
    began = perf_counter()
    try:
        yield
    finally:
        note_latency(stage, perf_counter() - began)


def collect(into: dict[str, float]) -> None:
    """Add the milliseconds of every stage of this task and its subtasks to a dict, by stage name."""
    _collected.set(into)


def note_latency(stage: Stage, seconds: float) -> None:
    """Record the duration of a stage; for ``first_token`` a turn keeps only the first value."""
    _took.append((stage, seconds))
    into = _collected.get()
    if into is not None and not (stage == "first_token" and stage in into):
        into[stage] = round(into.get(stage, 0.0) + 1000 * seconds, 3)


def taken() -> list[tuple[Stage, float]]:
    """Remove and return the stages recorded so far with their seconds, oldest first."""
    return [_took.popleft() for _ in range(len(_took))]
