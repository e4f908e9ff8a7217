"""What every dialect can do: read what a vendor's client asks for, and write answers as that client expects them.

A dialect knows nothing of threads, models or sockets: all of it can be tried without a server.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Literal, Protocol, TypeAlias

from msgspec import Struct

from contextinfinity.domain.ids import TurnId
from contextinfinity.domain.message import ContentBlock, Json, Message, ReasoningBlock
from contextinfinity.domain.prompt import CallPiece, RequestOptions, ToolSpec
from contextinfinity.domain.turn import Problem, Usage

Stop: TypeAlias = Literal["end", "length", "filter", "tools", "stop"]
"""Why an answer ended; ``stop``: one of the texts was reached that the client named."""


class IncomingRequest(Struct, frozen=True, kw_only=True):
    """What a vendor's client asks for, in our terms."""

    model: str
    messages: tuple[Message, ...]
    """As they were sent, in their order, behind the first system texts. Results of tools are said by the user."""
    system: str = ""
    """The system texts in front of the first message, one paragraph each."""
    tools: tuple[ToolSpec, ...] = ()
    wishes: RequestOptions = RequestOptions()
    response_format: Json = None
    """A JSON schema that the answer has to follow."""
    stream: bool = False
    with_usage: bool = False
    """Whether a stream is to tell at its end what it took."""
    end_user: str = ""
    """Who speaks, as the application calls them."""
    thread_id: str | None = None
    follows: TurnId | None = None
    """The turn that the messages go on from."""
    appends: bool = False
    """Whether all messages are new: they follow ``follows``, or what is said last in ``thread_id``."""
    keeps: dict[str, Json] = {}
    """What is kept with the turn, as its metadata."""
    ignored: tuple[str, ...] = ()
    """Parameters that were asked for and mean nothing to a model of another vendor."""
    unsupported: tuple[tuple[str, str], ...] = ()
    """Parameters without which the answer would be another one, and why another vendor's model cannot follow them."""
    form: str = ""
    """The wire form that its client speaks (``domain.sent_form``)."""
    sent: Json = None
    """Its system text and its tools, as they were sent."""
    params: Json = None
    """All other parameters, as they were sent."""
    choices: int = 1
    """How many answers are asked for."""


class AnswerView(Struct, frozen=True, kw_only=True):
    """An answer, or as much of one as is known when it begins."""

    id: str
    model: str
    """As the client named it."""
    created_at: datetime
    blocks: tuple[ContentBlock, ...] = ()
    """Words and calls of tools, in order; with what the model thought for dialects that show it."""
    ended_at: datetime | None = None
    stop: Stop = "end"
    stopped_by: str | None = None
    """The text that was reached, where it is known."""
    usage: Usage = Usage()


class SseWriter(Protocol):
    """Writes one answer as a stream of server-sent events, in bytes as they go out."""

    def begin(self) -> bytes:
        """Write what comes before the first word."""
        ...

    def text(self, text: str) -> bytes:
        """Write a piece of the answer's text."""
        ...

    def reasoning(self, block: ReasoningBlock) -> bytes:
        """Write what the model thought, before the text that it led to; called where ``shows_reasoning`` is set."""
        ...

    def call(self, piece: CallPiece) -> bytes:
        """Write a piece of a tool call; called where ``streams_calls`` is set."""
        ...

    def end(self, spoken: AnswerView) -> bytes:
        """Write what follows the last word: calls of tools that were not written in pieces, why it ended, what it took.

        Text that ``spoken`` holds has been written by then, piece by piece.
        """
        ...

    def fail(self, problem: Problem, status: int) -> bytes:
        """Write that nothing more comes, and why."""
        ...


class Dialect(Protocol):
    """One vendor's way to be asked and to answer."""

    counts_first: bool
    """Whether a stream says at its beginning how large the request was."""
    streams_calls: bool
    """Whether a stream writes tool calls piece by piece."""
    shows_reasoning: bool
    """Whether an answer has to hold the model's reasoning."""

    def read(self, body: bytes) -> IncomingRequest:
        """Read a request; ``InvalidInput`` names what is wrong with it, where, and what would be right."""
        ...

    def whole(self, spoken: AnswerView) -> Json:
        """Write an answer in one piece."""
        ...

    def writer(self, begun: AnswerView, *, with_usage: bool) -> SseWriter:
        """Begin to write an answer piece by piece."""
        ...

    def error(self, problem: Problem, status: int) -> Json:
        """Write what went wrong, for a status of HTTP."""
        ...

    def models(self, names: Sequence[str]) -> Json:
        """Write the list of models."""
        ...
