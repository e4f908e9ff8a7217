"""Parse a whole response into transcript items.

Text, calls and reasoning keep the order of the reply; every other item is kept unchanged.
"""

from __future__ import annotations

from collections.abc import Iterator

from contextinfinity.domain.message import (
    LOGPROBS,
    REFUSAL,
    AssistantItem,
    Json,
    TextBlock,
    ToolCallItem,
    TranscriptItem,
    UnknownItem,
    arguments_of,
)
from contextinfinity.domain.model import Abilities
from contextinfinity.domain.prompt import Finished
from contextinfinity.domain.turn import Completed, Incomplete, Paused, StepOutcome, Usage
from contextinfinity.providers import wire_values
from contextinfinity.providers.failures import failure_in_stream, garbled
from contextinfinity.providers.openai_responses.request import PROVIDER
from contextinfinity.providers.openai_responses.stream import CALLS, called_name, reasoning_item

REASONS = {"max_output_tokens": "length", "content_filter": "filter"}


def read(whole: Json, abilities: Abilities) -> Finished:
    """Parse a whole response; raise ``ProviderError`` if it failed or is malformed."""
    response = wire_values.dict_of(whole)
    shaped = isinstance(response.get("output"), list) or isinstance(response.get("status"), str)
    if response.get("status") == "failed" or (not shaped and response.get("error")):
        raise failure_in_stream(PROVIDER, response.get("error"))
    if not shaped:
        raise garbled(PROVIDER, "the reply is not a response")
    items = wire_values.joined(item for each in wire_values.list_of(response.get("output")) for item in _items(each))
    items = wire_values.with_own_ids(items, wire_values.text_of(response.get("id")))
    outcome = _outcome(response, any(isinstance(item, ToolCallItem) for item in items))
    return Finished(
        outcome=outcome,
        items=(*items, *wire_values.notes(_notes(response))),
        usage=_usage(wire_values.dict_of(response.get("usage")), abilities),
        response=wire_values.compact(whole, PROVIDER),
    )


def _items(each: Json) -> Iterator[TranscriptItem]:
    item = wire_values.dict_of(each)
    kind = wire_values.text_of(item.get("type"))
    if kind == "message" and isinstance(item.get("content"), list):
        phase = item.get("phase")
        marks: tuple[Json, ...] = ({"type": "phase", "phase": phase},) if isinstance(phase, str) else ()
        for part in item["content"]:
            yield from _part(part, marks)
    elif kind in CALLS and isinstance(item.get("name"), str):
        written = item.get(CALLS[kind])
        given = arguments_of(written) if kind == "function_call" else {"input": wire_values.text_of(written)}
        yield ToolCallItem(call_id=wire_values.text_of(item.get("call_id")), name=called_name(item), arguments=given)
    elif kind == "reasoning":
        yield reasoning_item(item)
    else:
        yield UnknownItem(provider=PROVIDER, raw=each)


def _part(part: Json, marks: tuple[Json, ...]) -> Iterator[TranscriptItem]:
    content = wire_values.dict_of(part)
    kind = content.get("type")
    if kind == "output_text" and isinstance(content.get("text"), str):
        logprobs = wire_values.list_of(content.get("logprobs"))
        marks = (*marks, {"type": LOGPROBS, "content": logprobs}) if logprobs else marks
        annotations = (*wire_values.list_of(content.get("annotations")), *marks)
        if content["text"]:
            yield AssistantItem(blocks=(TextBlock(text=content["text"], annotations=annotations),))
    elif kind == "refusal" and isinstance(content.get("refusal"), str):
        if content["refusal"]:
            yield AssistantItem(blocks=(TextBlock(text=content["refusal"], annotations=(REFUSAL, *marks)),))
    else:
        yield UnknownItem(provider=PROVIDER, raw=part)


def _outcome(response: dict[str, Json], calls: bool) -> StepOutcome:
    status = response.get("status")
    reason = wire_values.text_of(wire_values.dict_of(response.get("incomplete_details")).get("reason"))
    if status in ("incomplete", "cancelled"):
        return Incomplete(reason=REASONS.get(reason, reason) or str(status))
    return Paused(reason="tool_use") if calls else Completed()


def _notes(response: dict[str, Json]) -> Iterator[tuple[str, Json]]:
    yield "response_id", response.get("id")
    yield "model", response.get("model")
    reason = wire_values.text_of(wire_values.dict_of(response.get("incomplete_details")).get("reason"))
    yield "stop_reason", reason or response.get("status")
    yield "service_tier", response.get("service_tier")


def _usage(reported: dict[str, Json], abilities: Abilities) -> Usage:
    if not reported:
        return Usage()
    details = wire_values.dict_of(reported.get("input_tokens_details"))
    return wire_values.usage_of(
        abilities,
        prompt=reported.get("input_tokens"),
        answer=reported.get("output_tokens"),
        cached=details.get("cached_tokens"),
        written=details.get("cache_write_tokens"),
    )
