"""What became of turns in this process, in figures: held until somebody takes them over, and only so many of them."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple, TypeAlias

from contextinfinity.domain.turn import Failed, NewStep, StepEnd, Turn, TurnOutcome, Usage

MOST = 10_000
"""Where nobody takes them over, the oldest go."""


class TurnFigures(NamedTuple):
    """A turn that has ended."""

    model: str
    outcome: TurnOutcome
    usage: Usage


class StepFigures(NamedTuple):
    """A request to a model that has ended; ``error`` is the code of what went wrong, ``estimated`` what we counted."""

    provider: str
    model: str
    outcome: str
    error: str
    estimated: int
    displayed_bytes: int
    durable_bytes: int


class RetrievalFigures(NamedTuple):
    """What was found for a message, how much of it was chosen, what that takes, and how similar it is."""

    candidates: int
    packed_tokens: int
    similarities: tuple[float, ...]


Noted: TypeAlias = TurnFigures | StepFigures | RetrievalFigures

_noted: deque[Noted] = deque(maxlen=MOST)


def note(what: Noted) -> None:
    """Hold some figures."""
    _noted.append(what)


def note_turn(turn: Turn) -> None:
    """Hold how a turn ended; nothing while it has no end."""
    if turn.outcome is not None:
        note(TurnFigures(turn.model, turn.outcome, turn.usage))


def note_step(step: NewStep, end: StepEnd | None) -> None:
    """Hold how a request to a model ended."""
    if end is not None:
        outcome = end.outcome
        error = outcome.code if isinstance(outcome, Failed) else ""
        kind, tokens = str(outcome.__struct_config__.tag), step.plan.tokens
        how_much = (tokens, end.displayed_bytes, end.durable_bytes)
        note(StepFigures(step.provider, step.model_id, kind, error, *how_much))


def noted() -> list[Noted]:
    """Take over what was noted since the last time, the oldest first."""
    return [_noted.popleft() for _ in range(len(_noted))]
