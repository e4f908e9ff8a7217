"""The material of a prompt before layout: plain values, gathered once per turn.

Only ``rounds`` grows during the steps of a turn; everything else stays the same.
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
from contextinfinity.domain.turn import AS_SENT, Turn
from contextinfinity.domain.workspace_prompt import WorkspaceText
from contextinfinity.prompt.render import render_turn
from contextinfinity.text.tokens import Counter, Weight


class Artifact(Struct, frozen=True, kw_only=True):
    """Retrieved text: characters ``start`` to ``end`` of one side of an earlier turn."""

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
    """Whether ``text`` is a summary of that span."""
    score: float = 1.0
    uncut: TurnId | None = None
    """The turn, if it has not been chunked yet."""
    conversation: SessionId = ""
    """The other conversation of the same owner that it comes from, if the prompt names it."""
    superseded_by: int = 0
    """The turn with a newer statement about the same subject; 0 if there is none."""


class Shown(Struct, frozen=True, kw_only=True):
    """An earlier turn as rendered for the model."""

    turn_seq: int
    messages: tuple[Message, ...]
    at: datetime | None = None


class Sections(Struct, frozen=True, kw_only=True):
    """The material of a prompt."""

    front: Front
    turn_seq: int
    message: Message
    covers: int = 0
    """The last turn that the summary covers."""
    turns: tuple[Shown, ...] = ()
    artifacts: tuple[Artifact, ...] = ()
    contextualised: str | None = None
    remembered: str = ""
    """The memories that are relevant to this question, one per line."""
    rounds: tuple[Message, ...] = ()
    lead: tuple[Message, ...] = ()
    """Messages that the client sent before this one in the same request."""
    begun: tuple[Message, ...] = ()
    """Messages that the client sent after this one: the prefilled start of an answer."""
    bridge: tuple[int, int] | None = None
    """The two turns that the first of ``turns`` replaces, if it is a bridge (``prompt.tasks``)."""
    layout: int = LAYOUT_VERSION
    workspace: WorkspaceText | None = None


WHOLE, MESSAGE = "turn", "message"
"""Keys in ``AS_SENT`` of messages that are shown in place of the turn that holds them, or of its message alone."""
THIS = "this"
"""Once the key of messages in place of the turn's own one, that later requests did not inherit."""


class RenderCache:
    """A cache of the rendered and counted turns of one branch, so that a request processes only new turns.

    An entry is valid for the same ``Turn`` objects only: a turn that is loaded again is rendered again.
    """

    def __init__(self) -> None:
        self._entries: dict[int, _Entry] = {}

    def render(self, turns: Sequence[Turn], then: Turn | None) -> list[Shown]:
        """Render turns in the current layout; ``then`` is the turn after the last of them."""
        shown = []
        for turn, after in zip(turns, [*turns[1:], then], strict=False):
            entry = self._entries.get(turn.turn_seq)
            if entry is None or entry.turn is not turn or entry.after is not after:
                entry = self._entries[turn.turn_seq] = _Entry(turn, after, _shown(turn, render_turn(turn, after)))
            shown.append(entry.shown)
        return shown

    def tokens(self, counter: Counter, turns: Sequence[Shown]) -> int:
        """Count the tokens of turns."""
        total, scale = 0, counter.scale
        for shown in turns:
            entry = self._entries.get(shown.turn_seq)
            if entry is None or entry.shown is not shown:  # it was changed after rendering
                total += sum(map(counter.count, shown.messages))
                continue
            counted, tokens = entry.counted.get(counter, (None, 0))
            if counted != scale:  # not counted yet, or the counter was recalibrated
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
    """Render turns, oldest first; ``then`` is the turn after them, on which the rendering depends.

    If a later request sent a turn in different bytes, those are shown (``AS_SENT``). ``cache`` is used for the current
    layout only.
    """
    sent = _as_sent([*turns, *(() if then is None else (then,))])
    if cache is not None and layout == LAYOUT_VERSION:
        shown = cache.render(turns, then)
    else:
        pairs = zip(turns, [*turns[1:], then], strict=False)
        shown = [_shown(turn, render_turn(turn, after, layout)) for turn, after in pairs]
    for place, turn in enumerate(turns if sent else ()):
        messages = shown[place].messages
        if turn.id in sent:
            shown[place] = _shown(turn, sent[turn.id])
        elif MESSAGE + turn.id in sent and messages and messages[0] is turn.user_message:
            shown[place] = _shown(turn, (*sent[MESSAGE + turn.id], *messages[1:]))
    return tuple(shown)


def _shown(turn: Turn, messages: tuple[Message, ...]) -> Shown:
    return Shown(turn_seq=turn.turn_seq, messages=messages, at=turn.created_at)


def message_of(turn: Turn) -> tuple[tuple[Message, ...], Message, tuple[Message, ...]]:
    """Return the message of the current turn as it was sent, with the messages sent before and after it."""
    own = _as_sent([turn])
    sent = own.get(THIS, own.get(MESSAGE + turn.id, ()))
    places = [place for place, message in enumerate(sent) if message.role in ("user", "tool") and message.blocks]
    if not places:
        return (), turn.user_message, ()
    return sent[: places[-1]], sent[places[-1]], sent[places[-1] + 1 :]


def as_sent_field(sent: Mapping[str, Sequence[Message]], stored: Mapping[str, Sequence[Message]]) -> dict[str, Json]:
    """Build the metadata that ``shown_turns`` and ``message_of`` read.

    A message whose blocks are ``stored`` with its turn is written as a reference to them.
    """
    written = {key: [_reference(one, stored.get(key, ())) for one in messages] for key, messages in sent.items()}
    return {AS_SENT: written} if written else {}


def _reference(message: Message, stored: Sequence[Message]) -> Json:
    length = len(message.blocks)
    for side, content in enumerate(stored):
        for first in range(len(content.blocks) - length + 1 if length else 0):
            if content.blocks[first : first + length] == message.blocks:
                place = {"role": message.role, "side": side, "first": first, "length": length}
                return place | ({} if message.wire is None else {"wire": message.wire})
    found: Json = msgspec.json.decode(msgspec.json.encode(message))
    return found


def _message(value: Json, turn: Turn | None) -> Message:
    """Decode a message, or resolve a reference to one."""
    if isinstance(value, dict) and "side" in value and turn is not None:
        sides = (turn.user_message, turn.answer)
        content = sides[value["side"]]
        blocks = () if content is None else content.blocks[value["first"] : value["first"] + value["length"]]
        return Message(role=value["role"], blocks=blocks, wire=value.get("wire"))
    return msgspec.convert(value, Message)


def _as_sent(turns: Iterable[Turn]) -> dict[str, tuple[Message, ...]]:
    """Collect the messages that were sent in different bytes; the newest request wins."""
    found: dict[str, Json] = {}
    known: dict[str, Turn] = {}
    for turn in turns:
        own: dict[str, str] = {WHOLE: turn.id, MESSAGE: MESSAGE + turn.id}
        known |= dict.fromkeys((turn.id, THIS, MESSAGE + turn.id), turn)
        if isinstance(turn.metadata, dict) and isinstance(sent := turn.metadata.get(AS_SENT), dict):
            found.update({own.get(key, str(key)): messages for key, messages in sent.items()})
    try:
        return {
            key: tuple(_message(value, known.get(key)) for value in messages)
            for key, messages in found.items()
            if key in known
        }
    except (msgspec.ValidationError, LookupError, TypeError):  # imported turns may have any metadata
        return {}
