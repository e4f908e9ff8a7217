"""Chat completions as OpenAI's clients speak them, with the lists of models and the vectors that go with them."""

from __future__ import annotations

from collections.abc import Sequence

from contextinfinity.dialects.contract import AnswerView, IncomingRequest, SseWriter
from contextinfinity.dialects.openai_chat import reading, writing
from contextinfinity.dialects.openai_chat.embeddings import EmbeddingsRequest, read_embeddings, write_embeddings
from contextinfinity.dialects.openai_chat.writing import several
from contextinfinity.domain.message import Json
from contextinfinity.domain.turn import Problem


class OpenAIChat:
    """``Dialect`` of chat completions."""

    counts_first = False
    shows_reasoning = False
    streams_calls = True

    def read(self, body: bytes) -> IncomingRequest:
        """Read a request; ``InvalidInput`` names what is wrong with it, where, and what would be right."""
        return reading.read(body)

    def whole(self, spoken: AnswerView) -> Json:
        """Write an answer in one piece."""
        return writing.whole(spoken)

    def writer(self, begun: AnswerView, *, with_usage: bool) -> SseWriter:
        """Begin to write an answer piece by piece."""
        return writing.ChatWriter(begun, with_usage=with_usage)

    def error(self, problem: Problem, status: int) -> Json:
        """Write what went wrong, for a status of HTTP."""
        return writing.error(problem, status)

    def models(self, names: Sequence[str]) -> Json:
        """Write the list of models."""
        return writing.models(names)

    def model(self, name: str) -> Json:
        """Write one model of the list."""
        return writing.model(name)


__all__ = ["EmbeddingsRequest", "OpenAIChat", "read_embeddings", "several", "write_embeddings"]
