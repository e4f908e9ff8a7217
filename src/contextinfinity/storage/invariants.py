"""Validation rules that all stores share. They work on plain values and do no I/O.

Functions called ``check_…`` raise ``InvalidInput`` unless they say otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from math import isfinite
from typing import get_args

from contextinfinity.domain.ids import is_id, new_id, now
from contextinfinity.domain.message import (
    AssistantItem,
    ContentBlock,
    ImageBlock,
    Json,
    Message,
    MetadataItem,
    ReasoningBlock,
    Role,
    TextBlock,
    ToolCallItem,
    ToolOutputItem,
    ToolResultBlock,
    ToolUseBlock,
    TranscriptItem,
)
from contextinfinity.domain.search import HEAD, ChunkSide, dim_of
from contextinfinity.domain.session import Branch, IdempotencyKey, NewSession, SessionKind
from contextinfinity.domain.state import FoldCandidate, FoldCase, State, StateDraft, StateReason
from contextinfinity.domain.turn import (
    OPEN_PHASES,
    Exchange,
    NewStep,
    NewTurn,
    Phase,
    StepEnd,
    Turn,
    TurnEnd,
    side_text,
)
from contextinfinity.errors import HeadMoved, InvalidInput, KeyReused, NotFound, OutOfOrder, TurnLost, WrongPhase
from contextinfinity.text.plurals import existing_numbers

_SHA256 = re.compile(r"[0-9a-f]{64}")


def check_hash(field: str, value: str) -> None:
    """Raise ``InvalidInput`` if a value is not a hash."""
    if not _SHA256.fullmatch(value):
        raise InvalidInput(f"{field} is not a hexadecimal SHA-256.")


def check_once(once: IdempotencyKey | None) -> None:
    """Raise ``InvalidInput`` if an idempotency key is malformed; None is valid."""
    if once is not None:
        check_hash("once.key", once.key)
        check_hash("once.asked", once.asked)


def check_same_request(once: IdempotencyKey, asked: str) -> None:
    """Raise ``KeyReused`` if an idempotency key was used for a different request."""
    if once.asked != asked:
        raise KeyReused("This idempotency key was used for another request.")


LONGEST_NAME = 128
STEPLESS = frozenset({"clarification", "cancelled"})
INDEXABLE = frozenset({Phase.STATE_COMMITTED, Phase.INDEXED, Phase.DONE, Phase.FAILED})
ENDED = frozenset({Phase.INDEXED, Phase.DONE, Phase.FAILED})
MOST_ROWS = 2**31 - 1
LAST_PLACE = 2**62
DEEPEST_JSON, WIDEST_INT = 100, 4096
LARGEST_COUNT = 2**53
LARGEST_VECTOR = 16_384
LONGEST_TTL = 8_760_000.0
"""The longest time to live in hours: a thousand years."""
LONGEST_WAIT = timedelta(minutes=1)
UNSEEN = (
    "\0\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f"
    "\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0"
)
"""Invisible characters besides white space, as a regex character class. The table ``blank_sign`` has the same ones."""
_KINDS, _REASONS, _ROLES, _CASES = get_args(SessionKind), get_args(StateReason), get_args(Role), get_args(FoldCase)
_SHA256 = re.compile(r"[0-9a-f]{64}")
_BLANK = re.compile(rf"[\s{UNSEEN}]*")


def row_limit(limit: int) -> int:
    """Clamp a row limit to what every database accepts."""
    return min(max(limit, 0), MOST_ROWS)


def end_place(before: int | None) -> int:
    """Return the exclusive upper bound for turn_seq; None means no bound."""
    return LAST_PLACE if before is None else min(before, LAST_PLACE)


def is_blank(text: str) -> bool:
    """Return whether a text has no visible characters."""
    return _BLANK.fullmatch(text) is not None


def check_id(identifier: str | None) -> None:
    """Reject an id that is not a UUID in canonical form; None is valid."""
    if identifier is not None and not is_id(identifier):
        raise InvalidInput(f"{identifier!r} is not a UUID in lower case with hyphens.")


def check_new_session(new: NewSession) -> None:
    """Reject a session with invalid ids or names."""
    check_id(new.id)
    check_id(new.branch_id)
    check_name("user_id", new.owner.user_id, least=1)
    check_name("org_id", new.owner.org_id, least=0)
    if new.external_id is not None:
        check_name("external_id", new.external_id, least=1)
    check_one_of("kind", new.kind, _KINDS)
    check_once(new.once)
    check_json(new.metadata, "metadata")
    check_ttl(new.ttl_hours)


def check_name(field: str, value: str, *, least: int) -> None:
    """Reject a name that is too short or too long."""
    if not least <= len(value) <= LONGEST_NAME:
        raise InvalidInput(f"{field} has {len(value)} characters; it may have {least} to {LONGEST_NAME}.")


def check_one_of(field: str, value: str, allowed: tuple[str, ...]) -> None:
    """Reject a value that is not one of the allowed ones."""
    if value not in allowed:
        raise InvalidInput(f"{field} is {value!r}; it may be {' or '.join(allowed)}.")


def check_ttl(hours: float | None) -> None:
    """Raise ``InvalidInput`` unless this can be a time to live; None: for ever."""
    if hours is not None and not 0 < hours <= LARGEST_COUNT:
        raise InvalidInput(f"ttl_hours is {hours}; it must be a finite number above 0, at most 2**53.")


def ttl_millis(hours: float) -> int:
    """Return a time to live in milliseconds."""
    return int(min(hours, LONGEST_TTL) * 3_600_000)


def has_expired(said_at: datetime, ttl_hours: float, moment: datetime) -> bool:
    """Return whether a message of that time is past its time to live."""
    return said_at + timedelta(hours=min(ttl_hours, LONGEST_TTL)) <= moment


def check_new_turn(new: NewTurn) -> None:
    """Reject a turn whose ids or values cannot be stored."""
    check_id(new.id)
    check_id(new.retry_of)
    check_message(new.message)
    check_json(new.metadata, "metadata")
    check_once(new.once)
    if (session := new.creates) is not None and (session.id is None or session.branch_id != new.branch_id):
        raise InvalidInput("A session that is created with its first turn needs an id, and the branch of that turn.")


def check_exchanges(exchanges: Sequence[Exchange]) -> None:
    """Reject recorded turns whose values cannot be stored."""
    for exchange in exchanges:
        check_id(exchange.id)
        check_message(exchange.message)
        check_message(exchange.answer)
        check_json(exchange.metadata, "metadata")


def can_be_answered(turn: Turn, head: State) -> bool:
    """Return whether a turn was recorded without an answer and is in no summary, so that a logged answer belongs to it.

    Turns of the engine have an outcome, so a Done turn without one was recorded.
    """
    is_open = turn.phase is Phase.DONE and turn.outcome is None and turn.answer is None
    return is_open and turn.user_message.role != "assistant" and head.covers_turn_seq < turn.turn_seq


def check_turn_end(end: TurnEnd) -> None:
    """Reject the end of a turn whose values cannot be stored."""
    check_message(end.answer)
    if end.step is not None:
        check_step_end(end.step)


def check_new_step(step: NewStep) -> None:
    """Reject a step whose values cannot be stored."""
    check_id(step.id)
    check_items(step.inputs)
    if step.closes is not None:
        check_step_end(step.closes)


def check_step_end(end: StepEnd) -> None:
    """Reject the end of a step whose values cannot be stored."""
    check_items(end.items)


def check_message(message: Message | None) -> None:
    """Reject a message with an unknown role or with content that JSON cannot represent; None is valid."""
    if message is not None:
        check_one_of("role", message.role, _ROLES)
        _check_blocks(message.blocks, 1)


def check_items(items: Sequence[TranscriptItem]) -> None:
    """Reject items with content that JSON cannot represent."""
    for item in items:
        if isinstance(item, AssistantItem):
            _check_blocks(item.blocks, 1)
        elif isinstance(item, ToolCallItem):
            check_json(item.arguments, "tool_call.arguments")
        elif isinstance(item, ToolOutputItem):
            check_json(item.output, "tool_output.output")
        elif not isinstance(item, MetadataItem):
            check_json(item.raw, f"{item.__struct_config__.tag}.raw")


def _check_blocks(blocks: Sequence[ContentBlock], depth: int) -> None:
    for block in blocks:
        if isinstance(block, TextBlock):
            for annotation in block.annotations:
                _check_json(annotation, "text.annotations", depth)
        elif isinstance(block, ToolUseBlock):
            _check_json(block.input, "tool_use.input", depth)
        elif isinstance(block, ToolResultBlock):
            _check_depth("tool_result.content", depth)
            _check_blocks(block.content, depth + 1)
        elif isinstance(block, ImageBlock):
            _check_json(block.source, "image.source", depth)
        else:
            _check_json(block.raw, "reasoning.raw" if isinstance(block, ReasoningBlock) else "unknown.raw", depth)


def rounds_of(steps: Sequence[tuple[Sequence[ToolOutputItem], Sequence[TranscriptItem]]]) -> tuple[TranscriptItem, ...]:
    """Return the transcript of a turn before its last step's answer, from each step's tool outputs and response."""
    rounds: list[TranscriptItem] = []
    for place, (inputs, items) in enumerate(steps, start=1):
        rounds.extend(inputs)
        if place < len(steps):
            rounds.extend(items)
    return tuple(rounds)


def check_metadata_key(key: str) -> None:
    """Reject a metadata key that cannot be part of a JSON path."""
    if not 1 <= len(key) <= 64 or not key.replace("-", "").replace("_", "").isalnum() or not key.isascii():
        raise InvalidInput(f"metadata: {key[:80]!r} is not a valid key; use letters, digits, - and _.")


def check_json(value: Json, where: str) -> None:
    """Reject a value that does not survive a JSON round trip, or that is nested too deeply."""
    _check_json(value, where, 1)


def _check_json(value: Json, where: str, depth: int) -> None:
    if value is None or type(value) in (str, bool):
        return
    if type(value) is int and value.bit_length() <= WIDEST_INT:
        return
    if type(value) is float and isfinite(value):
        return
    if not isinstance(value, dict | list):
        raise InvalidInput(f"{where} holds {_named(value)}, which JSON cannot represent.")
    _check_depth(where, depth)
    if isinstance(value, dict):
        for key in value:
            if type(key) is not str:
                raise InvalidInput(f"{where} holds the key {_named(key)}; JSON keys are strings.")
    for inner in value.values() if isinstance(value, dict) else value:
        _check_json(inner, where, depth + 1)


def _check_depth(where: str, depth: int) -> None:
    if depth > DEEPEST_JSON:
        raise InvalidInput(f"{where} is nested over {DEEPEST_JSON} levels deep.")


def _named(value: object) -> str:
    if type(value) is int:
        return f"a number of {value.bit_length()} bits" if value.bit_length() > WIDEST_INT else str(value)
    return str(value) if isinstance(value, float) else f"a value of type {type(value).__name__}"


def check_draft(draft: StateDraft) -> None:
    """Reject a state with an unknown reason or a negative count."""
    check_one_of("reason", draft.reason, _REASONS)
    if draft.token_count_est is not None:
        _check_count("token_count_est", draft.token_count_est)


def _check_count(field: str, count: int) -> None:
    if not 0 <= count <= LARGEST_COUNT:
        raise InvalidInput(f"{field} is {count}; it may be 0 to 2**53.")


def check_candidate(candidate: FoldCandidate) -> None:
    """Reject a fold candidate with an unknown case or negative counts, or that does not continue its summary."""
    check_one_of("case", candidate.case, _CASES)
    _check_count("tokens_before", candidate.tokens_before)
    _check_count("tokens_after", candidate.tokens_after)
    if _SHA256.fullmatch(candidate.base_summary) is None:
        raise InvalidInput(f"base_summary is {candidate.base_summary[:80]!r}; it must be a hexadecimal SHA-256.")
    if not 0 <= candidate.base_covers <= candidate.covers_turn_seq:
        raise InvalidInput(
            f"A fold candidate that continues from turn {candidate.base_covers} cannot cover turn "
            f"{candidate.covers_turn_seq}."
        )


def check_covers(covers: int, turn_seq: int) -> None:
    """Reject a fold that covers an uncommitted turn."""
    if not 0 <= covers <= turn_seq:
        raise InvalidInput(f"A state at turn {turn_seq} cannot cover turn {covers}.")


def check_wait(after: timedelta) -> None:
    """Reject a delay so long that the job would look like one queued before the clock was set back."""
    if not timedelta() <= after <= LONGEST_WAIT:
        raise InvalidInput(f"A job cannot be scheduled after {after}; it may be 0 to {LONGEST_WAIT.seconds} seconds.")


def check_place(branch: Branch, at: int | None, state: int | None) -> None:
    """Reject a fork at a turn or state that the branch does not have."""
    if at is not None and state is not None:
        raise InvalidInput("A fork starts after a turn or from a state, not both.")
    if at is not None and not 0 <= at <= branch.last_turn_seq:
        raise InvalidInput(f"Branch {branch.id} has no turn {at}; {existing_numbers(1, branch.last_turn_seq, 'turn')}.")


def check_rollback(to: int | None, state: int | None) -> None:
    """Reject a rollback without a target."""
    if to is None and state is None:
        raise InvalidInput("A rollback needs a target: a turn, or the number of a state.")


def no_state(branch: Branch, number: int) -> InvalidInput:
    """Return the error for a state number that the branch does not have."""
    return InvalidInput(f"Branch {branch.id} has no state {number}; {existing_numbers(0, branch.head_seq, 'state')}.")


def check_fact(fact: str) -> None:
    """Reject an empty pinned fact."""
    if not fact.strip():
        raise InvalidInput("A pinned fact cannot be blank.")


def remove_pin(facts: tuple[str, ...], number: int) -> tuple[str, ...]:
    """Return the facts without the one with that number (from 1). Raises ``NotFound`` if there is none."""
    if not 1 <= number <= len(facts):
        raise NotFound(f"There is no pinned fact {number}; there are {len(facts)}.")
    return facts[: number - 1] + facts[number:]


def check_owner(turn_id: str, owner: str | None, asking: str) -> None:
    """Raise ``TurnLost`` if another worker owns the turn."""
    if owner != asking:
        raise TurnLost(f"Turn {turn_id} belongs to {owner or 'no worker'}, not to {asking}; nothing was written.")


def check_phase(turn_id: str, phase: Phase, allowed: frozenset[Phase]) -> None:
    """Raise ``WrongPhase`` if the turn is not in an allowed phase."""
    if phase not in allowed:
        wanted = " or ".join(sorted(allowed))
        raise WrongPhase(f"Turn {turn_id} is {phase}; this needs {wanted}.")


def check_finalising(turn_id: str, phase: Phase, end: TurnEnd) -> None:
    """Raise ``WrongPhase`` unless the turn has a step, or ends without one by a clarifying question or a stop."""
    check_phase(turn_id, phase, OPEN_PHASES)
    if phase is Phase.CONTEXT_PREPARED and (end.outcome not in STEPLESS or end.step is not None):
        raise WrongPhase(
            f"Turn {turn_id} is {phase}: without a step, only a clarifying question or a cancellation can end it."
        )
    if phase is Phase.RESPONDING and end.step is None:
        raise InvalidInput(f"Turn {turn_id} is {phase}: its last step must be closed with it.")


def texts_of(turn: Turn) -> dict[ChunkSide, str | None]:
    """Return the text of each side, to which chunk offsets refer; None for a side that the turn does not have."""
    answer = None if turn.answer is None else turn.answer.rendered_text
    return {"user": turn.user_message.rendered_text, "tool": side_text(turn, "tool") or None, "assistant": answer}


def check_span(start: int, end: int, text: str | None) -> None:
    """Reject a span outside its message."""
    if text is None:
        raise InvalidInput("The turn has no message of that role to take a chunk from.")
    if not 0 <= start < end <= len(text):
        raise InvalidInput(f"The span {start} to {end} is not within a message of {len(text)} characters.")


def check_namespace(name: str, dim: int, known: int | None) -> None:
    """Reject a namespace without a name, or with an invalid or different dimension."""
    check_name("A namespace's name", name, least=1)
    if not 0 < dim <= LARGEST_VECTOR:
        raise InvalidInput(f"A vector of {name} has {dim} numbers; it may have 1 to {LARGEST_VECTOR}.")
    if known not in (None, dim):
        raise InvalidInput(f"The vectors of {name} have {known} numbers, not {dim}.")


def check_vector(name: str, dim: int, body: bytes) -> None:
    """Reject a vector whose dimension differs from its namespace."""
    if dim_of(body) != dim:
        raise InvalidInput(
            f"A vector of {name} has {dim} numbers in {HEAD + dim} bytes; this one has {len(body)} bytes."
        )


def check_branch_of(turn_id: str, is_of: str, asked: str) -> None:
    """Reject the commit of a turn on another branch than its own."""
    if is_of != asked:
        raise InvalidInput(f"Turn {turn_id} is a turn of branch {is_of}, not of {asked}.")


def check_head(branch_id: str, head: str, expected: str | None) -> None:
    """Raise ``HeadMoved`` if the head is not the expected one; None accepts any head."""
    if expected not in (None, head):
        raise HeadMoved(f"The head of branch {branch_id} is {head}, not {expected}.", head=head)


def not_settled(turn_seq: int, phase: str) -> OutOfOrder:
    """Return the error that names the turn to be committed first."""
    return OutOfOrder(f"Turn {turn_seq} of the branch is {phase}: it must be committed or deleted first.")


def drafted_state(draft: StateDraft, head: State, turn_seq: int) -> State:
    """Return the state after the head; pins and fields missing in the draft are taken from the head."""
    summary = head.summary if draft.summary is None else draft.summary
    inherited = head.token_count_est if draft.summary is None else len(summary) // 4
    covers = head.covers_turn_seq if draft.covers_turn_seq is None else draft.covers_turn_seq
    check_covers(covers, turn_seq)
    return State(
        id=new_id(),
        session_id=head.session_id,
        branch_id=draft.branch_id,
        state_seq=head.state_seq + 1,
        parent_id=head.id,
        turn_seq=turn_seq,
        covers_turn_seq=covers,
        reason=draft.reason,
        summary=summary,
        pinned_facts=head.pinned_facts,
        token_count_est=inherited if draft.token_count_est is None else draft.token_count_est,
        created_at=now(),
    )
