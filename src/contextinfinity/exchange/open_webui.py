"""Open WebUI's chat export: ``chat.history.messages`` by id, each with its parent; ``currentId`` is the one shown."""

from __future__ import annotations

from contextinfinity.domain.message import AssistantItem, ContentBlock, Json, Message, TextBlock, UnknownBlock
from contextinfinity.exchange.conversation_tree import Blobs, ExportedConversation, ExportedMessage
from contextinfinity.exchange.export_fields import image_at, items, mapping, text, without
from contextinfinity.exchange.times import moment_of

PROVIDER = "open-webui"
_READ = ("id", "parentId", "childrenIds", "role", "content", "timestamp", "files", "model", "models")


def read_conversation(record: dict[str, Json]) -> ExportedConversation:
    """Read one chat; older exports have a plain list of messages in place of the history."""
    chat = mapping(record, "chat") or record
    history = mapping(chat, "history")
    blobs: Blobs = {}
    messages: list[ExportedMessage] = []
    bad: list[tuple[str, str]] = []
    listed = mapping(history, "messages") or {
        text(message, "id") or f"{number}": message
        for number, message in enumerate(items(chat, "messages"))
        if isinstance(message, dict)
    }
    before: str | None = None
    for name, message in listed.items():
        if not isinstance(message, dict):
            bad.append((f"message {name[:80]}", "it is no object"))
            continue
        parent = text(message, "parentId") or (None if "parentId" in message else before)
        messages.append(_message(name, parent, message, blobs))
        before = name
    return ExportedConversation(
        id=text(record, "id") or text(chat, "id"),
        title=text(record, "title") or text(chat, "title") or None,
        system=text(mapping(chat, "params"), "system") or text(chat, "system") or None,
        created_at=moment_of(record.get("created_at", chat.get("timestamp"))),
        current=text(history, "currentId") or before,
        messages=messages,
        blobs=blobs,
        metadata=without(record, "chat", "id", "title", "user_id", "created_at", "messages", "history") or {},
        bad=tuple(bad),
    )


def _message(name: str, parent: str | None, message: dict[str, Json], blobs: Blobs) -> ExportedMessage:
    blocks: list[ContentBlock] = [TextBlock(text=words)] if (words := text(message, "content")) else []
    for part in items(message, "content"):
        words = text(part, "text") if isinstance(part, dict) else ""
        blocks.append(TextBlock(text=words) if words else UnknownBlock(provider=PROVIDER, raw=part))
    for file in items(message, "files"):
        if isinstance(file, dict):
            url = text(file, "url") if file.get("type") == "image" else ""
            blocks.append(image_at(url, file, PROVIDER, blobs))
    role = text(message, "role")
    said = Message(role="system" if role == "system" else "user", blocks=tuple(blocks)) if blocks else None
    is_reply = role == "assistant"
    return ExportedMessage(
        id=name,
        parent=parent,
        said=None if is_reply else said,
        reply=(AssistantItem(blocks=tuple(blocks)),) if is_reply and blocks else (),
        created_at=moment_of(message.get("timestamp")),
        model=text(message, "model"),
        details=without(message, *_READ),
    )
