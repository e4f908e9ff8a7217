"""LibreChat's JSON export: messages that name their parent, in a list or nested.

A recursive export (``messagesTree``) nests every message in the ``children`` of its parent, so that a long conversation
exceeds the decoder's maximum depth; ``flattened`` converts it to a list first.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from msgspec import Struct

from contextinfinity.domain.message import AssistantItem, ContentBlock, Json, TextBlock, ToolCallItem, arguments_of
from contextinfinity.exchange.conversation_builder import (
    ConversationBuilder,
    content_of_reply,
    items,
    mapping,
    moment_of,
    other_fields,
    said_by,
    text,
)
from contextinfinity.exchange.conversation_tree import ExportedConversation, ExportedMessage, ReplyItem, ToolOutput

PROVIDER = "librechat"
_UNSAID = frozenset({"think", "agent_update"})
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

_RECURSIVE = re.compile(rb'"messagesTree"\s*:\s*\[')
_CHILDREN = b'"children"'
_TOKEN = re.compile(rb'"children"\s*:\s*\[|"(?:[^"\\]|\\.)*"|[{}\[\]]', re.DOTALL)


class _Open(Struct):
    """A message whose brackets are not closed yet."""

    pieces: list[bytes]
    start: int
    depth: int = 1


def flattened(data: bytes) -> bytes:
    """Convert a recursive export to one with a list of messages, each before its children.

    Anything else is returned unchanged, also an incomplete tree or one that does not only contain messages.
    """
    tree = _RECURSIVE.search(data)
    made: list[list[bytes]] = []
    waiting: list[_Open] = []
    in_list = True
    for token in _TOKEN.finditer(data, tree.end()) if tree else ():
        sign = token[0][-1:]
        if not in_list:
            message = waiting[-1]
            if token[0].startswith(_CHILDREN) and sign == b"[" and message.depth == 1:
                message.pieces.append(data[message.start : token.end()])
                in_list = True
            else:
                message.depth += (sign in b"{[") - (sign in b"}]")
            if message.depth == 0:
                message.pieces.append(data[message.start : token.end()])
                waiting.pop()
                in_list = True
        elif sign == b"{":
            made.append([])
            waiting.append(_Open(made[-1], token.start()))
            in_list = False
        elif sign == b"]" and waiting:
            waiting[-1].start = token.start()
            in_list = False
        elif sign == b"]" and tree:
            return b'%b"messages":[%b%b' % (data[: tree.start()], b",".join(map(b"".join, made)), data[token.start() :])
        else:
            break
    return data


def read_conversation(record: dict[str, Json]) -> ExportedConversation:
    """Parse one conversation."""
    built = ConversationBuilder(PROVIDER)
    for number, message in built.objects(enumerate(items(record, "messages"), 1)):
        name = text(message, "messageId") or f"{number - 1}"
        built.add(_message(name, text(message, "parentMessageId") or None, message, built))
    options = mapping(record, "options")
    return built.build(
        text(record, "conversationId"),
        title=text(record, "title"),
        system=text(options, "promptPrefix", "instructions", "system"),
        created_at=moment_of(record.get("createdAt")),
        current=built.last,
        metadata=other_fields(record, "messages", "conversationId", "title"),
    )


def _message(name: str, parent: str | None, message: dict[str, Json], built: ConversationBuilder) -> ExportedMessage:
    content = items(message, "content") or [{"type": "text", "text": text(message, "text")}]
    thoughts = [part for part in content if isinstance(part, dict) and text(part, "type") in _UNSAID]
    reply = tuple(item for part in content for item in _items(part, built))
    is_user = message.get("isCreatedByUser") is True or text(message, "sender").lower() == "user"
    details = other_fields(message, *_READ)
    return ExportedMessage(
        id=name,
        parent=parent,
        said=said_by("user", content_of_reply(reply)) if is_user else None,
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
        function = mapping(call, "function") or call
        call_id, name = text(call, "id"), text(function, "name") or text(call, "type") or "tool"
        given = function.get("args", function.get("arguments", call.get(name)))
        yield ToolCallItem(call_id=call_id, name=name, arguments=arguments_of(given))
        if output := text(function, "output"):
            yield ToolOutput(call_id=call_id or None, name=name, blocks=(TextBlock(text=output),))
    elif block := _block(part, kind, built):
        yield AssistantItem(blocks=(block,))


def _block(part: dict[str, Json], kind: str, built: ConversationBuilder) -> ContentBlock | None:
    if kind in _UNSAID:
        return None
    if words := text(part, "text", "error") or text(mapping(part, "text"), "value"):
        return TextBlock(text=words)
    if kind == "image_url":
        url = text(part, "image_url") or text(mapping(part, "image_url"), "url")
        return built.image_at(url, part)
    return None if kind == "text" else built.unknown(part)
