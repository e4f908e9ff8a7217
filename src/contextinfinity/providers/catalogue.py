"""Model capabilities and prices as documented by the vendors.

The rows are in the vendors' records. A row applies to every model whose name starts with its key; the longest key wins.
Settings in config.toml override its fields. A model without a row gets safe defaults, and a warning is logged once.

Prices are US dollars per million tokens as published by 2026-11-15, for the standard tier, short prompts and the
shortest cache lifetime. If a price is unknown, it is left out: the cost of a turn is then unknown, or, for cache
prices, that of other input. Search fees are not included.
"""

from __future__ import annotations

import logging
from collections import ChainMap
from collections.abc import Mapping
from types import MappingProxyType
from typing import TypeVar

import msgspec

from contextinfinity.domain.message import Json
from contextinfinity.domain.prompt import Abilities, Guidance, Prices
from contextinfinity.errors import SettingsError
from contextinfinity.vendors import VENDORS

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
    "files": bool,
    "reasoning": bool,
    "one_system": bool,
    "min_cache_tokens": int,
    **dict.fromkeys(PRICE_FIELDS, float),
}
"""The fields that config.toml may set for a model."""


T = TypeVar("T")

_ALL_MODELS: Mapping[str, Abilities] = ChainMap(*(dict(vendor.models) for vendor in VENDORS.values()))
_GUIDANCE: Mapping[str, Guidance] = ChainMap(*(dict(vendor.guidance) for vendor in VENDORS.values()))

_warned: set[tuple[str, str]] = set()


def abilities_of(provider: str, model_id: str, overrides: Mapping[str, Json] = MappingProxyType({})) -> Abilities:
    """Return the capabilities of a model; ``overrides`` are its settings in config.toml."""
    found = _look_up(models_of(provider), model_id)
    if found is None:
        found = _unknown(provider)
        _warn(provider, model_id, found.context_limit, overrides)
    elif model_id.startswith("ft:"):  # fine-tuned models have their own prices
        found = msgspec.structs.replace(found, prices=None)
    guidance = _look_up(_GUIDANCE, model_id) or Guidance()
    return overridden(msgspec.structs.replace(found, guidance=guidance), model_id, overrides)


def models_of(provider: str) -> Mapping[str, Abilities]:
    """Return the rows of a vendor, or of all vendors if it serves any model."""
    vendor = VENDORS.get(provider)
    if vendor is None:
        return {}
    return _ALL_MODELS if vendor.any_model else vendor.models


def _unknown(provider: str) -> Abilities:
    return VENDORS[provider].unknown_model if provider in VENDORS else Abilities()


def _look_up(rows: Mapping[str, T], model_id: str) -> T | None:
    name = _bare(model_id)
    fitting = [key for key in rows if name.startswith(key) and _ends(key, name)]
    return rows[max(fitting, key=len)] if fitting else None


def _bare(model_id: str) -> str:
    """Remove prefixes and suffixes of resellers: "anthropic/claude-opus-4.5:beta", "ft:gpt-4o:acme"."""
    name = model_id.lower().removeprefix("ft:").rpartition("/")[2].partition(":")[0]
    return name.replace(".", "-") if name.startswith("claude-") else name


def _ends(key: str, name: str) -> bool:
    """Return whether a key ends at a word boundary of the name: "gpt-4" does not match "gpt-4o"."""
    return not key[-1].isalnum() or not name[len(key) : len(key) + 1].isalnum()


def _warn(provider: str, model_id: str, limit: int, overrides: Mapping[str, Json]) -> None:
    if (provider, model_id) in _warned or overrides.get("context_limit") is not None:
        return
    _warned.add((provider, model_id))
    log.warning(
        "The model %s of %s is not in the catalogue; a window of %d tokens is assumed. "
        "Set context_limit for it under [models] in config.toml.",
        model_id,
        provider,
        limit,
    )


def overridden(found: Abilities, model_id: str, overrides: Mapping[str, Json]) -> Abilities:
    """Apply the settings of config.toml; raise ``SettingsError`` for a value of the wrong type."""
    given = {
        key: _checked(key, value, model_id) for key, value in overrides.items() if key in FIELDS and value is not None
    }
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
        words = {bool: "true or false", int: f"an integer of at least {least}", float: "a price of at least 0"}
        raise SettingsError(
            f"{key} of the model {model_id} is {value!r}.", hint=f"Give {words[wanted]} in config.toml."
        )
    return value
