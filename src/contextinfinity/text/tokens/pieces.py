"""What there is to count in a value: texts, pictures, and fixed amounts for borders.

Messages and their blocks come as our own nouns or as the dictionaries that OpenAI's and Anthropic's interfaces
take; the same message gives the same pieces either way. What is not known is counted as the JSON it would be.
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
)
from contextinfinity.domain.prompt import Prompt, ToolSpec
from contextinfinity.text.tokens.encodings import CHARACTERS_A_TOKEN
from contextinfinity.text.tokens.images import Picture

MESSAGE_TOKENS = 4
"""What a message costs beside its words: its role and its borders."""
TOOL_TOKENS = 8
"""What a tool, a call or a result costs beside its words: its id, its borders, its place in a list."""
REPLY_TOKENS = 3
"""What opens the answer."""

Piece: TypeAlias = str | int | Picture


def pieces(value: Any) -> Iterator[Piece]:
    """Take a value apart: text, message, block, dictionary of either, tool, or several of them."""
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
    """Take a whole request apart."""
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
    """Write a value as compact JSON, and as Python shows it where it is none."""
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
        yield as_json(block.raw)
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
            yield from _tool_of_dictionary(value) if "input_schema" in value else (as_json(value),)


def _content(message: Mapping[str, Any]) -> Iterator[Piece]:
    """Take a message's content apart; that of OpenAI's role "tool" is a tool's result."""
    if message["role"] == "tool":
        yield TOOL_TOKENS
    yield from pieces(message.get("content"))


def _function(value: Mapping[str, Any]) -> Iterator[Piece]:
    """Take a call or a definition of OpenAI's apart; both are called functions."""
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
    """Find the source: Anthropic's stands in ``source``, OpenAI's in ``image_url``, bare or with its detail."""
    source = value.get("source", value.get("image_url"))
    detail = source.get("detail") if isinstance(source, Mapping) else value.get("detail")
    return Picture(source, low_detail=detail == "low")


def _reasoning(encrypted: Any, summary: Any, raw: Any) -> Iterator[Piece]:
    """Count thinking by its words; where they are hidden, by the length of what hides them."""
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
    """Estimate any value by the characters in it; for what could not be taken apart, however deep or round it is."""
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
