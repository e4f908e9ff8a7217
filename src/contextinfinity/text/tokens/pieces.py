"""Split a value into countable pieces: texts, images, and fixed amounts for framing.

Messages and blocks may be our own types or the dictionaries of OpenAI's and Anthropic's APIs; the same message gives
the same pieces either way. Unknown values are counted as JSON.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias

import msgspec

from contextinfinity.domain.message import (
    ImageBlock,
    Json,
    Message,
    ReasoningBlock,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    UnknownBlock,
    document_of,
)
from contextinfinity.domain.prompt import Prompt, ToolSpec
from contextinfinity.text.tokens.encodings import CHARACTERS_A_TOKEN
from contextinfinity.text.tokens.images import Picture

MESSAGE_TOKENS = 4
"""The tokens of a message besides its text: role and framing."""
TOOL_TOKENS = 8
"""The tokens of a tool, call or result besides its text: id, framing, position in a list."""
PAGE_TOKENS = 1500
"""The tokens of a page of a file. Vendors take between 258 and 3,000; a request that is then too large is rejected."""
REPLY_TOKENS = 3
"""The tokens that open the answer."""

Piece: TypeAlias = str | int | Picture


def pieces(value: Any) -> Iterator[Piece]:
    """Split a value: text, message, block, tool, a dictionary of one of these, or several of them."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Message):
        yield MESSAGE_TOKENS
        for block in value.blocks:
            yield from _of_block(block)
    elif isinstance(value, Mapping):
        yield from _of_dictionary(value)
    elif isinstance(value, ToolSpec):
        yield from _tool(value.name, value.description, value.parameters)
    elif isinstance(value, msgspec.Struct):
        yield from _of_block(value)
    elif isinstance(value, Iterable) and not isinstance(value, bytes | bytearray):
        for part in value:
            yield from pieces(part)
    elif value is not None:
        yield as_json(value)


def prompt_pieces(prompt: Prompt, tool_tokens: int) -> Iterator[Piece]:
    """Split a whole request."""
    for text in prompt.system:
        yield MESSAGE_TOKENS
        yield text
    yield from pieces(prompt.messages)
    if prompt.tools:
        yield tool_tokens
        yield from pieces(prompt.tools)
    if prompt.response_format is not None:
        yield as_json(prompt.response_format)
    yield REPLY_TOKENS


def as_json(value: Json) -> str:
    """Encode a value as compact JSON, or return its repr if that is not possible."""
    try:
        return msgspec.json.encode(value).decode()
    except (TypeError, ValueError):
        return repr(value)


def _of_block(block: msgspec.Struct) -> Iterator[Piece]:
    if isinstance(block, TextBlock):
        yield block.text
    elif isinstance(block, ToolUseBlock):
        yield from _call(block.name, block.input)
    elif isinstance(block, ToolResultBlock):
        yield TOOL_TOKENS
        yield from pieces(block.content)
    elif isinstance(block, ImageBlock):
        yield Picture(block.source)
    elif isinstance(block, ReasoningBlock):
        yield from _reasoning(block.encrypted_content, block.summary, block.raw)
    elif isinstance(block, UnknownBlock):
        yield _other(block.raw)
    else:
        yield as_json(block)


def _of_dictionary(value: Mapping[str, Any]) -> Iterator[Piece]:
    if "role" in value:
        yield MESSAGE_TOKENS
        yield from _content(value)
        for call in value.get("tool_calls") or ():
            yield from _of_dictionary(call)
        return
    match value.get("type"):
        case "text" | "input_text" | "output_text" | "refusal":
            yield from pieces(value.get("text") or value.get("refusal"))
        case "image" | "image_url" | "input_image":
            yield _picture(value)
        case "tool_use" | "function_call":
            yield from _call(value.get("name"), value.get("input", value.get("arguments")))
        case "function":
            yield from _function(value)
        case "tool_result" | "function_call_output":
            yield TOOL_TOKENS
            yield from pieces(value.get("content", value.get("output")))
        case "thinking" | "redacted_thinking" | "reasoning":
            yield from _reasoning(value.get("encrypted_content"), value.get("summary"), value)
        case _:
            yield from _tool_of_dictionary(value) if "input_schema" in value else (_other(value),)


def _other(raw: Json) -> Piece:
    """Return a file's text or the tokens of its pages; anything else is counted as JSON."""
    document = document_of(raw)
    if document is None:
        return as_json(raw)
    text = document.text
    return document.pages() * PAGE_TOKENS if text is None else text


def _content(message: Mapping[str, Any]) -> Iterator[Piece]:
    """Split a message's content; OpenAI's role "tool" marks a tool result."""
    if message["role"] == "tool":
        yield TOOL_TOKENS
    yield from pieces(message.get("content"))


def _function(value: Mapping[str, Any]) -> Iterator[Piece]:
    """Split an OpenAI function: a call or a definition."""
    inner = value.get("function", value)
    if "arguments" in inner:
        yield from _call(inner.get("name"), inner["arguments"])
    else:
        yield from _tool_of_dictionary(inner)


def _tool_of_dictionary(value: Mapping[str, Any]) -> Iterator[Piece]:
    schema = value.get("parameters", value.get("input_schema"))
    yield from _tool(value.get("name"), value.get("description"), schema)


def _tool(name: Any, description: Any, parameters: Json) -> Iterator[Piece]:
    yield TOOL_TOKENS
    yield from pieces(name)
    yield from pieces(description)
    yield as_json(parameters)


def _call(name: Any, arguments: Json) -> Iterator[Piece]:
    yield TOOL_TOKENS
    yield from pieces(name)
    yield arguments if isinstance(arguments, str) else as_json(arguments)


def _picture(value: Mapping[str, Any]) -> Picture:
    """Return the image source: ``source`` of Anthropic, or ``image_url`` of OpenAI, with or without detail."""
    source = value.get("source", value.get("image_url"))
    detail = source.get("detail") if isinstance(source, Mapping) else value.get("detail")
    return Picture(source, low_detail=detail == "low")


def _reasoning(encrypted: Any, summary: Any, raw: Any) -> Iterator[Piece]:
    """Count reasoning by its text, or by the length of its encrypted content."""
    if not encrypted and isinstance(raw, Mapping):
        yield from pieces(raw.get("thinking"))
        encrypted = raw.get("encrypted_content") or raw.get("data")
    if isinstance(encrypted, str) and encrypted:
        yield len(encrypted) // CHARACTERS_A_TOKEN
    elif isinstance(summary, list):
        yield from pieces([part.get("text") if isinstance(part, Mapping) else part for part in summary])
    elif not (isinstance(raw, Mapping) and "thinking" in raw):
        yield from pieces(summary)


def rough(value: Any) -> int:
    """Estimate any value by its characters; for values that cannot be split, even deep or cyclic ones."""
    characters, rest, seen = 0, [value], set[int]()
    while rest:
        part = rest.pop()
        if isinstance(part, str | bytes):
            characters += len(part)
        elif id(part) not in seen:
            seen.add(id(part))
            rest.extend(_inside(part))
    return -(-characters // CHARACTERS_A_TOKEN)


def _inside(value: Any) -> Iterable[Any]:
    if isinstance(value, Mapping):
        return value.values()
    if isinstance(value, list | tuple):
        return value
    return msgspec.structs.asdict(value).values() if isinstance(value, msgspec.Struct) else ()
