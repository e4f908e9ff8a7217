"""Content blocks in Anthropic's JSON."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple, assert_never

from msgspec.structs import replace

from contextinfinity.domain.message import (
    ContentBlock,
    ImageBlock,
    Json,
    Message,
    ReasoningBlock,
    ReasoningItem,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    UnknownBlock,
)
from contextinfinity.domain.prompt import Abilities
from contextinfinity.providers import wire_values

PROVIDER = "anthropic"
ERROR_NOTE = "[failed without a word]"
LONGEST_NAME = 128
THINKING = frozenset({"thinking", "redacted_thinking"})
CARRIERS = frozenset({"text", "image", "document", "tool_use", "tool_result"})
"""The block types that can carry a cache marker."""


class PlacedBlock(NamedTuple):
    """A block, its role, and its position in the prompt."""

    role: str
    place: int
    block: dict[str, Json]


def text_piece(place: int, text: str) -> PlacedBlock:
    """Return a text block of the user or the system."""
    return PlacedBlock("user", place, {"type": "text", "text": text})


def pieces_of(message: Message, place: int, abilities: Abilities) -> Iterator[PlacedBlock]:
    """Yield a message's blocks; blocks that Anthropic rejects (blank text, other vendors' reasoning) are omitted."""
    side = "assistant" if message.role == "assistant" else "user"
    for block in message.blocks:
        written = _block(block, abilities, side)
        if written is not None:
            yield PlacedBlock(side, place, written)


def _block(block: ContentBlock, abilities: Abilities, side: str) -> dict[str, Json] | None:
    if isinstance(block, TextBlock):
        return _note(block.text) if block.text.strip() else None
    if isinstance(block, ToolUseBlock):
        name, given = wire_values.safe_name(block.name, LONGEST_NAME), wire_values.arguments_object(block.input)
        return {"type": "tool_use", "id": block.tool_use_id, "name": name, "input": given}
    if isinstance(block, ToolResultBlock):
        return _result(block, abilities)
    if isinstance(block, ImageBlock):
        return _image(block, abilities) if side == "user" else _note(wire_values.IMAGE_NOTE)
    if isinstance(block, ReasoningBlock):
        return _thinking(block.raw) if side == "assistant" else None
    if isinstance(block, UnknownBlock):
        return _own(block) or (_file(block, abilities) if side == "user" else None)
    assert_never(block)


def _result(block: ToolResultBlock, abilities: Abilities) -> dict[str, Json]:
    """Return a tool result; that of a failed call may contain only text, and must not be empty."""
    content = list(_inside(block.content, replace(abilities, images=False) if block.is_error else abilities))
    if block.is_error and not content:
        content = [_note(ERROR_NOTE)]
    return {
        "type": "tool_result",
        "tool_use_id": block.tool_use_id,
        **({"content": content} if content else {}),
        **({"is_error": True} if block.is_error else {}),
    }


def _inside(blocks: Iterable[ContentBlock], abilities: Abilities) -> Iterator[dict[str, Json]]:
    for block in blocks:
        if isinstance(block, ToolResultBlock):
            yield from _inside(block.content, abilities)
        elif isinstance(block, UnknownBlock):
            yield _file(block, abilities)
        elif isinstance(block, TextBlock | ImageBlock):
            written = _block(block, abilities, "user")
            if written is not None:
                yield written


def _image(block: ImageBlock, abilities: Abilities) -> dict[str, Json]:
    found = wire_values.picture(block, abilities)
    if found is None:
        return _note(wire_values.IMAGE_NOTE)
    return {"type": "image", "source": {"type": "url" if "url" in found else "base64", **found}}


def _file(block: UnknownBlock, abilities: Abilities) -> dict[str, Json]:
    """Return a file of any vendor's client as a document, or a note."""
    document = wire_values.readable_file(block, abilities)
    if document is None:
        return _note(wire_values.UNKNOWN_NOTE)
    text = document.text
    if text is not None:
        source = {"type": "text", "media_type": "text/plain", "data": text}
    elif document.data:
        source = {"type": "base64", "media_type": document.media_type, "data": document.data}
    else:
        source = {"type": "url", "url": document.url}
    return {"type": "document", "source": source, **({"title": document.name} if document.name else {})}


def reasoning_item(block: dict[str, Json]) -> ReasoningItem:
    """Return a thinking block as an item, with the raw block unchanged."""
    signed = wire_values.text_of(block.get("signature" if block.get("type") == "thinking" else "data"))
    return ReasoningItem(encrypted_content=signed or None, raw=block)


def _thinking(raw: Json) -> dict[str, Json] | None:
    """Return an Anthropic thinking block unchanged, because it is signed; None for any other."""
    if not isinstance(raw, dict):
        return None
    kind, signature = raw.get("type"), raw.get("signature")
    if kind == "thinking" and isinstance(raw.get("thinking"), str) and signature and isinstance(signature, str):
        return raw
    return raw if kind == "redacted_thinking" and isinstance(raw.get("data"), str) else None


def _own(block: UnknownBlock) -> dict[str, Json] | None:
    """Return a block of Anthropic's own tools unchanged."""
    raw = block.raw
    if block.provider != PROVIDER or not isinstance(raw, dict) or not isinstance(raw.get("type"), str):
        return None
    return None if raw["type"] in (CARRIERS | THINKING) - {"document"} else raw


def _note(text: str) -> dict[str, Json]:
    return {"type": "text", "text": text}
