"""Parse a message, whole or streamed, into transcript items.

Text, calls and thinking keep the order of the reply; every other block is kept unchanged.

A streamed message starts, its content blocks arrive in pieces by index, then the stop reason and the usage. Token
counts are cumulative: the last one is valid.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence

from contextinfinity.domain.message import (
    AssistantItem,
    Json,
    TextBlock,
    ToolCallItem,
    TranscriptItem,
    UnknownItem,
    arguments_of,
)
from contextinfinity.domain.prompt import Abilities, CallPiece, Finished, ReasoningDone, StreamedPiece, TextDelta
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


log = logging.getLogger(__name__)

PIECES = {
    "text_delta": ("text", "text"),
    "thinking_delta": ("thinking", "thinking"),
    "signature_delta": ("signature", "signature"),
    "input_json_delta": ("partial_json", "input"),
}
"""By delta type: the delta's text field, and the block's field it extends."""


class MessageAccumulator:
    """``Accumulator`` for the events of Anthropic's Messages API. The stream is complete when ``ended``."""

    def __init__(self) -> None:
        self.ended = False
        self._message: dict[str, Json] = {}
        self._blocks: dict[int, dict[str, Json]] = {}
        self._pieces: dict[tuple[int, str], list[str]] = {}
        self._citations: dict[int, list[Json]] = {}
        self._unknown: list[Json] = []

    def feed(self, event: str, data: Json) -> Sequence[StreamedPiece]:
        """Process one event and return what it adds; raise ``ProviderError`` for an error event."""
        payload = wire_values.dict_of(data)
        kind = payload.get("type") or event
        given: Sequence[StreamedPiece] | None
        if kind == "content_block_delta":
            given = self._delta(payload)
        elif kind == "content_block_stop":
            given = self._stop(payload)
        elif kind == "content_block_start":
            given = self._start(payload)
        elif kind == "message_start":
            given = self._begin(payload)
        elif kind == "message_delta":
            given = self._end(payload)
        elif kind == "error":
            raise failure_in_stream(PROVIDER, payload)
        else:
            self.ended = self.ended or kind == "message_stop"
            given = () if kind in ("message_stop", "ping") else None
        if given is None:
            log.info("anthropic sent an event of an unknown type: %.80s; it was stored and ignored", kind)
            self._unknown.append(data)
            return ()
        return given

    def assembled(self) -> Json:
        """Return the complete message."""
        whole = dict(self._message)
        if whole or self._blocks:
            whole["content"] = [self._block(index) for index in sorted(self._blocks)]
        if self._unknown:
            whole["unknown_events"] = list(self._unknown)
        return whole

    def _begin(self, payload: dict[str, Json]) -> Sequence[TextDelta] | None:
        message = payload.get("message")
        if not isinstance(message, dict):
            return None
        self._message = {**message, "usage": wire_values.dict_of(message.get("usage"))}
        return ()

    def _start(self, payload: dict[str, Json]) -> Sequence[StreamedPiece] | None:
        index, block = _index(payload), payload.get("content_block")
        if index is None or not isinstance(block, dict):
            return None
        self._blocks[index] = block
        if block.get("type") == "tool_use":
            call_id, name = wire_values.text_of(block.get("id")), wire_values.text_of(block.get("name"))
            return (CallPiece(place=index, call_id=call_id, name=name),) if call_id and name else ()
        text = block.get("text") if block.get("type") == "text" else ""
        return (TextDelta(text=text),) if text and isinstance(text, str) else ()

    def _delta(self, payload: dict[str, Json]) -> Sequence[StreamedPiece] | None:
        index, delta = _index(payload), wire_values.dict_of(payload.get("delta"))
        if index is None or index not in self._blocks:
            return None
        kind = delta.get("type")
        if kind == "citations_delta":
            self._citations.setdefault(index, []).append(delta.get("citation"))
            return ()
        if not isinstance(kind, str) or kind not in PIECES:
            return None
        source, field = PIECES[kind]
        text = delta.get(source)
        if not isinstance(text, str):
            return None
        self._pieces.setdefault((index, field), []).append(text)
        if kind == "input_json_delta" and self._blocks[index].get("type") == "tool_use":
            return (CallPiece(place=index, arguments=text),) if text else ()
        return (TextDelta(text=text),) if text and kind == "text_delta" else ()

    def _stop(self, payload: dict[str, Json]) -> Sequence[StreamedPiece]:
        index = _index(payload)
        block = self._block(index) if index is not None and index in self._blocks else {}
        kind = wire_values.text_of(block.get("type"))
        if kind in ("", "text", "tool_use"):
            return ()
        return (
            ReasoningDone(
                item=reasoning_item(block) if kind in THINKING else UnknownItem(provider=PROVIDER, raw=block)
            ),
        )

    def _end(self, payload: dict[str, Json]) -> Sequence[TextDelta]:
        usage = {name: count for name, count in wire_values.dict_of(payload.get("usage")).items() if count is not None}
        delta = {name: value for name, value in wire_values.dict_of(payload.get("delta")).items() if value is not None}
        self._message = {
            **self._message,
            **delta,
            "usage": {**wire_values.dict_of(self._message.get("usage")), **usage},
        }
        return ()

    def _block(self, index: int) -> dict[str, Json]:
        block = dict(self._blocks[index])
        for field in ("text", "thinking", "signature"):
            if (index, field) in self._pieces:
                begun = block.get(field)
                block[field] = (begun if isinstance(begun, str) else "") + "".join(self._pieces[index, field])
        written = "".join(self._pieces.get((index, "input"), ()))
        if written:
            block["input"] = arguments_of(written)
        if index in self._citations:
            begun = block.get("citations")
            block["citations"] = [*(begun if isinstance(begun, list) else ()), *self._citations[index]]
        return block


def _index(payload: dict[str, Json]) -> int | None:
    index = payload.get("index")
    return index if isinstance(index, int) and not isinstance(index, bool) else None
