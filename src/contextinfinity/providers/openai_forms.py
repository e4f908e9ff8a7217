"""What the two wires of OpenAI have in common.

Values are read out of JSON that may be anything: a value of the wrong type counts as absent. What one of the two
wires cannot say is written as a short constant text.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping

import msgspec

from contextinfinity.domain.message import (
    AssistantItem,
    ContentBlock,
    ImageBlock,
    Json,
    Message,
    MetadataItem,
    ToolCallItem,
    ToolResultBlock,
    TranscriptItem,
    UnknownBlock,
)
from contextinfinity.domain.model import Abilities, cost
from contextinfinity.domain.prompt import ProviderRequest
from contextinfinity.domain.turn import Usage
from contextinfinity.errors import ProviderError

CALL_ID_PATTERN = r"[A-Za-z0-9_-]+"
LONGEST_CALL_ID = 64
IMAGE_NOTE = "[an image that cannot be shown here]"
ERROR_MARK = "[error] "
FORMAT_NAME = "answer"
REFUSAL: Json = {"type": "refusal"}

UPSTREAM_STATE = ("previous_response_id", "conversation", "background", "prompt")
"""Options that make an answer depend on what the provider keeps."""

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
    """Give an object, or an empty one."""
    return value if isinstance(value, dict) else {}


def list_of(value: Json) -> list[Json]:
    """Give a list, or an empty one."""
    return value if isinstance(value, list) else []


def text_of(value: Json) -> str:
    """Give a text, or an empty one."""
    return value if isinstance(value, str) else ""


def count_of(value: Json) -> int:
    """Give a number of things, or zero."""
    return value if type(value) is int and 0 <= value <= _LARGEST_COUNT else 0


def arguments_text(arguments: Json) -> str:
    """Write a call's arguments as the JSON text that both wires want, whatever they are."""
    return "{}" if arguments is None else msgspec.json.encode(arguments).decode()


def arguments_of(text: Json) -> Json:
    """Read a call's arguments; what is not JSON stays the text it is."""
    if not isinstance(text, str):
        return {} if text is None else text
    try:
        return msgspec.json.decode(text) if text.strip() else {}
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return text


def image_url(block: ImageBlock, abilities: Abilities) -> str | None:
    """Give the address of a picture, or the picture itself as an address; None where it cannot be sent."""
    source = dict_of(block.source)
    kind, data, url = source.get("type"), text_of(source.get("data")), text_of(source.get("url"))
    if not abilities.images:
        return None
    if kind == "base64" and data:
        return f"data:{block.media_type};base64,{data}"
    return url if kind == "url" and url else None


def results_first(message: Message) -> tuple[list[ToolResultBlock], list[ContentBlock]]:
    """Part what tools gave back from what else a message says."""
    results = [block for block in message.blocks if isinstance(block, ToolResultBlock)]
    return results, [block for block in message.blocks if not isinstance(block, ToolResultBlock)]


def loop_start(messages: tuple[Message, ...]) -> int:
    """Tell where the running tool loop begins: after the last thing a person said."""
    for place in range(len(messages) - 1, -1, -1):
        if messages[place].role == "user" and results_first(messages[place])[1]:
            return place + 1
    return 0


def is_own(block: UnknownBlock, provider: str, types: Collection[str]) -> bool:
    """Tell whether a block came from that provider and is of one of those types."""
    return block.provider == provider and text_of(dict_of(block.raw).get("type")) in types


def without_nulls(value: Mapping[str, Json]) -> dict[str, Json]:
    """Leave out what is null: vendors send it, and refuse it when it comes back."""
    return {key: each for key, each in value.items() if each is not None}


def can_be_strict(schema: Json) -> bool:
    """Tell whether a schema stays within the part of JSON schema that can be enforced token by token.

    Asking for more than that is refused, so such a schema is sent as guidance.
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
    """Give how many tokens the answer may have."""
    return max(least, min(request.max_output_tokens, abilities.max_output_tokens))


def cache_key(key: str) -> str:
    """Give the key of a conversation in at most 64 characters."""
    return key if len(key) <= 64 else hashlib.sha256(key.encode()).hexdigest()


def with_options(
    body: dict[str, Json], options: Json, *, vendor: str, owned: Collection[str], upstream_state: bool = False
) -> dict[str, Json]:
    """Add the caller's options to a body, but never over what is ``owned``.

    Objects and lists that both have are joined. What would make the answer depend on the provider's memory is refused.
    """
    if options is not None and not isinstance(options, dict):
        raise _refused(vendor, "the options are not a table of names and values")
    given = {key: each for key, each in (options or {}).items() if key not in owned}
    stateful = [key for key in UPSTREAM_STATE if given.get(key)]
    if stateful and not upstream_state:
        raise _refused(vendor, f"the option {stateful[0]} lets the provider keep the conversation")
    for key, each in given.items():
        mine = body.get(key)
        if isinstance(mine, dict) and isinstance(each, dict):
            each = {**mine, **each}
        elif isinstance(mine, list) and isinstance(each, list):
            each = mine + [one for one in each if one not in mine]
        body[key] = each
    return body


def _refused(vendor: str, what: str) -> ProviderError:
    hint = "Take it out of the model's options, or allow upstream state for that model."
    return ProviderError(f"{vendor}: {what}; nothing was sent.", kind="bad_request", hint=hint)


def usage_of(tokens: Usage, written: int, abilities: Abilities) -> Usage:
    """Add to a count of tokens what they cost."""
    cached = min(tokens.cached_tokens, tokens.input_tokens)
    tokens = msgspec.structs.replace(tokens, cached_tokens=cached)
    fresh = tokens.input_tokens - cached
    return msgspec.structs.replace(tokens, cost=cost(abilities.prices, tokens, min(written, fresh)))


def joined(items: Iterable[TranscriptItem]) -> list[TranscriptItem]:
    """Put neighbouring words into one item."""
    out: list[TranscriptItem] = []
    for item in items:
        last = out[-1] if out else None
        if isinstance(item, AssistantItem) and isinstance(last, AssistantItem):
            out[-1] = AssistantItem(blocks=last.blocks + item.blocks)
        else:
            out.append(item)
    return out


def with_own_ids(items: list[TranscriptItem], response_id: str) -> list[TranscriptItem]:
    """Give an id to each call that has none or shares it with another: results are told apart by it."""
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
    """Make notes of the values that are texts."""
    return [MetadataItem(key=key, value=value) for key, value in pairs if isinstance(value, str) and value]


def compact(whole: Json) -> str:
    """Write a reply as JSON text."""
    return msgspec.json.encode(whole).decode()
