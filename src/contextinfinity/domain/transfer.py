"""A conversation with all its data, in the export format ``cix``.

These values are the rows of a ledger without derived data (search index, vectors, prefix hashes) and without process
state (owners of turns, jobs). Ids are unchanged. Long texts and images are referenced by their SHA-256 and stored
separately, each once.

An import yields one ``ImportedMessage`` per record of a file. Each stored message keeps its ``Origin`` (the id,
position and time it had in the source), so that a record is never imported twice and search results can name it.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, Struct

from contextinfinity.domain.ids import BranchId, MemoryId, SessionId, StateId, StepId, TurnId
from contextinfinity.domain.memory import MemoryKind, MemoryOrigin
from contextinfinity.domain.message import Json, Message, TranscriptItem
from contextinfinity.domain.session import SessionKind
from contextinfinity.domain.state import StateReason
from contextinfinity.domain.turn import Problem, TurnOutcome, Usage

Count = Annotated[int, Meta(ge=0, le=2**53)]
Sha256 = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]

UNANSWERED = Problem(
    code="interrupted",
    message="The conversation was exported before this message was answered.",
    hint="Ask again to get an answer.",
)
"""The error of a turn that was not finished when it was exported."""


class Transfer(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The base class: unknown fields are rejected, not dropped."""


class SessionTransfer(Transfer, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A session; ``system`` is the hash of a text."""

    id: SessionId
    user_id: str
    org_id: str = ""
    external_id: str | None = None
    kind: SessionKind = "thread"
    title: str | None = None
    system: Sha256 | None = None
    ttl_hours: float | None = None
    active_branch: BranchId
    created_at: datetime
    updated_at: datetime
    metadata: dict[str, Json] = {}


class BranchTransfer(Transfer, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A branch."""

    id: BranchId
    parent_id: BranchId | None = None
    fork_seq: Count = 0
    base_state: StateId
    head_state: StateId
    head_seq: Count
    last_turn_seq: Count
    label: str | None = None
    created_at: datetime


class StateTransfer(Transfer, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A state; ``summary`` and ``pins`` (a JSON list) are hashes of texts."""

    id: StateId
    branch_id: BranchId
    state_seq: Count
    parent_id: StateId | None = None
    turn_seq: Count
    covers_turn_seq: Count
    reason: StateReason
    summary: Sha256 | None = None
    pins: Sha256 | None = None
    token_count_est: Count = 0
    created_at: datetime
    schema_version: Count


class MessageTransfer(Transfer, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A message: a plain text, or blocks in their versioned form."""

    role: Literal["user", "assistant", "system", "tool"]
    text: str | None = None
    blocks: Json = None


class OriginTransfer(Transfer, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The origin of an imported message; ``answers`` is True if it is the turn's answer."""

    place: Count
    answers: bool = False
    external_id: str | None = None
    hash: str
    said_at: datetime | None = None
    details: Json = None


class StepTransfer(Transfer, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A provider call; inputs, items, outcome and plan in their versioned forms, the raw response as zlib in base64."""

    id: StepId
    step_index: Count
    provider: str
    model_id: str
    inputs: Json = None
    items: Json = None
    outcome: Json = None
    usage: Usage = Usage()
    displayed_bytes: Count = 0
    durable_bytes: Count = 0
    started_at: datetime
    ended_at: datetime | None = None
    response: bytes | None = None


class PlanTransfer(Transfer, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The plan of a step; ``step_index`` is -1 for a clarification question."""

    step_index: Annotated[int, Meta(ge=-1, le=2**53)]
    body: Json


class TurnTransfer(Transfer, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A turn; one that was not finished is exported as failed (``UNANSWERED``)."""

    id: TurnId
    branch_id: BranchId
    turn_seq: Annotated[int, Meta(ge=1, le=2**53)]
    phase: Literal["ResponseFinalized", "Done", "Failed"] = "Done"
    """``ResponseFinalized``: it is answered, and no state includes it yet."""
    outcome: TurnOutcome | None = None
    state_before: StateId
    state_after: StateId | None = None
    question: MessageTransfer
    answer: MessageTransfer | None = None
    provider: str = ""
    model: str = ""
    step_count: Count = 0
    retry_of: TurnId | None = None
    usage: Usage = Usage()
    error: Json = None
    metadata: Json = None
    latency_ms: Json = None
    created_at: datetime
    updated_at: datetime
    origins: tuple[OriginTransfer, ...] = ()
    steps: tuple[StepTransfer, ...] = ()
    plans: tuple[PlanTransfer, ...] = ()


class DeletedTurn(Transfer, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A deleted turn: its id and number are never reused."""

    id: TurnId
    seq: Count | None = None
    deleted_at: datetime


class SourceTransfer(Transfer, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A turn from which a memory was extracted."""

    turn_id: TurnId
    session_id: SessionId
    branch_id: BranchId
    turn_seq: Count
    start: Count
    end: Count
    said_at: datetime


class MemoryTransfer(Transfer, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A memory of a user, or of one thread only if ``thread`` is set."""

    id: MemoryId
    thread: SessionId | None = None
    content: Annotated[str, Meta(min_length=1, max_length=500)]
    kind: MemoryKind
    about: str = ""
    origin: MemoryOrigin
    confidence: float
    weight: int
    created_at: datetime
    valid_from: datetime
    valid_to: datetime | None = None
    last_placed_at: datetime | None = None
    superseded_by: MemoryId | None = None
    superseded_at: datetime | None = None
    sources: tuple[SourceTransfer, ...] = ()


class SessionOutline(Struct, frozen=True, kw_only=True):
    """A session, its branches and what was deleted from it."""

    session: SessionTransfer
    branches: tuple[BranchTransfer, ...]
    deleted: tuple[DeletedTurn, ...] = ()


Side: TypeAlias = Literal["user", "assistant"]


class ImportedMessage(Struct, frozen=True, kw_only=True):
    """One message from an external source; ``place`` is its position in that conversation, from 0."""

    message: Message
    place: int
    external_id: str | None = None
    created_at: datetime | None = None
    model: str = ""
    details: Json = None
    """All other fields of the record, unchanged."""


class ImportedTurn(Struct, frozen=True, kw_only=True):
    """One turn of a conversation with branches, as another program had it.

    ``id`` is derived from its last message, so that it is the same in every import; ``parent`` is the turn that it
    follows, None at the beginning. ``rounds`` are the tool calls and results before the answer, as ``Turn.rounds``.
    ``messages`` are those it is made of, the question first.
    """

    id: TurnId
    parent: TurnId | None
    message: Message
    answer: Message | None = None
    rounds: tuple[TranscriptItem, ...] = ()
    created_at: datetime | None = None
    model: str = ""
    messages: tuple[ImportedMessage, ...] = ()


class Origin(Struct, frozen=True, kw_only=True):
    """The origin of a message; ``side`` says whether it is the question or the answer of its turn."""

    side: Side
    place: int
    content_hash: str
    external_id: str | None = None
    created_at: datetime | None = None
    details: Json = None

    @property
    def name(self) -> str:
        """The name of the speaker, or an empty string if it is unknown."""
        name = self.details.get("name") if isinstance(self.details, dict) else None
        return name if isinstance(name, str) else ""


class ImportCounts(Struct, frozen=True, kw_only=True):
    """The result of an import: messages added, and messages skipped because they are stored already.

    ``clashing`` lists the positions of messages whose id is taken by a message with different text. They are not
    imported, because stored messages never change.
    """

    added: int = 0
    skipped: int = 0
    clashing: tuple[int, ...] = ()
