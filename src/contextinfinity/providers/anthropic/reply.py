"""From a whole message to neutral items.

Words, calls and thinking come out in the order of the reply; every other block is kept as it came.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from contextinfinity.domain.message import (
    AssistantItem,
    Json,
    MetadataItem,
    ReasoningItem,
    TextBlock,
    ToolCallItem,
    TranscriptItem,
    UnknownItem,
)
from contextinfinity.domain.model import Abilities, cost
from contextinfinity.domain.prompt import Finished
from contextinfinity.domain.turn import Completed, Incomplete, Paused, StepOutcome, Usage
from contextinfinity.providers.anthropic.blocks import PROVIDER
from contextinfinity.providers.failures import failure_in_stream, garbled

OUTCOMES: dict[str, StepOutcome] = {
    "end_turn": Completed(),
    "stop_sequence": Completed(),
    "tool_use": Paused(reason="tool_use"),
    "pause_turn": Paused(reason="pause_turn"),
    "max_tokens": Incomplete(reason="length"),
    "model_context_window_exceeded": Incomplete(reason="length"),
    "refusal": Incomplete(reason="filter"),
}


def finished(whole: Json, abilities: Abilities) -> Finished:
    """Read a whole message."""
    if not isinstance(whole, dict):
        raise garbled(PROVIDER, "the reply is not a JSON object")
    if whole.get("type") == "error":
        raise failure_in_stream(PROVIDER, whole)
    content = whole.get("content")
    if not isinstance(content, list):
        raise garbled(PROVIDER, "the reply has no content")
    reason = whole.get("stop_reason")
    outcome = OUTCOMES.get(reason, Completed()) if isinstance(reason, str) else Completed()
    return Finished(
        outcome=outcome,
        items=(*_joined(_item(block) for block in content), *_notes(whole)),
        usage=_usage(_dict(whole.get("usage")), abilities),
        response=_compact(whole),
    )


def _item(block: Json) -> TranscriptItem | None:
    """Read a block; None for a text without words."""
    told = _dict(block)
    kind = told.get("type")
    if kind == "text" and isinstance(told.get("text"), str):
        citations = told.get("citations")
        annotations = tuple(citations) if isinstance(citations, list) else ()
        return AssistantItem(blocks=(TextBlock(text=told["text"], annotations=annotations),)) if told["text"] else None
    if kind == "tool_use" and isinstance(told.get("id"), str) and isinstance(told.get("name"), str):
        return ToolCallItem(call_id=told["id"], name=told["name"], arguments=told.get("input"))
    if kind in ("thinking", "redacted_thinking"):
        sealed = told.get("signature" if kind == "thinking" else "data")
        return ReasoningItem(encrypted_content=sealed if sealed and isinstance(sealed, str) else None, raw=block)
    return UnknownItem(provider=PROVIDER, raw=block)


def _joined(items: Iterable[TranscriptItem | None]) -> Iterator[TranscriptItem]:
    """Put words that stand side by side into one item."""
    said: tuple[TextBlock, ...] = ()
    for item in items:
        if isinstance(item, AssistantItem):
            said += tuple(block for block in item.blocks if isinstance(block, TextBlock))
        elif item is not None:
            if said:
                yield AssistantItem(blocks=said)
                said = ()
            yield item
    if said:
        yield AssistantItem(blocks=said)


def _notes(whole: dict[str, Json]) -> Iterator[MetadataItem]:
    details = _dict(whole.get("stop_details"))
    notes = {
        "response_id": whole.get("id"),
        "model": whole.get("model"),
        "stop_reason": whole.get("stop_reason"),
        "stop_sequence": whole.get("stop_sequence"),
        "refusal_category": details.get("category"),
        "refusal_explanation": details.get("explanation"),
        "service_tier": _dict(whole.get("usage")).get("service_tier"),
    }
    for key, value in notes.items():
        if isinstance(value, str) and value:
            yield MetadataItem(key=key, value=value)


def _usage(told: dict[str, Json], abilities: Abilities) -> Usage:
    """Add up the tokens: Anthropic counts what was read from the cache and written to it apart from the rest."""
    written = _count(told.get("cache_creation_input_tokens"))
    cached = _count(told.get("cache_read_input_tokens"))
    tokens = Usage(
        input_tokens=_count(told.get("input_tokens")) + written + cached,
        output_tokens=_count(told.get("output_tokens")),
        cached_tokens=cached,
    )
    return msgspec.structs.replace(tokens, cost=cost(abilities.prices, tokens, written))


def _compact(whole: Json) -> str:
    try:
        return msgspec.json.encode(whole).decode()
    except (OverflowError, UnicodeError, TypeError, RecursionError) as error:
        raise garbled(PROVIDER, f"the reply cannot be kept: {error}") from error


def _count(value: Json) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53 else 0


def _dict(value: Json) -> dict[str, Json]:
    return value if isinstance(value, dict) else {}
