"""Open WebUI's chat export: ``chat.history.messages`` by id, each with its parent; ``currentId`` is the one shown.

Reasoning is a ``<details>`` element in an answer and becomes a detail of the message. Text that was extracted from a
file becomes part of the message.
"""

from __future__ import annotations

import re

from contextinfinity.domain.message import AssistantItem, ContentBlock, Json, ReasoningItem, TextBlock
from contextinfinity.exchange.conversation_builder import (
    ConversationBuilder,
    items,
    mapping,
    moment_of,
    named_file,
    other_fields,
    said_by,
    text,
)
from contextinfinity.exchange.conversation_tree import ExportedConversation, ExportedMessage, ReplyItem

PROVIDER = "open-webui"
_READ = ("id", "parentId", "childrenIds", "role", "content", "timestamp", "files", "model", "models")


def read_conversation(record: dict[str, Json]) -> ExportedConversation:
    """Parse one chat; older exports have a plain list of messages instead of the history."""
    chat = mapping(record, "chat") or record
    history = mapping(chat, "history")
    built = ConversationBuilder(PROVIDER)
    listed = mapping(history, "messages") or {
        (text(message, "id") if isinstance(message, dict) else "") or f"{number}": message
        for number, message in enumerate(items(chat, "messages"))
    }
    for name, message in built.objects(listed.items()):
        parent = text(message, "parentId") or (None if "parentId" in message else built.last)
        built.add(_message(name, parent, message, built))
    return built.build(
        text(record, "id") or text(chat, "id"),
        title=text(record, "title") or text(chat, "title"),
        system=text(mapping(chat, "params"), "system") or text(chat, "system"),
        created_at=moment_of(record.get("created_at", chat.get("timestamp"))),
        current=text(history, "currentId") or built.last,
        metadata=other_fields(record, "chat", "id", "title", "user_id", "created_at", "messages", "history"),
    )


_REASONING = re.compile(r'<details type="reasoning".*?</details>\s*', re.DOTALL)


def _message(name: str, parent: str | None, message: dict[str, Json], built: ConversationBuilder) -> ExportedMessage:
    role, words = text(message, "role"), text(message, "content")
    is_reply = role == "assistant"
    thoughts = _REASONING.findall(words) if is_reply else []
    words = _REASONING.sub("", words) if thoughts else words
    blocks: list[ContentBlock] = [TextBlock(text=words)] if words else []
    for part in items(message, "content"):
        words = text(part, "text") if isinstance(part, dict) else ""
        blocks.append(TextBlock(text=words) if words else built.unknown(part))
    for file in items(message, "files"):
        if isinstance(file, dict):
            blocks.append(_file(file, built))
    details = other_fields(message, *_READ)
    reply: tuple[ReplyItem, ...] = (AssistantItem(blocks=tuple(blocks)),) if blocks else ()
    return ExportedMessage(
        id=name,
        parent=parent,
        said=None if is_reply else said_by("system" if role == "system" else "user", blocks),
        reply=(reply or tuple(ReasoningItem(raw=thought) for thought in thoughts)) if is_reply else (),
        created_at=moment_of(message.get("timestamp")),
        model=text(message, "model"),
        details={**(details or {}), "reasoning": thoughts} if thoughts else details,
    )


def _file(file: dict[str, Json], built: ConversationBuilder) -> ContentBlock:
    """Return an image, the text of a document after its name, or only its name."""
    if file.get("type") == "image":
        return built.image_at(text(file, "url"), file)
    words = text(mapping(mapping(file, "file"), "data"), "content")
    return TextBlock(text=f"\n\n{text(file, 'name') or 'file'}:\n{words}") if words else named_file(file)
