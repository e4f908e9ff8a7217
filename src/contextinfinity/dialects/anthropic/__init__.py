"""Anthropic's Messages API, as its clients speak it."""

from __future__ import annotations

from collections.abc import Sequence

from contextinfinity.dialects.anthropic import reading, writing
from contextinfinity.dialects.contract import AnswerView, IncomingRequest
from contextinfinity.domain.message import Json
from contextinfinity.domain.turn import Problem


class AnthropicMessages:
    """``Dialect`` of /v1/messages, and what goes with it: counting tokens, a single model."""

    counts_first = True
    shows_reasoning = True
    streams_calls = True

    def read(self, body: bytes) -> IncomingRequest:
        """Read a request for a message."""
        return reading.incoming(body)

    def read_to_count(self, body: bytes) -> IncomingRequest:
        """Read a request to count tokens: the same, but for ``max_tokens``, which it need not name."""
        return reading.incoming_to_count(body)

    def counted(self, tokens: int) -> Json:
        """Write how many tokens a request has."""
        return {"input_tokens": tokens}

    def whole(self, spoken: AnswerView) -> Json:
        """Write an answer in one piece."""
        return writing.message(spoken)

    def writer(self, begun: AnswerView, *, with_usage: bool = True) -> writing.MessageWriter:
        """Begin to write an answer piece by piece; here every answer tells what it took."""
        return writing.MessageWriter(begun)

    def error(self, problem: Problem, status: int, *, request_id: str | None = None) -> Json:
        """Write what went wrong; ``request_id`` is what the header ``request-id`` says too."""
        return writing.error(problem, status, request_id)

    def models(self, names: Sequence[str]) -> Json:
        """Write the list of models."""
        return writing.models(names)

    def model(self, name: str) -> Json:
        """Write one model."""
        return writing.model(name)
