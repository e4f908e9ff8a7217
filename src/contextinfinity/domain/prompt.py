"""What a provider is asked, before it has a wire form, and what comes back.

System texts first, then messages in order, the current one last. Only a provider's adapter knows how its
vendor wants to hear it.
"""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

from contextinfinity.domain.message import Json, Message, ReasoningItem, TranscriptItem
from contextinfinity.domain.turn import StepOutcome, Usage


class ToolSpec(Struct, frozen=True, kw_only=True):
    """A tool that a model may call; ``parameters`` is the JSON schema of an object."""

    name: str
    description: str
    parameters: Json


class Prompt(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One request in neutral form.

    ``markers`` are places among system texts and messages, counted through: the prefix that ends with that piece
    is worth caching. ``response_format`` is a JSON schema that the answer must follow.
    """

    system: tuple[str, ...]
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    response_format: Json = None
    markers: tuple[int, ...] = ()
    sent: Json = None
    """What a client sent besides messages, for the wire ``form`` that it speaks: its ``system`` text and its ``tools``.
    A provider of that wire writes these instead of ``system[0]`` and ``tools``, and every message as it was sent."""


SENT = "as_sent"
"""The option that holds a client's own parameters and headers, for a provider of the wire that the client speaks."""


class RequestOptions(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How whoever asks wants a model to answer, in no vendor's words; None and empty: as the model does by itself."""

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    stop: tuple[str, ...] = ()
    """Where one of these would come, the answer ends before it."""
    seed: int | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    max_output_tokens: int | None = None
    tool_choice: str | None = None
    """``auto``, ``none``, ``required``, or after a colon (``:get_weather``) the name of the one tool to call."""
    parallel_tools: bool | None = None
    """Whether several tools may be called at once."""
    effort: str | None = None
    """How much a model that thinks is to think: ``none``, ``minimal``, ``low``, ``medium``, ``high`` and the like."""
    reasoning_summary: str | None = None
    """Whether what the model thinks is told in words: ``auto``, ``concise``, ``detailed``."""
    thinking_tokens: int | None = None
    """The same as a number of tokens; 0: not at all."""


class ProviderRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A prompt for a model. ``options`` go to the provider as they are; ``cache_key`` names the conversation."""

    model_id: str
    prompt: Prompt
    max_output_tokens: int = 4000
    cache_key: str | None = None
    options: Json = None


class TextDelta(Struct, frozen=True, kw_only=True, tag="text"):
    """A piece of the answer's text."""

    text: str


class ReasoningDone(Struct, frozen=True, kw_only=True, tag="reasoning"):
    """A piece of reasoning that is complete; it comes before the text that it led to."""

    item: ReasoningItem


class CallPiece(Struct, frozen=True, kw_only=True, tag="call_piece", omit_defaults=True):
    """A piece of a tool call: the first one of a call names it, later ones add to its arguments."""

    place: int
    """Tells the calls of an answer apart; later calls have larger ones."""
    call_id: str = ""
    name: str = ""
    arguments: str = ""


class Retry(Struct, frozen=True, kw_only=True, tag="retry"):
    """The provider could not answer; it is asked again after a while."""

    attempt: int
    reason: str
    wait_seconds: float


class Finished(Struct, frozen=True, kw_only=True, tag="finished"):
    """The provider's last word: how it ended, all it said, what it cost. ``response`` is the raw reply."""

    outcome: StepOutcome
    items: tuple[TranscriptItem, ...] = ()
    usage: Usage = Usage()
    response: str | None = None


StreamedPiece: TypeAlias = TextDelta | ReasoningDone | CallPiece
"""What a reply adds while it is streamed."""

ProviderEvent: TypeAlias = StreamedPiece | Retry | Finished
