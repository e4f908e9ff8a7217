"""What is said: content blocks, messages, and the items a provider's answer is made of.

A message is a role and a tuple of blocks; its text is the concatenation of its text blocks. Whatever a
provider or a newer release sends that we do not know is kept as it came (``UnknownBlock``), never
dropped: a conversation survives the vocabulary of its day.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct

Json: TypeAlias = Any
"""A JSON value as Python has it. Never changed once it is part of a value."""

Role: TypeAlias = Literal["user", "assistant", "system", "tool"]

REFUSAL: Json = {"type": "refusal"}
"""The annotation of words by which a model declines."""
IMAGE_TYPES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
"""The media types that every vendor takes."""


class TextBlock(Struct, frozen=True, kw_only=True, tag="text", omit_defaults=True):
    """Words, with the provider's annotations (citations and the like)."""

    text: str
    annotations: tuple[Json, ...] = ()


class ToolUseBlock(Struct, frozen=True, kw_only=True, tag="tool_use"):
    """The model asks for a tool to be run."""

    tool_use_id: str
    name: str
    input: Json


class ToolResultBlock(Struct, frozen=True, kw_only=True, tag="tool_result", omit_defaults=True):
    """What a tool gave back; blocks may nest."""

    tool_use_id: str
    content: tuple[ContentBlock, ...] = ()
    is_error: bool = False


class ImageBlock(Struct, frozen=True, kw_only=True, tag="image"):
    """A picture; ``source`` says where its bytes are."""

    media_type: str
    source: Json


def blob_source(sha256: str) -> Json:
    """Say that an image's bytes are kept in the ledger under their hash."""
    return {"type": "blob", "sha256": sha256}


class ReasoningBlock(Struct, frozen=True, kw_only=True, tag="reasoning", omit_defaults=True):
    """The model's thinking, often encrypted for its own provider only."""

    encrypted_content: str | None = None
    summary: str | None = None
    raw: Json = None


class UnknownBlock(Struct, frozen=True, kw_only=True, tag="unknown"):
    """Anything else, word for word."""

    provider: str
    raw: Json


ContentBlock: TypeAlias = TextBlock | ToolUseBlock | ToolResultBlock | ImageBlock | ReasoningBlock | UnknownBlock


class Message(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing said by one role."""

    role: Role
    blocks: tuple[ContentBlock, ...]
    wire: Json = None
    """How its client wrote it, where the blocks alone do not say it (``domain.sent_form``)."""

    @property
    def rendered_text(self) -> str:
        """The visible words: the text blocks, one after the other."""
        return "".join([block.text for block in self.blocks if isinstance(block, TextBlock)])


def blob_of(image: ImageBlock) -> str | None:
    """Name the blob that holds an image's bytes; None when they are elsewhere."""
    source = image.source
    return str(source.get("sha256")) if isinstance(source, dict) and source.get("type") == "blob" else None


def blobs_of(blocks: tuple[ContentBlock, ...]) -> tuple[str, ...]:
    """Name the blobs that blocks refer to, nested ones too, each once."""
    if len(blocks) == 1 and type(blocks[0]) is TextBlock:  # as nearly always, and every message of a prompt is asked
        return ()
    found: dict[str, None] = {}
    for block in blocks:
        if isinstance(block, ToolResultBlock):
            found.update(dict.fromkeys(blobs_of(block.content)))
        elif isinstance(block, ImageBlock) and (sha256 := blob_of(block)) is not None:
            found[sha256] = None
    return tuple(found)


def say(role: Role, text: str) -> Message:
    """Make the commonest message: one text block."""
    return Message(role=role, blocks=(TextBlock(text=text),))


def arguments_of(text: Json) -> Json:
    """Read a call's arguments; what is not JSON stays the text it is."""
    if not isinstance(text, str):
        return {} if text is None else text
    try:
        return msgspec.json.decode(text) if text.strip() else {}
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return text


class AssistantItem(Struct, frozen=True, kw_only=True, tag="assistant_message"):
    """A message of the answer."""

    blocks: tuple[ContentBlock, ...]


class ToolCallItem(Struct, frozen=True, kw_only=True, tag="tool_call"):
    """A call the model made."""

    call_id: str
    name: str
    arguments: Json


class ToolOutputItem(Struct, frozen=True, kw_only=True, tag="tool_output", omit_defaults=True):
    """What was given back for a call: the blocks of its result, or a text."""

    call_id: str
    output: Json
    is_error: bool = False


class ReasoningItem(Struct, frozen=True, kw_only=True, tag="reasoning", omit_defaults=True):
    """A piece of thinking between other items."""

    encrypted_content: str | None = None
    raw: Json = None


class MetadataItem(Struct, frozen=True, kw_only=True, tag="metadata"):
    """A note the provider attached."""

    key: str
    value: str


class UnknownItem(Struct, frozen=True, kw_only=True, tag="unknown"):
    """Anything else, word for word."""

    provider: str
    raw: Json


TranscriptItem: TypeAlias = AssistantItem | ToolCallItem | ToolOutputItem | ReasoningItem | MetadataItem | UnknownItem

_BLOCKS = msgspec.json.Decoder(tuple[ContentBlock, ...])


def blocks_of(items: Iterable[TranscriptItem]) -> tuple[ContentBlock, ...]:
    """Give what items say as blocks: words, calls and results; thinking and notes are not part of what is said."""
    blocks: list[ContentBlock] = []
    for item in items:
        match item:
            case AssistantItem():
                blocks.extend(item.blocks)
            case ToolCallItem():
                blocks.append(ToolUseBlock(tool_use_id=item.call_id, name=item.name, input=item.arguments))
            case ToolOutputItem():
                content = _result_blocks(item.output)
                blocks.append(ToolResultBlock(tool_use_id=item.call_id, content=content, is_error=item.is_error))
    return tuple(blocks)


def with_reasoning(items: Iterable[TranscriptItem], blocks: tuple[ContentBlock, ...]) -> tuple[ContentBlock, ...]:
    """Return what items say with the reasoning between; ``blocks``, as they are, where there is no reasoning."""
    items = tuple(items)
    if not any(isinstance(item, ReasoningItem) for item in items):
        return blocks
    return tuple(
        block
        for item in items
        for block in (
            (ReasoningBlock(encrypted_content=item.encrypted_content, raw=item.raw),)
            if isinstance(item, ReasoningItem)
            else blocks_of((item,))
        )
    )


def _result_blocks(output: Json) -> tuple[ContentBlock, ...]:
    """Read the output of a tool: blocks as we write them, a text, or whatever JSON it is."""
    if isinstance(output, str):
        return (TextBlock(text=output),)
    written = msgspec.json.encode(output)
    try:
        return _BLOCKS.decode(written)
    except msgspec.ValidationError:
        return (TextBlock(text=written.decode()),)
