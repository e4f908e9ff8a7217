"""The client's own JSON of a message, kept so that the model receives exactly that message.

A message is stored as blocks. The client's JSON may differ from what we would write for those blocks: cache markers,
names, lists of parts, the spacing of arguments. The message then also keeps a *template* of the client's JSON, in which
every text of the blocks is replaced by its index. The template stays small, and a text that is redacted or shortened
later changes in the JSON as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import sha256
from itertools import groupby

import msgspec
from msgspec.structs import replace

from contextinfinity.domain.message import (
    REFUSAL,
    ContentBlock,
    ImageBlock,
    Json,
    Message,
    ReasoningBlock,
    Role,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    UnknownBlock,
)

CHAT, MESSAGES, RESPONSES = "chat", "messages", "responses"
"""The wire forms: OpenAI's chat completions, Anthropic's messages, OpenAI's Responses.

In the last one a message is several items: an answer is its reasoning, its texts and its calls.
"""
PARALLEL, JSON_OBJECT = "parallel", "json_object"
"""Keys of ``Prompt.sent``: whether the client accepts parallel calls, and whether it asks for any JSON object."""
REF = "$cix"
TEXT_KEYS = frozenset(
    {"text", "content", "thinking", "data", "arguments", "input", "output", "url", "refusal", "image_url"}
)
"""Keys whose values the blocks hold; all other values are kept in the template itself."""
LONGEST_NAME = 64
"""The maximum length of a function's name."""
RESPONSES_PARTS = frozenset({"input_file", "input_audio", "input_image"})
"""Parts of a message of OpenAI's Responses that are kept as they are."""


def with_form(message: Message, form: str, sent: Json) -> Message:
    """Add the template of a client's JSON (a list: of several items), unless the blocks alone reproduce it."""
    if _written(form, message) == (sent if isinstance(sent, list) else [sent]):
        return message
    values = list(_values(message.blocks))
    template = _template(sent, values, is_text=False)
    if _filled(template, values) != sent:
        template = {"whole": sent}
    return replace(message, wire={"form": form, "count": len(values), "template": template})


def in_form(form: str, message: Message) -> list[Json]:
    """Return a message in a wire form: as its client wrote it, or built from its blocks."""
    wire = message.wire
    if wire is not None and wire["form"] == form:
        values, template = list(_values(message.blocks)), wire["template"]
        is_whole = isinstance(template, dict) and template.keys() == {"whole"}
        if is_whole or len(values) == wire["count"]:
            filled = template["whole"] if is_whole else _filled(template, values)
            return filled if isinstance(filled, list) else [filled]
    return _written(form, message)


def with_blocks(message: Message, blocks: tuple[ContentBlock, ...]) -> Message:
    """Replace the blocks of a message; the client's template is kept if it refers to blocks."""
    wire = message.wire
    is_whole = wire is not None and isinstance(wire["template"], dict) and wire["template"].keys() == {"whole"}
    return replace(message, blocks=blocks, wire=None if is_whole else wire)


def all_in_form(form: str, messages: Sequence[Message]) -> list[Json]:
    """Return several messages in a wire form, in order."""
    return [written for message in messages for written in in_form(form, message)]


def _values(blocks: Sequence[ContentBlock]) -> Iterator[Json]:
    """Yield the values that the blocks hold, in order."""
    for block in blocks:
        match block:
            case TextBlock():
                yield block.text
            case ToolResultBlock():
                yield from _values(block.content)
            case ToolUseBlock():
                yield block.input
            case ImageBlock():
                yield from _picture(block)
            case ReasoningBlock() | UnknownBlock():
                yield block.raw


def _picture(block: ImageBlock) -> Iterator[Json]:
    source = block.source if isinstance(block.source, dict) else {}
    data = source.get("data")
    yield data if isinstance(data, str) else source.get("url")
    yield _url(block)


def _url(block: ImageBlock) -> str:
    source = block.source if isinstance(block.source, dict) else {}
    if source.get("type") == "base64":
        return f"data:{block.media_type};base64,{source.get('data')}"
    return str(source.get("url", ""))


def _template(sent: Json, values: Sequence[Json], *, is_text: bool) -> Json:
    if isinstance(sent, dict | str) and (is_text or isinstance(sent, dict)):
        same = (place for place, value in enumerate(values) if type(value) is type(sent) and value == sent)
        if (place := next(same, None)) is not None:
            return {REF: place}
    if isinstance(sent, dict):
        return {key: _template(inner, values, is_text=key in TEXT_KEYS) for key, inner in sent.items()}
    is_list = isinstance(sent, list)
    return [_template(inner, values, is_text=isinstance(inner, str)) for inner in sent] if is_list else sent


def _filled(template: Json, values: Sequence[Json]) -> Json:
    if isinstance(template, dict):
        if template.keys() == {REF}:
            return values[template[REF]]
        return {key: _filled(inner, values) for key, inner in template.items()}
    return [_filled(inner, values) for inner in template] if isinstance(template, list) else template


def _written(form: str, message: Message) -> list[Json]:
    if form == RESPONSES:
        return list(_items(message))
    return _chat(message) if form == CHAT else _messages(message)


# --- chat completions ---


def _chat(message: Message) -> list[Json]:
    if message.role == "system":
        return [{"role": "system", "content": message.rendered_text}]
    if message.role == "assistant":
        return [_chat_answer(message)]
    results = [_chat_result(block) for block in message.blocks if isinstance(block, ToolResultBlock)]
    others = [block for block in message.blocks if not isinstance(block, ToolResultBlock)]
    if not others:
        return results
    plain = len(others) == 1 and isinstance(others[0], TextBlock)
    content = message.rendered_text if plain else [part for block in others for part in _chat_part(block)]
    return [*results, {"role": "user", "content": content}]


def _chat_answer(message: Message) -> dict[str, Json]:
    words = [block for block in message.blocks if isinstance(block, TextBlock)]
    said = "".join(block.text for block in words if REFUSAL not in block.annotations)
    refusal = "".join(block.text for block in words if REFUSAL in block.annotations)
    calls = [_chat_call(block) for block in message.blocks if isinstance(block, ToolUseBlock)]
    answer: dict[str, Json] = {"role": "assistant", "content": said or (None if calls or refusal else "")}
    return answer | ({"refusal": refusal} if refusal else {}) | ({"tool_calls": calls} if calls else {})


def _chat_call(block: ToolUseBlock) -> Json:
    arguments = block.input if isinstance(block.input, str) else msgspec.json.encode(block.input).decode()
    return {"id": block.tool_use_id, "type": "function", "function": {"name": block.name, "arguments": arguments}}


def _chat_result(block: ToolResultBlock) -> Json:
    text = "".join(part.text for part in block.content if isinstance(part, TextBlock))
    pictures = any(isinstance(part, ImageBlock) for part in block.content)
    content = [part for inner in block.content for part in _chat_part(inner)] if pictures else text
    return {"role": "tool", "tool_call_id": block.tool_use_id, "content": content}


def _chat_part(block: ContentBlock) -> Iterator[Json]:
    if isinstance(block, TextBlock):
        yield {"type": "text", "text": block.text}
    elif isinstance(block, ImageBlock):
        yield {"type": "image_url", "image_url": {"url": _url(block)}}
    elif isinstance(block, UnknownBlock):
        yield block.raw


# --- Anthropic's messages ---


def _messages(message: Message) -> list[Json]:
    if message.role == "system":
        return [{"role": "system", "content": message.rendered_text}]
    blocks = message.blocks
    if message.role == "assistant":
        return [{"role": "assistant", "content": [part for block in blocks for part in _messages_block(block)]}]
    if len(blocks) == 1 and isinstance(blocks[0], TextBlock):
        return [{"role": "user", "content": blocks[0].text}]
    return [{"role": "user", "content": [part for block in blocks for part in _messages_block(block)]}]


def _messages_block(block: ContentBlock) -> Iterator[Json]:
    match block:
        case TextBlock():
            yield {"type": "text", "text": block.text}
        case ToolUseBlock():
            given = block.input if isinstance(block.input, dict) else {"arguments": block.input}
            yield {"type": "tool_use", "id": block.tool_use_id, "name": block.name, "input": given}
        case ToolResultBlock():
            plain = len(block.content) == 1 and isinstance(block.content[0], TextBlock)
            inside = [part for inner in block.content for part in _messages_block(inner)]
            content = inside[0]["text"] if plain else inside
            result = {"type": "tool_result", "tool_use_id": block.tool_use_id, "content": content}
            yield result | ({"is_error": True} if block.is_error else {})
        case ImageBlock():
            source = block.source if isinstance(block.source, dict) else {}
            url = {"type": "url", "url": source.get("url", "")}
            data = {"type": "base64", "media_type": block.media_type, "data": source.get("data", "")}
            yield {"type": "image", "source": data if source.get("type") == "base64" else url}
        case ReasoningBlock() | UnknownBlock() if isinstance(block.raw, dict) and "type" in block.raw:
            yield block.raw


# --- OpenAI's Responses ---


def _items(message: Message) -> Iterator[Json]:
    if message.role == "system":
        yield {"role": "developer", "content": message.rendered_text}
        return
    role: Role = "assistant" if message.role == "assistant" else "user"
    for place, run in groupby(message.blocks, key=lambda block: _place_of(block, role)):
        if place is None:
            yield from (item for block in run for item in _item(block))
        else:
            parts = [_item_part(block, role) for block in run]
            content = parts[0]["text"] if len(parts) == 1 and parts[0]["type"].endswith("_text") else parts
            yield {"role": role, "content": content} | ({"phase": place} if place else {})


def _place_of(block: ContentBlock, role: Role) -> str | None:
    """Return None for a block that is an item; otherwise the phase of the message that it is a part of, or ""."""
    if isinstance(block, TextBlock):
        phases = (mark.get("phase") for mark in block.annotations if isinstance(mark, dict))
        return next((str(phase) for phase in phases if phase), "")
    is_part = isinstance(block, ImageBlock) or (role == "user" and _kind(block) in RESPONSES_PARTS)
    return "" if is_part else None


def _item_part(block: ContentBlock, role: Role) -> dict[str, Json]:
    if isinstance(block, TextBlock):
        if REFUSAL in block.annotations:
            return {"type": "refusal", "refusal": block.text}
        return {"type": "output_text" if role == "assistant" else "input_text", "text": block.text}
    if isinstance(block, ImageBlock):
        detail = block.source.get("detail", "auto") if isinstance(block.source, dict) else "auto"
        return {"type": "input_image", "image_url": _url(block), "detail": detail}
    return dict(block.raw) if isinstance(block, UnknownBlock) else {}


def _item(block: ContentBlock) -> Iterator[Json]:
    match block:
        case ToolUseBlock():
            arguments = block.input if isinstance(block.input, str) else msgspec.json.encode(block.input).decode()
            call = {"type": "function_call", "call_id": block.tool_use_id, "name": block.name}
            yield {**call, "arguments": arguments}
        case ToolResultBlock():
            is_text = all(isinstance(part, TextBlock) for part in block.content)
            shown = [part for part in block.content if _place_of(part, "user") is not None]
            parts = [_item_part(part, "user") for part in shown]
            output = "".join(part["text"] for part in parts) if is_text else parts
            yield {"type": "function_call_output", "call_id": block.tool_use_id, "output": output}
        case ReasoningBlock() | UnknownBlock() if _kind(block):
            yield {name: value for name, value in block.raw.items() if value is not None}


def joined_name(namespace: str, name: str) -> str:
    """Return a combined name for a function in a namespace of OpenAI's Responses, of at most 64 characters."""
    if not namespace:
        return name
    whole = f"{namespace}__{name}"
    return whole if len(whole) <= LONGEST_NAME else f"{whole[:55]}_{sha256(whole.encode()).hexdigest()[:8]}"


def _kind(block: ContentBlock) -> str:
    """Return the type of an item of OpenAI that is kept as it is."""
    if not isinstance(block, ReasoningBlock | UnknownBlock) or not isinstance(block.raw, dict):
        return ""
    kind = block.raw.get("type")
    is_own = kind == "reasoning" if isinstance(block, ReasoningBlock) else block.provider == "openai"
    return kind if is_own and isinstance(kind, str) else ""
