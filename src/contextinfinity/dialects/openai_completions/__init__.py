"""OpenAI's legacy completions: each prompt becomes a user message, and the answer is the completion."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
from msgspec.structs import replace

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
    whole_number,
)
from contextinfinity.domain.message import Json, ReasoningBlock, TextBlock, UnknownBlock, say
from contextinfinity.domain.prompt import CallPiece
from contextinfinity.domain.turn import Problem

MOST_ANSWERS = 20
"""The number of prompts times ``n``."""
MOST_LOGPROBS = 5
NOT_OF_CHAT = frozenset({"prompt", "suffix", "echo", "best_of", "logprobs"})
_encode = msgspec.json.Encoder().encode


class OpenAICompletions:
    """``Dialect`` of one request to /v1/completions."""

    counts_first = False
    shows_reasoning = False
    streams_size_errors = False
    streams_calls = False

    def __init__(self) -> None:
        self._echoed: tuple[str, ...] = ()
        """The prompts that precede their completions, if the client wants them repeated."""

    def read(self, body: bytes) -> IncomingRequest:
        """Parse a request; raise ``InvalidInput`` with the location, the problem and the fix."""
        asked = body_object(body)
        try:
            prompts = field(asked, "prompt", _prompts)
            chances = optional(asked, "logprobs", whole_number(0, MOST_LOGPROBS))
            self._echoed = prompts if optional(asked, "echo", a_flag) else ()
            _check_supported(asked, len(prompts), has_logprobs=chances is not None)
            optional(asked, "stream", a_flag)
        except InvalidValue as wrong:
            raise wrong.error() from None
        others = {name: value for name, value in asked.items() if name not in NOT_OF_CHAT}
        if chances is not None:
            others |= {"logprobs": True} | ({"top_logprobs": chances} if chances else {})
        incoming = reading.read(_encode({**others, "messages": [{"role": "user", "content": prompts[0]}]}))
        return replace(incoming, more_prompts=tuple(say("user", prompt) for prompt in prompts[1:]))

    def write_answer(self, spoken: AnswerView) -> Json:
        """Write a whole answer: the choices of each prompt in turn."""
        answers = (spoken, *spoken.others)
        choices = [
            _choice(place, self.echo(place, len(answers)) + _text(one), _finish(one), chat.logprobs(one.blocks))
            for place, one in enumerate(answers)
        ]
        return {**_shell(spoken), "choices": choices, "usage": chat.usage(chat.used(spoken))}

    def echo(self, place: int, count: int) -> str:
        """Return what precedes the text of one of ``count`` choices."""
        return self._echoed[place * len(self._echoed) // count] if self._echoed else ""

    def writer(self, begun: AnswerView, *, with_usage: bool) -> SseWriter:
        """Return a writer for a streamed answer."""
        return CompletionWriter(self, begun, with_usage=with_usage)

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

    def __init__(self, dialect: OpenAICompletions, begun: AnswerView, *, with_usage: bool) -> None:
        self._dialect = dialect
        self._shell = _shell(begun)
        self._with_usage = with_usage
        self._offset = 0

    def begin(self) -> bytes:
        """Write the prompt, if it is to be repeated: the first choice is of the first prompt."""
        echoed = self._dialect.echo(0, 1)
        return self._chunk([_choice(0, echoed, None)]) if echoed else b""

    def text(self, text: str, logprobs: Json = None) -> bytes:
        """Write a piece of text."""
        if not text:
            return b""
        self._offset, start = self._offset + len(text), self._offset
        return self._chunk([_choice(0, text, None, logprobs, start)])

    def call(self, piece: CallPiece) -> bytes:
        """Return nothing: this API has no tool calls."""
        return b""

    def reasoning(self, block: ReasoningBlock | UnknownBlock) -> bytes:
        """Return nothing: reasoning is not shown."""
        return b""

    def end(self, spoken: AnswerView) -> bytes:
        """Write the finish reason, the further choices as a whole, and the usage of all."""
        written = self._chunk([_choice(0, "", _finish(spoken))])
        for place, one in enumerate(spoken.others, start=1):
            text = self._dialect.echo(place, 1 + len(spoken.others)) + _text(one)
            written += self._chunk([_choice(place, text, _finish(one), chat.logprobs(one.blocks))])
        if self._with_usage:
            written += self._chunk([], usage=chat.usage(chat.used(spoken)))
        return written + b"data: [DONE]\n\n"

    def fail(self, problem: Problem, status: int, said: Mapping[str, Json]) -> bytes:
        """Write a final error event."""
        return chat.unbroken(b"data: " + _encode(chat.error(problem, status, said)) + b"\n\n")

    def _chunk(self, choices: list[Json], **more: Json) -> bytes:
        return chat.unbroken(b"data: " + _encode({**self._shell, "choices": choices, **more}) + b"\n\n")


def _check_supported(asked: dict[str, Json], prompts: int, *, has_logprobs: bool) -> None:
    """Refuse too many answers, and what a chat model cannot do: fill a gap, rate its own answers, rate the prompt."""
    if asked.get("suffix"):
        raise InvalidValue("a text cannot be inserted before it", "Leave suffix out.").inside("suffix")
    best_of, n = (optional(asked, name, whole_number(1, 2**31)) or 1 for name in ("best_of", "n"))
    if prompts * n > MOST_ANSWERS:
        raise InvalidValue(f"at most {MOST_ANSWERS} answers, not {prompts * n}", "Send fewer prompts at once.").inside(
            "prompt"
        )
    if best_of != 1 and best_of != n:
        raise InvalidValue("answers cannot be rated", "Leave best_of out.").inside("best_of")
    if asked.get("echo") and has_logprobs:
        raise InvalidValue("the log probabilities of a prompt are not known", "Leave echo out.").inside("echo")


def _prompts(value: Json) -> tuple[str, ...]:
    """Parse a prompt, or several."""
    texts = [a_text(value)] if not isinstance(value, list) else each(value, _prompt)
    if not texts:
        raise InvalidValue("expected at least one prompt")
    if not all(texts):
        raise InvalidValue("expected a text that is not empty", "Write the prompt as a string.")
    return tuple(texts)


def _prompt(value: Json) -> str:
    if isinstance(value, int | list):
        raise InvalidValue("token ids are not supported", "Write the prompt as a string.")
    return a_text(value)


def _shell(spoken: AnswerView) -> dict[str, Json]:
    made = int(spoken.created_at.timestamp())
    return {"id": f"cmpl-{spoken.id}", "object": "text_completion", "created": made, "model": spoken.model}


def _choice(place: int, text: str, finish: str | None, logprobs: Json = None, offset: int = 0) -> Json:
    chances = None if logprobs is None else _logprobs(logprobs, offset)
    return {"index": place, "text": text, "logprobs": chances, "finish_reason": finish}


def _logprobs(logprobs: Json, offset: int) -> Json:
    """Convert the log probabilities of a chat completion; ``offset`` is the place of the first token in the text."""
    tokens = logprobs.get("content") or []
    offsets = []
    for one in tokens:
        offsets.append(offset)
        offset += len(one["token"])
    tops = [{top["token"]: top["logprob"] for top in one.get("top_logprobs") or ()} for one in tokens]
    return {
        "tokens": [one["token"] for one in tokens],
        "token_logprobs": [one["logprob"] for one in tokens],
        "top_logprobs": tops if any(tops) else None,
        "text_offset": offsets,
    }


def _text(spoken: AnswerView) -> str:
    return "".join(block.text for block in spoken.blocks if isinstance(block, TextBlock))


def _finish(spoken: AnswerView) -> str:
    return {"length": "length", "filter": "content_filter"}.get(spoken.stop, "stop")
