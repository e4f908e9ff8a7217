"""The trail of a conversation: a number that rolls over everything said up to a point.

Clients that send a whole conversation with every request name no thread. Whoever walks through their messages comes to
the same number as whoever walked through the turns that were kept, and so finds the place where they left off. What
such clients change from one request to the next is left out: system texts, ids, thinking, white space around a text.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from hashlib import blake2b

import msgspec
from msgspec import Struct

from contextinfinity.domain.ids import BranchId, SessionId, TurnId
from contextinfinity.domain.message import (
    ContentBlock,
    ImageBlock,
    Json,
    Message,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from contextinfinity.domain.session import Owner
from contextinfinity.domain.turn import Phase

_canonical = msgspec.json.Encoder(order="sorted")


class TrailEnd(Struct, frozen=True, kw_only=True):
    """A turn that a trail leads to, on a branch that sees it."""

    session_id: SessionId
    branch_id: BranchId
    turn_id: TurnId
    turn_seq: int
    is_free: bool
    """Whether nothing follows it on that branch, but turns that failed."""
    is_fresh: bool = False
    """Whether that branch was begun after it, and says nothing of its own yet."""


class Walked(Struct, frozen=True, kw_only=True):
    """A turn that a request made."""

    turn_id: TurnId
    phase: Phase
    created_at: datetime


def beginning(owner: Owner, end_user: str = "") -> int:
    """Give the number a conversation begins with; those of two people never meet."""
    return number_of(b"conversation\0" + _whose(owner, end_user))


def after(before: int, message: Message) -> int:
    """Go on by one message."""
    said = before.to_bytes(8, "big", signed=True) + _said(message)
    return int.from_bytes(blake2b(said, digest_size=8).digest(), "big", signed=True)


def alone(message: Message, owner: Owner, end_user: str = "") -> int:
    """Give the number of a message, whatever stood before it; with its answer ``after`` it, that of an exchange."""
    return after(number_of(b"alone\0" + _whose(owner, end_user)), message)


def number_of(said: bytes) -> int:
    """Make a number of 64 bits that stands for some bytes."""
    return int.from_bytes(blake2b(said, digest_size=8).digest(), "big", signed=True)


def _whose(owner: Owner, end_user: str) -> bytes:
    return b"\0".join(name.encode(errors="replace") for name in (owner.org_id, owner.user_id, end_user))


def says_the_same(one: Message, other: Message) -> bool:
    """Tell whether two messages say the same, as far as it counts."""
    return _said(one) == _said(other)


def _said(message: Message) -> bytes:
    """Write what counts of a message: its words in one piece, however they were cut, then the rest in order."""
    role, blocks = b"answer" if message.role == "assistant" else b"question", message.blocks
    if len(blocks) == 1 and isinstance(blocks[0], TextBlock):  # as most are; thousands may be resent at once
        return role + b"\0" + blocks[0].text.strip().encode(errors="replace")
    others = [part for block in blocks for part in _parts(block)]
    return b"\0".join((role, message.rendered_text.strip().encode(errors="replace"), *others))


def _parts(block: ContentBlock) -> Iterator[bytes]:
    match block:
        case ToolUseBlock():
            yield b"call:" + block.name.encode(errors="replace") + b"\0" + _written(block.input)
        case ToolResultBlock():
            yield b"result:" + _said(Message(role="tool", blocks=block.content))
        case ImageBlock():
            yield b"image:" + _picture(block.source)


def _picture(source: Json) -> bytes:
    """Give the hash of a picture that is kept; of one that is elsewhere, where that is."""
    if isinstance(source, dict) and source.get("type") == "blob":
        return str(source.get("sha256")).encode()
    return _written(source)


def _written(value: Json) -> bytes:
    """Write JSON in the one form in which equal values are equal."""
    try:
        return _canonical.encode(value)
    except UnicodeEncodeError:
        return repr(value).encode(errors="replace")
