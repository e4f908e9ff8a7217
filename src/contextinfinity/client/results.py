"""Return values of the client, with the names that the interfaces show.

Each is plain data that can be converted to JSON field by field. Text fields are never None; missing text is empty.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from contextinfinity.domain.ids import BranchId, MemoryId, Position, SessionId, StateId, TurnId
from contextinfinity.domain.job import Backlog
from contextinfinity.domain.memory import Memory, MemoryKind, MemoryOrigin
from contextinfinity.domain.message import (
    ContentBlock,
    Json,
    TextBlock,
    ToolCallItem,
    ToolOutputItem,
    ToolResultBlock,
    ToolUseBlock,
    blobs_of,
    blocks_of,
)
from contextinfinity.domain.search import Chunk, Hit, Hits
from contextinfinity.domain.session import Branch, Session
from contextinfinity.domain.state import FoldCase, State
from contextinfinity.domain.token import TokenId, TokenScope
from contextinfinity.domain.turn import Phase, Problem, Step, StepOutcome, Turn, TurnOutcome, Usage
from contextinfinity.memory.memory_findings import MemoryFinding

if TYPE_CHECKING:
    from contextinfinity.engine.folding import Fold


class ShownTurn(Struct, frozen=True, kw_only=True):
    """A turn: the fields of a finished turn, and both messages. ``outcome`` is None while it runs."""

    thread_id: SessionId
    branch_id: BranchId
    turn_id: TurnId
    turn_seq: int
    phase: Phase
    outcome: TurnOutcome | None
    text: str
    usage: Usage
    model: str
    created_at: datetime
    error: Problem | None
    user: str
    assistant: str
    latency_ms: dict[str, float] = {}
    """How long its stages took so far; ``search`` includes ``embed``."""
    images: int = 0
    """How many images were sent with the message."""
    tool_calls: int = 0
    """How many calls ``TurnAccount.calls`` has; set when the turn has ended."""


class ShownCall(Struct, frozen=True, kw_only=True):
    """A tool call that a model made; ``output`` is None as long as no result is stored in its turn.

    A result that was sent with the message of a turn has no ``name``: its call is in an earlier turn.
    """

    call_id: str
    name: str
    arguments: Json
    output: str | None = None
    is_error: bool = False


class ShownStep(Struct, frozen=True, kw_only=True):
    """One request to a model; ``outcome`` is None while it runs. Bytes: displayed, and durable."""

    step_index: int
    provider: str
    model: str
    outcome: StepOutcome | None
    usage: Usage
    displayed_bytes: int
    durable_bytes: int
    started_at: datetime
    ended_at: datetime | None
    calls: tuple[ShownCall, ...] = ()
    """The tools that the model asked for, with the results that the next step was given."""


class TurnAccount(ShownTurn, frozen=True, kw_only=True):
    """A turn with its requests. ``degraded``: it is not yet in the vector index."""

    steps: tuple[ShownStep, ...]
    degraded: bool
    calls: tuple[ShownCall, ...] = ()
    """All tool calls of the turn, in order, after the results sent with its message; also of an imported turn."""


class Conversation(Struct, frozen=True, kw_only=True):
    """A range of turns that a branch shows, oldest first; turns inherited from other branches keep their branch id."""

    thread_id: SessionId
    branch_id: BranchId
    turns: tuple[ShownTurn, ...]


class ShownThread(Struct, frozen=True, kw_only=True):
    """A thread in a list: its active branch, the number of its turns, and the user's first and last message."""

    thread_id: SessionId
    branch_id: BranchId
    user_id: str
    org_id: str
    external_id: str | None
    title: str | None
    turns: int
    said: str
    created_at: datetime
    updated_at: datetime
    opening: str = ""
    ttl_hours: float | None = None
    """How long its turns are kept; None: as long as the settings say."""

    @property
    def about(self) -> str:
        """The title, or the beginning of the conversation where it has none."""
        return self.title or self.opening or self.said

    @property
    def position(self) -> Position:
        """Its position in the owner's list."""
        return Position(self.updated_at, self.thread_id)


class ShownBranch(Struct, frozen=True, kw_only=True):
    """A branch: where it left its parent (``fork_seq``), its last turn, and the number of its head state."""

    thread_id: SessionId
    branch_id: BranchId
    label: str | None
    active: bool
    parent_id: BranchId | None
    fork_seq: int
    last_turn_seq: int
    head_state: StateId
    state: int
    created_at: datetime


class ShownMemory(Struct, frozen=True, kw_only=True):
    """A memory: the fact, its source, and its validity. ``superseded_by`` names the memory that replaced it."""

    id: MemoryId
    content: str
    tags: tuple[str, ...]
    kind: MemoryKind
    origin: MemoryOrigin
    confidence: float
    source_turn: TurnId | None
    source_span: tuple[int, int] | None
    created_at: datetime
    valid_from: datetime | None
    valid_to: datetime | None
    last_placed_at: datetime | None
    superseded_by: MemoryId | None

    @property
    def position(self) -> Position:
        """Its position in the owner's list."""
        return Position(self.created_at, self.id)


class Committed(Struct, frozen=True, kw_only=True):
    """The commit state of a branch: the number of its head state, its last turn, and how many answers are pending."""

    thread_id: SessionId
    branch_id: BranchId
    state: int
    head_state: StateId
    pending: int


class Pin(Struct, frozen=True, kw_only=True):
    """A pinned fact and its current number."""

    n: int
    fact: str


class Pins(Struct, frozen=True, kw_only=True):
    """The facts pinned on a branch, in the order they were pinned."""

    thread_id: SessionId
    branch_id: BranchId
    pins: tuple[Pin, ...]


class ShownFold(Struct, frozen=True, kw_only=True):
    """A fold: previewed, made (``committed``) or undone (case ``unfold``); in case ``none`` there was nothing to fold.

    The summary covers the turns up to ``covers_turn_seq``; before, it covered those up to ``covered``. ``leaves``
    and ``stays`` list the newest of the turns that leave the verbatim part and of those that stay, a line each.
    """

    thread_id: SessionId
    branch_id: BranchId
    case: FoldCase | Literal["none", "unfold"]
    committed: bool
    covers_turn_seq: int
    covered: int
    summary: str
    summary_before: str
    tokens_before: int = 0
    tokens_after: int = 0
    by: str = ""
    boundary_reason: str = ""
    leaves: tuple[str, ...] = ()
    stays: tuple[str, ...] = ()
    retired: tuple[str, ...] = ()
    """What the new summary holds as settled or replaced, and the one before did not."""
    usage: Usage = Usage()
    """What a model used for this summary."""
    spent: Usage = Usage()
    """What models used for the summaries of this conversation so far."""
    notice: str = ""


class MadeToken(Struct, frozen=True, kw_only=True):
    """A new token with its text, which is shown this once."""

    id: TokenId
    user: str
    org: str
    scope: TokenScope
    token: str
    expires_at: datetime | None = None


class Health(Struct, frozen=True, kw_only=True):
    """The state of an engine. ``degraded``: something is missing; ``unready``: its ledger does not answer."""

    status: Literal["ready", "degraded", "unready"]
    reasons: tuple[str, ...]
    backlog: Backlog = Backlog()
    spool_depth: int = 0
    """How many turns and sessions are held for a ledger that is away."""


class MadeThread(Struct, frozen=True, kw_only=True):
    """A conversation that was created."""

    thread_id: str
    branch_id: str


class ThreadPage(Struct, frozen=True, kw_only=True):
    """Conversations, most recently used first; ``next`` is the ``after`` of the next page, if there is one."""

    threads: tuple[ShownThread, ...]
    next: str | None


class ShownMessage(Struct, frozen=True, kw_only=True):
    """One message of a turn. A pending or missing answer has no text; ``outcome`` says why."""

    role: str
    content: str
    turn_id: str
    turn_seq: int
    branch_id: str
    created_at: datetime
    phase: Phase
    outcome: TurnOutcome | None
    model: str | None = None
    usage: Usage | None = None
    error: Problem | None = None
    latency_ms: dict[str, float] | None = None
    images: int = 0
    tool_calls: int = 0


class MessagePage(Struct, frozen=True, kw_only=True):
    """Messages, oldest first; ``before`` selects the page of earlier messages, if there are any."""

    thread_id: str
    branch_id: str
    messages: tuple[ShownMessage, ...]
    before: str | None


class BranchList(Struct, frozen=True, kw_only=True):
    """The branches of a conversation, oldest first."""

    thread_id: str
    branches: tuple[ShownBranch, ...]


class MemoryPage(Struct, frozen=True, kw_only=True):
    """Memories, newest first; ``next`` is the ``after`` of the next page, if there is one."""

    memories: tuple[ShownMemory, ...]
    next: str | None = None


class Findings(Struct, frozen=True, kw_only=True):
    """Findings of a memory audit."""

    findings: tuple[MemoryFinding, ...]


class Forgotten(Struct, frozen=True, kw_only=True):
    """The id of a deleted memory."""

    forgotten: str


class ModelNames(Struct, frozen=True, kw_only=True):
    """The available models, the default first."""

    models: tuple[str, ...]


def turn_account(turn: Turn, steps: Sequence[Step]) -> TurnAccount:
    """Convert a turn with its requests."""
    shown = shown_turn(turn)
    fields = {name: getattr(shown, name) for name in shown.__struct_fields__}
    results = [step.inputs for step in steps[1:]] + [()]
    shown_steps = tuple(_shown_step(step, given) for step, given in zip(steps, results, strict=False))
    calls = tuple(call for step in shown_steps for call in step.calls) or _calls_of_answer(turn)
    return TurnAccount(
        **fields, steps=shown_steps, degraded=turn.degraded, calls=_calls_in(turn.user_message.blocks) + calls
    )


def _shown_step(step: Step, results: Sequence[ToolOutputItem]) -> ShownStep:
    return ShownStep(
        step_index=step.step_index,
        provider=step.provider,
        model=step.model_id,
        outcome=step.outcome,
        usage=step.usage,
        displayed_bytes=step.displayed_bytes,
        durable_bytes=step.durable_bytes,
        started_at=step.started_at,
        ended_at=step.ended_at,
        calls=_calls_in(blocks_of((*(item for item in step.items if isinstance(item, ToolCallItem)), *results))),
    )


def _calls_of_answer(turn: Turn) -> tuple[ShownCall, ...]:
    return _calls_in((*blocks_of(turn.rounds), *(() if turn.answer is None else turn.answer.blocks)))


def _calls_in(blocks: Sequence[ContentBlock]) -> tuple[ShownCall, ...]:
    """Convert the tool calls among content blocks with their results, after the results of other calls."""
    calls = [block for block in blocks if isinstance(block, ToolUseBlock)]
    results = {block.tool_use_id: block for block in blocks if isinstance(block, ToolResultBlock)}
    known = {call.tool_use_id for call in calls}
    others = [ToolUseBlock(tool_use_id=name, name="", input=None) for name in results if name not in known]
    return tuple(_shown_call(call, results.get(call.tool_use_id)) for call in (*others, *calls))


def _shown_call(call: ToolUseBlock, result: ToolResultBlock | None) -> ShownCall:
    texts = () if result is None else tuple(block.text for block in result.content if isinstance(block, TextBlock))
    return ShownCall(
        call_id=call.tool_use_id,
        name=call.name,
        arguments=call.input,
        output=None if result is None else "".join(texts),
        is_error=result is not None and result.is_error,
    )


def hits_of(turn: Turn, chunks: Sequence[Chunk]) -> Hits:
    """Convert the chunks of a turn to search hits."""
    hits = tuple(
        Hit(
            thread_id=chunk.session_id,
            turn_id=turn.id,
            turn_seq=turn.turn_seq,
            chunk_id=chunk.id,
            role=chunk.side,
            score=0.0,
            text=chunk.rendered_text,
            offsets=(chunk.start, chunk.end),
            type=chunk.chunk_type,
            created_at=turn.created_at,
        )
        for chunk in chunks
    )
    return Hits(hits=hits, tokens=sum(chunk.token_est for chunk in chunks))


def shown_turn(turn: Turn) -> ShownTurn:
    """Convert a turn, running or finished."""
    answer = turn.text
    return ShownTurn(
        thread_id=turn.session_id,
        branch_id=turn.branch_id,
        turn_id=turn.id,
        turn_seq=turn.turn_seq,
        phase=turn.phase,
        outcome=turn.outcome,
        text=answer,
        usage=turn.usage,
        model=turn.model,
        created_at=turn.created_at,
        error=turn.error,
        user=turn.user_message.rendered_text,
        assistant=answer,
        latency_ms=turn.latency_ms,
        images=len(blobs_of(turn.user_message.blocks)),
        tool_calls=len(_calls_in(turn.user_message.blocks)) + len(_calls_of_answer(turn)),
    )


def shown_thread(session: Session, active: Branch, opening: str, newest: Sequence[Turn]) -> ShownThread:
    """Convert a session with its active branch, the words that open it, and its newest turn, if any."""
    return ShownThread(
        thread_id=session.id,
        branch_id=session.active_branch,
        user_id=session.owner.user_id,
        org_id=session.owner.org_id,
        external_id=session.external_id,
        title=session.title,
        turns=active.last_turn_seq,
        said=newest[-1].user_message.rendered_text if newest else "",
        created_at=session.created_at,
        updated_at=session.updated_at,
        opening=opening,
        ttl_hours=session.ttl_hours,
    )


def shown_branch(branch: Branch, active: BranchId) -> ShownBranch:
    """Convert a branch of a session whose active branch is ``active``."""
    return ShownBranch(
        thread_id=branch.session_id,
        branch_id=branch.id,
        label=branch.label,
        active=branch.id == active,
        parent_id=branch.parent_id,
        fork_seq=branch.fork_seq,
        last_turn_seq=branch.last_turn_seq,
        head_state=branch.head_state,
        state=branch.head_seq,
        created_at=branch.created_at,
    )


def shown_pins(state: State, branch_id: BranchId) -> Pins:
    """Convert the pinned facts of the head state of ``branch_id``."""
    pins = tuple(Pin(n=number, fact=fact) for number, fact in enumerate(state.pinned_facts, start=1))
    return Pins(thread_id=state.session_id, branch_id=branch_id, pins=pins)


def shown_fold(fold: Fold, thread_id: SessionId, *, committed: bool) -> ShownFold:
    """Convert a fold, previewed or made."""
    made = fold.candidate
    return ShownFold(
        thread_id=thread_id,
        branch_id=made.branch_id,
        case=made.case,
        committed=committed,
        covers_turn_seq=made.covers_turn_seq,
        covered=made.base_covers,
        summary=made.summary,
        summary_before=fold.summary_before,
        tokens_before=made.tokens_before,
        tokens_after=made.tokens_after,
        by=made.by,
        boundary_reason=made.boundary_reason,
        leaves=fold.leaves,
        stays=fold.stays,
        retired=fold.retired,
        usage=fold.usage,
        spent=made.spent,
        notice=fold.notice,
    )


def shown_summary(state: State, branch_id: BranchId, *, before: State | None = None) -> ShownFold:
    """Convert the summary of a branch: when nothing can be folded, or after an undo (``before``: the undone one)."""
    was = before or state
    return ShownFold(
        thread_id=state.session_id,
        branch_id=branch_id,
        case="none" if before is None else "unfold",
        committed=before is not None,
        covers_turn_seq=state.covers_turn_seq,
        covered=was.covers_turn_seq,
        summary=state.summary,
        summary_before=was.summary,
    )


def shown_memory(memory: Memory) -> ShownMemory:
    """Convert a memory."""
    return ShownMemory(**{name: getattr(memory, name) for name in ShownMemory.__struct_fields__})
