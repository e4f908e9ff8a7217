"""The life of a turn.

    Accepted → ContextPrepared → Responding → ResponseFinalized → StateCommitted → Indexed → Done
        ↘            ↘    (a question asked back skips Responding)
       Failed  ←  from any phase before ResponseFinalized

A turn is what one request brings and the answer to it. It may take several steps, each one provider
call. ``TRANSITIONS`` is the whole of what may follow what; the stores enforce it too.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from contextinfinity.domain.ids import BranchId, SessionId, StateId, StepId, TurnId, WorkerId
from contextinfinity.domain.message import AssistantItem, Json, Message, TextBlock, ToolOutputItem, TranscriptItem
from contextinfinity.domain.plan import Plan
from contextinfinity.domain.session import IdempotencyKey, NewSession


class Phase(StrEnum):
    """Where a turn stands."""

    ACCEPTED = "Accepted"
    """Its message is durable; nothing else has happened."""
    CONTEXT_PREPARED = "ContextPrepared"
    """It is its branch's turn to be answered; what the model will see is being put together."""
    RESPONDING = "Responding"
    """A provider call is under way."""
    RESPONSE_FINALIZED = "ResponseFinalized"
    """The answer is durable; the branch is free for the next message."""
    STATE_COMMITTED = "StateCommitted"
    """The branch head counts past it."""
    INDEXED = "Indexed"
    """It can be found by search."""
    DONE = "Done"
    """Nothing is left to do."""
    FAILED = "Failed"
    """It ended before an answer was final; why stands in ``error``."""


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
"""Turns without an end yet."""

UNSETTLED_PHASES = OPEN_PHASES | {Phase.ACCEPTED, Phase.RESPONSE_FINALIZED}
"""Turns a later turn of the branch cannot be committed past."""


class Completed(Struct, frozen=True, kw_only=True, tag="completed"):
    """The model said all it wanted to."""


class Incomplete(Struct, frozen=True, kw_only=True, tag="incomplete"):
    """Cut short: length, filter, interrupted."""

    reason: str


class Paused(Struct, frozen=True, kw_only=True, tag="paused"):
    """The model waits for tools."""

    reason: str


class Failed(Struct, frozen=True, kw_only=True, tag="failed"):
    """No answer came."""

    code: str
    message: str


class Cancelled(Struct, frozen=True, kw_only=True, tag="cancelled"):
    """A person stopped it."""


StepOutcome: TypeAlias = Completed | Incomplete | Paused | Failed | Cancelled
TurnOutcome: TypeAlias = Literal["completed", "incomplete", "paused", "failed", "cancelled", "clarification"]


AS_SENT = "as_sent"
"""The metadata field of a turn that keeps messages of its request which differ from what the prompt would show of the
stored ones: by the id of the earlier turn the messages that stand in its place, by ``this`` the message to answer."""

SIDE = "side"
"""The metadata field, of a turn and of a session, that says what a side request is for (``engine.side_requests``)."""
COMPACTION = "compaction"
"""The metadata field of a session that names the turn in which its client had it summarised last."""
CONTINUES = "continues"
"""The metadata field of a turn that names the branch with whose summary its own branch begins."""

PARAGRAPH = "\n\n"
"""Stands between what an answer says before tools ran and after."""

Keeping: TypeAlias = Literal["ledger", "local"]
"""Where the newest of a turn is durable; ``local``: in the spool of its process, until the ledger is there again."""


class Usage(Struct, frozen=True, kw_only=True):
    """Tokens as the provider counted them, and what they cost (US dollars; None: unknown)."""

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


class Problem(Struct, frozen=True, kw_only=True):
    """What went wrong with a turn, for programs and for people."""

    code: str
    message: str
    hint: str = ""


class PrefixHashes(Struct, frozen=True, kw_only=True):
    """The hashes (``domain.trail``) of a message that came with a resent conversation, and which request brought it."""

    asked: int | None = None
    """The prefix hash up to and with the message. None: the store derives it from the turn before, as for any turn."""
    before: int | None = None
    """The prefix hash up to the message, without it."""
    body: int
    """A hash of the whole request, or of its Idempotency-Key."""
    alone: int | None = None
    """The hash of the message alone; None: as of a message without an end user."""
    follows: int | None = None
    """The turn_seq it has to follow, behind failed attempts of the same message at most: else ``BranchBusy``."""
    is_open: bool = True
    """Whether the request's connection waits for the answer; a turn that lands later came with one of the past."""


class NewTurn(Struct, frozen=True, kw_only=True):
    """A message to be accepted.

    ``queue_limit``: refuse when that many already wait on the branch. ``begin``: when nothing stands before it, it
    is ContextPrepared at once, in the same transaction: one flush less before the model is asked. ``once``: the same
    request never makes a second turn. ``trail``: where it stands in what its sender knows, where they said so.
    ``creates``: the session that is created with it, whose ``branch_id`` is this one.
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
    """A provider call about to be made.

    ``closes`` is the end of the step it goes on from, ``inputs`` are the tool outputs it answers, ``texts`` what the
    plan refers to by hash: all of it becomes durable together, so that no crash leaves calls whose results are lost.
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
    """How a provider call ended; ``response`` is the raw reply."""

    step_id: StepId
    outcome: StepOutcome
    items: tuple[TranscriptItem, ...] = ()
    response: bytes | None = None
    usage: Usage = Usage()
    displayed_bytes: int = 0
    durable_bytes: int = 0


class TurnEnd(Struct, frozen=True, kw_only=True):
    """How a turn ended: the answer or what was shown of it, the last step, the reason if it failed.

    A question asked back has no step: its candidates stand in ``plan``. ``metadata`` is added to the turn's own;
    ``latency_ms`` says how long each stage took.
    """

    outcome: TurnOutcome
    answer: Message | None = None
    step: StepEnd | None = None
    error: Problem | None = None
    plan: Plan | None = None
    metadata: dict[str, Json] = {}
    latency_ms: dict[str, float] = {}

    def notes(self, turn: Turn) -> dict[str, Any]:
        """Give the fields of the turn besides its answer: its metadata with what is added, and the latencies."""
        metadata = {**(turn.metadata or {}), **self.metadata} if self.metadata else turn.metadata
        return {"metadata": metadata, "latency_ms": self.latency_ms}


class Exchange(Struct, frozen=True, kw_only=True):
    """A finished turn from elsewhere (an import, a small log), to be recorded as it is.

    With an ``id`` it is recorded once, however often it is brought. ``asked`` is the trail up to its message, ``alone``
    that of its message alone.
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
    """What went to and fro between model and tools before the answer, in order; known once the turn has ended."""
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
    """How long the stages took, in milliseconds; those that run after the answer are added as they end."""
    durability: Keeping = "ledger"
    has_place: bool = True
    """False: the ledger does not know it yet, and ``turn_seq`` is the place it takes if nobody else speaks first."""

    @property
    def text(self) -> str:
        """The words of the answer; what was said before tools ran and what was said after are two paragraphs."""
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
