"""OpenAI's chat completions, models and embeddings, as served to its clients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from contextinfinity.dialects.contract import AnswerView, IncomingRequest, RequestSize, SseWriter
from contextinfinity.dialects.openai_chat import reading, writing
from contextinfinity.dialects.openai_chat.embeddings import EmbeddingsRequest, read_embeddings, write_embeddings
from contextinfinity.domain.message import Json
from contextinfinity.domain.turn import Problem


class OpenAIChat:
    """``Dialect`` of chat completions."""

    counts_first = False
    shows_reasoning = False
    streams_size_errors = False
    streams_calls = True

    def read(self, body: bytes) -> IncomingRequest:
        """Parse a request; raise ``InvalidInput`` with the location, the problem and the fix."""
        return reading.read(body)

    def write_answer(self, spoken: AnswerView) -> Json:
        """Write a whole answer."""
        return writing.write_answer(spoken)

    def writer(self, begun: AnswerView, *, with_usage: bool) -> SseWriter:
        """Return a writer for a streamed answer."""
        return writing.ChatWriter(begun, with_usage=with_usage)

    def error(self, problem: Problem, status: int, said: Mapping[str, Json]) -> Json:
        """Write an error for an HTTP status; ``said`` has the fields that the vendor would write."""
        return writing.error(problem, status, said)

    def size_error(self, size: RequestSize) -> dict[str, Json]:
        """Return the fields of the error for a request that does not fit, in OpenAI's words."""
        return writing.size_error(size)

    def models(self, names: Sequence[str]) -> Json:
        """Write the list of models."""
        return writing.models(names)

    def model(self, name: str) -> Json:
        """Write one model of the list."""
        return writing.model(name)


__all__ = ["EmbeddingsRequest", "OpenAIChat", "read_embeddings", "write_embeddings"]
