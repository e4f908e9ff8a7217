"""Build one conversation of an export; shared by the readers of all formats.

A reader iterates over the records of its format, adds an ``ExportedMessage`` for each, and builds the conversation.
Records that are not objects are listed in ``bad`` with their position. The functions below build parts of a message.

Any field of an export may have any type: ``text``, ``mapping`` and ``items`` return the value if it has the expected
type, else an empty one.

Times of other programs are ISO 8601, or a number since 1970 in seconds or smaller units.
"""

from __future__ import annotations

import binascii
import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Protocol, TypeVar

from msgspec.structs import replace

from contextinfinity.domain.ids import from_millis, to_millis
from contextinfinity.domain.message import (
    AssistantItem,
    ContentBlock,
    ImageBlock,
    Json,
    Message,
    Role,
    TextBlock,
    ToolCallItem,
    UnknownBlock,
    blob_source,
)
from contextinfinity.errors import InvalidInput
from contextinfinity.exchange.conversation_tree import (
    Blobs,
    ExportedConversation,
    ExportedMessage,
    ReplyItem,
    check_exported,
)
from contextinfinity.text.image_size import media_type_of


class Assets(Protocol):
    """The files of an export besides its conversations."""

    def find(self, name: str) -> bytes | None:
        """Return the file whose name begins with that id; None if it is missing or too large."""
        ...


def text(record: Mapping[str, Json], *names: str) -> str:
    """Return the first of these fields that is a non-empty text."""
    return next((value for name in names if isinstance(value := record.get(name), str) and value), "")


def mapping(record: Mapping[str, Json], name: str) -> dict[str, Any]:
    """Return a field that is an object."""
    value = record.get(name)
    return value if isinstance(value, dict) else {}


def items(record: Mapping[str, Json], name: str) -> list[Any]:
    """Return a field that is a list."""
    value = record.get(name)
    return value if isinstance(value, list) else []


def other_fields(record: Mapping[str, Json], *names: str) -> Json:
    """Return the non-empty fields of a record that are not listed in ``names``; None if there are none."""
    return {
        name: value for name, value in record.items() if name not in names and value not in (None, "", [], {})
    } or None


LONGEST_PLACE = 80
LARGEST_IMAGE = 32 << 20

Key = TypeVar("Key", str, int)


class ConversationBuilder:
    """The messages, images and invalid records of one conversation that were read so far."""

    def __init__(self, provider: str) -> None:
        self._provider = provider
        self.blobs: Blobs = {}
        self.messages: list[ExportedMessage] = []
        self._ids: set[str] = set()
        self._bad: list[tuple[str, str]] = []

    @property
    def last(self) -> str | None:
        """The id of the message that was added last."""
        return self.messages[-1].id if self.messages else None

    def add(self, message: ExportedMessage) -> None:
        """Add a message. An invalid one is kept without content, as a link; one with a duplicate id is omitted."""
        place = f"message {message.id[:LONGEST_PLACE]}"
        if message.id in self._ids:
            return self.reject(place, "another message of the conversation has its id")
        self._ids.add(message.id)
        try:
            check_exported(message)
        except InvalidInput as error:
            self.reject(place, error.message.rstrip("."))
            message = ExportedMessage(id=message.id, parent=message.parent)
        return self.messages.append(message)

    def reject(self, place: str, reason: str) -> None:
        """Record an invalid record with its position."""
        self._bad.append((place, reason))

    def objects(
        self, entries: Iterable[tuple[Key, Json]], kind: str = "message"
    ) -> Iterator[tuple[Key, dict[str, Any]]]:
        """Yield the entries that are objects, with their keys; reject the others."""
        for key, entry in entries:
            if isinstance(entry, dict):
                yield key, entry
            else:
                self.reject(f"{kind} {str(key)[:LONGEST_PLACE]}", "it is not an object")

    def unknown(self, raw: Json) -> UnknownBlock:
        """Return content of an unknown type as an unknown block."""
        return UnknownBlock(provider=self._provider, raw=raw)

    def image(self, data: bytes, again: Callable[[], bytes] | None = None) -> ImageBlock | None:
        """Register the bytes of an image and return its block, or None if models do not support the format.

        ``again`` reads the bytes a second time, so that they need not stay in memory.
        """
        media_type = media_type_of(data)
        if media_type is None or len(data) > LARGEST_IMAGE:
            return None
        sha256 = hashlib.sha256(data).hexdigest()
        self.blobs[sha256] = (again or data, media_type)
        return ImageBlock(media_type=media_type, source=blob_source(sha256))

    def image_at(self, url: str, raw: Json) -> ContentBlock:
        """Return the image of a data URI or a URL; keep anything else as an unknown block."""
        if url.startswith(("https://", "http://")):
            return ImageBlock(media_type="", source={"type": "url", "url": url})
        head, comma, body = url.partition(",")
        if comma and head.startswith("data:image/") and head.endswith(";base64"):
            try:
                made = self.image(binascii.a2b_base64(body, strict_mode=True))
            except ValueError:
                made = None
            if made is not None:
                return made
        return self.unknown(raw)

    def build(
        self,
        name: str,
        *,
        title: str = "",
        system: str = "",
        created_at: datetime | None = None,
        current: str | None = None,
        metadata: Json = None,
    ) -> ExportedConversation:
        """Return the conversation; ``current`` is the id of the message that was shown last."""
        return ExportedConversation(
            id=name,
            title=title or None,
            system=system or None,
            created_at=created_at,
            current=current or None,
            messages=self.messages,
            blobs=self.blobs,
            metadata=metadata if isinstance(metadata, dict) else {},
            bad=tuple(self._bad),
        )


def said_by(role: Role, blocks: Sequence[ContentBlock]) -> Message | None:
    """Return a message of a user or a system, or None if it has no content."""
    return Message(role=role, blocks=tuple(blocks)) if blocks else None


def named_file(raw: dict[str, Json]) -> TextBlock:
    """Return a text with the name of a file that the export does not contain."""
    return TextBlock(text=f"[file: {text(raw, 'name', 'file_name', 'filename') or 'other_fields a name'}]")


def quoted(source: dict[str, Json], words: str) -> str:
    """Return text from a page or a file after its title and URL."""
    named = " · ".join(filter(None, (text(source, "title"), text(source, "url"))))
    return f"{named}\n{words}" if named else words


def document_call(call: ToolCallItem, *, title: str) -> list[ReplyItem]:
    """Split a tool call that writes a document into the document as an assistant text, and the call without it."""
    words = text(call.arguments, "content") if isinstance(call.arguments, dict) else ""
    if not words:
        return [call]
    name = text(call.arguments, title)
    rest = {key: value for key, value in call.arguments.items() if key != "content"}
    return [reply_text(f"{name}\n\n{words}" if name else words), replace(call, arguments=rest)]


def reply_text(words: str) -> AssistantItem:
    """Return a text of the assistant."""
    return AssistantItem(blocks=(TextBlock(text=words),))


def content_of_reply(reply: Iterable[ReplyItem]) -> tuple[ContentBlock, ...]:
    """Return the content of a reply without its tool calls and their results."""
    return tuple(block for item in reply if isinstance(item, AssistantItem) for block in item.blocks)


_EARLIEST, _LATEST = datetime(1, 1, 2, tzinfo=UTC), datetime(9999, 12, 30, tzinfo=UTC)
_UNITS = ((1e11, 1e3), (1e14, 1.0), (1e17, 1e-3), (1e20, 1e-6))
"""(maximum, units per millisecond): how a number is interpreted, as seconds, milli-, micro- or nanoseconds."""

_DAY_DIGITS = 8
"""A text with this number of digits is a day: 20230508."""


def moment_of(value: Json) -> datetime | None:
    """Parse a time; None if it is invalid. Without a time zone it is UTC."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    try:
        return _of_text(value.strip()) if isinstance(value, str) else _of_number(value)
    except (ValueError, OverflowError, OSError):
        return None


def _of_text(text: str) -> datetime | None:
    if len(text) == _DAY_DIGITS and text.isdecimal():
        moment = datetime.fromisoformat(text)
    else:
        try:
            return _of_number(float(text))
        except ValueError:
            moment = datetime.fromisoformat(text)
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return from_millis(to_millis(moment)) if _EARLIEST <= moment <= _LATEST else None


def _of_number(number: float) -> datetime | None:
    for most, factor in _UNITS:
        if abs(number) < most:
            return from_millis(round(number * factor))
    return None
