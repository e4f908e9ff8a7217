"""Parse a whole message into transcript items.

Text, calls and thinking keep the order of the reply; every other block is kept unchanged.
"""

from __future__ import annotations

from collections.abc import Iterator

from contextinfinity.domain.message import (
    AssistantItem,
    Json,
    TextBlock,
    ToolCallItem,
    TranscriptItem,
    UnknownItem,
)
from contextinfinity.domain.model import Abilities
from contextinfinity.domain.prompt import Finished
from contextinfinity.domain.turn import Completed, Incomplete, Paused, StepOutcome, Usage
from contextinfinity.providers import wire_values
from contextinfinity.providers.anthropic.blocks import PROVIDER, THINKING, reasoning_item
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
    """Parse a whole message; raise ``ProviderError`` if it is an error or malformed."""
    if not isinstance(whole, dict):
        raise garbled(PROVIDER, "the reply is not a JSON object")
    if whole.get("type") == "error":
        raise failure_in_stream(PROVIDER, whole)
    content = whole.get("content")
    if not isinstance(content, list):
        raise garbled(PROVIDER, "the reply has no content")
    reason = whole.get("stop_reason")
    outcome = OUTCOMES.get(reason, Completed()) if isinstance(reason, str) else Completed()
    items = wire_values.joined(item for block in content for item in _items(block))
    return Finished(
        outcome=outcome,
        items=(
            *wire_values.with_own_ids(items, wire_values.text_of(whole.get("id"))),
            *wire_values.notes(_notes(whole)),
        ),
        usage=_usage(wire_values.dict_of(whole.get("usage")), abilities),
        response=wire_values.compact(whole, PROVIDER),
    )


def _items(block: Json) -> Iterator[TranscriptItem]:
    raw = wire_values.dict_of(block)
    kind = raw.get("type")
    if kind == "text" and isinstance(raw.get("text"), str):
        if raw["text"]:
            citations = tuple(wire_values.list_of(raw.get("citations")))
            yield AssistantItem(blocks=(TextBlock(text=raw["text"], annotations=citations),))
    elif kind == "tool_use" and isinstance(raw.get("name"), str):
        yield ToolCallItem(call_id=wire_values.text_of(raw.get("id")), name=raw["name"], arguments=raw.get("input"))
    elif isinstance(kind, str) and kind in THINKING:
        yield reasoning_item(raw)
    else:
        yield UnknownItem(provider=PROVIDER, raw=block)


def _notes(whole: dict[str, Json]) -> Iterator[tuple[str, Json]]:
    details = wire_values.dict_of(whole.get("stop_details"))
    yield from ((key, whole.get(name)) for key, name in (("response_id", "id"), ("model", "model")))
    yield from ((key, whole.get(key)) for key in ("stop_reason", "stop_sequence"))
    yield from ((f"refusal_{key}", details.get(key)) for key in ("category", "explanation"))
    yield "service_tier", wire_values.dict_of(whole.get("usage")).get("service_tier")


def _usage(raw: dict[str, Json], abilities: Abilities) -> Usage:
    """Add up the tokens: Anthropic reports cache reads and cache writes separately from other input."""
    written, cached = raw.get("cache_creation_input_tokens"), raw.get("cache_read_input_tokens")
    whole = sum(wire_values.count_of(count) for count in (raw.get("input_tokens"), written, cached))
    return wire_values.usage_of(
        abilities, prompt=whole, answer=raw.get("output_tokens"), cached=cached, written=written
    )
