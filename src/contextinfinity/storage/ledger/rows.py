"""Conversion between rows and domain values: ids as 16 bytes, times as milliseconds, JSON in the versioned wire form.

Text is stored once. A message of one plain text block is its text; anything richer is its blocks. An item
of a step that repeats the turn's answer is stored as a reference to it.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence
from functools import lru_cache

import msgspec

from contextinfinity.domain import wire
from contextinfinity.domain.ids import TurnId, from_millis, is_id
from contextinfinity.domain.message import (
    AssistantItem,
    ContentBlock,
    Message,
    TextBlock,
    ToolCallItem,
    ToolOutputItem,
    ToolUseBlock,
    TranscriptItem,
)
from contextinfinity.domain.plan import Plan
from contextinfinity.domain.session import Branch, Owner, Session
from contextinfinity.domain.state import State
from contextinfinity.domain.turn import Phase, Problem, Step, StepOutcome, Turn, Usage
from contextinfinity.errors import NotFound
from contextinfinity.storage.database import Row
from contextinfinity.storage.invariants import rounds_of

_SHA256 = re.compile(r"[0-9a-f]{64}")


class _Blocks(msgspec.Struct, frozen=True):
    blocks: tuple[ContentBlock, ...]


class _Answer(msgspec.Struct, frozen=True, tag="answer", omit_defaults=True):
    """A reference from a step's items to blocks of the turn's answer; without ``stop``, all from ``start`` on."""

    start: int = 0
    stop: int | None = None


class _CallReference(msgspec.Struct, frozen=True, tag="call"):
    """A reference from a step's items to a tool call that is a block of the turn's answer."""

    at: int


class _Items(msgspec.Struct, frozen=True):
    items: tuple[TranscriptItem | _Answer | _CallReference, ...]


class _Inputs(msgspec.Struct, frozen=True):
    items: tuple[ToolOutputItem, ...]


@lru_cache(maxsize=4096)
def pack(identifier: str) -> bytes:
    """Encode an id as 16 bytes; an invalid id becomes bytes that match nothing."""
    return bytes.fromhex(identifier.replace("-", "")) if is_id(identifier) else b""


def pack_hash(sha256: str) -> bytes:
    """Encode a SHA-256 in hex as 32 bytes; an invalid one becomes bytes that match nothing."""
    return bytes.fromhex(sha256) if _SHA256.fullmatch(sha256) else b""


@lru_cache(maxsize=4096)
def unpack(raw: bytes) -> str:
    """Decode 16 bytes to an id."""
    text = raw.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def maybe_pack(identifier: str | None) -> bytes | None:
    """Pack an id that may be missing."""
    return None if identifier is None else pack(identifier)


def maybe_unpack(raw: bytes | None) -> str | None:
    """Unpack an id that may be missing."""
    return None if raw is None else unpack(raw)


def must(row: Row | None, what: str, identifier: str) -> Row:
    """Return the row. Raises ``NotFound`` if it is None."""
    if row is None:
        raise NotFound(f"There is no {what} {identifier}.")
    return row


def message_columns(message: Message) -> tuple[str | None, str | None, bytes]:
    """Split a message into text, blocks and hash: exactly one of the first two is set."""
    digest = wire.content_hash(message)
    match message.blocks:
        case (TextBlock(text=text, annotations=()),):
            return text, None, digest
    return None, wire.dumps(_Blocks(message.blocks)).decode(), digest


def to_message(role: str, text: str | None, blocks: str | None) -> Message:
    """Decode a message from its columns."""
    if blocks is None:
        return Message(role=role, blocks=(TextBlock(text=text or ""),))  # type: ignore[arg-type]
    return Message(role=role, blocks=wire.loads(_Blocks, blocks).blocks)  # type: ignore[arg-type]


def items_column(items: tuple[TranscriptItem, ...], answer: Message | None) -> str | None:
    """Encode a step's items; those that repeat the turn's answer become references to it."""
    if not items:
        return None
    blocks = () if answer is None else answer.blocks
    return wire.dumps(_Items(tuple(_reference(item, blocks) or item for item in items))).decode()


def _reference(item: TranscriptItem, blocks: tuple[ContentBlock, ...]) -> _Answer | _CallReference | None:
    """Return the reference to an item in the answer's blocks; None if it is not there."""
    if isinstance(item, ToolCallItem):
        same = ToolUseBlock(tool_use_id=item.call_id, name=item.name, input=item.arguments)
        return _CallReference(at=blocks.index(same)) if same in blocks else None
    if not isinstance(item, AssistantItem) or not item.blocks:
        return None
    if item.blocks == blocks:
        return _Answer()
    size = len(item.blocks)
    places = (place for place in range(len(blocks)) if blocks[place : place + size] == item.blocks)
    start = next(places, None)
    return None if start is None else _Answer(start=start, stop=start + size)


def to_items(column: str | None, answer: Message | None) -> tuple[TranscriptItem, ...]:
    """Decode a step's items and resolve references to the turn's answer."""
    if column is None:
        return ()
    blocks = () if answer is None else answer.blocks
    stored: _Items = wire.loads(_Items, column)
    return tuple(_dereference(item, blocks) for item in stored.items)


def _dereference(item: TranscriptItem | _Answer | _CallReference, blocks: tuple[ContentBlock, ...]) -> TranscriptItem:
    if isinstance(item, _Answer):
        return AssistantItem(blocks=blocks[item.start : item.stop])
    if isinstance(item, _CallReference):
        call = blocks[item.at]
        assert isinstance(call, ToolUseBlock)  # noqa: S101 - written by _reference, and neither ever changes
        return ToolCallItem(call_id=call.tool_use_id, name=call.name, arguments=call.input)
    return item


def inputs_column(inputs: tuple[ToolOutputItem, ...]) -> str | None:
    """Encode the tool outputs that a step answers."""
    return wire.dumps(_Inputs(inputs)).decode() if inputs else None


def to_inputs(column: str | None) -> tuple[ToolOutputItem, ...]:
    """Decode the tool outputs that a step answers."""
    return () if column is None else wire.loads(_Inputs, column).items


def to_rounds(rows: Sequence[Row]) -> tuple[TranscriptItem, ...]:
    """Decode rows of ``select_rounds``; the last step's items are the answer and are left out."""
    last = len(rows) - 1
    return rounds_of([(to_inputs(row[0]), to_items(row[1], None) if at < last else ()) for at, row in enumerate(rows)])


def to_usage(input_tokens: int, output_tokens: int, cached_tokens: int, cost: float | None) -> Usage:
    """Decode the four usage columns."""
    return Usage(input_tokens=input_tokens, output_tokens=output_tokens, cached_tokens=cached_tokens, cost=cost)


def to_session(row: Row) -> Session:
    """Decode a row of ``select_session*``."""
    return Session(
        id=unpack(row[0]),
        owner=Owner(org_id=row[1], user_id=row[2]),
        external_id=row[3],
        kind=row[4],
        title=row[5],
        system=row[6],
        ttl_hours=row[7],
        active_branch=unpack(row[8]),
        created_at=from_millis(row[9]),
        updated_at=from_millis(row[10]),
        metadata={} if row[11] is None else msgspec.json.decode(row[11]),
    )


def to_branch(row: Row) -> Branch:
    """Decode a row of ``select_branch*``."""
    return Branch(
        id=unpack(row[0]),
        session_id=unpack(row[1]),
        parent_id=maybe_unpack(row[2]),
        fork_seq=row[3],
        base_state=unpack(row[4]),
        head_state=unpack(row[5]),
        head_seq=row[6],
        last_turn_seq=row[7],
        label=row[8],
        created_at=from_millis(row[9]),
    )


def to_state(row: Row) -> State:
    """Decode a row of ``select_state*``."""
    return State(
        id=unpack(row[0]),
        session_id=unpack(row[1]),
        branch_id=unpack(row[2]),
        state_seq=row[3],
        parent_id=maybe_unpack(row[4]),
        turn_seq=row[5],
        covers_turn_seq=row[6],
        reason=row[7],
        summary=row[8] or "",
        pinned_facts=() if row[9] is None else tuple(msgspec.json.decode(row[9])),
        token_count_est=row[10],
        created_at=from_millis(row[11]),
        schema_version=row[12],
    )


def to_turn(row: Row) -> Turn:
    """Decode a row of ``select_turn*``."""
    return Turn(
        id=unpack(row[0]),
        session_id=unpack(row[1]),
        branch_id=unpack(row[2]),
        turn_seq=row[3],
        phase=Phase(row[4]),
        outcome=row[5],
        state_before=unpack(row[6]),
        state_after=maybe_unpack(row[7]),
        provider=row[8],
        model=row[9],
        owner=row[10],
        retry_of=maybe_unpack(row[11]),
        degraded=bool(row[12]),
        usage=to_usage(*row[13:17]),
        error=None if row[17] is None else wire.loads(Problem, row[17]),
        metadata=None if row[18] is None else msgspec.json.decode(row[18]),
        created_at=from_millis(row[19]),
        updated_at=from_millis(row[20]),
        cancel_requested=bool(row[21]),
        latency_ms={} if row[23] is None else msgspec.json.decode(row[23]),
        user_message=to_message(*row[24:27]),
        answer=None if row[27] is None else to_message(*row[27:30]),
    )


def to_step(turn_id: TurnId, row: Row) -> Step:
    """Decode a step, with the answer that its items may refer to."""
    answer = None if row[17] is None else to_message(*row[17:20])
    return Step(
        id=unpack(row[0]),
        turn_id=turn_id,
        step_index=row[1],
        provider=row[2],
        model_id=row[3],
        inputs=to_inputs(row[4]),
        items=to_items(row[5], answer),
        outcome=None if row[6] is None else wire.loads(StepOutcome, row[6]),
        usage=to_usage(*row[7:11]),
        displayed_bytes=row[11],
        durable_bytes=row[12],
        started_at=from_millis(row[13]),
        ended_at=None if row[14] is None else from_millis(row[14]),
        plan=wire.loads(Plan, row[15]),
        response=None if row[16] is None else zlib.decompress(row[16]),
    )
