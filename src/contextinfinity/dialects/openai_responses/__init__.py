"""OpenAI's Responses API, as served to its clients: requests, responses, event streams, conversation items."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from contextinfinity.dialects.contract import AnswerView, IncomingRequest, RequestSize, SseWriter
from contextinfinity.dialects.openai_chat import writing as chat
from contextinfinity.dialects.openai_responses import reading, writing
from contextinfinity.dialects.openai_responses.writing import ResponseWriter
from contextinfinity.domain.message import Json
from contextinfinity.domain.turn import Problem


class OpenAIResponses:
    """``Dialect`` of one request to /v1/responses; ``after`` is the number of the last event that the client has."""

    counts_first = False
    shows_reasoning = True
    streams_size_errors = True
    streams_calls = True

    def __init__(self, shown: writing.ResponseView, *, after: int = -1) -> None:
        self._shown = shown
        self._after = after

    def read(self, body: bytes) -> IncomingRequest:
        """Parse a request; raise ``InvalidInput`` with the location, the problem and the fix."""
        return reading.read(body).incoming

    def write_answer(self, spoken: AnswerView) -> Json:
        """Write a whole answer."""
        return writing.ended(spoken, self._shown)

    def writer(self, begun: AnswerView, *, with_usage: bool) -> SseWriter:
        """Return a writer for a streamed answer."""
        return ResponseWriter(begun, self._shown, after=self._after)

    def error(self, problem: Problem, status: int, said: Mapping[str, Json]) -> Json:
        """Write an error for an HTTP status; ``said`` has the fields that the vendor would write."""
        return chat.error(problem, status, said)

    def size_error(self, size: RequestSize) -> dict[str, Json]:
        """Return the fields of the error for a request that does not fit, in OpenAI's words, which name no sizes."""
        said = "Your input exceeds the context window of this model. Please adjust your input and try again."
        return {"message": said, "type": "invalid_request_error", "param": "input"}

    def models(self, names: Sequence[str]) -> Json:
        """Write the list of models."""
        return chat.models(names)
