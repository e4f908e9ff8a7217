"""Parse a response, whole or streamed, into transcript items.

Text, calls and reasoning keep the order of the reply; every other item is kept unchanged.

Every event of a stream names its item by ``output_index`` and the part by ``content_index``. The last event contains
the whole response; the accumulated items are used only if it does not.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence

import msgspec

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
from contextinfinity.domain.prompt import Abilities, CallPiece, Finished, ReasoningDone, StreamedPiece, TextDelta
from contextinfinity.domain.sent_form import joined_name
from contextinfinity.domain.turn import Completed, Incomplete, Paused, StepOutcome, Usage
from contextinfinity.providers import wire_values
from contextinfinity.providers.failures import failure_in_stream, garbled
from contextinfinity.providers.openai_responses.request import PROVIDER

log = logging.getLogger(__name__)

LAST_EVENTS = frozenset({"response.completed", "response.incomplete", "response.cancelled"})

PIECES = {
    "response.output_text.delta": ("content", "content_index", "output_text", "text"),
    "response.refusal.delta": ("content", "content_index", "refusal", "refusal"),
    "response.reasoning_text.delta": ("content", "content_index", "reasoning_text", "text"),
    "response.reasoning_summary_text.delta": ("summary", "summary_index", "summary_text", "text"),
    "response.function_call_arguments.delta": ("arguments", "", "", ""),
    "response.custom_tool_call_input.delta": ("input", "", "", ""),
    "response.mcp_call_arguments.delta": ("arguments", "", "", ""),
    "response.code_interpreter_call_code.delta": ("code", "", "", ""),
}
"""The target of a text piece: the item's field; for lists also the index name, the part type and its field."""

SHOWN = frozenset({"response.output_text.delta", "response.refusal.delta"})

WHOLE_TEXTS = {"response.output_text.done": "output_text", "response.refusal.done": "refusal"}

CALLS = {"function_call": "arguments", "custom_tool_call": "input"}
"""The items that call tools of the client, and the field with what they call it with."""
CUSTOM_START, CUSTOM_END = '{"input":"', '"}'
"""The input of a custom tool is a text. Its call is kept as that of a function with one argument, ``input``."""

PASSED_OVER = (
    "response.created response.in_progress response.queued response.output_item. response.content_part. "
    "response.output_text. response.refusal. response.reasoning response.function_call_arguments. "
    "response.web_search_call. response.file_search_call. response.code_interpreter_call response.mcp_ "
    "response.image_generation_call. response.audio. response.custom_tool_call_input. response.shell_call "
    "response.compaction. response.steer keepalive"
)
"""Prefixes of event names that add nothing to the finished items."""


class ResponsesAccumulator:
    """``Accumulator`` for the events of OpenAI's Responses API. The stream is complete when ``ended``."""

    def __init__(self) -> None:
        self.ended = False
        self._known = tuple(PASSED_OVER.split())
        self._response: dict[str, Json] = {}
        self._items: dict[int, dict[str, Json]] = {}
        self._finished: set[int] = set()
        self._pieces: dict[tuple[int, str, int], list[str]] = {}
        self._marks: dict[tuple[int, int], list[Json]] = {}
        self._unknown: list[Json] = []

    def feed(self, event: str, data: Json) -> Sequence[StreamedPiece]:
        """Process one event and return what it adds; raise ``ProviderError`` for an error event."""
        payload = wire_values.dict_of(data)
        kind = wire_values.text_of(payload.get("type")) or event
        if kind in PIECES:
            return self._piece(kind, payload)
        if kind in WHOLE_TEXTS:
            return self._whole_text(WHOLE_TEXTS[kind], payload)
        if kind in ("error", "response.failed"):
            raise failure_in_stream(PROVIDER, _error(payload))
        if kind in LAST_EVENTS:
            self.ended = True
            status = kind.removeprefix("response.")
            self._response = {**self._response, "status": status, **wire_values.dict_of(payload.get("response"))}
        elif isinstance(payload.get("response"), dict):
            self._response = payload["response"]
        elif kind in ("response.output_item.added", "response.output_item.done"):
            return self._item(payload, finished=kind.endswith("done"))
        elif kind == "response.output_text.annotation.added":
            self._marks.setdefault(_place(payload, "content_index"), []).append(payload.get("annotation"))
        elif not kind.startswith(self._known):
            log.info("openai sent an event of an unknown type: %.80s; it was stored and ignored", kind)
            self._unknown.append(data)
        return ()

    def assembled(self) -> Json:
        """Return the complete response."""
        whole = dict(self._response)
        if not wire_values.list_of(whole.get("output")):
            whole["output"] = self._output()
        if self._unknown:
            whole["unknown_events"] = list(self._unknown)
        return whole

    def _item(self, payload: dict[str, Json], *, finished: bool) -> Sequence[StreamedPiece]:
        index, _ = _place(payload)
        is_new = index not in self._items
        item = self._items[index] = wire_values.dict_of(payload.get("item"))
        if finished:
            self._finished.add(index)
        kind = wire_values.text_of(item.get("type"))
        if kind in CALLS:
            return self._call(index, item, is_new=is_new, finished=finished)
        if not finished or kind == "message":
            return ()
        own = reasoning_item(item) if kind == "reasoning" else UnknownItem(provider=PROVIDER, raw=item)
        return (ReasoningDone(item=own),)

    def _call(self, index: int, item: dict[str, Json], *, is_new: bool, finished: bool) -> Sequence[StreamedPiece]:
        """Return the beginning of a call, and when it is finished, arguments that arrived without deltas."""
        call_id, name = wire_values.text_of(item.get("call_id")), called_name(item)
        field, arguments = CALLS[item["type"]], ""
        if finished:
            has_pieces = (index, field, 0) in self._pieces
            arguments = "" if has_pieces else wire_values.text_of(item.get(field))
            if field == "input":
                arguments = custom_piece(arguments, is_first=not has_pieces) + CUSTOM_END
        if not (call_id and name) or not (is_new or arguments):
            return ()
        return (CallPiece(place=index, arguments=arguments, **({"call_id": call_id, "name": name} if is_new else {})),)

    def _piece(self, kind: str, payload: dict[str, Json]) -> Sequence[StreamedPiece]:
        field, index_name, part_type, _ = PIECES[kind]
        index, part = _place(payload, index_name)
        text = wire_values.text_of(payload.get("delta"))
        self._pieces.setdefault((index, part_type or field, part), []).append(text)
        item = self._items.get(index, {})
        if field == CALLS.get(wire_values.text_of(item.get("type"))):
            is_first = len(self._pieces[index, field, 0]) == 1
            arguments = text if field == "arguments" else custom_piece(text, is_first=is_first)
            is_named = item.get("call_id") and item.get("name")
            return (CallPiece(place=index, arguments=arguments),) if text and is_named else ()
        logprobs = wire_values.list_of(payload.get("logprobs"))
        shown = TextDelta(text=text, logprobs={"content": logprobs} if logprobs else None)
        return (shown,) if text and kind in SHOWN else ()

    def _whole_text(self, part_type: str, payload: dict[str, Json]) -> Sequence[TextDelta]:
        """Return a text that arrived without deltas."""
        index, part = _place(payload, "content_index")
        text = wire_values.text_of(payload.get("text") or payload.get("refusal"))
        if not text or (index, part_type, part) in self._pieces:
            return ()
        self._pieces[index, part_type, part] = [text]
        return (TextDelta(text=text),)

    def _output(self) -> list[Json]:
        places = sorted({*self._items, *(index for index, _, _ in self._pieces)})
        return [self._items[at] if at in self._finished else self._put_together(at) for at in places]

    def _put_together(self, index: int) -> Json:
        """Build an unfinished item from its pieces."""
        item = {"type": "message", "role": "assistant", **self._items.get(index, {})}
        lists: dict[str, dict[int, Json]] = {}
        for field, _, part_type, part_field in PIECES.values():
            for (at, kind, part), pieces in self._pieces.items():
                if at != index or kind != (part_type or field):
                    continue
                if not part_type:
                    item[field] = "".join(pieces)
                    continue
                made: dict[str, Json] = {"type": part_type, part_field: "".join(pieces)}
                if part_type == "output_text":
                    made["annotations"] = self._marks.get((index, part), [])
                lists.setdefault(field, {})[part] = made
        for field, parts in lists.items():
            item[field] = [parts[part] for part in sorted(parts)]
        return item


def called_name(item: dict[str, Json]) -> str:
    """Return the name of a called tool, with its namespace."""
    return joined_name(wire_values.text_of(item.get("namespace")), wire_values.text_of(item.get("name")))


def custom_piece(text: str, *, is_first: bool) -> str:
    """Return a piece of the input of a custom tool as a piece of a function's arguments."""
    return (CUSTOM_START if is_first else "") + msgspec.json.encode(text).decode()[1:-1]


def _place(payload: dict[str, Json], index_name: str = "") -> tuple[int, int]:
    return wire_values.count_of(payload.get("output_index")), wire_values.count_of(payload.get(index_name))


def _error(payload: dict[str, Json]) -> Json:
    """Find the error in an event: under ``error``, in the response, or the event itself."""
    inner = payload.get("error") or wire_values.dict_of(payload.get("response")).get("error")
    return inner or {key: payload[key] for key in ("code", "message", "param") if key in payload}


def reasoning_item(item: dict[str, Json]) -> ReasoningItem:
    """Return a reasoning item with the raw item unchanged."""
    return ReasoningItem(encrypted_content=wire_values.text_of(item.get("encrypted_content")) or None, raw=item)


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
