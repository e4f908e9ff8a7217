"""ChatGPT's data export: a conversation is a ``mapping`` of nodes, each with a message, a parent and children.

Texts, code, browsing results and tool output keep their order; a message to a tool (``recipient``) is a call, a
message of role ``tool`` its result. Voice is kept as its transcript, a canvas document as its text. Thoughts are kept
as details of their message. Custom instructions become the conversation's system text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import partial

from contextinfinity.domain.message import AssistantItem, ContentBlock, Json, TextBlock, ToolCallItem, arguments_of
from contextinfinity.exchange.conversation_builder import LONGEST_PLACE, ConversationBuilder, said_by
from contextinfinity.exchange.conversation_tree import ExportedConversation, ExportedMessage, ReplyItem, ToolOutput
from contextinfinity.exchange.export_fields import Assets, items, mapping, text, without
from contextinfinity.exchange.times import moment_of

PROVIDER = "chatgpt"
_CANVAS = "canmore."
_THINKING = frozenset({"thoughts", "reasoning_recap"})
_POINTER = re.compile(r"(?:file-service|sediment)://(?:[^/]*#)?(file[-_][A-Za-z0-9]+)")
_VOICE = frozenset({"audio_asset_pointer", "real_time_user_audio_video_asset_pointer"})


def read_conversation(record: dict[str, Json], assets: Assets) -> ExportedConversation:
    """Read one conversation; nodes that cannot be read are listed in ``bad``."""
    built = ConversationBuilder(PROVIDER)
    system = ""
    for name, node in built.objects(mapping(record, "mapping").items(), "node"):
        message = node.get("message")
        parent = text(node, "parent") or None
        if isinstance(message, dict):
            system = system or _instructions(mapping(message, "content"))
            built.add(_message(name, parent, message, assets, built))
        else:
            built.add(ExportedMessage(id=name, parent=parent))
            if message is not None:
                built.reject(f"node {name[:LONGEST_PLACE]}", "its message is no object")
    return built.build(
        text(record, "conversation_id", "id"),
        title=text(record, "title"),
        system=system,
        created_at=moment_of(record.get("create_time")),
        current=text(record, "current_node"),
        metadata=without(record, "mapping", "title", "id", "conversation_id", "create_time", "current_node"),
    )


def _message(
    name: str, parent: str | None, message: dict[str, Json], assets: Assets, built: ConversationBuilder
) -> ExportedMessage:
    content, author = mapping(message, "content"), mapping(message, "author")
    role, kind = text(author, "role"), text(content, "content_type")
    blocks = () if _instructions(content) or kind in _THINKING else tuple(_blocks(content, assets, built))
    said, reply = None, tuple[ReplyItem, ...]()
    if role == "user":
        said = said_by("user", blocks)
    elif role == "tool":
        reply = (ToolOutput(name=text(author, "name") or "tool", blocks=blocks, is_error=kind == "system_error"),)
    elif role == "assistant":
        reply = tuple(_reply(name, text(message, "recipient"), content, blocks))
    else:
        said = said_by("system", blocks)
    details = without(message, "id", "author", "content", "create_time", "recipient", "weight", "status")
    if kind in _THINKING:
        details = {**(details or {}), "content": content}
    return ExportedMessage(
        id=name,
        parent=parent,
        said=said,
        reply=reply,
        created_at=moment_of(message.get("create_time")),
        model=text(mapping(message, "metadata"), "model_slug"),
        details=details,
    )


def _reply(
    name: str, recipient: str, content: dict[str, Json], blocks: tuple[ContentBlock, ...]
) -> Iterable[ReplyItem]:
    """Return what an assistant's message says: a text, or a call of the tool it is sent to."""
    if recipient in ("", "all"):
        return [AssistantItem(blocks=blocks)] if blocks else []
    words = "".join(block.text for block in blocks if isinstance(block, TextBlock))
    arguments = arguments_of(words)
    if recipient.startswith(_CANVAS) and isinstance(arguments, dict) and text(arguments, "content"):
        title, body = text(arguments, "name"), text(arguments, "content")
        document = TextBlock(text=f"{title}\n\n{body}" if title else body)
        rest = {key: value for key, value in arguments.items() if key != "content"}
        return [AssistantItem(blocks=(document,)), ToolCallItem(call_id=name, name=recipient, arguments=rest)]
    if not isinstance(arguments, dict):
        arguments = {"code" if text(content, "content_type") == "code" else "input": words}
    return [ToolCallItem(call_id=name, name=recipient, arguments=arguments)]


def _instructions(content: dict[str, Json]) -> str:
    """Return custom instructions, which stand in a hidden message."""
    if text(content, "content_type") != "user_editable_context":
        return ""
    return "\n\n".join(filter(None, (text(content, "user_profile"), text(content, "user_instructions"))))


def _blocks(content: dict[str, Json], assets: Assets, built: ConversationBuilder) -> Iterable[ContentBlock]:
    kind = text(content, "content_type")
    if "parts" in content:
        for part in items(content, "parts"):
            yield from _part(part, assets, built)
        return
    if kind == "tether_quote":
        source = " · ".join(filter(None, (text(content, "title"), text(content, "url"))))
        words = "\n".join(filter(None, (source, text(content, "text"))))
    else:
        words = text(content, "text", "result", "content", "summary")
    if words:
        yield TextBlock(text=words)
    elif without(content, "content_type", "language", "response_format_name"):
        yield built.unknown(content)


def _part(part: Json, assets: Assets, built: ConversationBuilder) -> Iterable[ContentBlock]:
    if isinstance(part, str):
        if part:
            yield TextBlock(text=part)
        return
    kind = text(part, "content_type") if isinstance(part, dict) else ""
    if kind == "audio_transcription":
        yield TextBlock(text=text(part, "text"))
    elif kind == "image_asset_pointer":
        found = _POINTER.match(text(part, "asset_pointer"))
        data = assets.find(found[1]) if found else None
        again = partial(_again, assets, found[1]) if found else None
        yield (built.image(data, again) if data else None) or built.unknown(part)
    elif kind not in _VOICE and part:  # the sound itself: its transcript stands beside it
        yield built.unknown(part)


def _again(assets: Assets, name: str) -> bytes:
    return assets.find(name) or b""
