"""Parse a whole chat completion into transcript items.

The order is reasoning, text, calls; all other fields of the message are kept unchanged.
"""

from __future__ import annotations

from collections.abc import Iterator

from contextinfinity.domain.message import (
    LOGPROBS,
    REFUSAL,
    AssistantItem,
    Json,
    ReasoningItem,
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
from contextinfinity.providers.openai_chat.request import CALL_EXTRA, REASONING_KEYS
from contextinfinity.providers.openai_chat.stream import call_extra

KNOWN = frozenset({"role", "content", "refusal", "tool_calls", "annotations", *REASONING_KEYS})
REASONS = {"length": "length", "max_tokens": "length", "content_filter": "filter"}
ALL_SAID = frozenset({"", "stop", "tool_calls", "function_call", "tool_use", "eos", "eos_token", "end_turn"})


def read(whole: Json, abilities: Abilities, vendor: str) -> Finished:
    """Parse a whole completion; raise ``ProviderError`` if it is an error or malformed."""
    completion = wire_values.dict_of(whole)
    choices = wire_values.list_of(completion.get("choices"))
    choice = wire_values.dict_of(choices[0]) if choices else {}
    if not isinstance(choice.get("message"), dict):
        if completion.get("error"):  # some servers send an error with status 200
            raise failure_in_stream(vendor, completion["error"])
        raise garbled(vendor, "the reply holds no message")
    items = wire_values.joined(_items(choice, completion, vendor))
    items = wire_values.with_own_ids(items, wire_values.text_of(completion.get("id")))
    finish = wire_values.text_of(choice.get("finish_reason"))
    return Finished(
        outcome=_outcome(finish, any(isinstance(item, ToolCallItem) for item in items)),
        items=(*items, *wire_values.notes(_notes(completion, finish))),
        usage=_usage(wire_values.dict_of(completion.get("usage")), abilities),
        response=wire_values.compact(whole, vendor),
    )


def _items(choice: dict[str, Json], completion: dict[str, Json], vendor: str) -> Iterator[TranscriptItem]:
    message, logprobs = wire_values.dict_of(choice["message"]), _logprobs(choice)
    thinking = {key: message[key] for key in REASONING_KEYS if message.get(key)}
    if thinking:
        yield ReasoningItem(raw=thinking)
    yield from _words(message.get("content"), (*_annotations(message, completion), *logprobs), vendor)
    if wire_values.text_of(message.get("refusal")):
        marks = (REFUSAL, *(() if message.get("content") else logprobs))
        yield AssistantItem(blocks=(TextBlock(text=message["refusal"], annotations=marks),))
    for call in wire_values.list_of(message.get("tool_calls")):
        yield from _call(call, vendor)
    for key in message:
        if key not in KNOWN and message[key] is not None:
            yield UnknownItem(provider=vendor, raw={key: message[key]})


def _words(content: Json, annotations: tuple[Json, ...], vendor: str) -> Iterator[TranscriptItem]:
    if isinstance(content, str) and content:
        yield AssistantItem(blocks=(TextBlock(text=content, annotations=annotations),))
    for part in wire_values.list_of(content):
        text = wire_values.dict_of(part).get("text")
        if isinstance(text, str) and part.get("type") == "text":
            yield AssistantItem(blocks=(TextBlock(text=text, annotations=annotations),))
        else:
            yield UnknownItem(provider=vendor, raw=part)


def _logprobs(choice: dict[str, Json]) -> tuple[Json, ...]:
    """Return the log probabilities of the tokens as an annotation, if they were requested."""
    raw = wire_values.dict_of(choice.get("logprobs"))
    return ({"type": LOGPROBS, **raw},) if raw else ()


def _annotations(message: dict[str, Json], completion: dict[str, Json]) -> tuple[Json, ...]:
    """Return the sources of an answer; search results in the order of their citation numbers."""
    results = [wire_values.dict_of(result) for result in wire_values.list_of(completion.get("search_results"))]
    titles = {wire_values.text_of(result.get("url")): wire_values.text_of(result.get("title")) for result in results}
    cited = [url for url in wire_values.list_of(completion.get("citations")) if isinstance(url, str)]
    urls = cited or [url for url in titles if url]
    citations = [{"type": "citation", "url": url, "title": titles.get(url, "")} for url in urls]
    return (*wire_values.list_of(message.get("annotations")), *citations)


def _call(call: Json, vendor: str) -> Iterator[TranscriptItem]:
    raw = wire_values.dict_of(call)
    function = wire_values.dict_of(raw.get("function"))
    name = wire_values.text_of(function.get("name"))
    if not name:
        yield UnknownItem(provider=vendor, raw=call)
        return
    extra = call_extra(raw)
    if extra:
        yield UnknownItem(provider=vendor, raw={CALL_EXTRA: extra})
    arguments = arguments_of(function.get("arguments"))
    yield ToolCallItem(call_id=wire_values.text_of(raw.get("id")), name=name, arguments=arguments)


def _outcome(finish: str, calls: bool) -> StepOutcome:
    if finish in REASONS:
        return Incomplete(reason=REASONS[finish])
    if finish not in ALL_SAID:
        return Incomplete(reason=finish)
    return Paused(reason="tool_use") if calls else Completed()


def _notes(completion: dict[str, Json], finish: str) -> Iterator[tuple[str, Json]]:
    yield "response_id", completion.get("id")
    yield "model", completion.get("model")
    yield "stop_reason", finish
    yield "service_tier", completion.get("service_tier")
    yield "system_fingerprint", completion.get("system_fingerprint")


def _usage(raw: dict[str, Json], abilities: Abilities) -> Usage:
    if not raw:
        return Usage()
    details = wire_values.dict_of(raw.get("prompt_tokens_details"))
    return wire_values.usage_of(
        abilities,
        prompt=raw.get("prompt_tokens"),
        answer=raw.get("completion_tokens"),
        cached=details.get("cached_tokens") or raw.get("prompt_cache_hit_tokens"),
        written=details.get("cache_write_tokens"),
    )
