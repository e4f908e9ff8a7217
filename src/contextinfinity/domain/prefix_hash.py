"""Prefix hashes of a conversation: a rolling 64-bit hash over all messages up to a point.

Clients that send a whole conversation with every request name no thread. The prefix hash of what they send equals that
of the stored conversation, so it identifies the turn to continue from. Both sides are normalised first, because clients
change some things from one request to the next: white space around a text, ids, reasoning, the boundaries of text
blocks, and the reminder blocks that agents add to messages and remove later (``REMINDERS``). System texts are not
hashed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import blake2b
from struct import unpack

import msgspec
from msgspec import Struct

from contextinfinity.domain.ids import BranchId, SessionId, TurnId
from contextinfinity.domain.message import (
    ContentBlock,
    ImageBlock,
    Json,
    Message,
    Role,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    UnknownBlock,
    own_text,
)
from contextinfinity.domain.session import Owner
from contextinfinity.domain.turn import Phase

REMINDERS = ("system-reminder", "environment_details")
"""Tags of the blocks that agents (Claude Code; Cline and its relatives) add to messages and strip later."""

_canonical = msgspec.json.Encoder(order="sorted")


class PrefixHashEnd(Struct, frozen=True, kw_only=True):
    """A turn that matches a prefix hash, on a branch that contains it."""

    session_id: SessionId
    branch_id: BranchId
    turn_id: TurnId
    turn_seq: int
    is_free: bool
    """Whether only failed turns follow it on that branch."""
    is_fresh: bool = False
    """Whether that branch was forked after it and has no own turns yet."""
    continuations: int = 0
    """How many different stored messages follow this prefix; counted up to 3, and only if ``is_free`` is False."""


class HashedPrefix(Struct, frozen=True, kw_only=True):
    """A turn that was created by a request."""

    turn_id: TurnId
    phase: Phase


def beginning(owner: Owner, end_user: str = "") -> int:
    """Return the hash of an empty conversation; it differs between owners and between end users."""
    return number_of(b"conversation\0" + _whose(owner, end_user))


def after(before: int, message: Message) -> int:
    """Extend a prefix hash by one message."""
    return after_each(before, (message,))[-1]


def after_each(before: int, messages: Iterable[Message]) -> list[int]:
    """Return a prefix hash, and the one after each of the messages."""
    digest = before.to_bytes(8, "big", signed=True)
    digests = [digest]
    for message in messages:
        digest = blake2b(digest + normalised(message), digest_size=8).digest()
        digests.append(digest)
    return list(unpack(f">{len(digests)}q", b"".join(digests)))


def alone(message: Message, owner: Owner, end_user: str = "") -> int:
    """Hash a message without its prefix; extend it with ``after`` by the answer to hash the exchange."""
    return after(number_of(b"alone\0" + _whose(owner, end_user)), message)


def number_of(said: bytes) -> int:
    """Return a 64-bit hash of some bytes."""
    return int.from_bytes(blake2b(said, digest_size=8).digest(), "big", signed=True)


def _whose(owner: Owner, end_user: str) -> bytes:
    return b"\0".join(name.encode(errors="replace") for name in (owner.org_id, owner.user_id, end_user))


def says_the_same(one: Message, other: Message) -> bool:
    """Return whether two messages are equal after normalisation."""
    return normalised(one) == normalised(other)


def _joined_text(message: Message) -> str:
    return "".join(map(own_text, message.blocks))


def plain_text(message: Message) -> str:
    """Return the normalised text of a message: without reminder blocks and outer white space."""
    text = _joined_text(message)
    for tag in REMINDERS if _may_have_tags(text) else ():
        text = _without(text, f"<{tag}>", f"</{tag}>")
    return text.strip()


def _without(text: str, opening: str, closing: str) -> str:
    """Remove the text between an opening and the next closing tag, and the tags, in linear time."""
    kept, place = list[str](), 0
    while (first := text.find(opening, place)) >= 0 and (last := text.find(closing, first)) >= 0:
        kept.append(text[place:first])
        place = last + len(closing)
    return "".join(kept) + text[place:]


def normalised(message: Message) -> bytes:
    """Return the form in which messages are compared: its whole text, then its other blocks in order."""
    role, blocks = b"answer" if message.role == "assistant" else b"question", message.blocks
    only = blocks[0] if len(blocks) == 1 else None
    if type(only) is TextBlock and not _may_have_tags(only.text) and (said := only.text.strip()):
        return role + b"\0" + said.encode(errors="replace")  # fast path: a request may resend thousands
    text = plain_text(message)
    others = tuple(part for block in blocks for part in _parts(block, message.role))
    if not text and not others:  # a message of reminders only must differ from other such messages
        text = _joined_text(message).strip()
    return b"\0".join((role, text.encode(errors="replace"), *others))


def _may_have_tags(text: str) -> bool:
    return "<" in text and "</" in text  # a single character is found ten times as fast as two


def _parts(block: ContentBlock, role: Role) -> Iterator[bytes]:
    match block:
        case ToolUseBlock():
            yield b"call:" + block.name.encode(errors="replace") + b"\0" + _written(block.input)
        case ToolResultBlock():
            yield b"result:" + normalised(Message(role="tool", blocks=block.content))
        case ImageBlock():
            yield b"image:" + _picture(block.source)
        case UnknownBlock() if role != "assistant":  # a file; answers are stored without vendor-specific blocks
            yield b"other:" + _written(block.raw)


def _picture(source: Json) -> bytes:
    """Return the hash of a stored image, or the source of any other image."""
    if isinstance(source, dict) and source.get("type") == "blob":
        return str(source.get("sha256")).encode()
    return _written(source)


def _written(value: Json) -> bytes:
    """Encode JSON in a canonical form: equal values give equal bytes."""
    try:
        return _canonical.encode(value)
    except UnicodeEncodeError:
        return repr(value).encode(errors="replace")
