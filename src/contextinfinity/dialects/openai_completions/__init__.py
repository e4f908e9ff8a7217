"""OpenAI's legacy completions: each prompt becomes a user message, and the answer is the completion."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from contextinfinity.dialects.contract import AnswerView, IncomingRequest, RequestSize, SseWriter
from contextinfinity.dialects.openai_chat import reading
from contextinfinity.dialects.openai_chat import writing as chat
from contextinfinity.dialects.openai_chat.value_checks import (
    InvalidValue,
    a_flag,
    a_text,
    body_object,
    each,
    field,
    optional,
)
from contextinfinity.domain.message import Json, ReasoningBlock, TextBlock, UnknownBlock
from contextinfinity.domain.prompt import CallPiece
from contextinfinity.domain.turn import Problem

NOT_OF_CHAT = frozenset({"prompt", "suffix", "echo", "best_of", "logprobs"})
_encode = msgspec.json.Encoder().encode


class OpenAICompletions:
    """``Dialect`` of /v1/completions."""

    counts_first = False
    shows_reasoning = False
    streams_size_errors = False
    streams_calls = False

    def read(self, body: bytes) -> IncomingRequest:
        """Parse a request; raise ``InvalidInput`` with the location, the problem and the fix."""
        asked = body_object(body)
        try:
            prompt = field(asked, "prompt", _prompt)
            for name, plain in (("echo", False), ("best_of", 1), ("logprobs", 0), ("suffix", ""), ("n", 1)):
                if asked.get(name) not in (None, plain):
                    raise InvalidValue("it is not supported", f"Leave {name} out.").inside(name)
            optional(asked, "stream", a_flag)
        except InvalidValue as wrong:
            raise wrong.error() from None
        others = {name: value for name, value in asked.items() if name not in NOT_OF_CHAT}
        return reading.read(_encode({**others, "messages": [{"role": "user", "content": prompt}]}))

    def write_answer(self, spoken: AnswerView) -> Json:
        """Write a whole answer."""
        return {
            **_shell(spoken),
            "choices": [_choice(_text(spoken), _finish(spoken))],
            "usage": chat.usage(spoken.usage),
        }

    def writer(self, begun: AnswerView, *, with_usage: bool) -> SseWriter:
        """Return a writer for a streamed answer."""
        return CompletionWriter(begun, with_usage=with_usage)

    def error(self, problem: Problem, status: int, said: Mapping[str, Json]) -> Json:
        """Write an error for an HTTP status; ``said`` has the fields that the vendor would write."""
        return chat.error(problem, status, said)

    def size_error(self, size: RequestSize) -> dict[str, Json]:
        """Return the fields of the error for a request that does not fit, in OpenAI's words."""
        return chat.size_error(size)

    def models(self, names: Sequence[str]) -> Json:
        """Write the list of models."""
        return chat.models(names)


class CompletionWriter:
    """``SseWriter`` of a completion in chunks."""

    def __init__(self, begun: AnswerView, *, with_usage: bool) -> None:
        self._shell = _shell(begun)
        self._with_usage = with_usage

    def begin(self) -> bytes:
        """Return nothing: the first chunk contains text."""
        return b""

    def text(self, text: str, logprobs: Json = None) -> bytes:
        """Write a piece of text."""
        return self._chunk([_choice(text, None)]) if text else b""

    def call(self, piece: CallPiece) -> bytes:
        """Return nothing: this API has no tool calls."""
        return b""

    def reasoning(self, block: ReasoningBlock | UnknownBlock) -> bytes:
        """Return nothing: reasoning is not shown."""
        return b""

    def end(self, spoken: AnswerView) -> bytes:
        """Write the finish reason and the usage."""
        written = self._chunk([_choice("", _finish(spoken))])
        if self._with_usage:
            written += self._chunk([], usage=chat.usage(spoken.usage))
        return written + b"data: [DONE]\n\n"

    def fail(self, problem: Problem, status: int, said: Mapping[str, Json]) -> bytes:
        """Write a final error event."""
        return chat.unbroken(b"data: " + _encode(chat.error(problem, status, said)) + b"\n\n")

    def _chunk(self, choices: list[Json], **more: Json) -> bytes:
        return chat.unbroken(b"data: " + _encode({**self._shell, "choices": choices, **more}) + b"\n\n")


def _prompt(value: Json) -> str:
    """Parse a prompt: a text, or a list of one text."""
    texts = [a_text(value)] if not isinstance(value, list) else each(value, a_text)
    if len(texts) != 1:
        raise InvalidValue(f"expected one prompt, got {len(texts)}", "Send one request for each prompt.")
    if not texts[0]:
        raise InvalidValue("expected a text that is not empty", "Write the prompt as a string.")
    return texts[0]


def _shell(spoken: AnswerView) -> dict[str, Json]:
    made = int(spoken.created_at.timestamp())
    return {"id": f"cmpl-{spoken.id}", "object": "text_completion", "created": made, "model": spoken.model}


def _choice(text: str, finish: str | None) -> Json:
    return {"index": 0, "text": text, "logprobs": None, "finish_reason": finish}


def _text(spoken: AnswerView) -> str:
    return "".join(block.text for block in spoken.blocks if isinstance(block, TextBlock))


def _finish(spoken: AnswerView) -> str:
    return {"length": "length", "filter": "content_filter"}.get(spoken.stop, "stop")
