"""Content blocks, messages, and the items of a provider's answer.

A message is a role and a tuple of blocks; its text is the concatenation of its text blocks. Blocks of unknown type from
a provider or a newer release are kept unchanged as ``UnknownBlock``, never dropped.

A file in a message, such as a PDF, is stored as the block that the client sent (``UnknownBlock``). ``document_of``
reads the vendors' forms, so that a file can be counted, and be written in the form of another vendor.
"""

from __future__ import annotations

import binascii
import re
import zlib
from collections.abc import Iterable
from typing import Any, Literal, TypeAlias, TypeGuard

import msgspec
from msgspec import Struct

Json: TypeAlias = Any
"""A decoded JSON value. It must not be mutated once it is part of a struct."""

Role: TypeAlias = Literal["user", "assistant", "system", "tool"]

LOGPROBS = "logprobs"
"""The type of the annotation that holds the log probabilities of a text's tokens, as the vendor sent them."""
REFUSAL: Json = {"type": "refusal"}
"""The annotation of a text block that holds a refusal."""
BLANK_LINE = "\n\n"
SEPARATED: Json = {"type": "separated"}
"""The annotation of a text block that begins with a blank line, because a message of the client began there."""
IMAGE_TYPES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
"""The media types that every vendor accepts."""


class TextBlock(Struct, frozen=True, kw_only=True, tag="text", omit_defaults=True):
    """Text with the provider's annotations, such as citations."""

    text: str
    annotations: tuple[Json, ...] = ()


class ToolUseBlock(Struct, frozen=True, kw_only=True, tag="tool_use"):
    """A tool call by the model."""

    tool_use_id: str
    name: str
    input: Json


class ToolResultBlock(Struct, frozen=True, kw_only=True, tag="tool_result", omit_defaults=True):
    """The result of a tool call; blocks may be nested."""

    tool_use_id: str
    content: tuple[ContentBlock, ...] = ()
    is_error: bool = False


class ImageBlock(Struct, frozen=True, kw_only=True, tag="image"):
    """An image; ``source`` says where its bytes are."""

    media_type: str
    source: Json


def blob_source(sha256: str) -> Json:
    """Return the source of an image whose bytes are stored in the ledger under their hash."""
    return {"type": "blob", "sha256": sha256}


class ReasoningBlock(Struct, frozen=True, kw_only=True, tag="reasoning", omit_defaults=True):
    """The model's reasoning, often encrypted for its own provider."""

    encrypted_content: str | None = None
    summary: str | None = None
    raw: Json = None


class UnknownBlock(Struct, frozen=True, kw_only=True, tag="unknown"):
    """A block of unknown type, unchanged."""

    provider: str
    raw: Json


ContentBlock: TypeAlias = TextBlock | ToolUseBlock | ToolResultBlock | ImageBlock | ReasoningBlock | UnknownBlock


class Message(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One message of one role."""

    role: Role
    blocks: tuple[ContentBlock, ...]
    wire: Json = None
    """The client's JSON, if the blocks alone cannot reproduce it (see ``domain.sent_form``)."""

    @property
    def rendered_text(self) -> str:
        """The text of the message: its text blocks, concatenated."""
        if len(self.blocks) == 1 and type(self.blocks[0]) is TextBlock:  # fast path for the usual message
            return self.blocks[0].text
        return "".join([block.text for block in self.blocks if isinstance(block, TextBlock)])


def joined(messages: Iterable[Message]) -> tuple[ContentBlock, ...]:
    """Return the blocks of several messages as those of one, with a blank line where a message begins."""
    blocks: list[ContentBlock] = []
    for message in messages:
        start = next((place for place, block in enumerate(message.blocks) if isinstance(block, TextBlock)), None)
        for place, block in enumerate(message.blocks):
            follows_text = place == start and any(isinstance(one, TextBlock) for one in blocks)
            blocks.append(_separated(block) if follows_text and isinstance(block, TextBlock) else block)
    return tuple(blocks)


def _separated(block: TextBlock) -> TextBlock:
    return TextBlock(text=BLANK_LINE + block.text, annotations=(*block.annotations, SEPARATED))


def own_text(block: ContentBlock) -> str:
    """Return the text of a block without the blank line that separates it from the message before."""
    if not isinstance(block, TextBlock):
        return ""
    return block.text.removeprefix(BLANK_LINE) if SEPARATED in block.annotations else block.text


def blob_of(image: ImageBlock) -> str | None:
    """Return the hash of the blob that holds an image's bytes, or None if they are stored elsewhere."""
    source = image.source
    return str(source.get("sha256")) if isinstance(source, dict) and source.get("type") == "blob" else None


def blobs_of(blocks: tuple[ContentBlock, ...]) -> tuple[str, ...]:
    """Return the hashes of the blobs that the blocks refer to, including nested blocks, without duplicates."""
    if len(blocks) == 1 and type(blocks[0]) is TextBlock:  # fast path for the usual message
        return ()
    found: dict[str, None] = {}
    for block in blocks:
        if isinstance(block, ToolResultBlock):
            found.update(dict.fromkeys(blobs_of(block.content)))
        elif isinstance(block, ImageBlock) and (sha256 := blob_of(block)) is not None:
            found[sha256] = None
    return tuple(found)


def say(role: Role, text: str) -> Message:
    """Return a message with one text block."""
    return Message(role=role, blocks=(TextBlock(text=text),))


def arguments_of(text: Json) -> Json:
    """Decode the arguments of a tool call; text that is not JSON is returned unchanged."""
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
    """A tool call by the model."""

    call_id: str
    name: str
    arguments: Json


class ToolOutputItem(Struct, frozen=True, kw_only=True, tag="tool_output", omit_defaults=True):
    """The output of a tool call: the blocks of its result, or a text."""

    call_id: str
    output: Json
    is_error: bool = False


class ReasoningItem(Struct, frozen=True, kw_only=True, tag="reasoning", omit_defaults=True):
    """A reasoning item between other items."""

    encrypted_content: str | None = None
    raw: Json = None


class MetadataItem(Struct, frozen=True, kw_only=True, tag="metadata"):
    """A key and value that the provider attached."""

    key: str
    value: str


class UnknownItem(Struct, frozen=True, kw_only=True, tag="unknown"):
    """An item of unknown type, unchanged."""

    provider: str
    raw: Json


TranscriptItem: TypeAlias = AssistantItem | ToolCallItem | ToolOutputItem | ReasoningItem | MetadataItem | UnknownItem

_BLOCKS = msgspec.json.Decoder(tuple[ContentBlock, ...])


def blocks_of(items: Iterable[TranscriptItem]) -> tuple[ContentBlock, ...]:
    """Return the items as content blocks: text, calls and results, without reasoning and metadata."""
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
    """Return the items as blocks, with reasoning and unknown items; without these, return ``blocks`` unchanged."""
    items = tuple(items)
    if not any(isinstance(item, ReasoningItem | UnknownItem) for item in items):
        return blocks
    return tuple(block for item in items for block in ((kept_block(item),) if is_kept(item) else blocks_of((item,))))


def is_kept(item: TranscriptItem) -> TypeGuard[ReasoningItem | UnknownItem]:
    """Return whether an item is kept as its vendor wrote it."""
    return isinstance(item, ReasoningItem | UnknownItem)


def kept_block(item: ReasoningItem | UnknownItem) -> ReasoningBlock | UnknownBlock:
    """Return reasoning or an unknown item as a block."""
    if isinstance(item, ReasoningItem):
        return ReasoningBlock(encrypted_content=item.encrypted_content, raw=item.raw)
    return UnknownBlock(provider=item.provider, raw=item.raw)


def _result_blocks(output: Json) -> tuple[ContentBlock, ...]:
    """Return a tool's output as blocks: blocks in our own format, a text, or any other JSON."""
    if isinstance(output, str):
        return (TextBlock(text=output),)
    written = msgspec.json.encode(output)
    try:
        return _BLOCKS.decode(written)
    except msgspec.ValidationError:
        return (TextBlock(text=written.decode()),)


PDF = "application/pdf"
TEXT_TYPES = ("text/", "application/json", "application/xml", "application/yaml", "application/x-yaml")
BYTES_PER_PAGE = 50_000
"""Used where the pages of a file cannot be counted."""
UNKNOWN_PAGES = 10
"""Assumed for a file whose bytes are elsewhere."""
MOST_INFLATED = 4_000_000
"""The maximum number of bytes that are decompressed to count pages."""

_PAGE = re.compile(rb"/Type\s*/Page(?![a-zA-Z])")
_OBJECT_STREAM = re.compile(rb"/ObjStm[^>]*>>\s*stream\r?\n")


class Document(Struct, frozen=True, kw_only=True):
    """A file: its bytes in base64, or its URL; neither if it is stored at a vendor."""

    media_type: str
    data: str = ""
    url: str = ""
    name: str = ""

    @property
    def text(self) -> str | None:
        """The text of a file that holds plain text, else None."""
        if not self.data or not self.media_type.startswith(TEXT_TYPES):
            return None
        try:
            return binascii.a2b_base64(self.data).decode()
        except ValueError:
            return None

    def pages(self) -> int:
        """Count the pages; without bytes or page objects, estimate them."""
        try:
            content = binascii.a2b_base64(self.data)
        except ValueError:
            content = b""
        if not content:
            return UNKNOWN_PAGES
        found = _pages_of_pdf(content) if self.media_type == PDF else 0
        return found or -(-len(content) // BYTES_PER_PAGE)


def document_of(raw: Json) -> Document | None:
    """Read a file from a part of a message: OpenAI's ``file`` and ``input_file``, Anthropic's ``document``."""
    part = raw if isinstance(raw, dict) else {}
    match part.get("type"):
        case "file":
            return _openai_file(_object(part.get("file")))
        case "input_file":
            return _openai_file(part)
        case "document":
            source = _object(part.get("source"))
            media_type, data = _text(source.get("media_type")) or PDF, _text(source.get("data"))
            return Document(
                media_type=media_type, data=data, url=_text(source.get("url")), name=_text(part.get("title"))
            )
    return None


def _openai_file(file: dict[str, Json]) -> Document:
    """Read a file whose bytes are a data URL, or base64 alone as older clients send them."""
    name, data, media_type = _text(file.get("filename")), _text(file.get("file_data")), PDF
    if data.startswith("data:"):
        head, _, data = data.partition(",")
        media_type = head.removeprefix("data:").partition(";")[0] or PDF
    return Document(media_type=media_type, data=data, url=_text(file.get("file_url")), name=name)


def _pages_of_pdf(content: bytes) -> int:
    """Count page objects; newer PDFs keep them in compressed streams."""
    found = len(_PAGE.findall(content))
    left = MOST_INFLATED
    for stream in _OBJECT_STREAM.finditer(content):
        if left <= 0:
            break
        try:
            inflated = zlib.decompressobj().decompress(memoryview(content)[stream.end() :], left)
        except zlib.error:
            continue
        found += len(_PAGE.findall(inflated))
        left -= len(inflated)
    return found


def _object(value: Json) -> dict[str, Json]:
    return value if isinstance(value, dict) else {}


def _text(value: Json) -> str:
    return value if isinstance(value, str) else ""
