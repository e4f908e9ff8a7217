"""Parse a record as a message: ``{role, content, name?, created_at?, id?}``, in OpenAI's format.

Content is a text or a list of parts. Tool calls and results become blocks; pictures in data URIs become blobs, which
must be stored before the message; parts of unknown type are kept unchanged. ``thread_id``, ``session_id`` or
``conversation_id`` name the conversation. Every other field is kept unchanged as a detail of the message.

Records are untrusted: an empty or invalid one raises ``RejectedRecord`` with the reason.
"""

from __future__ import annotations

import binascii
import hashlib
import re
from typing import Any, NamedTuple

import msgspec

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
    arguments_of,
    blob_source,
)
from contextinfinity.domain.transfer import ImportedMessage
from contextinfinity.errors import InvalidInput
from contextinfinity.exchange.conversation_builder import moment_of
from contextinfinity.storage.invariants import LONGEST_NAME
from contextinfinity.storage.ledger.imports import check_imported

ROLES: dict[str, Role] = {
    "user": "user",
    "assistant": "assistant",
    "system": "system",
    "developer": "system",
    "tool": "tool",
    "function": "tool",
}
SESSION_FIELDS = ("thread_id", "session_id", "conversation_id")
TIME_FIELDS = ("created_at", "timestamp")
ROOMY = 1 << 20
MOST_VALUES = 1_000_000
_TEXT = re.compile(rb'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_TEXT_PARTS = frozenset({"text", "input_text", "output_text"})
_READ = frozenset({"role", "content", "id", "tool_calls", "tool_call_id", "function_call", "refusal", *SESSION_FIELDS})
_DEEPEST_RESULT = 8
_NOTHING = TextBlock(text="")

Blobs = dict[str, tuple[bytes, str]]
"""Pictures by hash: bytes and media type."""


class RejectedRecord(Exception):
    """A record is invalid; ``session`` is the conversation that it names, if any."""

    def __init__(self, reason: str, session: str | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.session = session


class ParsedMessage(NamedTuple):
    """A message, the conversation that it names, and its pictures. Its position is not set yet."""

    imported: ImportedMessage
    session: str | None
    blobs: Blobs


def parse_record(data: bytes) -> ParsedMessage:
    """Parse a record as a message."""
    return message_of_record(decoded(data))


def decoded(data: bytes) -> dict[str, Json]:
    """Decode a record; it must be an object of bounded size."""
    if _has_too_many_values(data):
        raise RejectedRecord(f"it holds more than {MOST_VALUES:,} values")
    try:
        record = msgspec.json.decode(data)
    except RecursionError:
        raise RejectedRecord("it is nested too deeply") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise RejectedRecord(f"it is not JSON: {error}") from None
    if not isinstance(record, dict):
        raise RejectedRecord(f"it is {_kind(record)}, not an object with a role and content")
    return record


def message_of_record(record: dict[str, Json]) -> ParsedMessage:
    """Convert a decoded record to a message."""
    session = _session(record)
    try:
        return _message_and_blobs(record, session)
    except RejectedRecord as rejected:
        raise RejectedRecord(rejected.reason, session) from None
    except InvalidInput as error:
        raise RejectedRecord(error.message, session) from None


def _has_too_many_values(data: bytes) -> bool:
    """Return whether a large record has very many small values, which take fifty times its size when decoded."""
    return len(data) > ROOMY and _TEXT.sub(b"", data).count(b",") > MOST_VALUES


def _message_and_blobs(record: dict[str, Json], session: str | None) -> ParsedMessage:
    blobs: Blobs = {}
    moments = {field: moment for field in TIME_FIELDS if (moment := moment_of(record.get(field))) is not None}
    model = record.get("model")
    imported = ImportedMessage(
        message=_message(record, blobs),
        place=0,
        external_id=_name(record, "id"),
        created_at=next(iter(moments.values()), None),
        model=model if isinstance(model, str) else "",
        details=_details(record, next(iter(moments), "")),
    )
    check_imported((imported,))
    return ParsedMessage(imported, session, blobs)


def _details(record: dict[str, Json], time_field: str) -> Json:
    """Return the fields that were not used, including an invalid time."""
    left = {name: value for name, value in record.items() if name not in _READ and value is not None}
    left.pop(time_field, None)
    return left or None


def _session(record: dict[str, Json]) -> str | None:
    for field in SESSION_FIELDS:
        if (name := _name(record, field)) is not None:
            if len(name) > LONGEST_NAME:
                raise RejectedRecord(f"its {field} has {len(name)} characters; allowed are 1 to {LONGEST_NAME}")
            return name
    return None


def _name(record: dict[str, Json], field: str) -> str | None:
    """Return a name: a text or an integer; None for an empty one."""
    value = record.get(field)
    if value is None or value == "":
        return None
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise RejectedRecord(f"its {field} is {_kind(value)}; it must be a string or an integer")
    return str(value)


def _message(record: dict[str, Json], blobs: Blobs) -> Message:
    role = record.get("role")
    if not isinstance(role, str) or role not in ROLES:
        raise RejectedRecord(
            "it has no role" if role is None else f"its role is {_shown(role)}, which is none of {', '.join(ROLES)}"
        )
    blocks = [*_content(record.get("content"), blobs), *_calls(record)]
    if not blocks and isinstance(refusal := record.get("refusal"), str):
        blocks = [TextBlock(text=refusal)]
    if len(blocks) > 1:
        blocks = [block for block in blocks if block != _NOTHING]
    if not blocks:
        raise RejectedRecord("it has no content")
    return Message(
        role=ROLES[role], blocks=_as_result(record, tuple(blocks)) if ROLES[role] == "tool" else tuple(blocks)
    )


def _as_result(record: dict[str, Json], blocks: tuple[ContentBlock, ...]) -> tuple[ContentBlock, ...]:
    """Return the content of a tool message as the result of its call, if it names the call."""
    call = record.get("tool_call_id") or (record.get("name") if record["role"] == "function" else None)
    return (ToolResultBlock(tool_use_id=call, content=blocks),) if isinstance(call, str) else blocks


def _content(content: Json, blobs: Blobs, depth: int = 0) -> list[ContentBlock]:
    if isinstance(content, str):
        return [TextBlock(text=content)]
    if content is None:
        return []
    if not isinstance(content, list):
        raise RejectedRecord(f"its content is {_kind(content)}; it must be a string or a list of parts")
    return [_part(part, blobs, depth) for part in content]


def _part(part: Json, blobs: Blobs, depth: int) -> ContentBlock:
    if isinstance(part, str):
        return TextBlock(text=part)
    kind = part.get("type") if isinstance(part, dict) else None
    if not isinstance(kind, str):
        raise RejectedRecord(f"a part of its content is {_kind(part)}; it must be an object with a type")
    if kind in _TEXT_PARTS:
        notes = part.get("annotations")
        return TextBlock(text=_text(part, "text"), annotations=tuple(notes) if isinstance(notes, list) else ())
    if kind == "refusal":
        return TextBlock(text=_text(part, "refusal"))
    if kind in ("image_url", "input_image"):
        return _picture(part, blobs) or UnknownBlock(provider="openai", raw=part)
    if kind == "tool_use" and isinstance(part.get("id"), str) and isinstance(part.get("name"), str):
        return ToolUseBlock(tool_use_id=part["id"], name=part["name"], input=part.get("input"))
    if kind == "tool_result" and isinstance(part.get("tool_use_id"), str):
        if depth >= _DEEPEST_RESULT:
            raise RejectedRecord("tool results in its content are nested too deeply")
        content = tuple(_content(part.get("content"), blobs, depth + 1))
        return ToolResultBlock(tool_use_id=part["tool_use_id"], content=content, is_error=part.get("is_error") is True)
    return UnknownBlock(provider="openai", raw=part)


def _text(part: dict[str, Json], field: str) -> str:
    if not isinstance(text := part.get(field), str):
        raise RejectedRecord(f"the {field} of a part of its content is {_kind(text)}; it must be a string")
    return text


def _picture(part: dict[str, Json], blobs: Blobs) -> ImageBlock | None:
    """Parse a picture: the bytes of a data URI, or a URL; None for anything else."""
    given = part.get("image_url")
    said = given if isinstance(given, dict) else {**part, "url": given}
    url, detail = said.get("url"), said.get("detail")
    extra = {"detail": detail} if isinstance(detail, str) else {}
    if not isinstance(url, str):
        return None
    if url.startswith(("https://", "http://")):
        return ImageBlock(media_type="", source={"type": "url", "url": url, **extra})
    head, comma, body = url.partition(",")
    media_type, _, encoding = head.removeprefix("data:").partition(";")
    if not (comma and url.startswith("data:image/") and encoding == "base64"):
        return None
    try:
        data = binascii.a2b_base64(body, strict_mode=True)
    except ValueError:
        raise RejectedRecord("an image in its content is not valid base64") from None
    if not data:
        raise RejectedRecord("an image in its content is empty")
    sha256 = hashlib.sha256(data).hexdigest()
    blobs[sha256] = (data, media_type)
    return ImageBlock(media_type=media_type, source={**blob_source(sha256), **extra})


def _calls(record: dict[str, Json]) -> list[ContentBlock]:
    calls = record.get("tool_calls") or []
    if not isinstance(calls, list):
        raise RejectedRecord(f"its tool_calls are {_kind(calls)}; they must be a list")
    old = record.get("function_call")
    return [_call(call) for call in calls] + ([_function(old, None)] if isinstance(old, dict) else [])


def _call(call: Json) -> ContentBlock:
    if not isinstance(call, dict):
        raise RejectedRecord(f"one of its tool_calls is {_kind(call)}; it must be an object")
    function = call.get("function")
    if not isinstance(function, dict) or not isinstance(call.get("id"), str):
        return UnknownBlock(provider="openai", raw=call)
    return _function(function, call["id"])


def _function(function: dict[str, Any], call_id: str | None) -> ContentBlock:
    """Parse a call; one in the old format has its function's name as id."""
    if not isinstance(name := function.get("name"), str):
        raise RejectedRecord("one of its tool_calls names no function")
    return ToolUseBlock(tool_use_id=call_id or name, name=name, input=arguments_of(function.get("arguments")))


def _kind(value: Json) -> str:
    kinds = {
        dict: "an object",
        list: "a list",
        str: "a string",
        bool: "true or false",
        int: "a number",
        float: "a number",
    }
    return kinds.get(type(value), "nothing")


def _shown(value: Json) -> str:
    text = value if isinstance(value, str) else _kind(value)
    return repr(text[:40]) if isinstance(value, str) else text
