"""OpenAI's old completions: a prompt goes in, the text that follows comes out. Each prompt is a message of the user."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from contextinfinity.dialects.contract import AnswerView, IncomingRequest, SseWriter
from contextinfinity.dialects.openai_chat import reading
from contextinfinity.dialects.openai_chat import writing as chat
from contextinfinity.dialects.openai_chat.value_checks import (
    InvalidValue,
    a_flag,
    a_text,
    body_object,
    each,
    field,
    wanted,
)
from contextinfinity.domain.message import Json, ReasoningBlock, TextBlock
from contextinfinity.domain.prompt import CallPiece
from contextinfinity.domain.turn import Problem

NOT_OF_CHAT = frozenset({"prompt", "suffix", "echo", "best_of", "logprobs"})
_encode = msgspec.json.Encoder().encode


class OpenAICompletions:
    """``Dialect`` of /v1/completions."""

    counts_first = False
    shows_reasoning = False
    streams_calls = False

    def read(self, body: bytes) -> IncomingRequest:
        """Read a request; ``InvalidInput`` names what is wrong with it, where, and what would be right."""
        asked = body_object(body)
        try:
            prompt = field(asked, "prompt", _prompt)
            for name, plain in (("echo", False), ("best_of", 1), ("logprobs", 0), ("suffix", ""), ("n", 1)):
                if asked.get(name) not in (None, plain):
                    raise InvalidValue("it is not followed here", f"Leave {name} out.").inside(name)
            wanted(asked, "stream", a_flag)
        except InvalidValue as wrong:
            raise wrong.told() from None
        others = {name: value for name, value in asked.items() if name not in NOT_OF_CHAT}
        return reading.read(_encode({**others, "messages": [{"role": "user", "content": prompt}]}))

    def whole(self, spoken: AnswerView) -> Json:
        """Write an answer in one piece."""
        return {
            **_shell(spoken),
            "choices": [_choice(_text(spoken), _finish(spoken))],
            "usage": chat.usage(spoken.usage),
        }

    def writer(self, begun: AnswerView, *, with_usage: bool) -> SseWriter:
        """Begin to write an answer piece by piece."""
        return CompletionWriter(begun, with_usage=with_usage)

    def error(self, problem: Problem, status: int) -> Json:
        """Write what went wrong, for a status of HTTP."""
        return chat.error(problem, status)

    def models(self, names: Sequence[str]) -> Json:
        """Write the list of models."""
        return chat.models(names)


class CompletionWriter:
    """``SseWriter`` of a completion in chunks."""

    def __init__(self, begun: AnswerView, *, with_usage: bool) -> None:
        self._shell = _shell(begun)
        self._with_usage = with_usage

    def begin(self) -> bytes:
        """Write nothing: the first chunk has text."""
        return b""

    def text(self, text: str) -> bytes:
        """Write a piece of the text."""
        return self._chunk([_choice(text, None)]) if text else b""

    def call(self, piece: CallPiece) -> bytes:
        """Write nothing: calls are written when they are whole."""
        return b""

    def reasoning(self, block: ReasoningBlock) -> bytes:
        """Write nothing: reasoning is not shown."""
        return b""

    def end(self, spoken: AnswerView) -> bytes:
        """Write why it ended, and what it took."""
        written = self._chunk([_choice("", _finish(spoken))])
        if self._with_usage:
            written += self._chunk([], usage=chat.usage(spoken.usage))
        return written + b"data: [DONE]\n\n"

    def fail(self, problem: Problem, status: int) -> bytes:
        """Write that nothing more comes, and why."""
        return chat.unbroken(b"data: " + _encode(chat.error(problem, status)) + b"\n\n")

    def _chunk(self, choices: list[Json], **more: Json) -> bytes:
        return chat.unbroken(b"data: " + _encode({**self._shell, "choices": choices, **more}) + b"\n\n")


def _prompt(value: Json) -> str:
    """Read a prompt: a text, or a list of one text."""
    texts = [a_text(value)] if not isinstance(value, list) else each(value, a_text)
    if len(texts) != 1 or not texts[0]:
        raise InvalidValue(f"expected one prompt that is not empty, got {len(texts)}", "Ask for each on its own.")
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
