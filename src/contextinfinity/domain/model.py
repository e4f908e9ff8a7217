"""What a model can do, and what it costs."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from contextinfinity.domain.turn import Usage

PER_TOKENS = 1_000_000


class Prices(Struct, frozen=True, kw_only=True):
    """US dollars for a million tokens; ``None`` where a price is as ``input``."""

    input: float
    output: float
    cached: float | None = None
    """Of input that was read from the provider's cache."""
    cache_write: float | None = None
    """Of input that was written to it."""


class Guidance(Struct, frozen=True, kw_only=True):
    """How a model can be told to answer. The defaults hold for most models that ever were."""

    sampling: bool = True
    """It takes a temperature and the like."""
    stop: bool = True
    """It takes texts at which to stop."""
    forced_tools: bool = True
    """It can be made to call a tool."""
    efforts: tuple[str, ...] = ()
    """How much it can be told to think, the least first; ``none``: not at all. Empty: nobody said."""
    thinking: Literal["budget", "adaptive"] = "budget"
    """Whether it is given a number of tokens to think with, or finds it itself (``efforts`` may steer it)."""
    unthinking: Literal["disabled", "between_tools", ""] = "disabled"
    """How a request turns thinking off; empty: it cannot be turned off."""


class Abilities(Struct, frozen=True, kw_only=True):
    """What may be asked of a model. The defaults are safe for one that nobody knows."""

    context_limit: int = 8192
    """Tokens that a request and its answer may take together."""
    max_output_tokens: int = 4096
    tools: bool = True
    images: bool = False
    reasoning: bool = False
    one_system: bool = False
    """It takes a single system message."""
    min_cache_tokens: int = 1024
    """Shorter prefixes are not cached."""
    encoding: str | None = None
    """The name of its tokenizer, where that is known and public."""
    prices: Prices | None = None
    guidance: Guidance = Guidance()
    known: bool = False
    """Whether this was looked up, or is the safe default."""


def cost(prices: Prices | None, usage: Usage, cache_write_tokens: int = 0) -> float | None:
    """Tell what a request cost in US dollars; None where the prices are unknown."""
    if prices is None:
        return None
    cached = prices.input if prices.cached is None else prices.cached
    written = prices.input if prices.cache_write is None else prices.cache_write
    fresh = usage.input_tokens - usage.cached_tokens - cache_write_tokens
    spent = fresh * prices.input + usage.cached_tokens * cached + cache_write_tokens * written
    return (spent + usage.output_tokens * prices.output) / PER_TOKENS
