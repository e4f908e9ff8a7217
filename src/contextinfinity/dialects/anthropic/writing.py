"""Write answers, streams, errors and models for Anthropic's clients.

In a stream the text is content block 0 if there is any; tool calls follow. The token counts in ``message_delta`` are
those of the whole answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from contextinfinity.dialects.anthropic.content_blocks import PROVIDER
from contextinfinity.dialects.contract import AnswerView, Stop
from contextinfinity.domain.message import Json, ReasoningBlock, TextBlock, ToolUseBlock, UnknownBlock
from contextinfinity.domain.prompt import CallPiece
from contextinfinity.domain.turn import Problem, Usage

STOP_REASONS: dict[Stop, str] = {
    "end": "end_turn",
    "length": "max_tokens",
    "filter": "refusal",
    "tools": "tool_use",
    "stop": "stop_sequence",
}
ERRORS = {
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    408: "timeout_error",
    409: "conflict_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}
"""By status; any other below 500 is ``invalid_request_error``, the rest ``api_error``."""
FAILURES = {"overloaded": "overloaded_error", "time_out": "timeout_error", "rate_limit": "rate_limit_error"}
"""Error types by provider failure, which is more specific than a status."""
UNKNOWN_DAY = "1970-01-01T00:00:00Z"
"""Anthropic's value for a model whose release date is unknown."""

_encode = msgspec.json.Encoder().encode


def message(spoken: AnswerView) -> Json:
    """Write a whole answer."""
    return {**_shell(spoken), "content": list(_content(spoken)), **_stop(spoken), "usage": usage(spoken.usage)}


def usage(used: Usage) -> dict[str, Json]:
    """Write the usage: Anthropic reports cached input separately."""
    cached = min(used.cached_tokens, used.input_tokens)
    return {
        "input_tokens": used.input_tokens - cached,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": cached,
        "output_tokens": used.output_tokens,
    }


def error(problem: Problem, status: int, said: Mapping[str, Json], request_id: str | None = None) -> Json:
    """Write an error: the message and hint for people, and our error code for programs."""
    words = f"{problem.message} {problem.hint}".rstrip()
    body = {"type": _error_type(problem, status), "message": words, "details": {"error_code": problem.code}}
    return {"type": "error", "error": {**body, **said}, "request_id": request_id}


def _error_type(problem: Problem, status: int) -> str:
    by_status = ERRORS.get(status) or ("invalid_request_error" if status < 500 else "api_error")
    return FAILURES.get(problem.code, by_status)


def models(names: Sequence[str]) -> Json:
    """Write the list of models, all on one page."""
    ends = {"first_id": names[0], "last_id": names[-1]} if names else {"first_id": None, "last_id": None}
    return {"data": [model(name) for name in names], "has_more": False, **ends}


def model(name: str) -> Json:
    """Write one model."""
    return {"type": "model", "id": name, "display_name": name, "created_at": UNKNOWN_DAY, "lifecycle": "active"}


def _shell(spoken: AnswerView) -> dict[str, Json]:
    return {"id": _named("msg_", spoken.id), "type": "message", "role": "assistant", "model": spoken.model}


def _named(prefix: str, identifier: str) -> str:
    return identifier if identifier.startswith(prefix) else prefix + identifier.replace("-", "")


def _content(spoken: AnswerView) -> Iterator[Json]:
    """Yield text and calls in order; adjacent texts become one block, as in a stream."""
    words = ""
    for block in spoken.blocks:
        if isinstance(block, TextBlock):
            words += block.text
        elif isinstance(block, ToolUseBlock):
            if words:
                yield {"type": "text", "text": words}
                words = ""
            yield {**_call(block), "input": _arguments(block)}
        elif isinstance(block, ReasoningBlock | UnknownBlock) and (raw := _own(block)) is not None:
            if words:
                yield {"type": "text", "text": words}
                words = ""
            yield raw
    if words:
        yield {"type": "text", "text": words}


def _own(block: ReasoningBlock | UnknownBlock) -> dict[str, Json] | None:
    """Return thinking, or a block of Anthropic's own tools, as it wrote it; None for what another vendor wrote."""
    raw = block.raw if isinstance(block.raw, dict) else {}
    if isinstance(block, UnknownBlock):
        return raw if block.provider == PROVIDER and raw.get("type") else None
    return raw if raw.get("type") in ("thinking", "redacted_thinking") else None


def _call(block: ToolUseBlock) -> dict[str, Json]:
    return {"type": "tool_use", "id": block.tool_use_id, "name": block.name, "input": {}}


def _arguments(block: ToolUseBlock) -> dict[str, Json]:
    """Return arguments as an object, as clients expect; a model may have written something else."""
    if isinstance(block.input, dict):
        return block.input
    return {} if block.input is None else {"arguments": block.input}


def _stop(spoken: AnswerView) -> dict[str, Json]:
    why = {"type": "refusal", "category": None, "explanation": None} if spoken.stop == "filter" else None
    reached = spoken.stopped_by if spoken.stop == "stop" else None
    return {"stop_reason": STOP_REASONS[spoken.stop], "stop_sequence": reached, "stop_details": why}


class MessageWriter:
    """``SseWriter`` of Anthropic's events."""

    def __init__(self, begun: AnswerView) -> None:
        self._begun = begun
        self._has_text = False
        """Whether a text block is open."""
        self._index = 0
        """The index of the open block, or of the next one."""
        self._open_call: int | None = None
        """The position of the call whose block is open."""
        self._calls = 0
        """The number of calls that were written in pieces."""
        self._thoughts = 0
        """The number of reasoning blocks that were written."""

    def begin(self) -> bytes:
        """Write the start of a message."""
        nothing: dict[str, Json] = {"content": [], "stop_reason": None, "stop_sequence": None, "stop_details": None}
        begun = {**_shell(self._begun), **nothing, "usage": usage(self._begun.usage)}
        return _event("message_start", message=begun) + _event("ping")

    def text(self, text: str, logprobs: Json = None) -> bytes:
        """Write a piece of text; the first one opens its block."""
        if not text:
            return b""
        before = b"" if self._has_text else self._end_text()
        delta = _event("content_block_delta", index=self._index, delta={"type": "text_delta", "text": text})
        if self._has_text:
            return delta
        self._has_text = True
        return (
            before
            + _event("content_block_start", index=self._index, content_block={"type": "text", "text": ""})
            + delta
        )

    def reasoning(self, block: ReasoningBlock | UnknownBlock) -> bytes:
        """Write what Anthropic's own models thought and its tools did; it must be sent back unchanged."""
        raw = _own(block)
        self._thoughts += 1
        if raw is None:
            return b""
        begun = {"type": "thinking", "thinking": "", "signature": ""} if raw["type"] == "thinking" else raw
        said = [("thinking_delta", "thinking"), ("signature_delta", "signature")] if begun is not raw else []
        deltas = [{"type": kind, name: raw[name]} for kind, name in said if raw.get(name)]
        return self._end_text() + self._block(begun, deltas)

    def call(self, piece: CallPiece) -> bytes:
        """Write a piece of a tool call; the first one opens its block."""
        written = b""
        if piece.name:
            written = self._end_text()
            self._open_call, self._calls = piece.place, self._calls + 1
            begun = {"type": "tool_use", "id": piece.call_id, "name": piece.name, "input": {}}
            written += _event("content_block_start", index=self._index, content_block=begun)
        if piece.arguments and piece.place == self._open_call:
            delta = {"type": "input_json_delta", "partial_json": piece.arguments}
            written += _event("content_block_delta", index=self._index, delta=delta)
        return written

    def _end_text(self) -> bytes:
        """Close the open block, if any."""
        if not self._has_text and self._open_call is None:
            return b""
        self._has_text, self._open_call, self._index = False, None, self._index + 1
        return _event("content_block_stop", index=self._index - 1)

    def _block(self, begun: Json, deltas: Sequence[Json]) -> bytes:
        """Write a whole block."""
        index, self._index = self._index, self._index + 1
        return b"".join(
            [
                _event("content_block_start", index=index, content_block=begun),
                *(_event("content_block_delta", index=index, delta=delta) for delta in deltas),
                _event("content_block_stop", index=index),
            ]
        )

    def end(self, spoken: AnswerView) -> bytes:
        """Write the end of the text, the remaining tool calls, the stop reason and the usage."""
        out, thoughts, calls = [self._end_text()], 0, 0
        for block in spoken.blocks:
            if isinstance(block, ReasoningBlock | UnknownBlock):  # what led only to calls was not written yet
                thoughts += 1
                out.append(self.reasoning(block) if thoughts > self._thoughts else b"")
            elif isinstance(block, ToolUseBlock) and (calls := calls + 1) > self._calls:
                delta = {"type": "input_json_delta", "partial_json": _encode(_arguments(block)).decode()}
                out.append(self._block(_call(block), [delta]))
        out += [_event("message_delta", delta=_stop(spoken), usage=usage(spoken.usage)), _event("message_stop")]
        return b"".join(out)

    def fail(self, problem: Problem, status: int, said: Mapping[str, Json]) -> bytes:
        """Write a final error event."""
        body = error(problem, status, said, _named("req_", self._begun.id))
        return _event("error", error=body["error"], request_id=body["request_id"])


def _event(kind: str, **fields: Json) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (kind.encode(), _encode({"type": kind, **fields}))
