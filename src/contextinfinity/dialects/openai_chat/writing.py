"""Write chat completions, streams, errors and models for OpenAI's clients.

A stream is a chunk with the role, a chunk for each piece of text, the tool calls, a chunk with the finish reason, the
usage if it was requested, and ``[DONE]``. Nothing follows an error.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from contextinfinity.dialects.contract import AnswerView, RequestSize, Stop
from contextinfinity.domain.message import (
    LOGPROBS,
    REFUSAL,
    ContentBlock,
    Json,
    ReasoningBlock,
    TextBlock,
    ToolUseBlock,
    UnknownBlock,
    arguments_of,
)
from contextinfinity.domain.prompt import CallPiece
from contextinfinity.domain.turn import Problem, Usage

STOPS: dict[Stop, str] = {
    "end": "stop",
    "stop": "stop",
    "length": "length",
    "filter": "content_filter",
    "tools": "tool_calls",
}
CODES = {
    "token_needed": "invalid_api_key",
    "too_many": "rate_limit_exceeded",
    "rate_limit": "rate_limit_exceeded",
    "quota": "insufficient_quota",
    "spending_limit": "insufficient_quota",
    "size": "context_length_exceeded",
    "filter": "content_filter",
}
"""OpenAI's names for our error codes."""
NOT_FOUND = {"previous_response_id": "previous_response_not_found", "conversation": "conversation_not_found"}
"""OpenAI's error codes for parameters that name something that does not exist."""
OWNER = "contextinfinity"

_encode = msgspec.json.Encoder().encode
_DONE = b"data: [DONE]\n\n"
_BREAKS = ((b"\xc2\x85", b"\\u0085"), (b"\xe2\x80\xa8", b"\\u2028"), (b"\xe2\x80\xa9", b"\\u2029"))
"""Characters that some stream readers take for line ends, and their JSON escapes."""
_PATH = re.compile(r"([a-z_]{1,40}(?:\[\d{1,9}\]|\.[A-Za-z_]{1,40}){0,12}): ")


def write_answer(spoken: AnswerView) -> Json:
    """Write a whole answer; further answers to the same request are further choices."""
    choices = [_choice(index, one) for index, one in enumerate((spoken, *spoken.others))]
    return {**_shell(spoken, "chat.completion"), "choices": choices, "usage": usage(used(spoken))}


def _choice(index: int, spoken: AnswerView) -> Json:
    message: dict[str, Json] = {
        "role": "assistant",
        "content": _words(spoken.blocks, refusing=False),
        "refusal": _words(spoken.blocks, refusing=True),
        "annotations": [],
    }
    if calls := _calls(spoken.blocks):
        message["tool_calls"] = [_call(call) for call in calls]
    elif message["content"] is None and message["refusal"] is None:
        message["content"] = ""
    return {"index": index, "message": message, "logprobs": logprobs(spoken.blocks), "finish_reason": _finish(spoken)}


def used(spoken: AnswerView) -> Usage:
    """Add up what all choices took."""
    return sum((one.usage for one in spoken.others), spoken.usage)


class ChatWriter:
    """``SseWriter`` of a chat completion. Everything but the text is encoded once, at the start."""

    def __init__(self, begun: AnswerView, *, with_usage: bool) -> None:
        self._shell = _shell(begun, "chat.completion.chunk")
        self._with_usage = with_usage
        self._called_at: dict[int, int] = {}
        """The index of each streamed call, by its position."""
        uncounted = {**self._shell, "usage": None} if with_usage else self._shell
        self._front = b"data: " + _encode(uncounted)[:-1] + b',"choices":[{"index":'
        self._choice = 0

    def begin(self) -> bytes:
        """Write the chunk with the role."""
        return self._chunk(_encode({"role": "assistant", "content": "", "refusal": None}))

    def text(self, text: str, logprobs: Json = None) -> bytes:
        """Write a piece of text, with the log probabilities of its tokens if there are any."""
        return self._chunk(b'{"content":' + _encode(text) + b"}", logprobs=logprobs) if text else b""

    def reasoning(self, block: ReasoningBlock | UnknownBlock) -> bytes:
        """Return nothing: reasoning is not shown."""
        return b""

    def call(self, piece: CallPiece) -> bytes:
        """Write a piece of a tool call."""
        if piece.place not in self._called_at:
            self._called_at[piece.place] = len(self._called_at)
        index, written = self._called_at[piece.place], b""
        if piece.name:
            function = {"name": piece.name, "arguments": ""}
            begun = {"index": index, "id": piece.call_id, "type": "function", "function": function}
            written = self._chunk(_encode({"tool_calls": [begun]}))
        if piece.arguments:
            more = {"index": index, "function": {"arguments": piece.arguments}}
            written += self._chunk(_encode({"tool_calls": [more]}))
        return written

    def end(self, spoken: AnswerView) -> bytes:
        """Write the remaining tool calls, the finish reason, the further choices and the usage of all."""
        written = [self._ended(spoken)]
        for self._choice, other in enumerate(spoken.others, start=1):
            self._called_at = {}
            said = self.text(_words(other.blocks, refusing=False) or "", logprobs(other.blocks))
            refused = _words(other.blocks, refusing=True)
            declined = self._chunk(_encode({"refusal": refused})) if refused else b""
            written += [self.begin(), said, declined, self._ended(other)]
        if self._with_usage:
            written.append(_event({**self._shell, "choices": [], "usage": usage(used(spoken))}))
        return b"".join([*written, _DONE])

    def _ended(self, spoken: AnswerView) -> bytes:
        """Write the tool calls that were not streamed and the finish reason."""
        calls = [*enumerate(_calls(spoken.blocks))][len(self._called_at) :]
        written = [self._called(place, call) for place, call in calls]
        written.append(self._chunk(b"{}", _encode(_finish(spoken))))
        return b"".join(written)

    def fail(self, problem: Problem, status: int, said: Mapping[str, Json]) -> bytes:
        """Write a final error event."""
        return _event(error(problem, status, said))

    def _called(self, place: int, call: ToolUseBlock) -> bytes:
        """Write a whole call in two chunks: the tool, then its arguments."""
        body = _call(call)
        function = body["function"]
        begun = {"index": place, **body, "function": {**function, "arguments": ""}}
        rest = {"index": place, "function": {"arguments": function["arguments"]}}
        return b"".join([self._chunk(_encode({"tool_calls": [piece]})) for piece in (begun, rest)])

    def _chunk(self, delta: bytes, finish: bytes = b"null", logprobs: Json = None) -> bytes:
        written = b"null" if logprobs is None else _encode(logprobs)
        body = (self._front, self._choice, delta, written, finish)
        return unbroken(b'%b%d,"delta":%b,"logprobs":%b,"finish_reason":%b}]}\n\n' % body)


def error(problem: Problem, status: int, said: Mapping[str, Json]) -> Json:
    """Write an error. If its message starts with a path and a colon, that is the parameter."""
    path = _PATH.match(problem.message) if problem.code in ("invalid_input", "not_found") else None
    body = {
        "message": f"{problem.message} {problem.hint}".rstrip(),
        "type": _error_type(problem.code, status),
        "param": path[1] if path else None,
        "code": NOT_FOUND.get(path[1] if path else "") or CODES.get(problem.code, problem.code),
    }
    return {"error": {**body, **said}}


def size_error(size: RequestSize) -> dict[str, Json]:
    """Return the fields of the error for a request that does not fit."""
    said = f"This model's maximum context length is {size.limit} tokens. However, "
    if size.tokens <= size.limit:
        parts = f"{size.tokens} in the messages, {size.answer} in the completion"
        said += f"you requested {size.tokens + size.answer} tokens ({parts})."
        return {"message": f"{said} Please reduce the length of the messages or completion.", "param": "messages"}
    said += f"your messages resulted in {size.tokens} tokens"
    if size.tools:
        said += f" ({size.tokens - size.tools} in the messages, {size.tools} in the functions)"
    functions = " or functions" if size.tools else ""
    return {"message": f"{said}. Please reduce the length of the messages{functions}.", "param": "messages"}


def models(names: Sequence[str]) -> Json:
    """Write the list of models."""
    return {"object": "list", "data": [model(name) for name in names]}


def model(name: str) -> Json:
    """Write one model; its creation time is unknown."""
    return {"id": name, "object": "model", "created": 0, "owned_by": OWNER}


def _shell(spoken: AnswerView, kind: str) -> dict[str, Json]:
    made = int(spoken.created_at.timestamp())
    shell = {"id": f"chatcmpl-{spoken.id}", "object": kind, "created": made, "model": spoken.model}
    return {**shell, "system_fingerprint": None}


def _words(blocks: Iterable[ContentBlock], *, refusing: bool) -> str | None:
    texts = [block.text for block in blocks if isinstance(block, TextBlock) and _refuses(block) is refusing]
    return "".join(texts) or None


def logprobs(blocks: Iterable[ContentBlock]) -> Json:
    """Return the log probabilities that the vendor sent with the answer, or None."""
    marks = (mark for block in blocks if isinstance(block, TextBlock) for mark in block.annotations)
    found = (mark for mark in marks if isinstance(mark, dict) and mark.get("type") == LOGPROBS)
    return next(({key: each for key, each in mark.items() if key != "type"} for mark in found), None)


def _refuses(block: TextBlock) -> bool:
    return REFUSAL in block.annotations


def _calls(blocks: Iterable[ContentBlock]) -> list[ToolUseBlock]:
    return [block for block in blocks if isinstance(block, ToolUseBlock)]


def _call(call: ToolUseBlock) -> dict[str, Json]:
    return {
        "id": call.tool_use_id,
        "type": "function",
        "function": {"name": call.name, "arguments": _arguments(call.input)},
    }


def _arguments(arguments: Json) -> str:
    """Write arguments as the model did: text that is not JSON stays unchanged, so parsing restores it."""
    if isinstance(arguments, str) and arguments_of(arguments) == arguments:
        return arguments
    return "{}" if arguments is None else _encode(arguments).decode()


def _finish(spoken: AnswerView) -> str:
    """Return the finish reason; clients run tools only if it says so."""
    waits = spoken.stop == "end" and _calls(spoken.blocks)
    return STOPS["tools" if waits else spoken.stop]


def usage(used: Usage) -> Json:
    """Write the usage."""
    return {
        "prompt_tokens": used.input_tokens,
        "completion_tokens": used.output_tokens,
        "total_tokens": used.input_tokens + used.output_tokens,
        "prompt_tokens_details": {"cached_tokens": used.cached_tokens},
    }


def _error_type(code: str, status: int) -> str:
    if code in ("quota", "spending_limit"):
        return "insufficient_quota"
    if status == 429:
        return "requests"
    return "server_error" if status >= 500 else "invalid_request_error"


def _event(value: Json) -> bytes:
    return unbroken(b"data: " + _encode(value) + b"\n\n")


def unbroken(written: bytes) -> bytes:
    """Escape characters that some stream readers take for line ends."""
    for sign, escaped in _BREAKS:
        written = written.replace(sign, escaped)
    return written
