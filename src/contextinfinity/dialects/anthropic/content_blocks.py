"""Parse the content of Anthropic's clients into our blocks.

Cache markers are accepted and removed, also from blocks that are otherwise kept unchanged: clients move them from turn
to turn, and requests to the provider get their own markers.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from itertools import chain

from contextinfinity.dialects.anthropic.fields import (
    InvalidField,
    each,
    flag_in,
    kept,
    kept_object,
    list_in,
    object_of,
    optional_text,
    text_in,
    under,
    word_in,
    wrong_type,
)
from contextinfinity.domain.message import (
    ContentBlock,
    ImageBlock,
    Json,
    ReasoningBlock,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    UnknownBlock,
)

PROVIDER = "anthropic"
"""Blocks that are kept unchanged are sent back unchanged to a provider of this name."""
FILES = ("base64", "url", "file")
"""The source types of documents that are files."""
IMAGE_TYPES = ("image/jpeg", "image/png", "image/gif", "image/webp")

_OF_ASSISTANT = frozenset({"thinking", "redacted_thinking", "tool_use"})
_MISPLACED = {
    "a user's message": _OF_ASSISTANT,
    "an assistant's message": frozenset({"tool_result"}),
    "the result of a tool": _OF_ASSISTANT | {"tool_result"},
    "a document": _OF_ASSISTANT | {"tool_result", "document"},
}
"""The block types that are not allowed in each place; this also limits nesting."""
_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")

Blocks = tuple[ContentBlock, ...]


def content_of(content: Json, where: str) -> Blocks:
    """Parse a text or a list of blocks; empty texts are omitted."""
    if isinstance(content, str):
        return (TextBlock(text=content),) if content else ()
    if not isinstance(content, list):
        raise wrong_type("a string or a list of blocks", content)
    return tuple(chain.from_iterable(each(content, partial(_blocks, where))))


user_content = partial(content_of, where="a user's message")
assistant_content = partial(content_of, where="an assistant's message")
_result_content = partial(content_of, where="the result of a tool")
_document_content = partial(content_of, where="a document")


def texts_of(content: Json) -> list[str]:
    """Parse a text or a list of text blocks; blank texts are omitted."""
    if isinstance(content, str):
        texts = [content]
    elif isinstance(content, list):
        texts = each(content, _only_text)
    else:
        raise wrong_type("a string or a list of blocks of text", content)
    return [text for text in texts if text.strip()]


def _only_text(given: Json) -> str:
    block = object_of(given)
    word_in(block, "type", ("text",))
    return text_in(block, "text")


def _blocks(where: str, given: Json) -> Blocks:
    block = object_of(given)
    kind = block.get("type")
    if not isinstance(kind, str):
        raise wrong_type("a string", kind, "type")
    if kind in _MISPLACED[where]:
        raise InvalidField(f"a block of this type is not allowed in {where}.", "type")
    read = _READERS.get(kind)
    return (_as_it_came(block),) if read is None else read(block)


def _text(block: dict[str, Json]) -> Blocks:
    text, citations = text_in(block, "text"), ()
    if block.get("citations") is not None:
        citations = tuple(under("citations", kept, list_in(block, "citations")))
    return (TextBlock(text=text, annotations=citations),) if text else ()


def _image(block: dict[str, Json]) -> Blocks:
    source = block.get("source")
    if isinstance(source, dict) and source.get("type") == "file":
        return (_as_it_came(block),)
    return (under("source", _picture, block.get("source")),)


def _picture(given: Json) -> ImageBlock:
    source = object_of(given)
    kind = word_in(source, "type", ("base64", "url"))
    if kind == "base64":
        media_type = word_in(source, "media_type", IMAGE_TYPES)
        return _pixels(media_type, text_in(source, "data"), "data")
    url = text_in(source, "url")
    if url.startswith("data:"):
        media_type, _, data = url.removeprefix("data:").partition(";base64,")
        if media_type not in IMAGE_TYPES:
            raise InvalidField(f"expected an image of one of the types {', '.join(IMAGE_TYPES)}.", "url")
        return _pixels(media_type, data, "url")
    if not url.startswith(("https://", "http://")):
        raise InvalidField("expected an address that begins with https://.", "url")
    return ImageBlock(media_type="", source={"type": "url", "url": url})


def _pixels(media_type: str, data: str, name: str) -> ImageBlock:
    if not _is_base64(data):
        data = "".join(data.split())  # some clients break lines
        if not _is_base64(data):
            raise InvalidField("expected the bytes of an image in base64.", name)
    return ImageBlock(media_type=media_type, source={"type": "base64", "data": data})


def _is_base64(data: str) -> bool:
    return len(data) % 4 == 0 and _BASE64.fullmatch(data) is not None


def _document(block: dict[str, Json]) -> Blocks:
    """Parse a document into its title, context and text; a file is kept unchanged."""
    source = block.get("source")
    if isinstance(source, dict) and source.get("type") in FILES:
        return (_as_it_came(block),)
    inside = under("source", _source, block.get("source"))
    head = "\n\n".join(filter(None, [optional_text(block, "title"), optional_text(block, "context")]))
    return (TextBlock(text=f"{head}\n\n"), *inside) if head else inside


def _source(given: Json) -> Blocks:
    source = object_of(given)
    kind = text_in(source, "type")
    if kind == "text":
        text = text_in(source, "data")
        return (TextBlock(text=text),) if text else ()
    if kind == "content":
        return under("content", _document_content, source.get("content"))
    raise InvalidField(
        "only documents with a source of type text or content are supported.",
        "type",
        hint="Send the document's text, or its pages as images.",
    )


def _tool_use(block: dict[str, Json]) -> Blocks:
    call, name = text_in(block, "id", least=1), text_in(block, "name", least=1)
    return (ToolUseBlock(tool_use_id=call, name=name, input=under("input", kept_object, block.get("input"))),)


def _tool_result(block: dict[str, Json]) -> Blocks:
    call, content = text_in(block, "tool_use_id", least=1), block.get("content")
    inside = () if content is None else under("content", _result_content, content)
    return (ToolResultBlock(tool_use_id=call, content=inside, is_error=flag_in(block, "is_error") is True),)


def _thinking(block: dict[str, Json]) -> Blocks:
    text_in(block, "thinking")
    return (ReasoningBlock(encrypted_content=optional_text(block, "signature") or None, raw=kept(block)),)


def _redacted(block: dict[str, Json]) -> Blocks:
    return (ReasoningBlock(encrypted_content=text_in(block, "data") or None, raw=kept(block)),)


def _as_it_came(block: dict[str, Json]) -> UnknownBlock:
    raw = {name: value for name, value in block.items() if name != "cache_control"}
    return UnknownBlock(provider=PROVIDER, raw=kept(raw))


_READERS: dict[str, Callable[[dict[str, Json]], Blocks]] = {
    "text": _text,
    "image": _image,
    "document": _document,
    "tool_use": _tool_use,
    "tool_result": _tool_result,
    "thinking": _thinking,
    "redacted_thinking": _redacted,
}
