"""ChatGPT's data export: a conversation is a ``mapping`` of nodes, each with a message, a parent and children.

Texts, code, browsing results and tool output keep their order; a message to a tool (``recipient``) is a call, a
message of role ``tool`` its result. Voice is kept as its transcript, a canvas document as its text, a plot or a
screenshot as an image. Thoughts are reasoning, kept as details of their message. Custom instructions and ChatGPT's
memories become the conversation's system text. Citation markers in a text become links.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import partial

from contextinfinity.domain.message import (
    AssistantItem,
    ContentBlock,
    Json,
    ReasoningItem,
    TextBlock,
    ToolCallItem,
    arguments_of,
)
from contextinfinity.exchange.conversation_builder import (
    LONGEST_PLACE,
    Assets,
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

PROVIDER = "chatgpt"
_CANVAS = "canmore."
_THINKING = frozenset({"thoughts", "reasoning_recap"})
_POINTER = re.compile(r"(?:file-service|sediment)://(?:[^/]*#)?(file[-_][A-Za-z0-9]+)")
_VOICE = frozenset({"audio_asset_pointer", "real_time_user_audio_video_asset_pointer"})
_INSTRUCTIONS = frozenset({"user_editable_context", "model_editable_context"})
_MARKER = re.compile("\ue200[^\ue201]*\ue201")
"""A citation, picture or other element that the web page renders inside a text, between private-use characters."""


def read_conversation(record: dict[str, Json], assets: Assets) -> ExportedConversation:
    """Parse one conversation; nodes that cannot be parsed are listed in ``bad``."""
    built = ConversationBuilder(PROVIDER)
    system: dict[str, str] = {}
    for name, node in built.objects(mapping(record, "mapping").items(), "node"):
        message = node.get("message")
        parent = text(node, "parent") or None
        if isinstance(message, dict):
            if words := _instructions(message):
                system.setdefault(text(mapping(message, "content"), "content_type"), words)
            built.add(_message(name, parent, message, assets, built))
        else:
            built.add(ExportedMessage(id=name, parent=parent))
            if message is not None:
                built.reject(f"node {name[:LONGEST_PLACE]}", "its message is not an object")
    return built.build(
        text(record, "conversation_id", "id"),
        title=text(record, "title"),
        system="\n\n".join(system.values()),
        created_at=moment_of(record.get("create_time")),
        current=text(record, "current_node"),
        metadata=other_fields(record, "mapping", "title", "id", "conversation_id", "create_time", "current_node"),
    )


def _message(
    name: str, parent: str | None, message: dict[str, Json], assets: Assets, built: ConversationBuilder
) -> ExportedMessage:
    content, author = mapping(message, "content"), mapping(message, "author")
    role, kind = text(author, "role"), text(content, "content_type")
    metadata = mapping(message, "metadata")
    is_hidden = role == "system" and metadata.get("is_visually_hidden_from_conversation") is True
    blocks: tuple[ContentBlock, ...] = ()
    if kind not in _INSTRUCTIONS and kind not in _THINKING and not is_hidden:
        blocks = (*_blocks(content, metadata, assets, built), *_files(metadata, assets, built))
    said, reply = None, tuple[ReplyItem, ...]()
    if role == "user":
        said = said_by("user", blocks or _attached(metadata))
    elif role == "tool":
        reply = (ToolOutput(name=text(author, "name") or "tool", blocks=blocks, is_error=kind == "system_error"),)
    elif role != "assistant":
        said = said_by("system", blocks)
    elif kind in _THINKING:
        reply = (ReasoningItem(raw=content),)
    else:
        reply = tuple(_reply(name, text(message, "recipient"), content, blocks))
    details = other_fields(message, "id", "author", "content", "create_time", "recipient", "weight", "status")
    if kind in _THINKING:
        details = {**(details or {}), "content": content}
    return ExportedMessage(
        id=name,
        parent=parent,
        said=said,
        reply=reply,
        created_at=moment_of(message.get("create_time")),
        model=text(metadata, "model_slug"),
        details=details,
    )


def _reply(
    name: str, recipient: str, content: dict[str, Json], blocks: tuple[ContentBlock, ...]
) -> Iterable[ReplyItem]:
    """Return the content of an assistant's message: a text, or a call of the tool that it is addressed to."""
    if recipient in ("", "all"):
        return [AssistantItem(blocks=blocks)] if blocks else []
    words = "".join(block.text for block in blocks if isinstance(block, TextBlock))
    arguments = arguments_of(words)
    if not isinstance(arguments, dict):
        arguments = {"code" if text(content, "content_type") == "code" else "input": words}
    call = ToolCallItem(call_id=name, name=recipient, arguments=arguments)
    return document_call(call, title="name") if recipient.startswith(_CANVAS) else [call]


def _instructions(message: dict[str, Json]) -> str:
    """Return custom instructions and remembered facts, which are in hidden messages."""
    content = mapping(message, "content")
    if text(content, "content_type") not in _INSTRUCTIONS:
        return ""
    given = mapping(mapping(message, "metadata"), "user_context_message_data")
    about = text(given, "about_user_message") or text(content, "user_profile")
    wanted = text(given, "about_model_message") or text(content, "user_instructions")
    return "\n\n".join(filter(None, (about, wanted, text(content, "model_set_context"))))


def _blocks(
    content: dict[str, Json], metadata: dict[str, Json], assets: Assets, built: ConversationBuilder
) -> Iterable[ContentBlock]:
    if "parts" in content:
        for part in items(content, "parts"):
            yield from _part(part, metadata, assets, built)
    elif words := text(content, "text", "result", "content", "summary"):
        yield TextBlock(text=quoted(content, words))
    elif screenshot := mapping(content, "screenshot"):
        yield _image(screenshot, "asset_pointer", assets, built)
    elif other_fields(content, "content_type", "language", "response_format_name"):
        yield built.unknown(content)


def _part(part: Json, metadata: dict[str, Json], assets: Assets, built: ConversationBuilder) -> Iterable[ContentBlock]:
    kind = text(part, "content_type") if isinstance(part, dict) else ""
    words = part if isinstance(part, str) else text(part, "text") if isinstance(part, dict) else ""
    if words:
        yield TextBlock(text=_with_links(words, metadata))
    elif kind == "image_asset_pointer":
        yield _image(part, "asset_pointer", assets, built)
    elif kind not in _VOICE and kind != "audio_transcription" and part:  # the transcript of audio is in another part
        yield built.unknown(part)


def _with_links(words: str, metadata: dict[str, Json]) -> str:
    """Replace citation markers by the links in the message's metadata."""
    if "\ue200" not in words:
        return words
    links = {
        text(each, "matched_text"): text(each, "alt", "name")
        for each in items(metadata, "content_references")
        if isinstance(each, dict)
    }
    return _MARKER.sub(lambda found: links.get(found[0], ""), words)


def _files(metadata: dict[str, Json], assets: Assets, built: ConversationBuilder) -> Iterable[ContentBlock]:
    """Return the plots that code produced."""
    for each in items(mapping(metadata, "aggregate_result"), "messages"):
        if isinstance(each, dict) and text(each, "image_url"):
            yield _image(each, "image_url", assets, built)


def _attached(metadata: dict[str, Json]) -> tuple[ContentBlock, ...]:
    """Return the files of a message without text; the export contains only their names."""
    return tuple(named_file(each) for each in items(metadata, "attachments") if isinstance(each, dict))


def _image(raw: dict[str, Json], field: str, assets: Assets, built: ConversationBuilder) -> ContentBlock:
    """Return the image that a field points to; if the export does not contain it, keep the pointer."""
    found = _POINTER.match(text(raw, field))
    data = assets.find(found[1]) if found else None
    again = partial(_again, assets, found[1]) if found else None
    return (built.image(data, again) if data else None) or built.unknown(raw)


def _again(assets: Assets, name: str) -> bytes:
    return assets.find(name) or b""
