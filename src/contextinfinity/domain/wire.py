"""The JSON encoding of all domain values.

``dumps`` writes ``{"v":1,"is":<value>}`` in UTF-8; ``loads`` reads it into a given type. Invariants: ``loads(type,
dumps(value)) == value``; values of older releases stay readable, because ``UPGRADES`` converts each version to the
next; values of newer releases are rejected with ``InvalidInput``; blocks and items of unknown type are kept unchanged
as unknown.

Text with NUL or lone surrogates, which have no UTF-8 encoding, is rejected. Error messages give the code point and
position, so that the sender can find it.
"""

from __future__ import annotations

import hashlib
import re
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
from contextinfinity.errors import InvalidInput

NUL = "\0"
LOOKED_AT = 1 << 20
"""Only this many bytes at the start of a document are searched, so that a large one does not delay other requests."""
PAIR = len(r"\ud83d\ude00")
_WHOLE = re.compile(
    rb"(?:[^\\\xed]++|\\[^u]|\\u(?![dD][89a-fA-F])|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    rb"|\xed[^\xa0-\xbf])*+",
    re.DOTALL,
)
"""The longest start of a JSON document without a lone surrogate."""
_HALF = re.compile(rb"\\u([dD][89a-fA-F][0-9a-fA-F]{2})|\xed([\xa0-\xbf])([\x80-\xbf])")
"""A surrogate as an escape, or encoded as if UTF-8 allowed it."""


def lone_surrogate(error: UnicodeEncodeError) -> str:
    """Describe the surrogate that made an encoding fail."""
    return f"a lone surrogate at {error.start} (U+{ord(error.object[error.start]):04X}, half a character)"


def lone_surrogate_in(body: bytes) -> str | None:
    """Describe the first lone surrogate near the start of a JSON document; None if there is none."""
    whole = _WHOLE.match(body, 0, LOOKED_AT)
    place = 0 if whole is None else whole.end()
    found = _HALF.match(body, place) if place + PAIR <= LOOKED_AT else None
    if found is None:
        return None
    code = int(found[1], 16) if found[1] else 0xD000 | (found[2][0] & 0x3F) << 6 | found[3][0] & 0x3F
    return f"a lone surrogate at byte {place} (U+{code:04X}, half a character)"


def unreadable(body: bytes, error: Exception) -> str:
    """Return why a JSON document cannot be read, naming a lone surrogate if there is one."""
    found = lone_surrogate_in(body)
    return str(error) if found is None else f"it holds {found}"


def has_nul(value: object) -> bool:
    """Return whether a text, or any text inside a JSON value, contains a NUL character."""
    left: list[object] = [value]
    while left:
        one = left.pop()
        if isinstance(one, str) and NUL in one:
            return True
        if isinstance(one, dict):
            left += [*one, *one.values()]
        elif isinstance(one, list | tuple):
            left += one
    return False


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
