"""What each model can do, as its vendor documents it.

A row holds for every model whose name begins with its key; the longest key wins. What config.toml says of a model
wins over its row, field by field. A model of no row gets safe defaults, and a warning says so once.

Prices are US dollars for a million tokens as the vendors published them by 2026-11-15, for the standard tier, short
prompts and a cache of the shortest life. A price that was not found is left out: the cost of a turn is then unknown,
or, for the two of the cache alone, counted like other input. A fee for each search is in no row.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, TypeVar

import msgspec

from contextinfinity.domain.message import Json
from contextinfinity.domain.model import Abilities, Guidance, Prices
from contextinfinity.errors import SettingsError
from contextinfinity.providers.guidance import ROWS as GUIDANCE

log = logging.getLogger(__name__)

PRICE_FIELDS = {
    "price_input": "input",
    "price_output": "output",
    "price_cached": "cached",
    "price_cache_write": "cache_write",
}
FIELDS = {
    "context_limit": int,
    "max_output_tokens": int,
    "tools": bool,
    "images": bool,
    "reasoning": bool,
    "one_system": bool,
    "min_cache_tokens": int,
    **dict.fromkeys(PRICE_FIELDS, float),
}
"""What config.toml may say of a model."""


def _row(window: int, output: int, prices: tuple[float, ...] = (), **more: Any) -> Abilities:
    """Make a row; ``prices`` are of input, output, cached input and input written to the cache, as far as known."""
    named = Prices(**dict(zip(("input", "output", "cached", "cache_write"), prices, strict=False))) if prices else None
    return Abilities(context_limit=window, max_output_tokens=output, prices=named, known=True, **more)


def _openai(window: int, output: int, prices: tuple[float, ...] = (), **more: Any) -> Abilities:
    usual = {"images": True, "reasoning": True, "encoding": "o200k_base"}
    return _row(window, output, prices, **{**usual, **more})


def _claude(window: int, output: int, prices: tuple[float, ...] = (), **more: Any) -> Abilities:
    return _row(window, output, prices, **{"images": True, "reasoning": True, **more})


def _plain(window: int, output: int, prices: tuple[float, ...] = (), **more: Any) -> Abilities:
    return _openai(window, output, prices, **{"reasoning": False, **more})


_SHORT = {"reasoning": False, "images": False, "encoding": "cl100k_base"}

_OF_1M, _OF_400K = 922_000, 272_000
"""OpenAI parts the windows of 1,050,000 and 400,000 tokens: 128,000 are for the answer alone, this is the rest."""

OPENAI: dict[str, Abilities] = {
    "gpt-6": _openai(_OF_1M, 128_000),
    "gpt-6-astra": _openai(_OF_1M, 128_000, (10, 50, 1, 12.5)),
    "gpt-6-sol": _openai(_OF_1M, 128_000, (2, 10, 0.2, 2.5)),
    "gpt-6-luna": _openai(_OF_1M, 128_000, (0.1, 0.5, 0.01, 0.125)),
    "gpt-6.1-sol": _openai(_OF_1M, 128_000, (2, 10, 0.1)),
    "gpt-6.1-terra": _openai(_OF_1M, 128_000, (1, 5, 0.05, 1.25)),
    "gpt-5.6": _openai(_OF_1M, 128_000),
    "gpt-5.6-sol": _openai(_OF_1M, 128_000, (4, 20, 0.4)),
    "gpt-5.6-terra": _openai(_OF_1M, 128_000, (2, 12, 0.2)),
    "gpt-5.6-luna": _openai(_OF_1M, 128_000, (0.2, 1.2, 0.02)),
    "gpt-5.5": _openai(_OF_1M, 128_000, (5, 30, 0.5)),
    "gpt-5.5-pro": _openai(_OF_1M, 128_000, (30, 180)),
    "gpt-5.4": _openai(_OF_1M, 128_000, (2.5, 15, 0.25)),
    "gpt-5.4-pro": _openai(_OF_1M, 128_000, (30, 180)),
    "gpt-5.4-mini": _openai(_OF_400K, 128_000, (0.75, 4.5, 0.075)),
    "gpt-5.4-nano": _openai(_OF_400K, 128_000, (0.2, 1.25, 0.02)),
    "gpt-5.3-codex": _openai(_OF_400K, 128_000, (1.75, 14, 0.175)),
    "gpt-5.3-codex-spark": _openai(128_000, 32_000),
    "gpt-5.3-chat": _plain(128_000, 16_384, (1.75, 14, 0.175)),
    "gpt-5.2": _openai(_OF_400K, 128_000, (1.75, 14, 0.175)),
    "gpt-5.2-pro": _openai(_OF_400K, 128_000, (21, 168)),
    "gpt-5.2-chat": _openai(128_000, 16_384, (1.75, 14, 0.175)),
    "gpt-5.1": _openai(_OF_400K, 128_000, (1.25, 10, 0.125)),
    "gpt-5.1-codex-mini": _openai(_OF_400K, 128_000, (0.25, 2, 0.025)),
    "gpt-5.1-chat": _openai(128_000, 16_384, (1.25, 10, 0.125)),
    "gpt-5.": _openai(_OF_400K, 128_000),
    "gpt-5": _openai(_OF_400K, 128_000, (1.25, 10, 0.125)),
    "gpt-5-mini": _openai(_OF_400K, 128_000, (0.25, 2, 0.025)),
    "gpt-5-nano": _openai(_OF_400K, 128_000, (0.05, 0.4, 0.005)),
    "gpt-5-pro": _openai(_OF_400K, 272_000, (15, 120)),
    "gpt-5-chat": _plain(128_000, 16_384, (1.25, 10, 0.125), tools=False),
    "gpt-4.1": _plain(1_047_576, 32_768, (2, 8, 0.5)),
    "gpt-4.1-mini": _plain(1_047_576, 32_768, (0.4, 1.6, 0.1)),
    "gpt-4.1-nano": _plain(1_047_576, 32_768, (0.1, 0.4, 0.025)),
    "gpt-4o": _plain(128_000, 16_384, (2.5, 10, 1.25)),
    "gpt-4o-2024-05-13": _plain(128_000, 4_096, (5, 15)),
    "gpt-4o-mini": _plain(128_000, 16_384, (0.15, 0.6, 0.075)),
    "chatgpt-4o": _plain(128_000, 16_384, tools=False),
    "o4-mini": _openai(200_000, 100_000, (1.1, 4.4, 0.275)),
    "o4-mini-deep-research": _openai(200_000, 100_000, (2, 8, 0.5), tools=False),
    "o3": _openai(200_000, 100_000, (2, 8, 0.5)),
    "o3-pro": _openai(200_000, 100_000, (20, 80)),
    "o3-mini": _openai(200_000, 100_000, (1.1, 4.4, 0.55), images=False),
    "o3-deep-research": _openai(200_000, 100_000, (10, 40, 2.5), tools=False),
    "o1": _openai(200_000, 100_000, (15, 60, 7.5)),
    "o1-pro": _openai(200_000, 100_000, (150, 600)),
    "gpt-4": _row(8_192, 4_096, (30, 60), **_SHORT),
    "gpt-4-turbo": _row(128_000, 4_096, (10, 30), **{**_SHORT, "images": True}),
    "gpt-3.5-turbo": _row(16_385, 4_096, (0.5, 1.5), **_SHORT),
}

ANTHROPIC: dict[str, Abilities] = {
    "claude-": _claude(200_000, 32_000, min_cache_tokens=4096),
    "claude-fable-5": _claude(1_000_000, 128_000, (10, 50, 1, 12.5), min_cache_tokens=512),
    "claude-fable-5-1": _claude(1_000_000, 128_000, (10, 50)),
    "claude-fable-5-2": _claude(1_000_000, 128_000),
    "claude-mythos-5": _claude(1_000_000, 128_000, (10, 50, 1, 12.5), min_cache_tokens=512),
    "claude-mythos-5-1": _claude(1_000_000, 128_000),
    "claude-mythos-5-2": _claude(1_000_000, 128_000),
    "claude-opus-5": _claude(1_000_000, 128_000, (5, 25, 0.5, 6.25), min_cache_tokens=512),
    "claude-opus-5-5": _claude(1_000_000, 128_000, (4, 20, 0.2, 5)),
    "claude-opus-4-8": _claude(1_000_000, 128_000, (5, 25, 0.5, 6.25)),
    "claude-opus-4-7": _claude(1_000_000, 128_000, (5, 25, 0.5, 6.25), min_cache_tokens=2048),
    "claude-opus-4-6": _claude(1_000_000, 128_000, (5, 25, 0.5, 6.25), min_cache_tokens=4096),
    "claude-opus-4-5": _claude(200_000, 64_000, (5, 25, 0.5, 6.25), min_cache_tokens=4096),
    "claude-opus-4": _claude(200_000, 32_000, (15, 75, 1.5, 18.75)),
    "claude-sonnet-5": _claude(1_000_000, 128_000, (2, 10, 0.2, 2.5)),
    "claude-sonnet-4-6": _claude(1_000_000, 64_000, (3, 15, 0.3, 3.75), min_cache_tokens=2048),
    "claude-sonnet-4": _claude(200_000, 64_000, (3, 15, 0.3, 3.75)),
    "claude-haiku-5-5": _claude(1_000_000, 128_000, (0.1, 0.5), min_cache_tokens=4096),
    "claude-haiku-4-5": _claude(200_000, 64_000, (1, 5, 0.1, 1.25), min_cache_tokens=4096),
    "claude-3-7-sonnet": _claude(200_000, 64_000, (3, 15, 0.3, 3.75)),
    "claude-3-5": _claude(200_000, 8_192, reasoning=False, min_cache_tokens=2048),
    "claude-3": _claude(200_000, 4_096, reasoning=False, min_cache_tokens=2048),
}

PERPLEXITY: dict[str, Abilities] = {
    "sonar": _row(128_000, 4_096, (1, 1), tools=False),
    "sonar-pro": _row(200_000, 8_192, (3, 15), tools=False, images=True),
    "sonar-reasoning": _row(128_000, 4_096, tools=False, images=True, reasoning=True),
    "sonar-reasoning-pro": _row(128_000, 4_096, (2, 8), tools=False, images=True, reasoning=True),
    "sonar-deep-research": _row(128_000, 32_768, (2, 8), tools=False, reasoning=True),
}

HOSTED: dict[str, Abilities] = {
    # Models whose window is set by their vendor. That of an open model is set by whoever started its server.
    "deepseek-chat": _row(1_000_000, 384_000),
    "deepseek-reasoner": _row(1_000_000, 384_000, reasoning=True),
    "gemini-2.0": _row(1_048_576, 8_192, images=True),
    "gemini-2.5": _row(1_048_576, 65_536, images=True, reasoning=True),
    "gemini-3": _row(1_048_576, 65_536, images=True, reasoning=True),
    "grok-4.3": _row(1_000_000, 30_000, images=True, reasoning=True),
    "mistral-large-latest": _row(262_144, 262_144, images=True, one_system=True),
}

ROWS: dict[str, dict[str, Abilities]] = {
    "openai": OPENAI,
    "anthropic": ANTHROPIC,
    "perplexity": PERPLEXITY,
    "openai_chat": OPENAI | ANTHROPIC | PERPLEXITY | HOSTED,
}

UNKNOWN: dict[str, Abilities] = {
    # Every server takes one system message; the templates of many open models refuse a second one.
    "openai_chat": Abilities(one_system=True),
    "perplexity": Abilities(tools=False),
}

T = TypeVar("T")

_warned: set[tuple[str, str]] = set()


def abilities_of(provider: str, model_id: str, overrides: Mapping[str, Json] = MappingProxyType({})) -> Abilities:
    """Tell what a model can do; ``overrides`` is what config.toml says of it."""
    found = _look_up(ROWS.get(provider, {}), model_id)
    if found is None:
        _warn(provider, model_id, overrides)
        found = UNKNOWN.get(provider, Abilities())
    elif model_id.startswith("ft:"):  # a model that was tuned for a customer has a price of its own
        found = msgspec.structs.replace(found, prices=None)
    guidance = _look_up(GUIDANCE, model_id) or Guidance()
    return overridden(msgspec.structs.replace(found, guidance=guidance), model_id, overrides)


def _look_up(rows: Mapping[str, T], model_id: str) -> T | None:
    name = _bare(model_id)
    fitting = [key for key in rows if name.startswith(key) and _ends(key, name)]
    return rows[max(fitting, key=len)] if fitting else None


def _bare(model_id: str) -> str:
    """Take off what sellers put around a name: "anthropic/claude-opus-4.5:beta", "ft:gpt-4o:acme"."""
    name = model_id.lower().removeprefix("ft:").rpartition("/")[2].partition(":")[0]
    return name.replace(".", "-") if name.startswith("claude-") else name


def _ends(key: str, name: str) -> bool:
    """Tell whether a key ends where a part of the name does: "gpt-4" is no beginning of "gpt-4o"."""
    return not key[-1].isalnum() or not name[len(key) : len(key) + 1].isalnum()


def _warn(provider: str, model_id: str, overrides: Mapping[str, Json]) -> None:
    if (provider, model_id) in _warned or overrides.get("context_limit") is not None:
        return
    _warned.add((provider, model_id))
    limit = UNKNOWN.get(provider, Abilities()).context_limit
    log.warning(
        "The model %s of %s is not in the catalogue; it is taken to have a window of %d tokens. "
        "Set context_limit for it under [models] in config.toml.",
        model_id,
        provider,
        limit,
    )


def overridden(found: Abilities, model_id: str, overrides: Mapping[str, Json]) -> Abilities:
    """Change what is known of a model to what config.toml says of it."""
    given = {key: _checked(key, overrides[key], model_id) for key in FIELDS if overrides.get(key) is not None}
    prices = {PRICE_FIELDS[key]: given.pop(key) for key in PRICE_FIELDS if key in given}
    if prices:
        known = {} if found.prices is None else msgspec.structs.asdict(found.prices)
        both = {**known, **prices}
        given["prices"] = Prices(**both) if {"input", "output"} <= both.keys() else None  # the cost is then unknown
    return msgspec.structs.replace(found, **given) if given else found


def _checked(key: str, value: Json, model_id: str) -> Json:
    wanted = FIELDS[key]
    number = isinstance(value, int | float) and not isinstance(value, bool)
    fits = isinstance(value, bool) if wanted is bool else number and (wanted is float or isinstance(value, int))
    least = 1 if wanted is int and key != "min_cache_tokens" else 0
    if not fits or (number and value < least):
        words = {bool: "true or false", int: f"a whole number, at least {least}", float: "a price, not below zero"}
        raise SettingsError(
            f"{key} of the model {model_id} is {value!r}.", hint=f"Give {words[wanted]} in config.toml."
        )
    return value
