"""LibreChat's JSON export: messages that name their parent, in a list or one inside the other (``children``)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from contextinfinity.domain.message import AssistantItem, ContentBlock, Json, TextBlock, ToolCallItem, arguments_of
from contextinfinity.exchange.conversation_builder import ConversationBuilder, said_by, spoken_blocks
from contextinfinity.exchange.conversation_tree import ExportedConversation, ExportedMessage, ReplyItem, ToolOutput
from contextinfinity.exchange.export_fields import items, mapping, text, without
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
    built = ConversationBuilder(PROVIDER)
    for number, message in built.objects(enumerate(_flat(items(record, "messages")), 1)):
        name = text(message, "messageId") or f"{number - 1}"
        built.add(_message(name, text(message, "parentMessageId") or None, message, built))
    options = mapping(record, "options")
    return built.build(
        text(record, "conversationId"),
        title=text(record, "title"),
        system=text(options, "promptPrefix", "instructions", "system"),
        created_at=moment_of(record.get("createdAt")),
        current=built.last,
        metadata=without(record, "messages", "messagesTree", "conversationId", "title"),
    )


def _flat(nested: list[Json]) -> Iterator[Json]:
    """Yield messages, outer ones before those inside them, which then name the outer one as their parent."""
    waiting: list[tuple[str, Json]] = [("", message) for message in reversed(nested)]
    while waiting:
        parent, message = waiting.pop()
        if isinstance(message, dict):
            name = text(message, "messageId") or parent
            waiting.extend((name, child) for child in reversed(items(message, "children")))
            if parent and not text(message, "parentMessageId"):
                message = {**message, "parentMessageId": parent}
        yield message


def _message(name: str, parent: str | None, message: dict[str, Json], built: ConversationBuilder) -> ExportedMessage:
    content = items(message, "content") or [{"type": "text", "text": text(message, "text")}]
    thoughts = [part for part in content if isinstance(part, dict) and part.get("type") == "think"]
    reply = tuple(item for part in content for item in _items(part, built))
    is_user = message.get("isCreatedByUser") is True or text(message, "sender").lower() == "user"
    details = without(message, *_READ)
    return ExportedMessage(
        id=name,
        parent=parent,
        said=said_by("user", spoken_blocks(reply)) if is_user else None,
        reply=() if is_user else reply,
        created_at=moment_of(message.get("createdAt")),
        model=text(message, "model"),
        details={**(details or {}), "content": thoughts} if thoughts else details,
    )


def _items(part: Json, built: ConversationBuilder) -> Iterable[ReplyItem]:
    if not isinstance(part, dict):
        return
    kind = text(part, "type")
    if kind == "tool_call":
        call = mapping(part, "tool_call")
        call_id, name = text(call, "id"), text(call, "name") or "tool"
        yield ToolCallItem(call_id=call_id, name=name, arguments=arguments_of(call.get("args")))
        if output := text(call, "output"):
            yield ToolOutput(call_id=call_id or None, name=name, blocks=(TextBlock(text=output),))
    elif block := _block(part, kind, built):
        yield AssistantItem(blocks=(block,))


def _block(part: dict[str, Json], kind: str, built: ConversationBuilder) -> ContentBlock | None:
    if kind == "think":
        return None
    if words := text(part, "text") or text(mapping(part, "text"), "value"):
        return TextBlock(text=words)
    if kind == "image_url":
        url = text(part, "image_url") or text(mapping(part, "image_url"), "url")
        return built.image_at(url, part)
    return None if kind == "text" else built.unknown(part)
