"""Accumulate a streamed message.

A message starts, its content blocks arrive in pieces by index, then the stop reason and the usage. Token counts are
cumulative: the last one is valid.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from contextinfinity.domain.message import Json, UnknownItem, arguments_of
from contextinfinity.domain.prompt import CallPiece, ReasoningDone, StreamedPiece, TextDelta
from contextinfinity.providers import wire_values
from contextinfinity.providers.anthropic.blocks import PROVIDER, THINKING, reasoning_item
from contextinfinity.providers.failures import failure_in_stream

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
