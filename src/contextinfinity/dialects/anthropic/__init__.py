"""Anthropic's Messages API, as served to its clients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from contextinfinity.dialects.anthropic import reading, writing
from contextinfinity.dialects.contract import AnswerView, IncomingRequest, RequestSize
from contextinfinity.domain.message import Json
from contextinfinity.domain.turn import Problem


class AnthropicMessages:
    """``Dialect`` of /v1/messages, with token counting and the models API."""

    counts_first = True
    shows_reasoning = True
    streams_size_errors = False
    streams_calls = True

    def read(self, body: bytes) -> IncomingRequest:
        """Parse a request for a message; raise ``InvalidInput`` if it is wrong."""
        return reading.incoming(body)

    def read_to_count(self, body: bytes) -> IncomingRequest:
        """Parse a token counting request; it may omit ``max_tokens``."""
        return reading.incoming_to_count(body)

    def counted(self, tokens: int) -> Json:
        """Write the token count of a request."""
        return {"input_tokens": tokens}

    def write_answer(self, spoken: AnswerView) -> Json:
        """Write a whole answer."""
        return writing.message(spoken)

    def writer(self, begun: AnswerView, *, with_usage: bool = True) -> writing.MessageWriter:
        """Return a writer for a streamed answer; on this API a stream always reports usage."""
        return writing.MessageWriter(begun)

    def error(self, problem: Problem, status: int, said: Mapping[str, Json], *, request_id: str | None = None) -> Json:
        """Write an error; ``request_id`` is the same as in the header ``request-id``."""
        return writing.error(problem, status, said, request_id)

    def size_error(self, size: RequestSize) -> dict[str, Json]:
        """Return the fields of the error for a request that does not fit, in Anthropic's words."""
        if size.tokens > size.limit:
            return {"message": f"prompt is too long: {size.tokens} tokens > {size.limit} maximum"}
        sizes = f"{size.tokens} + {size.answer} > {size.limit}"
        said = f"input length and `max_tokens` exceed context limit: {sizes}"
        return {"message": f"{said}, decrease input length or `max_tokens` and try again"}

    def models(self, names: Sequence[str]) -> Json:
        """Write the list of models."""
        return writing.models(names)

    def model(self, name: str) -> Json:
        """Write one model."""
        return writing.model(name)
