"""What a process measures: counters, gauges, finished turns and the stages of a turn; and the rate limit of its log.

Metrics of finished turns and durations of stages are kept until they are collected, up to a limit. A turn collects its
own latencies while it is answered (``collect``): the context of its task determines the turn of a stage.

Repeated log records are limited, so that a failing process does not fill the disk. Warnings and errors of one kind
(logger, level, start of the message) pass 20 times in 10 seconds. The last one that passes says that more are
suppressed, and the first of a later period says how many were.
"""

from __future__ import annotations

import logging
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from threading import Lock
from time import perf_counter
from typing import Literal, NamedTuple, TypeAlias

from contextinfinity.domain.turn import Failed, NewStep, StepEnd, Turn, TurnOutcome, Usage

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


MOST = 10_000
"""If they are not collected, the oldest are dropped."""


class TurnFigures(NamedTuple):
    """A finished turn."""

    model: str
    outcome: TurnOutcome
    usage: Usage


class StepFigures(NamedTuple):
    """A finished provider request; ``error`` is its error code, ``estimated`` our token estimate."""

    provider: str
    model: str
    outcome: str
    error: str
    estimated: int
    displayed_bytes: int
    durable_bytes: int


class RetrievalFigures(NamedTuple):
    """A retrieval: the candidates, the tokens of the chosen ones, and their similarities."""

    candidates: int
    packed_tokens: int
    similarities: tuple[float, ...]


Noted: TypeAlias = TurnFigures | StepFigures | RetrievalFigures

_noted: deque[Noted] = deque(maxlen=MOST)


def note(what: Noted) -> None:
    """Record metrics."""
    _noted.append(what)


def note_turn(turn: Turn) -> None:
    """Record the outcome of a turn; do nothing if it has not ended."""
    if turn.outcome is not None:
        note(TurnFigures(turn.model, turn.outcome, turn.usage))


def note_step(step: NewStep, end: StepEnd | None) -> None:
    """Record the outcome of a provider request."""
    if end is not None:
        outcome = end.outcome
        error = outcome.code if isinstance(outcome, Failed) else ""
        kind, tokens = str(outcome.__struct_config__.tag), step.plan.tokens
        how_much = (tokens, end.displayed_bytes, end.durable_bytes)
        note(StepFigures(step.provider, step.model_id, kind, error, *how_much))


def noted() -> list[Noted]:
    """Remove and return the metrics recorded so far, oldest first."""
    return [_noted.popleft() for _ in range(len(_noted))]


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


MOST_REPEATS = 20
PERIOD_SECONDS = 10.0
BEGINNING = 40
"""The characters of the message that identify its kind; variable parts usually follow."""
MOST_KINDS = 1000

Kind = tuple[str, int, str]


@dataclass
class _RepeatCount:
    since: float
    passed: int = 0
    left_out: int = 0


class RepeatLimit(logging.Filter):
    """A logging filter for a handler; records below a warning always pass."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._counts: dict[Kind, _RepeatCount] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether to write a record."""
        if record.levelno < logging.WARNING:
            return True
        count, left_out = self._count((record.name, record.levelno, str(record.msg)[:BEGINNING]))
        if count.passed >= MOST_REPEATS:
            count.left_out += 1
            return False
        count.passed += 1
        if left_out:
            _add(record, f"{left_out} similar messages were suppressed")
        if count.passed == MOST_REPEATS:
            _add(record, f"more like this are left out for up to {PERIOD_SECONDS:g} seconds")
        return True

    def _count(self, kind: Kind) -> tuple[_RepeatCount, int]:
        """Return the count of the current period, and how many records were suppressed in the previous one."""
        moment, before = self._clock(), self._counts.get(kind)
        if before is not None and moment - before.since < PERIOD_SECONDS:
            return before, 0
        if len(self._counts) >= MOST_KINDS:
            self._counts.clear()
        count = self._counts[kind] = _RepeatCount(since=moment)
        return count, 0 if before is None else before.left_out


def _add(record: logging.LogRecord, remark: str) -> None:
    record.msg, record.args = f"{record.getMessage()} ({remark})", ()
