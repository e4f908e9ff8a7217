"""The abilities and prices of a model."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from contextinfinity.domain.turn import Usage

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
