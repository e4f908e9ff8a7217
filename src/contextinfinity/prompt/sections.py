"""What a prompt is made of, before it is laid out: plain values, gathered once a turn.

Only ``rounds`` grows from step to step of a turn; all else stays the same in all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import msgspec
from msgspec import Struct

from contextinfinity.domain.chunk import ChunkSide
from contextinfinity.domain.ids import ChunkId, SessionId, TurnId
from contextinfinity.domain.message import Json, Message
from contextinfinity.domain.plan import LAYOUT_VERSION, Front
from contextinfinity.domain.turn import Turn
from contextinfinity.prompt.render import render_turn
from contextinfinity.text.tokens import Counter, Weight


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
    conversation: SessionId = ""
    """The other conversation of the same owner in which it was said, where the prompt names it."""
    superseded_by: int = 0
    """The turn with a newer statement about the same thing; 0 if there is none."""


class Shown(Struct, frozen=True, kw_only=True):
    """An earlier turn as the model reads it."""

    turn_seq: int
    messages: tuple[Message, ...]
    at: datetime | None = None


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
    bridge: tuple[int, int] | None = None
    """The two turns that the first of ``turns`` stands for, where that is a bridge (``prompt.tasks``)."""
    layout: int = LAYOUT_VERSION


AS_SENT = "as_sent"
"""The metadata field of a turn that keeps messages of its request which differ from what the prompt would show of the
stored ones: by the id of the earlier turn the messages that stand in its place, by ``THIS`` the message to answer."""
THIS = "this"


class RenderCache:
    """The turns of one branch as they were rendered and counted last, so that a request does so only for new ones.

    A rendering is valid for the very ``Turn`` objects it was made from: a turn that is read again is rendered again.
    """

    def __init__(self) -> None:
        self._entries: dict[int, _Entry] = {}

    def render(self, turns: Sequence[Turn], then: Turn | None) -> list[Shown]:
        """Render turns in the current layout; ``then`` is the turn that follows the last of them."""
        shown = []
        for turn, after in zip(turns, [*turns[1:], then], strict=False):
            entry = self._entries.get(turn.turn_seq)
            if entry is None or entry.turn is not turn or entry.after is not after:
                entry = self._entries[turn.turn_seq] = _Entry(turn, after, _shown(turn, render_turn(turn, after)))
            shown.append(entry.shown)
        return shown

    def tokens(self, counter: Counter, turns: Sequence[Shown]) -> int:
        """Count turns."""
        total, scale = 0, counter.scale
        for shown in turns:
            entry = self._entries.get(shown.turn_seq)
            if entry is None or entry.shown is not shown:  # something of it was replaced
                total += sum(map(counter.count, shown.messages))
                continue
            counted, tokens = entry.counted.get(counter, (None, 0))
            if counted != scale:  # it was never counted, or the counter has learned since
                if (weights := entry.weights.get(counter)) is None:
                    weights = entry.weights[counter] = tuple(map(counter.weigh, shown.messages))
                tokens = counter.total(weights)
                entry.counted[counter] = scale, tokens
            total += tokens
        return total


@dataclass(slots=True)
class _Entry:
    turn: Turn
    after: Turn | None
    shown: Shown
    weights: dict[Counter, tuple[Weight, ...]] = field(default_factory=dict)
    counted: dict[Counter, tuple[float, int]] = field(default_factory=dict)


def shown_turns(
    turns: Sequence[Turn], then: Turn | None, layout: int = LAYOUT_VERSION, *, cache: RenderCache | None = None
) -> tuple[Shown, ...]:
    """Render turns, oldest first; ``then`` is the one after them: how a turn reads depends on it.

    Where a later request sent a turn in other bytes, those are shown (``AS_SENT``). ``cache`` is used for the current
    layout only.
    """
    sent = _as_sent([*turns, *(() if then is None else (then,))])
    if cache is not None and layout == LAYOUT_VERSION:
        shown = cache.render(turns, then)
    else:
        pairs = zip(turns, [*turns[1:], then], strict=False)
        shown = [_shown(turn, render_turn(turn, after, layout)) for turn, after in pairs]
    for place, turn in enumerate(turns if sent else ()):
        if turn.id in sent:
            shown[place] = _shown(turn, sent[turn.id])
    return tuple(shown)


def _shown(turn: Turn, messages: tuple[Message, ...]) -> Shown:
    return Shown(turn_seq=turn.turn_seq, messages=messages, at=turn.created_at)


def message_of(turn: Turn) -> Message:
    """Return the message of a turn that is being answered, as it was sent."""
    return next(iter(_as_sent([turn]).get(THIS, ())), turn.user_message)


def as_sent_field(sent: Mapping[str, Sequence[Message]]) -> dict[str, Json]:
    """Write the metadata that ``shown_turns`` and ``message_of`` read."""
    return {AS_SENT: msgspec.json.decode(msgspec.json.encode(sent))} if sent else {}


def _as_sent(turns: Iterable[Turn]) -> dict[str, tuple[Message, ...]]:
    """Collect the messages that were sent in other bytes; the newest request decides."""
    found: dict[str, Json] = {}
    for turn in turns:
        if isinstance(turn.metadata, dict) and isinstance(sent := turn.metadata.get(AS_SENT), dict):
            found.update(sent)
    try:
        return msgspec.convert(found, dict[str, tuple[Message, ...]]) if found else {}
    except msgspec.ValidationError:  # an import may bring any metadata
        return {}
