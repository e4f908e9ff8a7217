"""Open WebUI's chat export: ``chat.history.messages`` by id, each with its parent; ``currentId`` is the one shown."""

from __future__ import annotations

from contextinfinity.domain.message import AssistantItem, ContentBlock, Json, TextBlock
from contextinfinity.exchange.conversation_builder import ConversationBuilder, said_by
from contextinfinity.exchange.conversation_tree import ExportedConversation, ExportedMessage
from contextinfinity.exchange.export_fields import items, mapping, text, without
from contextinfinity.exchange.times import moment_of

PROVIDER = "open-webui"
_READ = ("id", "parentId", "childrenIds", "role", "content", "timestamp", "files", "model", "models")


def read_conversation(record: dict[str, Json]) -> ExportedConversation:
    """Read one chat; older exports have a plain list of messages in place of the history."""
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
        metadata=without(record, "chat", "id", "title", "user_id", "created_at", "messages", "history"),
    )


def _message(name: str, parent: str | None, message: dict[str, Json], built: ConversationBuilder) -> ExportedMessage:
    blocks: list[ContentBlock] = [TextBlock(text=words)] if (words := text(message, "content")) else []
    for part in items(message, "content"):
        words = text(part, "text") if isinstance(part, dict) else ""
        blocks.append(TextBlock(text=words) if words else built.unknown(part))
    for file in items(message, "files"):
        if isinstance(file, dict):
            url = text(file, "url") if file.get("type") == "image" else ""
            blocks.append(built.image_at(url, file))
    role = text(message, "role")
    is_reply = role == "assistant"
    return ExportedMessage(
        id=name,
        parent=parent,
        said=None if is_reply else said_by("system" if role == "system" else "user", blocks),
        reply=(AssistantItem(blocks=tuple(blocks)),) if is_reply and blocks else (),
        created_at=moment_of(message.get("timestamp")),
        model=text(message, "model"),
        details=without(message, *_READ),
    )
