"""Content blocks in Anthropic's JSON."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple, assert_never

from contextinfinity.domain.message import (
    ContentBlock,
    ImageBlock,
    Json,
    Message,
    ReasoningBlock,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    UnknownBlock,
)
from contextinfinity.domain.model import Abilities

PROVIDER = "anthropic"
IMAGE_NOTE = "[an image that cannot be shown here]"
ERROR_NOTE = "[failed without a word]"
IMAGE_TYPES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
LONGEST_NAME = 128
THINKING = frozenset({"thinking", "redacted_thinking"})
CARRIERS = frozenset({"text", "image", "tool_use", "tool_result"})
"""The blocks that can say that the prefix they end is worth caching."""


class Piece(NamedTuple):
    """A block, whose side it is on, and the place in the prompt it came from."""

    role: str
    place: int
    block: dict[str, Json]


def text_piece(place: int, text: str) -> Piece:
    """Make a user's text, or a system text."""
    return Piece("user", place, {"type": "text", "text": text})


def pieces_of(message: Message, place: int, abilities: Abilities) -> Iterator[Piece]:
    """Give a message's blocks; what Anthropic does not take (blank text, others' reasoning) is left out."""
    own = "assistant" if message.role == "assistant" else "user"
    for block in message.blocks:
        side = {ToolUseBlock: "assistant", ReasoningBlock: "assistant", ToolResultBlock: "user"}.get(type(block), own)
        images = abilities.images and side == "user"
        written = _block(block, images=images)
        if written is not None:
            yield Piece(side, place, written)


def safe_name(name: str) -> str:
    """Put a tool's name into the letters that Anthropic takes."""
    return re.sub(r"[^a-zA-Z0-9_-]", "_", name)[:LONGEST_NAME] or "tool"


def _block(block: ContentBlock, *, images: bool) -> dict[str, Json] | None:
    if isinstance(block, TextBlock):
        return {"type": "text", "text": block.text} if block.text.strip() else None
    if isinstance(block, ToolUseBlock):
        given = _object(block.input)
        return {"type": "tool_use", "id": block.tool_use_id, "name": safe_name(block.name), "input": given}
    if isinstance(block, ToolResultBlock):
        return _result(block, images=images)
    if isinstance(block, ImageBlock):
        return _image(block) if images else _note(IMAGE_NOTE)
    if isinstance(block, ReasoningBlock):
        return _thinking(block.raw)
    if isinstance(block, UnknownBlock):
        return _own(block)
    assert_never(block)


def _object(value: Json) -> dict[str, Json]:
    """Make an input an object, as Anthropic demands: a model may have written something else."""
    if isinstance(value, dict):
        return value
    return {} if value is None else {"value": value}


def _result(block: ToolResultBlock, *, images: bool) -> dict[str, Json]:
    """Write what a tool gave back; a failure may hold nothing but text, and has to hold some."""
    content = list(_inside(block.content, images=images and not block.is_error))
    if block.is_error and not content:
        content = [_note(ERROR_NOTE)]
    return {
        "type": "tool_result",
        "tool_use_id": block.tool_use_id,
        **({"content": content} if content else {}),
        **({"is_error": True} if block.is_error else {}),
    }


def _inside(blocks: Iterable[ContentBlock], *, images: bool) -> Iterator[dict[str, Json]]:
    for block in blocks:
        if isinstance(block, ToolResultBlock):
            yield from _inside(block.content, images=images)
        elif isinstance(block, TextBlock | ImageBlock):
            written = _block(block, images=images)
            if written is not None:
                yield written


def _image(block: ImageBlock) -> dict[str, Json]:
    source = block.source if isinstance(block.source, dict) else {}
    data, url = source.get("data"), source.get("url")
    if source.get("type") == "base64" and isinstance(data, str) and block.media_type in IMAGE_TYPES:
        return {"type": "image", "source": {"type": "base64", "media_type": block.media_type, "data": data}}
    if source.get("type") == "url" and isinstance(url, str):
        return {"type": "image", "source": {"type": "url", "url": url}}
    return _note(IMAGE_NOTE)


def _thinking(raw: Json) -> dict[str, Json] | None:
    """Give thinking back as it came, if it is Anthropic's: it is signed."""
    if not isinstance(raw, dict):
        return None
    kind, signature = raw.get("type"), raw.get("signature")
    if kind == "thinking" and isinstance(raw.get("thinking"), str) and signature and isinstance(signature, str):
        return raw
    return raw if kind == "redacted_thinking" and isinstance(raw.get("data"), str) else None


def _own(block: UnknownBlock) -> dict[str, Json] | None:
    """Give back what Anthropic's own tools said, as it came."""
    raw = block.raw
    if block.provider != PROVIDER or not isinstance(raw, dict) or not isinstance(raw.get("type"), str):
        return None
    return None if raw["type"] in CARRIERS | THINKING else raw


def _note(text: str) -> dict[str, Json]:
    return {"type": "text", "text": text}
