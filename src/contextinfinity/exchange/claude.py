"""Claude's data export: ``conversations.json`` with ``chat_messages``, and ``projects.json``.

A message has content blocks: texts, thinking, tool calls and their results. Texts extracted from attachments stay
with the message. A project's instructions become the system text of its conversations; its documents are a
conversation of their own, so that they can be searched.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from contextinfinity.domain.message import (
    AssistantItem,
    ContentBlock,
    Json,
    Message,
    TextBlock,
    ToolCallItem,
    UnknownBlock,
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

PROVIDER = "claude"
_READ = ("uuid", "text", "content", "sender", "created_at", "updated_at", "attachments", "parent_message_uuid")
_UNSAID = frozenset({"thinking", "redacted_thinking", "token_budget", "flag"})


def read_conversation(record: dict[str, Json], instructions: Mapping[str, str]) -> ExportedConversation:
    """Read one conversation; ``instructions`` are those of the projects that were read before, by their ids."""
    blobs: Blobs = {}
    messages: list[ExportedMessage] = []
    bad: list[tuple[str, str]] = []
    before: str | None = None
    known: set[str] = set()
    for number, message in enumerate(items(record, "chat_messages")):
        if not isinstance(message, dict):
            bad.append((f"message {number + 1}", "it is no object"))
            continue
        name = text(message, "uuid") or f"{number}"
        parent = text(message, "parent_message_uuid")
        messages.append(_message(name, parent if parent in known else before, message, blobs))
        known.add(name)
        before = name
    project = text(record, "project_uuid") or text(mapping(record, "project"), "uuid")
    return ExportedConversation(
        id=text(record, "uuid"),
        title=text(record, "name") or None,
        system=instructions.get(project) or None,
        created_at=moment_of(record.get("created_at")),
        current=text(record, "current_leaf_message_uuid") or before,
        messages=messages,
        blobs=blobs,
        metadata=without(record, "chat_messages", "name", "uuid", "created_at", "account", "current_leaf_message_uuid")
        or {},
        bad=tuple(bad),
    )


def read_project(record: dict[str, Json]) -> ExportedConversation | None:
    """Read the documents of a project as a conversation; None: it has none."""
    messages: list[ExportedMessage] = []
    for number, document in enumerate(items(record, "docs")):
        if isinstance(document, dict) and text(document, "content"):
            name = text(document, "uuid") or f"{number}"
            words = f"{text(document, 'filename') or name}:\n{text(document, 'content')}"
            parent = messages[-1].id if messages else None
            said = Message(role="user", blocks=(TextBlock(text=words),))
            created = moment_of(document.get("created_at"))
            messages.append(ExportedMessage(id=name, parent=parent, said=said, created_at=created))
    if not messages:
        return None
    return ExportedConversation(
        id=text(record, "uuid"),
        title=text(record, "name") or None,
        system=text(record, "prompt_template") or None,
        created_at=moment_of(record.get("created_at")),
        messages=messages,
        metadata={"project": without(record, "docs", "prompt_template", "creator", "name", "uuid") or {}},
    )


def _message(name: str, parent: str | None, message: dict[str, Json], blobs: Blobs) -> ExportedMessage:
    content = items(message, "content") or [{"type": "text", "text": text(message, "text")}]
    attached = tuple(_attached(message))
    said, reply = None, tuple[ReplyItem, ...]()
    if text(message, "sender") == "assistant":
        reply = (*_reply(name, content, blobs), *([AssistantItem(blocks=attached)] if attached else []))
    else:
        blocks = (*(block for part in content for block in _blocks(part, blobs)), *attached)
        said = Message(role="user", blocks=blocks) if blocks else None
    unsaid = [part for part in content if isinstance(part, dict) and part.get("type") in _UNSAID]
    details = without(message, *_READ)
    return ExportedMessage(
        id=name,
        parent=parent,
        said=said,
        reply=reply,
        created_at=moment_of(message.get("created_at")),
        model=text(message, "model"),
        details={**(details or {}), "content": unsaid} if unsaid else details,
    )


def _attached(message: dict[str, Json]) -> Iterable[ContentBlock]:
    """Return the texts that were extracted from attachments, each under its file's name."""
    for attachment in items(message, "attachments"):
        if isinstance(attachment, dict):
            name, words = text(attachment, "file_name"), text(attachment, "extracted_content")
            yield (
                TextBlock(text=f"\n\n{name or 'attachment'}:\n{words}")
                if words
                else UnknownBlock(provider=PROVIDER, raw=attachment)
            )


def _reply(name: str, content: list[Json], blobs: Blobs) -> Iterable[ReplyItem]:
    for number, part in enumerate(content):
        kind = text(part, "type") if isinstance(part, dict) else ""
        if kind == "tool_use":
            call_id = text(part, "id") or f"{name}-{number}"
            yield ToolCallItem(call_id=call_id, name=text(part, "name") or "tool", arguments=part.get("input") or {})
        elif kind == "tool_result":
            yield ToolOutput(
                name=text(part, "name") or "tool",
                call_id=text(part, "tool_use_id") or None,
                blocks=_result(part.get("content"), blobs),
                is_error=part.get("is_error") is True,
            )
        elif blocks := tuple(_blocks(part, blobs)):
            yield AssistantItem(blocks=blocks)


def _result(content: Json, blobs: Blobs) -> tuple[ContentBlock, ...]:
    if isinstance(content, str):
        return (TextBlock(text=content),)
    return tuple(block for part in content or () for block in _blocks(part, blobs)) if isinstance(content, list) else ()


def _blocks(part: Json, blobs: Blobs) -> Iterable[ContentBlock]:
    """Return what a content block says; thinking is no part of it."""
    if isinstance(part, str):
        yield TextBlock(text=part)
        return
    if not isinstance(part, dict) or part.get("type") in _UNSAID:
        return
    source = mapping(part, "source")
    if words := text(part, "text"):
        yield TextBlock(text=words)
    elif part.get("type") == "image" and text(source, "data"):
        url = f"data:{text(source, 'media_type')};base64,{text(source, 'data')}"
        yield image_at(url, part, PROVIDER, blobs)
    elif part.get("type") != "text":
        yield UnknownBlock(provider=PROVIDER, raw=part)
