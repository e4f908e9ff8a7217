"""The material of a prompt before layout: plain values, gathered once per turn.

Only ``rounds`` grows during the steps of a turn; everything else stays the same.

An earlier turn is rendered in a later prompt with roles that are valid for every provider:

| how it ended                                   | what the model reads                                             |
| ---------------------------------------------- | ---------------------------------------------------------------- |
| answered, length limit, waits for tools        | both messages unchanged                                          |
| cancelled by a user, with text                 | the message, the text shown, ``[stopped here]``                  |
| interrupted by a crash, with text              | the message, the text shown, ``[cut off here]``                  |
| no text at all                                 | the message, ``[no answer]``; nothing if the next is its retry   |
| too large to be sent                           | the first 200 characters, and a note if that is not all          |
| a clarification question                       | the question, as the answer                                      |
| logged, by the assistant or as a system text   | that message alone                                               |
| logged, by a tool, without the call            | ``[a tool gave back]`` and its text, as a user message           |

Tool calls and results are shown between message and answer. A call without a result gets a constant result in the
prompt, never in the ledger. Reasoning is shown only to the model that produced it, and only during its turn.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import groupby

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from contextinfinity.domain.ids import ChunkId, SessionId, TurnId
from contextinfinity.domain.message import (
    ContentBlock,
    Json,
    Message,
    TextBlock,
    ToolOutputItem,
    ToolResultBlock,
    ToolUseBlock,
    TranscriptItem,
    blocks_of,
    is_kept,
    kept_block,
    say,
)
from contextinfinity.domain.plan import LAYOUT_VERSION, Front
from contextinfinity.domain.prompt import WorkspaceText
from contextinfinity.domain.search import ChunkSide
from contextinfinity.domain.turn import AS_SENT, Phase, Turn
from contextinfinity.text.tokens import Counter, Weight

STOPPED = "[stopped here]"
CUT_OFF = "[cut off here]"
NO_ANSWER = "[no answer]"
NOT_RUN = "[not run]"
INTERRUPTED = "[interrupted; it may have run]"
FROM_A_TOOL = "[a tool gave back]"
TOO_LARGE = "[the rest of this message was too large to be sent]"
KEPT_OF_TOO_LARGE = 200


def render_turn(turn: Turn, following: Turn | None, layout: int = LAYOUT_VERSION) -> tuple[Message, ...]:
    """Render one turn; ``following`` is the turn after it, which may be the current one.

    ``layout`` is the layout version of the plan.
    """
    between = render_rounds(turn.rounds)
    if turn.answer is None or not _has_content(turn.answer.blocks):
        if following is not None and _is_omitted(turn, following):
            return ()
        if turn.phase is Phase.DONE and turn.outcome is None:
            return _unanswered(turn, following, layout)
        mark = _mark(turn) if turn.text else None
        return *_user_messages(turn, layout), *between, say("assistant", mark or NO_ANSWER)
    return *_user_messages(turn, layout), *between, *_answer(turn, turn.answer, following)


def render_rounds(items: Iterable[TranscriptItem], *, running: bool = False) -> tuple[Message, ...]:
    """Render the messages of a tool loop; reasoning is included only if the turn is ``running``."""
    messages = []
    for is_output, group in groupby(items, lambda item: isinstance(item, ToolOutputItem)):
        blocks = tuple(block for item in group for block in _blocks(item, running))
        if blocks:
            messages.append(Message(role="tool" if is_output else "assistant", blocks=blocks))
    return tuple(messages)


def _blocks(item: TranscriptItem, running: bool) -> tuple[ContentBlock, ...]:
    return (kept_block(item),) if running and is_kept(item) else blocks_of((item,))


def has_no_output(turn: Turn) -> bool:
    """Return whether a turn ended without text and calls, so that its retry may replace it."""
    return not turn.text and (turn.answer is None or not _has_content(turn.answer.blocks))


def _is_omitted(turn: Turn, following: Turn) -> bool:
    """Return whether a turn without an answer can be omitted: the next one retries it with the same tool results."""
    return (
        following.retry_of == turn.id
        and has_no_output(turn)
        and _call_ids_with_results(turn) <= _call_ids_with_results(following)
    )


def _call_ids_with_results(turn: Turn) -> set[str]:
    """Return the ids of the calls whose results a turn's message contains."""
    return {block.tool_use_id for block in turn.user_message.blocks if isinstance(block, ToolResultBlock)}


def _unanswered(turn: Turn, following: Turn | None, layout: int) -> tuple[Message, ...]:
    """Render a logged turn without an answer; ``[no answer]`` is added unless the log continues with one."""
    message = turn.user_message
    if message.role == "assistant":
        return _answer(turn, message, following) if _has_content(message.blocks) else ()
    if message.role == "system" or (following is not None and _continues_answer(following)):
        return _user_messages(turn, layout)
    return *_user_messages(turn, layout), say("assistant", NO_ANSWER)


def _continues_answer(following: Turn) -> bool:
    """Return whether a logged turn continues the answer to the message before it."""
    role = following.user_message.role
    return role in ("assistant", "tool") or (role == "system" and following.answer is not None)


def _user_messages(turn: Turn, layout: int) -> tuple[Message, ...]:
    """Return the user's message, or its beginning if it was too large to send; each call keeps a result.

    Layout 1 added the note to short messages as well, although they were complete.
    """
    message = turn.user_message
    results = [block for block in message.blocks if isinstance(block, ToolResultBlock)]
    if (
        turn.error is not None
        and turn.error.code == "size"
        and (layout == 1 or _length(message.blocks) > KEPT_OF_TOO_LARGE)
    ):
        begins = TextBlock(text=f"{message.rendered_text[:KEPT_OF_TOO_LARGE]}\n{TOO_LARGE}")
        cut = (replace(result, content=(TextBlock(text=TOO_LARGE),)) for result in results)
        return (Message(role=message.role, blocks=(*cut, begins)),)
    if message.role == "system" and not message.rendered_text.strip():
        return ()
    if message.role == "tool" and not results:
        return (say("user", f"{FROM_A_TOOL}\n{message.rendered_text}"),)
    return (message,)


def _length(blocks: Sequence[ContentBlock]) -> float:
    """Count the characters of a message and of its tool results; an image is infinitely large."""
    length = 0.0
    for block in blocks:
        if isinstance(block, ToolResultBlock):
            length += _length(block.content)
        else:
            length += len(block.text) if isinstance(block, TextBlock) else math.inf
    return length


def _answer(turn: Turn, answer: Message, following: Turn | None) -> tuple[Message, ...]:
    """Render the answer, the results of its calls, and a mark if it was cancelled or interrupted."""
    blocks = tuple(block for block in answer.blocks if not isinstance(block, ToolResultBlock))
    results = _results(turn, answer, following)
    mark = _mark(turn)
    if mark is not None and not results:
        blocks = (*blocks, TextBlock(text=f"\n{mark}"))
    messages: tuple[Message, ...] = (Message(role=answer.role, blocks=blocks),)
    if results:
        messages += (Message(role="tool", blocks=results),)
        messages += (say("assistant", mark),) if mark is not None else ()
    return messages


def _mark(turn: Turn) -> str | None:
    """Return the mark for a cancelled or interrupted answer."""
    if turn.outcome == "cancelled":
        return STOPPED
    return CUT_OFF if turn.phase is Phase.FAILED else None


def _has_content(blocks: Sequence[ContentBlock]) -> bool:
    return any(isinstance(block, ToolUseBlock) or (isinstance(block, TextBlock) and block.text) for block in blocks)


def _results(turn: Turn, answer: Message, following: Turn | None) -> tuple[ToolResultBlock, ...]:
    """Return the results of an answer's calls; calls without a result in the next turn get a constant one."""
    calls = [block for block in answer.blocks if isinstance(block, ToolUseBlock)]
    if not calls:  # fast path: each prompt renders hundreds of turns
        return ()
    came = {block.tool_use_id: block for block in answer.blocks if isinstance(block, ToolResultBlock)}
    brought = _call_ids_with_results(following) if following else set()
    interrupted = turn.error is not None and turn.error.code == "interrupted"
    missing = (TextBlock(text=INTERRUPTED if interrupted else NOT_RUN),)
    return tuple(
        came.get(call.tool_use_id) or ToolResultBlock(tool_use_id=call.tool_use_id, content=missing, is_error=True)
        for call in calls
        if call.tool_use_id not in brought
    )


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
