"""Answers as OpenAI writes them: a chat completion in one piece, or as a stream of chunks; errors; lists of models.

A stream is a chunk that says who speaks, a chunk for each piece of text, the calls of tools, a chunk that says why it
ended, the count of tokens where it was asked for, and ``[DONE]``. After an error nothing comes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import msgspec

from contextinfinity.dialects.contract import AnswerView, Stop
from contextinfinity.domain.message import (
    REFUSAL,
    ContentBlock,
    Json,
    ReasoningBlock,
    TextBlock,
    ToolUseBlock,
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
    "size": "context_length_exceeded",
    "filter": "content_filter",
}
"""What OpenAI calls our codes, where its clients look for it."""
NOT_FOUND = {"previous_response_id": "previous_response_not_found", "conversation": "conversation_not_found"}
"""What OpenAI says of a parameter that names something that is not there."""
OWNER = "contextinfinity"

_encode = msgspec.json.Encoder().encode
_DONE = b"data: [DONE]\n\n"
_BREAKS = ((b"\xc2\x85", b"\\u0085"), (b"\xe2\x80\xa8", b"\\u2028"), (b"\xe2\x80\xa9", b"\\u2029"))
"""Signs that some readers of streams take for the end of a line, and how JSON can say them otherwise."""
_PATH = re.compile(r"([a-z_]{1,40}(?:\[\d{1,9}\]|\.[A-Za-z_]{1,40}){0,12}): ")


def whole(spoken: AnswerView) -> Json:
    """Write an answer in one piece."""
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
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _finish(spoken)}
    return {**_shell(spoken, "chat.completion"), "choices": [choice], "usage": usage(spoken.usage)}


def several(answers: Sequence[AnswerView]) -> Json:
    """Write several answers to one request as its choices."""
    told = [whole(spoken) for spoken in answers]
    choices = [{**one["choices"][0], "index": index} for index, one in enumerate(told)]
    used = Usage()
    for spoken in answers:
        used = used + spoken.usage
    return {**told[0], "choices": choices, "usage": usage(used)}


class ChatWriter:
    """``Writer`` of a chat completion in chunks. All but a piece of text is written once, when it begins."""

    def __init__(self, begun: AnswerView, *, with_usage: bool) -> None:
        self._shell = _shell(begun, "chat.completion.chunk")
        self._with_usage = with_usage
        self._called_at: dict[int, int] = {}
        """The index of each call that is written in pieces, by its place."""
        uncounted = {**self._shell, "usage": None} if with_usage else self._shell
        self._front = b"data: " + _encode(uncounted)[:-1] + b',"choices":[{"index":0,"delta":'

    def begin(self) -> bytes:
        """Write who speaks."""
        return self._chunk(_encode({"role": "assistant", "content": "", "refusal": None}))

    def text(self, text: str) -> bytes:
        """Write a piece of the answer's text."""
        return self._chunk(b'{"content":' + _encode(text) + b"}") if text else b""

    def reasoning(self, block: ReasoningBlock) -> bytes:
        """Write nothing: reasoning is not shown."""
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
        """Write calls of tools, why it ended, and what it took."""
        calls = [*enumerate(_calls(spoken.blocks))][len(self._called_at) :]
        written = [self._called(place, call) for place, call in calls]
        written.append(self._chunk(b"{}", _encode(_finish(spoken))))
        if self._with_usage:
            written.append(_event({**self._shell, "choices": [], "usage": usage(spoken.usage)}))
        return b"".join([*written, _DONE])

    def fail(self, problem: Problem, status: int) -> bytes:
        """Write that nothing more comes, and why."""
        return _event(error(problem, status))

    def _called(self, place: int, call: ToolUseBlock) -> bytes:
        """Write a call as models make it: which tool first, then its arguments."""
        told = _call(call)
        function = told["function"]
        begun = {"index": place, **told, "function": {**function, "arguments": ""}}
        rest = {"index": place, "function": {"arguments": function["arguments"]}}
        return b"".join([self._chunk(_encode({"tool_calls": [piece]})) for piece in (begun, rest)])

    def _chunk(self, delta: bytes, finish: bytes = b"null") -> bytes:
        return unbroken(self._front + delta + b',"logprobs":null,"finish_reason":' + finish + b"}]}\n\n")


def error(problem: Problem, status: int) -> Json:
    """Write what went wrong. What a message says before a colon, if it is a path, is the parameter."""
    path = _PATH.match(problem.message) if problem.code in ("invalid_input", "not_found") else None
    told = {
        "message": f"{problem.message} {problem.hint}".rstrip(),
        "type": _error_type(problem.code, status),
        "param": path[1] if path else None,
        "code": NOT_FOUND.get(path[1] if path else "") or CODES.get(problem.code, problem.code),
    }
    return {"error": told}


def models(names: Sequence[str]) -> Json:
    """Write the list of models."""
    return {"object": "list", "data": [model(name) for name in names]}


def model(name: str) -> Json:
    """Write what is known of one model; when it was made is not."""
    return {"id": name, "object": "model", "created": 0, "owned_by": OWNER}


def _shell(spoken: AnswerView, kind: str) -> dict[str, Json]:
    made = int(spoken.created_at.timestamp())
    shell = {"id": f"chatcmpl-{spoken.id}", "object": kind, "created": made, "model": spoken.model}
    return {**shell, "system_fingerprint": None}


def _words(blocks: Iterable[ContentBlock], *, refusing: bool) -> str | None:
    texts = [block.text for block in blocks if isinstance(block, TextBlock) and _refuses(block) is refusing]
    return "".join(texts) or None


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
    """Write arguments as the model did; what was no JSON is text still. Read again they are what they were."""
    if isinstance(arguments, str) and arguments_of(arguments) == arguments:
        return arguments
    return "{}" if arguments is None else _encode(arguments).decode()


def _finish(spoken: AnswerView) -> str:
    """Say why an answer ended; clients run tools only where this says so."""
    waits = spoken.stop == "end" and _calls(spoken.blocks)
    return STOPS["tools" if waits else spoken.stop]


def usage(used: Usage) -> Json:
    """Write what an answer took."""
    return {
        "prompt_tokens": used.input_tokens,
        "completion_tokens": used.output_tokens,
        "total_tokens": used.input_tokens + used.output_tokens,
        "prompt_tokens_details": {"cached_tokens": used.cached_tokens},
    }


def _error_type(code: str, status: int) -> str:
    if code == "quota":
        return "insufficient_quota"
    if status == 429:
        return "requests"
    return "server_error" if status >= 500 else "invalid_request_error"


def _event(value: Json) -> bytes:
    return unbroken(b"data: " + _encode(value) + b"\n\n")


def unbroken(written: bytes) -> bytes:
    """Escape characters that some readers of streams take for the end of a line."""
    for sign, escaped in _BREAKS:
        written = written.replace(sign, escaped)
    return written
