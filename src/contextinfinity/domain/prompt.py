"""Provider requests in vendor-neutral form, and the events of a reply.

System texts come first, then messages in order, the current one last. The provider adapters translate them to each
vendor's wire format.
"""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

from contextinfinity.domain.message import Json, Message, ReasoningItem, TranscriptItem, UnknownItem
from contextinfinity.domain.turn import StepOutcome, Usage


class ToolSpec(Struct, frozen=True, kw_only=True):
    """A tool that a model may call; ``parameters`` is the JSON schema of an object."""

    name: str
    description: str
    parameters: Json


class Prompt(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One request in vendor-neutral form.

    ``markers`` are indexes into system texts and messages, numbered consecutively: the prefix that ends there is worth
    caching. ``response_format`` is a JSON schema for the answer.
    """

    system: tuple[str, ...]
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    response_format: Json = None
    markers: tuple[int, ...] = ()
    sent: Json = None
    """What a client sent besides messages: the wire ``form`` it uses, its ``system`` text and its ``tools``.

    A provider of that wire format sends these instead of ``system[0]`` and ``tools``, and each message as the client
    wrote it.
    """


SENT = "as_sent"
"""The option with a client's own parameters and headers, for a provider that uses the client's wire format."""


class RequestOptions(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Vendor-neutral request options; None or empty means the model's default."""

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    stop: tuple[str, ...] = ()
    """The answer ends before the first of these texts."""
    seed: int | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    max_output_tokens: int | None = None
    tool_choice: str | None = None
    """``auto``, ``none``, ``required``, or after a colon (``:get_weather``) the name of the one tool to call."""
    parallel_tools: bool | None = None
    """Whether the model may call several tools at once."""
    effort: str | None = None
    """The reasoning effort of a reasoning model: ``none``, ``minimal``, ``low``, ``medium``, ``high`` or similar."""
    reasoning_summary: str | None = None
    """Whether the model returns a summary of its reasoning: ``auto``, ``concise`` or ``detailed``."""
    thinking_tokens: int | None = None
    """The reasoning effort as a token budget; 0 turns reasoning off."""


class ProviderRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A prompt for a model. ``options`` are passed to the provider unchanged; ``cache_key`` names the conversation."""

    model_id: str
    prompt: Prompt
    max_output_tokens: int = 4000
    cache_key: str | None = None
    options: Json = None


class TextDelta(Struct, frozen=True, kw_only=True, tag="text", omit_defaults=True):
    """A piece of the answer's text."""

    text: str
    logprobs: Json = None
    """The log probabilities of its tokens, as the vendor sent them; None if they were not requested."""


class ReasoningDone(Struct, frozen=True, kw_only=True, tag="reasoning"):
    """A complete item that is not text or a call: reasoning, or what a tool of the vendor did."""

    item: ReasoningItem | UnknownItem


class CallPiece(Struct, frozen=True, kw_only=True, tag="call_piece", omit_defaults=True):
    """A piece of a tool call: the first piece of a call names it, later ones extend its arguments."""

    place: int
    """Identifies the call within the answer; later calls have larger numbers."""
    call_id: str = ""
    name: str = ""
    arguments: str = ""


class Retry(Struct, frozen=True, kw_only=True, tag="retry"):
    """The provider failed to answer; the request is retried after a delay."""

    attempt: int
    reason: str
    wait_seconds: float


class Finished(Struct, frozen=True, kw_only=True, tag="finished"):
    """The end of a reply: the outcome, all items, and the usage. ``response`` is the raw reply."""

    outcome: StepOutcome
    items: tuple[TranscriptItem, ...] = ()
    usage: Usage = Usage()
    response: str | None = None


StreamedPiece: TypeAlias = TextDelta | ReasoningDone | CallPiece
"""What a reply yields while it is streamed."""

ProviderEvent: TypeAlias = StreamedPiece | Retry | Finished
