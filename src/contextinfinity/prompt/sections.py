"""What a prompt is made of, before it is laid out: plain values, gathered once a turn.

Only ``rounds`` grows from step to step of a turn; all else stays the same in all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from msgspec import Struct

from contextinfinity.domain.chunk import ChunkSide
from contextinfinity.domain.ids import ChunkId, TurnId
from contextinfinity.domain.message import Message
from contextinfinity.domain.plan import LAYOUT_VERSION, Front
from contextinfinity.domain.turn import Turn
from contextinfinity.prompt.render import render_turn


class Artifact(Struct, frozen=True, kw_only=True):
    """A piece of the past brought back for this question: what stands at ``start`` to ``end`` of one side of a turn."""

    chunk_id: ChunkId
    side: ChunkSide
    text: str
    start: int
    end: int
    tokens: int
    said_at: datetime
    speaker: str = ""
    turn_seq: int = 0
    """The turn of this conversation in which it was said; 0 for another conversation."""
    is_summary: bool = False
    """Whether ``text`` is a summary of what stands there."""
    score: float = 1.0
    uncut: TurnId | None = None
    """The turn it is of, where that is not cut into chunks yet."""
    superseded_by: int = 0
    """The turn with a newer statement about the same thing; 0 if there is none."""


class Shown(Struct, frozen=True, kw_only=True):
    """An earlier turn as the model reads it."""

    turn_seq: int
    messages: tuple[Message, ...]


class Sections(Struct, frozen=True, kw_only=True):
    """The material of a prompt."""

    front: Front
    turn_seq: int
    message: Message
    covers: int = 0
    """The last turn that the summary stands for."""
    turns: tuple[Shown, ...] = ()
    artifacts: tuple[Artifact, ...] = ()
    contextualised: str | None = None
    remembered: str = ""
    """What is remembered and matters for this question, a line a fact."""
    rounds: tuple[Message, ...] = ()
    layout: int = LAYOUT_VERSION


def shown_turns(turns: Sequence[Turn], then: Turn | None, layout: int = LAYOUT_VERSION) -> tuple[Shown, ...]:
    """Render turns, oldest first; ``then`` is the one after them: how a turn reads depends on it."""
    return tuple(
        Shown(turn_seq=turn.turn_seq, messages=render_turn(turn, after, layout))
        for turn, after in zip(turns, [*turns[1:], then], strict=False)
    )
