"""How long the stages of a turn take: for the figures of this process, and for the turn itself.

For the process the newest are held until somebody takes them over. A turn has its own latencies collected while it is
answered (``collect``): the context of its task says which turn a stage belongs to.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from time import perf_counter
from typing import Literal, TypeAlias

Stage: TypeAlias = Literal[
    "embed", "search", "assemble", "first_token", "stream", "summarise", "index", "remember", "fold", "reconcile"
]

MOST = 10_000
"""Where nobody takes it over, the oldest goes."""

_took: deque[tuple[Stage, float]] = deque(maxlen=MOST)
_collected: ContextVar[dict[str, float] | None] = ContextVar("latencies", default=None)


@contextmanager
def timed(stage: Stage) -> Iterator[None]:
    """Note how long something takes, also when it fails."""
    began = perf_counter()
    try:
        yield
    finally:
        note_latency(stage, perf_counter() - began)


def collect(into: dict[str, float]) -> None:
    """Add the milliseconds of every stage that this task and those it starts go through, by the stage's name."""
    _collected.set(into)


def note_latency(stage: Stage, seconds: float) -> None:
    """Note how long a stage took; of several first tokens of a turn the first counts."""
    _took.append((stage, seconds))
    into = _collected.get()
    if into is not None and not (stage == "first_token" and stage in into):
        into[stage] = round(into.get(stage, 0.0) + 1000 * seconds, 3)


def taken() -> list[tuple[Stage, float]]:
    """Take over what was noted since the last time: stages with their seconds, the oldest first."""
    return [_took.popleft() for _ in range(len(_took))]
