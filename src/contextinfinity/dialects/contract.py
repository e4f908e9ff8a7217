"""The contract of dialects: parse requests of a vendor's clients, and write responses for them.

A dialect knows nothing about threads, models or sockets, so it can be tested without a server.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Literal, Protocol, TypeAlias

from msgspec import Struct

from contextinfinity.domain.ids import TurnId
from contextinfinity.domain.message import ContentBlock, Json, Message, ReasoningBlock, UnknownBlock
from contextinfinity.domain.prompt import CallPiece, RequestOptions, ToolSpec
from contextinfinity.domain.turn import Problem, Usage

Stop: TypeAlias = Literal["end", "length", "filter", "tools", "stop"]
"""Why an answer ended; ``stop``: at one of the client's stop sequences."""


class IncomingRequest(Struct, frozen=True, kw_only=True):
    """A request of a vendor's client, in our terms."""

    model: str
    messages: tuple[Message, ...]
    """The messages as sent, in order, after the first system texts. Tool results are part of user messages."""
    system: str = ""
    """The system texts before the first message, one paragraph each."""
    tools: tuple[ToolSpec, ...] = ()
    request_options: RequestOptions = RequestOptions()
    response_format: Json = None
    """A JSON schema for the answer."""
    more_prompts: tuple[Message, ...] = ()
    """Further messages to answer, each a conversation of its own."""
    stream: bool = False
    background: bool = False
    """Whether the answer goes on when its client disconnects."""
    with_usage: bool = False
    """Whether a stream reports usage at its end."""
    end_user: str = ""
    """The end user, as the application names them."""
    thread_id: str | None = None
    follows: TurnId | None = None
    """The turn that the messages follow."""
    appends: bool = False
    """Whether all messages are new: they follow ``follows``, or the last turn of ``thread_id``."""
    keeps: dict[str, Json] = {}
    """Metadata to store with the turn."""
    ignored: tuple[str, ...] = ()
    """Requested parameters that have no effect on a model of another vendor."""
    option_names: dict[str, str] = {}
    """The client's names of options (fields of ``RequestOptions``) that it calls otherwise."""
    unsupported: tuple[tuple[str, str], ...] = ()
    """Parameters that change the answer and that another vendor's model cannot follow, with the reason."""
    form: str = ""
    """The wire form of the client (``domain.sent_form``)."""
    sent: Json = None
    """The client's system text and tools, as sent."""
    params: Json = None
    """All other parameters, as sent."""
    choices: int = 1
    """The number of answers requested."""


class RequestSize(Struct, frozen=True, kw_only=True):
    """The size of a request that does not fit, in tokens."""

    tokens: int
    limit: int
    """The model's window."""
    tools: int = 0
    """The part of ``tokens`` that the tools take."""
    answer: int = 0
    """What the window has to leave for the answer."""


class AnswerView(Struct, frozen=True, kw_only=True):
    """An answer, or what is known of it when it starts."""

    id: str
    model: str
    """The name that the client used."""
    created_at: datetime
    blocks: tuple[ContentBlock, ...] = ()
    """Text and tool calls in order; with reasoning and items of a vendor's own tools for dialects that show them."""
    ended_at: datetime | None = None
    stop: Stop = "end"
    stopped_by: str | None = None
    """The stop sequence that was reached, if known."""
    usage: Usage = Usage()
    others: tuple[AnswerView, ...] = ()
    """Further answers to the same request, where more than one was asked for."""


class SseWriter(Protocol):
    """Writes one answer as a stream of server-sent events."""

    def begin(self) -> bytes:
        """Write the events before the first text."""
        ...

    def text(self, text: str, logprobs: Json = None) -> bytes:
        """Write a piece of text, with the log probabilities of its tokens where the API has them."""
        ...

    def reasoning(self, block: ReasoningBlock | UnknownBlock) -> bytes:
        """Write reasoning or an item of a vendor's own tool, in order; called if ``shows_reasoning`` is set."""
        ...

    def call(self, piece: CallPiece) -> bytes:
        """Write a piece of a tool call; called if ``streams_calls`` is set."""
        ...

    def end(self, spoken: AnswerView) -> bytes:
        """Write what follows the last text: tool calls that were not streamed, the stop reason, the usage.

        The text in ``spoken`` has already been written in pieces.
        """
        ...

    def fail(self, problem: Problem, status: int, said: Mapping[str, Json]) -> bytes:
        """Write a final error event; ``said`` has the fields that the model's vendor or the client's would write."""
        ...


class Dialect(Protocol):
    """The request and response format of one vendor API."""

    counts_first: bool
    """Whether a stream reports the input tokens at its start."""
    streams_calls: bool
    """Whether a stream writes tool calls in pieces."""
    shows_reasoning: bool
    """Whether an answer must contain the model's reasoning."""
    streams_size_errors: bool
    """Whether a stream reports a request that does not fit as an event, after the status 200."""

    def read(self, body: bytes) -> IncomingRequest:
        """Parse a request; raise ``InvalidInput`` with the location, the problem and the fix."""
        ...

    def write_answer(self, spoken: AnswerView) -> Json:
        """Write a whole answer."""
        ...

    def writer(self, begun: AnswerView, *, with_usage: bool) -> SseWriter:
        """Return a writer for a streamed answer."""
        ...

    def error(self, problem: Problem, status: int, said: Mapping[str, Json]) -> Json:
        """Write an error for an HTTP status; ``said`` has the fields that the vendor would write."""
        ...

    def size_error(self, size: RequestSize) -> dict[str, Json]:
        """Return the fields of the error for a request that does not fit, in the vendor's words.

        Clients recognise the error by them.
        """
        ...

    def models(self, names: Sequence[str]) -> Json:
        """Write the list of models."""
        ...
