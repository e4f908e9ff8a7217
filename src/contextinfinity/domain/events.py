"""Events that a caller receives while a turn is answered, in order.

The first event is always ``TurnStarted`` and the last ``TurnDone``. The tags are the names used in the HTTP APIs.
Compaction runs in the background and has its own events.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Literal, TypeAlias

from msgspec import UNSET, Struct, UnsetType

from contextinfinity.domain.ids import BranchId, SessionId, StepId, TurnId
from contextinfinity.domain.message import Json, ReasoningItem, UnknownItem
from contextinfinity.domain.prompt import CallPiece
from contextinfinity.domain.state import FoldCase
from contextinfinity.domain.turn import Phase, Problem, TurnOutcome, Usage


class FinishedTurn(Struct, frozen=True, kw_only=True):
    """A turn whose answer is durable, as every API returns it.

    ``durability`` is set only when it is ``local``: the ledger is unavailable and the turn is in the local spool of
    this process. Such a turn has no turn_seq unless the ledger had accepted it before.
    """

    thread_id: SessionId
    branch_id: BranchId
    turn_id: TurnId
    turn_seq: int | None
    phase: Phase
    outcome: TurnOutcome
    text: str
    usage: Usage
    model: str
    created_at: datetime
    error: Problem | None = None
    durability: Literal["local"] | UnsetType = UNSET


class TurnStarted(Struct, frozen=True, kw_only=True, tag="turn"):
    """The message is durable; ``durability`` and turn_seq are as in ``FinishedTurn``."""

    thread_id: SessionId
    branch_id: BranchId
    turn_id: TurnId
    turn_seq: int | None
    found: bool
    turns_loaded: int
    model: str | None = None
    durability: Literal["local"] | UnsetType = UNSET


class StepStarted(Struct, frozen=True, kw_only=True, tag="step"):
    """A request was sent to a provider."""

    step_id: StepId
    step_index: int
    provider: str
    model: str


class Delta(Struct, frozen=True, kw_only=True, tag="delta", omit_defaults=True):
    """A piece of the answer; ``logprobs`` as in ``TextDelta``."""

    text: str
    logprobs: Json = None


class CallStreamed(Struct, frozen=True, kw_only=True, tag="call_piece"):
    """A piece of a tool call as it is streamed; sent only to callers that ask for it."""

    piece: CallPiece


class Reasoned(Struct, frozen=True, kw_only=True, tag="reasoning"):
    """A complete item that is not text or a call; sent only to callers that ask for it."""

    item: ReasoningItem | UnknownItem


class Durability(Struct, frozen=True, kw_only=True, tag="durability"):
    """The number of bytes shown so far, and how many of them are durable."""

    displayed: int
    durable: int


class ToolCalled(Struct, frozen=True, kw_only=True, tag="tool"):
    """A tool was called, or returned its result."""

    call_id: str
    name: str
    arguments: Json = None
    output: Json = None
    is_error: bool = False


class Retrying(Struct, frozen=True, kw_only=True, tag="retry"):
    """The provider failed to answer; the request is retried."""

    attempt: int
    reason: str
    wait_seconds: float


class ClarificationOption(Struct, frozen=True, kw_only=True):
    """A candidate of a clarification question. A reply with its id or its name selects it."""

    id: str
    name: str


class Clarification(Struct, frozen=True, kw_only=True, tag="clarification"):
    """A question to the user: which of several candidates is meant."""

    question: str
    candidates: tuple[ClarificationOption, ...]

    @classmethod
    def of(cls, question: str, names: Iterable[str]) -> Clarification:
        """Build the event from the candidate names; ids are their positions in the question, from 1."""
        numbered = (ClarificationOption(id=str(number), name=name) for number, name in enumerate(names, start=1))
        return cls(question=question, candidates=tuple(numbered))


class TurnDone(Struct, frozen=True, kw_only=True, tag="done"):
    """The answer is durable."""

    turn: FinishedTurn


class TurnFailed(Struct, frozen=True, kw_only=True, tag="error"):
    """An error occurred; ``TurnDone`` still follows if the turn was accepted."""

    code: str
    message: str
    hint: str = ""


Event: TypeAlias = (
    TurnStarted
    | StepStarted
    | Delta
    | Reasoned
    | CallStreamed
    | Durability
    | ToolCalled
    | Retrying
    | Clarification
    | TurnDone
    | TurnFailed
)


class CompactionStarted(Struct, frozen=True, kw_only=True, tag="compaction_start"):
    """Old turns are being folded into the summary; the conversation can continue meanwhile."""

    thread_id: SessionId
    branch_id: BranchId


class CompactionCompleted(Struct, frozen=True, kw_only=True, tag="compaction_complete"):
    """The summary covers the turns up to ``covers_turn_seq``; case ``none`` means that nothing changed."""

    thread_id: SessionId
    branch_id: BranchId
    case: FoldCase | Literal["none"]
    covers_turn_seq: int = 0
    tokens_before: int = 0
    tokens_after: int = 0
    notice: str = ""
    """A message for the user about how the summary was written."""


class CompactionFailed(Struct, frozen=True, kw_only=True, tag="compaction_error"):
    """Folding failed; nothing was changed and it will be retried."""

    thread_id: SessionId
    branch_id: BranchId
    message: str


CompactionEvent: TypeAlias = CompactionStarted | CompactionCompleted | CompactionFailed
