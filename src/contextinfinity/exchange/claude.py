"""Claude's data export: ``conversations.json`` with ``chat_messages``, and ``projects.json`` or a folder of projects.

A message has content blocks: texts, thinking, tool calls and their results. Texts extracted from attachments are part
of the message, files are mentioned by name, and the content of an artifact becomes a text. A project's instructions
become the system text of its conversations; its documents become a separate conversation, so that they can be searched,
and so do Claude's memories.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from contextinfinity.domain.message import AssistantItem, ContentBlock, Json, ReasoningItem, TextBlock, ToolCallItem
from contextinfinity.exchange.conversation_builder import (
    ConversationBuilder,
    document_call,
    items,
    mapping,
    moment_of,
    named_file,
    other_fields,
    quoted,
    said_by,
    text,
)
from contextinfinity.exchange.conversation_tree import ExportedConversation, ExportedMessage, ReplyItem, ToolOutput

PROVIDER = "claude"
_READ = ("uuid", "text", "content", "sender", "created_at", "updated_at", "attachments", "parent_message_uuid")
_ARTIFACTS = "artifacts"
_UNSAID = frozenset({"thinking", "redacted_thinking", "token_budget", "flag"})


def read_conversation(record: dict[str, Json], instructions: Mapping[str, str]) -> ExportedConversation:
    """Parse one conversation; ``instructions`` are those of earlier projects, by project id."""
    built = ConversationBuilder(PROVIDER)
    known: set[str] = set()
    for number, message in built.objects(enumerate(items(record, "chat_messages"), 1)):
        name = text(message, "uuid") or f"{number - 1}"
        parent = text(message, "parent_message_uuid")
        built.add(_message(name, parent if parent in known else built.last, message, built))
        known.add(name)
    project = text(record, "project_uuid") or text(mapping(record, "project"), "uuid")
    return built.build(
        text(record, "uuid"),
        title=text(record, "name"),
        system=instructions.get(project, ""),
        created_at=moment_of(record.get("created_at")),
        current=text(record, "current_leaf_message_uuid") or built.last,
        metadata=other_fields(
            record, "chat_messages", "name", "uuid", "created_at", "account", "current_leaf_message_uuid"
        ),
    )


def read_project(record: dict[str, Json]) -> ExportedConversation | None:
    """Return the documents of a project as a conversation, or None if it has none."""
    built = ConversationBuilder(PROVIDER)
    for number, document in enumerate(items(record, "docs")):
        if isinstance(document, dict) and text(document, "content"):
            name = text(document, "uuid") or f"{number}"
            words = f"{text(document, 'filename') or name}:\n{text(document, 'content')}"
            said = said_by("user", (TextBlock(text=words),))
            created = moment_of(document.get("created_at"))
            built.add(ExportedMessage(id=name, parent=built.last, said=said, created_at=created))
    if built.last is None:
        return None
    return built.build(
        text(record, "uuid"),
        title=text(record, "name"),
        system=text(record, "prompt_template"),
        created_at=moment_of(record.get("created_at")),
        metadata={"project": other_fields(record, "docs", "prompt_template", "creator", "name", "uuid") or {}},
    )


def read_memories(record: dict[str, Json]) -> ExportedConversation:
    """Return Claude's memories, global ones and those of each project, as a conversation."""
    built = ConversationBuilder(PROVIDER)
    remembered = {"": record.get("conversations_memory"), **mapping(record, "project_memories")}
    for name, words in remembered.items():
        if isinstance(words, str) and words.strip():
            said = said_by("user", (TextBlock(text=words),))
            built.add(ExportedMessage(id=name or "conversations", parent=built.last, said=said))
    return built.build(f"memories-{text(record, 'account_uuid')}", title="What Claude remembered")


def _message(name: str, parent: str | None, message: dict[str, Json], built: ConversationBuilder) -> ExportedMessage:
    content = items(message, "content") or [{"type": "text", "text": text(message, "text")}]
    attached = tuple(_attached(message, built))
    unsaid = [part for part in content if isinstance(part, dict) and text(part, "type") in _UNSAID]
    said, reply = None, tuple[ReplyItem, ...]()
    if text(message, "sender") == "assistant":
        reply = (*_reply(name, content, built), *([AssistantItem(blocks=attached)] if attached else []))
        reply = reply or tuple(ReasoningItem(raw=part) for part in unsaid)
    else:
        blocks = (*(block for part in content for block in _blocks(part, built)), *attached)
        said = said_by("user", blocks)
    details = other_fields(message, *_READ)
    return ExportedMessage(
        id=name,
        parent=parent,
        said=said,
        reply=reply,
        created_at=moment_of(message.get("created_at")),
        model=text(message, "model"),
        details={**(details or {}), "content": unsaid} if unsaid else details,
    )


def _attached(message: dict[str, Json], built: ConversationBuilder) -> Iterable[ContentBlock]:
    """Return the texts that were extracted from attachments, each after its file name, and the names of other files."""
    for attachment in items(message, "attachments"):
        if isinstance(attachment, dict):
            name, words = text(attachment, "file_name"), text(attachment, "extracted_content")
            yield (TextBlock(text=f"\n\n{name or 'attachment'}:\n{words}") if words else built.unknown(attachment))
    for file in items(message, "files"):
        if isinstance(file, dict):
            yield named_file(file)


def _reply(name: str, content: list[Json], built: ConversationBuilder) -> Iterable[ReplyItem]:
    for number, part in enumerate(content):
        kind = text(part, "type") if isinstance(part, dict) else ""
        if kind == "tool_use":
            call_id = text(part, "id") or f"{name}-{number}"
            call = ToolCallItem(call_id=call_id, name=text(part, "name") or "tool", arguments=part.get("input") or {})
            yield from document_call(call, title="title") if call.name == _ARTIFACTS else [call]
        elif kind == "tool_result":
            yield ToolOutput(
                name=text(part, "name") or "tool",
                call_id=text(part, "tool_use_id") or None,
                blocks=_result(part.get("content"), built),
                is_error=part.get("is_error") is True,
            )
        elif blocks := tuple(_blocks(part, built)):
            yield AssistantItem(blocks=blocks)


def _result(content: Json, built: ConversationBuilder) -> tuple[ContentBlock, ...]:
    if isinstance(content, str):
        return (TextBlock(text=content),)
    return tuple(block for part in content or () for block in _blocks(part, built)) if isinstance(content, list) else ()


def _blocks(part: Json, built: ConversationBuilder) -> Iterable[ContentBlock]:
    """Return the content of a block; thinking is omitted."""
    if isinstance(part, str):
        yield TextBlock(text=part)
        return
    if not isinstance(part, dict) or text(part, "type") in _UNSAID:
        return
    source = mapping(part, "source")
    if words := text(part, "text"):
        yield TextBlock(text=quoted(part, words))
    elif part.get("type") == "image" and text(source, "data"):
        url = f"data:{text(source, 'media_type')};base64,{text(source, 'data')}"
        yield built.image_at(url, part)
    elif part.get("type") != "text":
        yield built.unknown(part)
