"""Figures of finished turns, requests and retrievals, kept until they are collected, up to a limit."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple, TypeAlias

from contextinfinity.domain.turn import Failed, NewStep, StepEnd, Turn, TurnOutcome, Usage

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
