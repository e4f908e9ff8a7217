"""The JSON encoding of all domain values.

``dumps`` writes ``{"v":1,"is":<value>}`` in UTF-8; ``loads`` reads it into a given type. Invariants: ``loads(type,
dumps(value)) == value``; values of older releases stay readable, because ``UPGRADES`` converts each version to the
next; values of newer releases are rejected with ``InvalidInput``; blocks and items of unknown type are kept unchanged
as unknown.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import msgspec

from contextinfinity.domain.message import (
    AssistantItem,
    ContentBlock,
    ImageBlock,
    Json,
    Message,
    MetadataItem,
    ReasoningBlock,
    ReasoningItem,
    TextBlock,
    ToolCallItem,
    ToolOutputItem,
    ToolResultBlock,
    ToolUseBlock,
    TranscriptItem,
    UnknownBlock,
    UnknownItem,
)
from contextinfinity.domain.unicode import lone_surrogate
from contextinfinity.errors import InvalidInput

Upgrade = Callable[[Json], Json]

VERSION = 1
UPGRADES: Mapping[int, Upgrade] = {}
"""Functions that convert the JSON of each older version to the next."""

_BLOCKS = (TextBlock, ToolUseBlock, ToolResultBlock, ImageBlock, ReasoningBlock, UnknownBlock)
_ITEMS = (AssistantItem, ToolCallItem, ToolOutputItem, ReasoningItem, MetadataItem, UnknownItem)
_BLOCK_TAGS = frozenset(str(kind.__struct_config__.tag) for kind in _BLOCKS)
_ITEM_TAGS = frozenset(str(kind.__struct_config__.tag) for kind in _ITEMS) | {"answer", "call"}  # stored references
_OPEN_UNIONS: Mapping[Any, frozenset[str]] = {ContentBlock: _BLOCK_TAGS, TranscriptItem: _ITEM_TAGS}
_encoder = msgspec.json.Encoder()
_canonical = msgspec.json.Encoder(order="sorted")


class _Envelope(msgspec.Struct, frozen=True):
    v: int
    is_: msgspec.Raw = msgspec.field(name="is")


_open_envelope = msgspec.json.Decoder(_Envelope)


_preparing = threading.Lock()


@cache
def _decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    with _preparing:  # msgspec crashes the process if two threads prepare the same type concurrently
        return msgspec.json.Decoder(kind)


def dumps(value: object) -> bytes:
    """Encode a value in the current version; raise ``InvalidInput`` for text that is not valid Unicode."""
    with unicode_only():
        return b'{"v":%d,"is":%b}' % (VERSION, _encoder.encode(value))


def loads(kind: Any, data: bytes | str) -> Any:
    """Decode a value of any version up to the current one; raise ``InvalidInput`` for a newer version."""
    envelope, decoder = _open_envelope.decode(data), _decoder(kind)
    if envelope.v == VERSION:
        try:
            return decoder.decode(envelope.is_)
        except msgspec.ValidationError:
            pass  # it may contain a block or item of unknown type
    body = upgrade(msgspec.json.decode(envelope.is_), envelope.v)
    known = _OPEN_UNIONS.get(kind)
    return msgspec.convert(_mark_unknown(body) if known is None else _mark_one(body, known), kind)


def upgrade(body: Json, version: int, *, to: int = VERSION, steps: Mapping[int, Upgrade] = UPGRADES) -> Json:
    """Convert JSON of an older version to version ``to``, step by step; raise ``InvalidInput`` for unknown versions."""
    if version > to:
        raise InvalidInput(
            f"This value has format version {version}; this release reads versions up to {to}.",
            hint="It was written by a newer release: upgrade ContextInfinity.",
        )
    for older in range(version, to):
        if older not in steps:
            raise InvalidInput(f"This value has format version {version}, which no release wrote.")
        body = steps[older](body)
    return body


def content_hash(message: Message) -> bytes:
    """Hash the content of a message, independent of the release: SHA-256 over role and blocks, keys sorted."""
    with unicode_only():
        return hashlib.sha256(_canonical.encode(message)).digest()


def text_hash(text: str) -> bytes:
    """Hash a plain text."""
    with unicode_only():
        return hashlib.sha256(text.encode()).digest()


class unicode_only:  # noqa: N801 - used like a function; a class costs a fifth of a generator here
    """Raise ``InvalidInput`` if the block fails to encode text as UTF-8."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, UnicodeEncodeError):
            raise InvalidInput(f"The text holds {lone_surrogate(error)}.") from error


def _mark_unknown(value: Json) -> Json:
    """Wrap every block or item of unknown type as ``unknown``, unchanged."""
    if not isinstance(value, dict):
        return value
    # Only fields with blocks or items are visited: the content of ``raw`` and ``input`` is not ours.
    marked = dict(value)
    for name, known in (("blocks", _BLOCK_TAGS), ("content", _BLOCK_TAGS), ("items", _ITEM_TAGS)):
        if isinstance(marked.get(name), list):
            marked[name] = [_mark_one(entry, known) for entry in marked[name]]
    for name in ("user_message", "message", "answer", "step"):
        if isinstance(marked.get(name), dict):
            marked[name] = _mark_unknown(marked[name])
    if marked.get("type") == "clarification" and isinstance(names := marked.get("candidates"), list):
        # Older releases wrote only names; a candidate's id is its position.
        marked["candidates"] = [
            {"id": str(number), "name": name} if isinstance(name, str) else name for number, name in enumerate(names, 1)
        ]
    return marked


def _mark_one(entry: Json, known: frozenset[str]) -> Json:
    if isinstance(entry, dict) and "type" in entry:
        kind = entry["type"]
        if not isinstance(kind, str) or kind not in known:
            return {"type": "unknown", "provider": "", "raw": entry}
    return _mark_unknown(entry)
