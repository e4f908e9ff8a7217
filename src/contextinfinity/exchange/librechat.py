"""LibreChat's JSON export: messages that name their parent, in a list or one inside the other (``children``)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from contextinfinity.domain.message import (
    AssistantItem,
    ContentBlock,
    Json,
    Message,
    TextBlock,
    ToolCallItem,
    UnknownBlock,
    arguments_of,
)
from contextinfinity.exchange.conversation_tree import (
    Blobs,
    ExportedConversation,
    ExportedMessage,
    ReplyItem,
    ToolOutput,
)
from contextinfinity.exchange.export_fields import image_at, items, mapping, text, without
from contextinfinity.exchange.times import moment_of

PROVIDER = "librechat"
_READ = (
    "messageId",
    "parentMessageId",
    "conversationId",
    "text",
    "content",
    "children",
    "isCreatedByUser",
    "createdAt",
    "updatedAt",
    "model",
    "depth",
    "siblingIndex",
)


def read_conversation(record: dict[str, Json]) -> ExportedConversation:
    """Read one conversation."""
    blobs: Blobs = {}
    messages: list[ExportedMessage] = []
    bad: list[tuple[str, str]] = []
    last: str | None = None
    for number, (parent, message) in enumerate(_flat(items(record, "messages"))):
        if not isinstance(message, dict):
            bad.append((f"message {number + 1}", "it is no object"))
            continue
        name = text(message, "messageId") or f"{number}"
        messages.append(_message(name, text(message, "parentMessageId") or parent, message, blobs))
        last = name
    options = mapping(record, "options")
    return ExportedConversation(
        id=text(record, "conversationId"),
        title=text(record, "title") or None,
        system=text(options, "promptPrefix", "instructions", "system") or None,
        created_at=moment_of(record.get("createdAt")),
        current=last,
        messages=messages,
        blobs=blobs,
        metadata=without(record, "messages", "messagesTree", "conversationId", "title") or {},
        bad=tuple(bad),
    )


def _flat(nested: list[Json]) -> Iterator[tuple[str | None, Json]]:
    """Yield messages with their parent, outer ones before those inside them."""
    waiting: list[tuple[str | None, Json]] = [(None, message) for message in reversed(nested)]
    while waiting:
        parent, message = waiting.pop()
        yield parent, message
        if isinstance(message, dict):
            name = text(message, "messageId") or parent
            waiting.extend((name, child) for child in reversed(items(message, "children")))


def _message(name: str, parent: str | None, message: dict[str, Json], blobs: Blobs) -> ExportedMessage:
    content = items(message, "content") or [{"type": "text", "text": text(message, "text")}]
    thoughts = [part for part in content if isinstance(part, dict) and part.get("type") == "think"]
    reply = tuple(item for part in content for item in _items(part, blobs))
    blocks = [block for item in reply if isinstance(item, AssistantItem) for block in item.blocks]
    is_user = message.get("isCreatedByUser") is True or text(message, "sender").lower() == "user"
    details = without(message, *_READ)
    return ExportedMessage(
        id=name,
        parent=parent,
        said=Message(role="user", blocks=tuple(blocks)) if is_user and blocks else None,
        reply=() if is_user else reply,
        created_at=moment_of(message.get("createdAt")),
        model=text(message, "model"),
        details={**(details or {}), "content": thoughts} if thoughts else details,
    )


def _items(part: Json, blobs: Blobs) -> Iterable[ReplyItem]:
    if not isinstance(part, dict):
        return
    kind = text(part, "type")
    if kind == "tool_call":
        call = mapping(part, "tool_call")
        call_id, name = text(call, "id"), text(call, "name") or "tool"
        yield ToolCallItem(call_id=call_id, name=name, arguments=arguments_of(call.get("args")))
        if output := text(call, "output"):
            yield ToolOutput(call_id=call_id or None, name=name, blocks=(TextBlock(text=output),))
    elif block := _block(part, kind, blobs):
        yield AssistantItem(blocks=(block,))


def _block(part: dict[str, Json], kind: str, blobs: Blobs) -> ContentBlock | None:
    if kind == "think":
        return None
    if words := text(part, "text") or text(mapping(part, "text"), "value"):
        return TextBlock(text=words)
    if kind == "image_url":
        url = text(part, "image_url") or text(mapping(part, "image_url"), "url")
        return image_at(url, part, PROVIDER, blobs)
    return None if kind == "text" else UnknownBlock(provider=PROVIDER, raw=part)
