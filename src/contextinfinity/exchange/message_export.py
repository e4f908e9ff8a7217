"""Write a conversation as messages, one JSON object per line, in the form that ``cix import`` and other programs read.

``{"thread_id", "id", "role", "content", "created_at", "model"}``; content is a text, or parts in OpenAI's format.
An imported message keeps its original id and time. Images are data URIs.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from datetime import datetime

import msgspec

from contextinfinity.domain.message import (
    ContentBlock,
    ImageBlock,
    Json,
    Message,
    TextBlock,
    ToolOutputItem,
    ToolResultBlock,
    ToolUseBlock,
    TranscriptItem,
    UnknownBlock,
    blob_of,
    blocks_of,
)
from contextinfinity.domain.session import Session
from contextinfinity.domain.transfer import Origin, Side
from contextinfinity.domain.turn import Turn
from contextinfinity.storage.contract import Store


async def turn_as_lines(store: Store, session: Session, turn: Turn, origins: Sequence[Origin]) -> list[bytes]:
    """Return the messages of a turn, one per line."""
    named: dict[Side, Origin] = {one.side: one for one in reversed(origins) if one.side == "user"}
    named |= {
        one.side: one for one in origins if one.side == "assistant"
    }  # of several replies, the last one is the answer
    lines: list[bytes] = []
    thread_id = session.external_id or session.id
    for number, (side, message) in enumerate(_messages(turn)):
        origin = named.get(side) if number == 0 or message is turn.answer else None
        record: dict[str, Json] = {
            "thread_id": thread_id,
            "id": (origin.external_id if origin else None) or f"{turn.id}-{number}",
            "role": message.role,
            **await _content(store, message),
            "created_at": _moment((origin.created_at if origin else None) or turn.created_at),
        }
        if message.role == "assistant" and turn.model:
            record["model"] = turn.model
        if origin is not None and isinstance(origin.details, dict):
            record = {**{key: value for key, value in origin.details.items() if key not in record}, **record}
        lines.append(msgspec.json.encode(record) + b"\n")
    return lines


def _messages(turn: Turn) -> Iterator[tuple[Side, Message]]:
    """Yield (side, message): the question, the tool rounds, the answer."""
    yield "user", turn.user_message
    said: list[TranscriptItem] = []
    for item in (*turn.rounds, None):
        if said and (item is None or isinstance(item, ToolOutputItem)):
            yield "assistant", Message(role="assistant", blocks=blocks_of(said))
            said = []
        if isinstance(item, ToolOutputItem):
            yield "user", Message(role="tool", blocks=blocks_of((item,)))
        elif item is not None:
            said.append(item)
    if turn.answer is not None:
        yield "assistant", turn.answer


async def _content(store: Store, message: Message) -> dict[str, Json]:
    """Return the fields with the content of a message."""
    calls = [_call(block) for block in message.blocks if isinstance(block, ToolUseBlock)]
    result = message.blocks[0] if len(message.blocks) == 1 else None
    if isinstance(result, ToolResultBlock) and message.role == "tool":
        return {"tool_call_id": result.tool_use_id, "content": await _parts(store, result.content)}
    said = tuple(block for block in message.blocks if not isinstance(block, ToolUseBlock))
    content = await _parts(store, said) if said or not calls else None
    return {"content": content, "tool_calls": calls} if calls else {"content": content}


async def _parts(store: Store, blocks: tuple[ContentBlock, ...]) -> Json:
    if len(blocks) == 1 and isinstance(blocks[0], TextBlock):
        return blocks[0].text
    return [await _part(store, block) for block in blocks]


async def _part(store: Store, block: ContentBlock) -> Json:
    if isinstance(block, TextBlock):
        return {"type": "text", "text": block.text}
    if isinstance(block, ImageBlock):
        sha256 = blob_of(block)
        kept = None if sha256 is None else await store.contents.blob(sha256)
        if kept is not None:
            return {
                "type": "image_url",
                "image_url": {"url": f"data:{kept[1]};base64,{base64.b64encode(kept[0]).decode()}"},
            }
        source = block.source if isinstance(block.source, dict) else {}
        return {"type": "image_url", "image_url": {"url": source.get("url", "")}}
    if isinstance(block, ToolResultBlock):
        return {
            "type": "tool_result",
            "tool_use_id": block.tool_use_id,
            "content": await _parts(store, block.content),
            "is_error": block.is_error,
        }
    if isinstance(block, UnknownBlock):
        is_part = isinstance(block.raw, dict) and isinstance(block.raw.get("type"), str)
        return block.raw if is_part else {"type": "unknown", "provider": block.provider, "raw": block.raw}
    return msgspec.to_builtins(block)


def _call(block: ToolUseBlock) -> Json:
    arguments = block.input if isinstance(block.input, str) else msgspec.json.encode(block.input).decode()
    return {"id": block.tool_use_id, "type": "function", "function": {"name": block.name, "arguments": arguments}}


def _moment(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
