"""The abilities and prices of a model.

Provider requests in vendor-neutral form, and the events of a reply.

System texts come first, then messages in order, the current one last. The provider adapters translate them to each
vendor's wire format.

The prompt section of a workspace: files and symbols in cache tiers.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from contextinfinity.domain.message import Json, Message, ReasoningItem, TranscriptItem, UnknownItem, say
from contextinfinity.domain.turn import StepOutcome, Usage

PER_TOKENS = 1_000_000


class Prices(Struct, frozen=True, kw_only=True):
    """US dollars per million tokens; a price that is ``None`` equals ``input``."""

    input: float
    output: float
    cached: float | None = None
    """The price of input read from the provider's cache."""
    cache_write: float | None = None
    """The price of input written to that cache."""


class Guidance(Struct, frozen=True, kw_only=True):
    """The request options that a model accepts. The defaults are right for most models."""

    sampling: bool = True
    """Whether it accepts sampling options such as a temperature."""
    stop: bool = True
    """Whether it accepts stop sequences."""
    forced_tools: bool = True
    """Whether a tool call can be forced."""
    efforts: tuple[str, ...] = ()
    """The reasoning efforts it accepts, lowest first; ``none`` turns reasoning off. Empty: unknown."""
    prefill: bool = False
    """Whether it continues an answer that the request begins."""
    thinking: Literal["budget", "adaptive"] = "budget"
    """Whether reasoning has a token budget, or is adaptive (optionally controlled by ``efforts``)."""
    unthinking: Literal["disabled", "between_tools", ""] = "disabled"
    """How a request turns thinking off; empty: it cannot be turned off."""


class Abilities(Struct, frozen=True, kw_only=True):
    """The capabilities of a model. The defaults are safe for an unknown model."""

    context_limit: int = 8192
    """The context window: the tokens of a request and its answer together."""
    max_output_tokens: int = 4096
    tools: bool = True
    images: bool = False
    files: bool = False
    """Whether it reads PDFs in messages."""
    reasoning: bool = False
    one_system: bool = False
    """Whether it accepts only one system message."""
    min_cache_tokens: int = 1024
    """The minimum number of tokens of a prefix that is cached."""
    encoding: str | None = None
    """The name of its tokenizer, if that is known and public."""
    prices: Prices | None = None
    guidance: Guidance = Guidance()
    known: bool = False
    """Whether the model was found in the catalogue; otherwise these are the safe defaults."""


def cost(prices: Prices | None, usage: Usage, cache_write_tokens: int = 0) -> float | None:
    """Return the cost of a request in US dollars, or None if the prices are unknown."""
    if prices is None:
        return None
    cached = prices.input if prices.cached is None else prices.cached
    written = prices.input if prices.cache_write is None else prices.cache_write
    fresh = usage.input_tokens - usage.cached_tokens - cache_write_tokens
    spent = fresh * prices.input + usage.cached_tokens * cached + cache_write_tokens * written
    return (spent + usage.output_tokens * prices.output) / PER_TOKENS


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


class WorkspaceText(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The prompt section of a workspace. Rarely changing parts come first, so that a prompt cache keeps them."""

    system: str = ""
    """Tier L0: the last system text."""
    tiers: tuple[tuple[Message, ...], ...] = ()
    """Tiers L1 to L3: each a pair of messages, or nothing."""
    context: tuple[Message, ...] = ()
    """The file tree, fetched pages and working files, behind the tiers."""
    history_to: int = 0
    """The last turn in tier L3, before ``context``; later turns follow it."""
    matches: tuple[Message, ...] = ()
    """The definitions that match the message, right before it."""
    files: tuple[str, ...] = ()
    """Each open file as it is written above: its path, a line break, and its fenced text. These may be left out."""

    def without(self, paths: Collection[str]) -> WorkspaceText:
        """Return the section with a line in the place of each of these files."""
        system, tiers, context = self.system, self.tiers, self.context
        for block in self.files:
            if (path := path_of(block)) in paths:
                change = f"\n\n{block}", f"\n\n{path}: left out, the prompt was too large."
                system = system.replace(*change, 1)
                tiers = tuple(_replaced(tier, change) for tier in tiers)
                context = _replaced(context, change)
        files = tuple(block for block in self.files if path_of(block) not in paths)
        return replace(self, system=system, tiers=tiers, context=context, files=files)


def path_of(block: str) -> str:
    """Return the path of a file as it is written in a prompt."""
    return block.partition("\n")[0]


def _replaced(messages: tuple[Message, ...], change: tuple[str, str]) -> tuple[Message, ...]:
    return tuple(say(message.role, message.rendered_text.replace(*change, 1)) for message in messages)
