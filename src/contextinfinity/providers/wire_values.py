"""Helpers of all wires: read values from a vendor's JSON, and make values that vendors accept.

The JSON may be anything: a value of the wrong type is treated as missing. Content that a wire cannot express becomes a
short constant text.

A client's file, such as a PDF, may be for a model of another vendor. Plain text can be sent to every model, as text. A
PDF can be sent to models that read files. Everything else is replaced by a note, and ``unread`` names it.
"""

from __future__ import annotations

import binascii
import hashlib
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import msgspec

from contextinfinity.domain.message import (
    IMAGE_TYPES,
    PDF,
    AssistantItem,
    ContentBlock,
    Document,
    ImageBlock,
    Json,
    Message,
    MetadataItem,
    TextBlock,
    ToolCallItem,
    ToolResultBlock,
    TranscriptItem,
    UnknownBlock,
    document_of,
)
from contextinfinity.domain.prompt import SENT, Abilities, Prompt, ProviderRequest, cost
from contextinfinity.domain.sent_form import CHAT
from contextinfinity.domain.turn import Usage
from contextinfinity.providers.failures import garbled

CALL_ID_PATTERN = r"[A-Za-z0-9_-]+"
LONGEST_CALL_ID = 64
LONGEST_NAME = 64
"""The maximum length of a tool name; Anthropic accepts longer ones."""
IMAGE_NOTE = "[an image that cannot be shown here]"
UNKNOWN_NOTE = "[something that cannot be shown here]"
ERROR_MARK = "[error] "
FORMAT_NAME = "answer"

_LARGEST_COUNT = 2**53

_STRICT_KEYWORDS = frozenset(
    {
        "type",
        "properties",
        "required",
        "additionalProperties",
        "items",
        "enum",
        "const",
        "anyOf",
        "$ref",
        "$defs",
        "description",
        "title",
        "pattern",
        "format",
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "multipleOf",
        "minItems",
        "maxItems",
    }
)


def dict_of(value: Json) -> dict[str, Json]:
    """Return an object, or an empty one."""
    return value if isinstance(value, dict) else {}


def list_of(value: Json) -> list[Json]:
    """Return a list, or an empty one."""
    return value if isinstance(value, list) else []


def text_of(value: Json) -> str:
    """Return a text, or an empty one."""
    return value if isinstance(value, str) else ""


def count_of(value: Json) -> int:
    """Return a non-negative integer, or zero."""
    return value if type(value) is int and 0 <= value <= _LARGEST_COUNT else 0


def arguments_object(arguments: Json) -> dict[str, Json]:
    """Return a call's arguments as an object, which every vendor requires; a model may have written something else."""
    if isinstance(arguments, dict):
        return arguments
    return {} if arguments is None else {"arguments": arguments}


def arguments_text(arguments: Json) -> str:
    """Return a call's arguments as the JSON text of an object."""
    return msgspec.json.encode(arguments_object(arguments)).decode()


def safe_name(name: str, longest: int = LONGEST_NAME) -> str:
    """Replace characters of a tool name that vendors reject: a model may have invented the name."""
    return re.sub(r"[^a-zA-Z0-9_-]", "_", name)[:longest] or "tool"


def picture(block: ImageBlock, abilities: Abilities) -> dict[str, str] | None:
    """Return an image as ``media_type`` and ``data``, or as ``url``; None if it cannot be sent."""
    source = dict_of(block.source)
    kind, url = source.get("type"), text_of(source.get("url"))
    media_type, data = block.media_type, "".join(text_of(source.get("data")).split())
    if kind == "url" and url.startswith("data:"):
        media_type, _, data = url.removeprefix("data:").partition(";base64,")
    elif kind == "url":
        return {"url": url} if abilities.images and url else None
    able = abilities.images and kind in ("base64", "url") and media_type in IMAGE_TYPES and is_base64(data)
    return {"media_type": media_type, "data": data} if able else None


def image_url(block: ImageBlock, abilities: Abilities) -> str | None:
    """Return the URL of an image, or a data URL; None if it cannot be sent."""
    found = picture(block, abilities)
    if found is None:
        return None
    return found.get("url") or f"data:{found['media_type']};base64,{found['data']}"


def is_base64(data: str) -> bool:
    """Return whether a text is valid base64 and not empty."""
    try:
        return bool(binascii.a2b_base64(data, strict_mode=True))
    except ValueError:
        return False


def loop_start(messages: Sequence[Message]) -> int:
    """Return the index where the running tool loop starts: after the last user message."""
    said = (place for place, message in enumerate(messages) if message.role == "user" and message.blocks)
    return max(said, default=-1) + 1


def is_own(block: UnknownBlock, provider: str, types: Collection[str]) -> bool:
    """Return whether a block came from that provider and has one of those types."""
    return block.provider == provider and text_of(dict_of(block.raw).get("type")) in types


def without_nulls(value: Mapping[str, Json]) -> dict[str, Json]:
    """Remove null fields: vendors send them, and reject them when they are sent back."""
    return {key: each for key, each in value.items() if each is not None}


def can_be_strict(schema: Json) -> bool:
    """Return whether a schema can be enforced strictly.

    Vendors reject ``strict`` for other schemas, so those are sent as guidance.
    """
    return isinstance(schema, dict) and schema.get("type") == "object" and _closed(schema)


def _closed(schema: Json) -> bool:
    if not isinstance(schema, dict) or not schema.keys() <= _STRICT_KEYWORDS:
        return False
    properties = schema.get("properties", {})
    named = [schema.get("$defs", {}), properties]
    if not all(isinstance(each, dict) for each in named) or not isinstance(schema.get("anyOf", []), list):
        return False
    if schema.get("type") == "object" or properties:
        required = schema.get("required", [])
        listed = isinstance(required, list) and all(isinstance(name, str) for name in required)
        if schema.get("additionalProperties") is not False or not listed or set(required) != set(properties):
            return False
    inner = [each for group in named for each in group.values()] + schema.get("anyOf", [])
    return all(_closed(each) for each in [*inner, *([schema["items"]] if "items" in schema else [])])


def bounded_output(request: ProviderRequest, abilities: Abilities, least: int = 1) -> int:
    """Return the maximum number of answer tokens."""
    return max(least, min(request.max_output_tokens, abilities.max_output_tokens))


def sent_to(request: ProviderRequest, form: str) -> dict[str, Json] | None:
    """Return a client's own parameters if the client uses this wire form, else None."""
    sent, own = dict_of(request.prompt.sent), dict_of(request.options).get(SENT)
    return dict_of(own) if own is not None and sent.get("form") == form else None


def client_accepts(prompt: Prompt, key: str) -> bool:
    """Return whether a client of ``/v1`` asks for something that is off by default (keys of ``Prompt.sent``)."""
    return dict_of(prompt.sent).get(key) is True


def configured(request: ProviderRequest) -> dict[str, Json]:
    """Return the options from the settings."""
    return {name: value for name, value in dict_of(request.options).items() if name != SENT}


def cache_key(key: str) -> str:
    """Return a cache key of at most 64 characters."""
    return key if len(key) <= 64 else hashlib.sha256(key.encode()).hexdigest()


def usage_of(abilities: Abilities, *, prompt: Json, answer: Json, cached: Json, written: Json) -> Usage:
    """Return token counts and cost; ``cached`` and ``written`` (to the cache) are parts of ``prompt``."""
    whole = count_of(prompt)
    read = min(count_of(cached), whole)
    tokens = Usage(input_tokens=whole, output_tokens=count_of(answer), cached_tokens=read)
    spent = cost(abilities.prices, tokens, min(count_of(written), whole - read))
    return msgspec.structs.replace(tokens, cost=spent)


def joined(items: Iterable[TranscriptItem]) -> list[TranscriptItem]:
    """Merge adjacent text items."""
    out: list[TranscriptItem] = []
    for item in items:
        last = out[-1] if out else None
        if isinstance(item, AssistantItem) and isinstance(last, AssistantItem):
            out[-1] = AssistantItem(blocks=last.blocks + item.blocks)
        else:
            out.append(item)
    return out


def with_own_ids(items: list[TranscriptItem], response_id: str) -> list[TranscriptItem]:
    """Assign an id to each call without a unique one: results are matched by it."""
    used: set[str] = set()
    out: list[TranscriptItem] = []
    for place, item in enumerate(items):
        if isinstance(item, ToolCallItem):
            if not item.call_id or item.call_id in used:
                made = f"{response_id}:{place}:{item.name}:{arguments_text(item.arguments)}"
                item = msgspec.structs.replace(item, call_id=f"call_{hashlib.sha256(made.encode()).hexdigest()[:24]}")
            used.add(item.call_id)
        out.append(item)
    return out


def notes(pairs: Iterable[tuple[str, Json]]) -> list[MetadataItem]:
    """Return metadata items for the values that are texts."""
    return [MetadataItem(key=key, value=value) for key, value in pairs if isinstance(value, str) and value]


def compact(whole: Json, vendor: str) -> str:
    """Encode a reply as JSON text; raise ``ProviderError`` if that is not possible."""
    try:
        return msgspec.json.encode(whole).decode()
    except (OverflowError, UnicodeError, TypeError, RecursionError) as error:
        raise garbled(vendor, f"the reply cannot be stored: {error}") from error


NO_FILES = Abilities(files=False)


def readable_file(block: UnknownBlock, abilities: Abilities, *, urls: bool = True) -> Document | None:
    """Return a file that the model can be sent, or None. ``urls``: whether the API accepts URLs of files."""
    document = document_of(block.raw)
    if document is None or document.text is not None:
        return document
    is_there = is_base64(document.data) or (urls and document.url.startswith(("https://", "http://")))
    return document if abilities.files and document.media_type == PDF and is_there else None


def file_text(document: Document) -> str | None:
    """Return the text of a plain text file, after its name, or None for any other file."""
    text = document.text
    return text if text is None or not document.name else f"{document.name}\n\n{text}"


def named_file(document: Document) -> dict[str, Json]:
    """Return the bytes of a PDF and its name, as both of OpenAI's APIs accept them."""
    name = document.name if document.name.lower().endswith(".pdf") else f"{document.name or 'document'}.pdf"
    return {"filename": name, "file_data": f"data:{document.media_type};base64,{document.data}"}


def unread(messages: Iterable[Message], provider: str, form: str, abilities: Abilities) -> tuple[str, ...]:
    """Return the types of the user's parts that a model cannot be sent, each once. ``form``: that of the provider."""
    found: dict[str, None] = {}
    for message in messages:
        if message.role == "assistant" or (len(message.blocks) == 1 and type(message.blocks[0]) is TextBlock):
            continue  # the usual message: a request may resend thousands
        for block, in_result in _others(message.blocks):
            able = NO_FILES if in_result and form == CHAT else abilities
            if block.provider != provider and readable_file(block, able, urls=form != CHAT) is None:
                found[text_of(dict_of(block.raw).get("type")) or "unknown"] = None
    return tuple(found)


def _others(blocks: Iterable[ContentBlock], in_result: bool = False) -> Iterator[tuple[UnknownBlock, bool]]:
    """Yield the blocks of unknown type, and whether each is part of a tool result."""
    for block in blocks:
        if isinstance(block, UnknownBlock):
            yield block, in_result
        elif isinstance(block, ToolResultBlock):
            yield from _others(block.content, in_result=True)
