"""The life cycle of a turn.

    Accepted → ContextPrepared → Responding → ResponseFinalized → StateCommitted → Indexed → Done
        ↘            ↘    (a clarification question skips Responding)
       Failed  ←  from any phase before ResponseFinalized

A turn is one user message and its answer. It may take several steps; each is one provider call. ``TRANSITIONS`` lists
all allowed transitions; the stores enforce it too.

Chunks are cut from the texts of a turn:

    user        the user's message
    assistant   the answer
    tool        tool results in the user's message, then the model's text between calls and the result of each call,
                separated by empty lines

Chunk offsets are character positions in the text of their side; that text never changes once the turn has ended.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from enum import StrEnum
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct

from contextinfinity.domain.ids import BranchId, SessionId, StateId, StepId, TurnId, WorkerId
from contextinfinity.domain.message import (
    AssistantItem,
    ContentBlock,
    Json,
    Message,
    TextBlock,
    ToolOutputItem,
    ToolResultBlock,
    ToolUseBlock,
    TranscriptItem,
    blocks_of,
)
from contextinfinity.domain.plan import Plan
from contextinfinity.domain.search import ChunkSide
from contextinfinity.domain.session import IdempotencyKey, NewSession


class Phase(StrEnum):
    """The phase of a turn."""

    ACCEPTED = "Accepted"
    """Its message is durable; nothing else has happened."""
    CONTEXT_PREPARED = "ContextPrepared"
    """It is next on its branch; its prompt is being built."""
    RESPONDING = "Responding"
    """A provider call is in progress."""
    RESPONSE_FINALIZED = "ResponseFinalized"
    """The answer is durable; the branch is free for the next message."""
    STATE_COMMITTED = "StateCommitted"
    """The branch head includes it."""
    INDEXED = "Indexed"
    """Search finds it."""
    DONE = "Done"
    """All its jobs are done."""
    FAILED = "Failed"
    """It ended before an answer was final; ``error`` says why."""


TRANSITIONS: dict[Phase, frozenset[Phase]] = {
    Phase.ACCEPTED: frozenset({Phase.CONTEXT_PREPARED, Phase.FAILED}),
    Phase.CONTEXT_PREPARED: frozenset({Phase.RESPONDING, Phase.RESPONSE_FINALIZED, Phase.FAILED}),
    Phase.RESPONDING: frozenset({Phase.RESPONSE_FINALIZED, Phase.FAILED}),
    Phase.RESPONSE_FINALIZED: frozenset({Phase.STATE_COMMITTED}),
    Phase.STATE_COMMITTED: frozenset({Phase.INDEXED}),
    Phase.INDEXED: frozenset({Phase.DONE}),
    Phase.DONE: frozenset(),
    Phase.FAILED: frozenset(),
}

OPEN_PHASES = frozenset({Phase.CONTEXT_PREPARED, Phase.RESPONDING})
"""At most one turn of a branch is in one of these."""

UNFINISHED = OPEN_PHASES | {Phase.ACCEPTED}
"""Turns that have not ended yet."""

UNSETTLED_PHASES = OPEN_PHASES | {Phase.ACCEPTED, Phase.RESPONSE_FINALIZED}
"""Turns in these phases block the commit of later turns of their branch."""


class Completed(Struct, frozen=True, kw_only=True, tag="completed"):
    """The model finished its answer."""


class Incomplete(Struct, frozen=True, kw_only=True, tag="incomplete"):
    """The answer was cut short: length limit, content filter, or interruption."""

    reason: str


class Paused(Struct, frozen=True, kw_only=True, tag="paused"):
    """The model waits for tool results."""

    reason: str


class Failed(Struct, frozen=True, kw_only=True, tag="failed"):
    """The provider returned no answer."""

    code: str
    message: str


class Cancelled(Struct, frozen=True, kw_only=True, tag="cancelled"):
    """A user cancelled it."""


StepOutcome: TypeAlias = Completed | Incomplete | Paused | Failed | Cancelled
TurnOutcome: TypeAlias = Literal["completed", "incomplete", "paused", "failed", "cancelled", "clarification"]


AS_SENT = "as_sent"
"""The metadata field for messages of a request that differ from what the prompt would show of the stored ones.

Keys are the ids of the earlier turns they replace; ``message`` is the message to answer.
"""

SIDE = "side"
"""The metadata field, of turns and sessions, with the purpose of a side request (``engine.side_requests``)."""
COMPACTION = "compaction"
"""The metadata field of a session with the turn in which its client last compacted it."""
CONTINUES = "continues"
"""The metadata field of a turn with the branch whose summary its own branch starts from."""

PARAGRAPH = "\n\n"
"""The separator between the text of an answer before and after tool calls."""

Keeping: TypeAlias = Literal["ledger", "local"]
"""Where the latest data of a turn is durable; ``local``: in the spool of its process until the ledger is back."""


class Usage(Struct, frozen=True, kw_only=True):
    """Token counts as reported by the provider, and their cost in US dollars (None if unknown)."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cost: float | None = None

    def __add__(self, other: Usage) -> Usage:
        known = [cost for cost in (self.cost, other.cost) if cost is not None]
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cached_tokens=self.cached_tokens + other.cached_tokens,
            cost=sum(known) if known else None,
        )


class UserSpending(Struct, frozen=True, kw_only=True):
    """What the models of a user's turns cost today and this month (UTC), in US dollars, and the limits."""

    today: float
    month: float
    limit_per_day: float | None = None
    limit_per_month: float | None = None


class Problem(Struct, frozen=True, kw_only=True):
    """The error of a turn, for programs and for people."""

    code: str
    message: str
    hint: str = ""


class PrefixHashes(Struct, frozen=True, kw_only=True):
    """The hashes (``domain.prefix_hash``) of a message from a resent conversation, and of the request."""

    asked: int | None = None
    """The prefix hash including the message. None: the store derives it from the previous turn."""
    before: int | None = None
    """The prefix hash before the message."""
    body: int
    """A hash of the whole request, or of its Idempotency-Key."""
    alone: int | None = None
    """The hash of the message alone; None: hashed as for a message without an end user."""
    follows: int | None = None
    """The turn_seq it must follow, except for failed attempts of the same message; otherwise ``BranchBusy``."""
    is_open: bool = True
    """Whether the request's connection waits for the answer; False for turns replayed from the spool."""


class NewTurn(Struct, frozen=True, kw_only=True):
    """A message to accept.

    ``queue_limit``: reject it when that many turns already wait on the branch. ``begin``: if no turn is before it, it
    becomes ContextPrepared in the same transaction, which saves one flush. ``once``: an idempotency key, so that a
    repeated request creates no second turn. ``trail``: the prefix hashes of the conversation that its client sent.
    ``creates``: the session to create with it, whose ``branch_id`` is this one.
    """

    branch_id: BranchId
    message: Message
    id: TurnId | None = None
    owner: WorkerId | None = None
    retry_of: TurnId | None = None
    metadata: Json = None
    queue_limit: int | None = None
    begin: bool = False
    once: IdempotencyKey | None = None
    trail: PrefixHashes | None = None
    creates: NewSession | None = None


class NewStep(Struct, frozen=True, kw_only=True):
    """A provider call that is about to be made.

    ``closes`` is the end of the previous step, ``inputs`` are the tool outputs it answers, ``texts`` are the texts that
    the plan refers to by hash. All of it becomes durable in one transaction, so that a crash never loses tool results.
    """

    id: StepId
    step_index: int
    provider: str
    model_id: str
    plan: Plan
    inputs: tuple[ToolOutputItem, ...] = ()
    closes: StepEnd | None = None
    texts: tuple[str, ...] = ()


class StepEnd(Struct, frozen=True, kw_only=True):
    """The end of a provider call; ``response`` is the raw reply."""

    step_id: StepId
    outcome: StepOutcome
    items: tuple[TranscriptItem, ...] = ()
    response: bytes | None = None
    usage: Usage = Usage()
    displayed_bytes: int = 0
    durable_bytes: int = 0


class TurnEnd(Struct, frozen=True, kw_only=True):
    """The end of a turn: the answer or the part that was shown, the last step, and the error if it failed.

    A clarification question has no step: its candidates are in ``plan``. ``metadata`` is merged into the turn's own;
    ``latency_ms`` gives the duration of each stage.
    """

    outcome: TurnOutcome
    answer: Message | None = None
    step: StepEnd | None = None
    error: Problem | None = None
    plan: Plan | None = None
    metadata: dict[str, Json] = {}
    latency_ms: dict[str, float] = {}

    def notes(self, turn: Turn) -> dict[str, Any]:
        """Return the turn's metadata merged with the additions, and the latencies."""
        metadata = {**(turn.metadata or {}), **self.metadata} if self.metadata else turn.metadata
        return {"metadata": metadata, "latency_ms": self.latency_ms}


class Exchange(Struct, frozen=True, kw_only=True):
    """A finished turn from an import or an application log, to be recorded unchanged.

    With an ``id`` it is recorded only once, even if it is submitted again. ``asked`` is the prefix hash including its
    message, ``alone`` the hash of the message alone.
    """

    message: Message
    id: TurnId | None = None
    answer: Message | None = None
    created_at: datetime | None = None
    model: str = ""
    metadata: Json = None
    asked: int | None = None
    alone: int | None = None


class Turn(Struct, frozen=True, kw_only=True):
    """One message and its answer."""

    id: TurnId
    session_id: SessionId
    branch_id: BranchId
    turn_seq: int
    phase: Phase
    state_before: StateId
    user_message: Message
    created_at: datetime
    updated_at: datetime
    state_after: StateId | None = None
    rounds: tuple[TranscriptItem, ...] = ()
    """Tool calls, results and text before the answer, in order; set when the turn has ended."""
    answer: Message | None = None
    outcome: TurnOutcome | None = None
    error: Problem | None = None
    usage: Usage = Usage()
    provider: str = ""
    model: str = ""
    owner: WorkerId | None = None
    retry_of: TurnId | None = None
    degraded: bool = False
    cancel_requested: bool = False
    metadata: Json = None
    latency_ms: dict[str, float] = {}
    """The duration of each stage in milliseconds; stages after the answer are added when they end."""
    durability: Keeping = "ledger"
    has_place: bool = True
    """False: the ledger has not accepted it, and ``turn_seq`` is only the expected number."""

    @property
    def text(self) -> str:
        """The text of the answer; the texts before and after tool calls are separate paragraphs."""
        answer = "" if self.answer is None else self.answer.rendered_text
        if not self.rounds:
            return answer
        texts = [""]
        for item in self.rounds:
            if isinstance(item, ToolOutputItem):
                texts.append("")
            elif isinstance(item, AssistantItem):
                texts[-1] += "".join([block.text for block in item.blocks if isinstance(block, TextBlock)])
        texts[-1] += answer
        return PARAGRAPH.join(filter(None, texts))


class Step(Struct, frozen=True, kw_only=True):
    """One provider call of a turn."""

    id: StepId
    turn_id: TurnId
    step_index: int
    provider: str
    model_id: str
    plan: Plan
    started_at: datetime
    inputs: tuple[ToolOutputItem, ...] = ()
    items: tuple[TranscriptItem, ...] = ()
    outcome: StepOutcome | None = None
    response: bytes | None = None
    usage: Usage = Usage()
    displayed_bytes: int = 0
    durable_bytes: int = 0
    ended_at: datetime | None = None


Side: TypeAlias = ChunkSide

BETWEEN = "\n\n"
_LONGEST_CALL = 300
"""The number of characters of a call's arguments that are kept to describe its result."""


class Passage(Struct, frozen=True):
    """A contiguous passage of a side; ``call`` is the tool call whose result it is."""

    start: int
    end: int
    result: bool = False
    call: str = ""


class TurnSide(Struct, frozen=True):
    """One side of a turn."""

    side: Side
    text: str
    passages: tuple[Passage, ...]


def sides_of(turn: Turn) -> tuple[TurnSide, ...]:
    """Return the non-empty sides of a turn."""
    answer = turn.answer.rendered_text if turn.answer else ""
    sides = (_plain("user", turn.user_message.rendered_text), _tools(turn), _plain("assistant", answer))
    return tuple(spoken for spoken in sides if spoken.text.strip())


def side_text(turn: Turn, side: Side) -> str:
    """Return the text of a side, to which chunk offsets refer."""
    return next((spoken.text for spoken in sides_of(turn) if spoken.side == side), "")


def _plain(side: Side, text: str) -> TurnSide:
    return TurnSide(side, text, (Passage(0, len(text)),))


def _tools(turn: Turn) -> TurnSide:
    calls: dict[str, str] = {}
    blocks = [block for block in turn.user_message.blocks if isinstance(block, ToolResultBlock)]
    passages, texts, place = list[Passage](), list[str](), 0
    for text, result, call in _rows((*blocks, *blocks_of(turn.rounds)), calls):
        passages.append(Passage(place, place + len(text), result, call))
        texts.append(text)
        place += len(text) + len(BETWEEN)
    return TurnSide("tool", BETWEEN.join(texts), tuple(passages))


def _rows(blocks: Iterable[ContentBlock], calls: dict[str, str]) -> Iterator[tuple[str, bool, str]]:
    for block in blocks:
        if isinstance(block, ToolUseBlock):
            arguments = msgspec.json.encode(block.input).decode()[:_LONGEST_CALL]
            calls[block.tool_use_id] = f"{block.name} {arguments}"
        elif isinstance(block, TextBlock) and block.text.strip():
            yield block.text, False, ""
        elif isinstance(block, ToolResultBlock):
            text = BETWEEN.join(part.text for part in block.content if isinstance(part, TextBlock) and part.text)
            if text.strip():
                yield text, True, calls.get(block.tool_use_id, "")
