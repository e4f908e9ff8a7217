"""Shared parts of converting request options to a wire's own options.

Each wire converts vendor-neutral options to its own, and names those that the model does not support. Options that the
vendor would reject are not sent: a slightly different answer is better than none. Options that the default already
satisfies are never named. The answer length is part of a request and no option of a wire.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import msgspec

from contextinfinity.domain.message import Json
from contextinfinity.domain.model import Abilities
from contextinfinity.domain.prompt import RequestOptions
from contextinfinity.providers.options import joined
from contextinfinity.vendors.efforts import LEVELS

USUAL_EFFORTS = ("low", "medium", "high")
"""The efforts of a reasoning model about which nothing else is known."""
BUDGETS = {"minimal": 1024, "low": 2048, "medium": 8000, "high": 16_000, "xhigh": 32_000, "max": 64_000}
"""The approximate token budget of each effort."""

MET_ANYWAY = frozenset(
    {
        *(("temperature", 1), ("top_p", 1), ("presence_penalty", 0), ("frequency_penalty", 0)),
        *(("tool_choice", "auto"), ("tool_choice", "none"), ("parallel_tools", False)),
        *(("effort", "none"), ("thinking_tokens", 0)),
    }
)
"""Options that are satisfied by default if the model does not support them."""


class AppliedOptions(NamedTuple):
    """Options of a wire. ``left_out`` names requested options that are not followed, or only in part."""

    options: dict[str, Json]
    left_out: tuple[str, ...] = ()


Offer: TypeAlias = Callable[[Any], Mapping[str, Json] | None]
"""Converts a requested value to options; returns None if that is not possible."""


def plain(request_options: RequestOptions) -> AppliedOptions:
    """Return the options unchanged, including the length, for a provider without a wire."""
    return AppliedOptions(msgspec.json.decode(msgspec.json.encode(request_options)))


def converted_options(
    request_options: RequestOptions, offers: Mapping[str, Offer | None], in_part: Collection[str] = ()
) -> AppliedOptions:
    """Apply the conversion of each option; name those that are not followed, or only in part (``in_part``)."""
    options: dict[str, Json] = {}
    left_out = []
    for name, value in msgspec.structs.asdict(request_options).items():
        if name == "max_output_tokens" or value is None or value == ():
            continue
        offer = offers.get(name)
        converted = None if offer is None else offer(value)
        options = joined(options, converted or {})
        if name in in_part or (converted is None and (name, value) not in MET_ANYWAY):
            left_out.append(name)
    return AppliedOptions(options, tuple(left_out))


def as_option(key: str) -> Offer:
    """Return a conversion that passes the value under that name."""
    return lambda value: {key: value}


def forces_call(choice: str | None) -> bool:
    """Return whether a tool choice forces a call."""
    return choice is not None and choice not in ("auto", "none")


def choice_offer(able: Abilities, key: str, write: Callable[[str], Json]) -> Offer | None:
    """Return a conversion for the tool choice, or None if the model has no tools; forced calls only if supported."""

    def offer(choice: str) -> dict[str, Json] | None:
        possible = able.guidance.forced_tools or not forces_call(choice)
        return {key: write(choice)} if possible else None

    return offer if able.tools else None


def parallel_offer(able: Abilities, allowed: bool, one: Mapping[str, Json] | None = None) -> Offer | None:
    """Return a conversion that disables parallel calls; they are enabled only if the settings allow it."""
    ask = one or {"parallel_tool_calls": False}

    def offer(several: bool) -> Mapping[str, Json] | None:
        if several:
            return {} if allowed or not able.tools else None
        return ask

    return offer


def level_of(request_options: RequestOptions) -> str | None:
    """Return the requested reasoning effort, or None if it is not given or unknown."""
    if request_options.effort is not None:
        return request_options.effort if request_options.effort in LEVELS else None
    if request_options.thinking_tokens is None:
        return None
    fitting = [level for level, tokens in BUDGETS.items() if tokens <= request_options.thinking_tokens]
    return fitting[-1] if fitting else ("minimal" if request_options.thinking_tokens > 0 else "none")


def nearest_level(level: str, levels: Sequence[str]) -> str:
    """Return the nearest supported effort; of two equally near ones, that closer to medium."""
    wanted, middle = LEVELS.index(level), LEVELS.index("medium")
    places = [LEVELS.index(each) for each in levels]
    return LEVELS[min(places, key=lambda place: (abs(place - wanted), abs(place - middle)))]


def effort_of(request_options: RequestOptions, able: Abilities) -> str | None:
    """Return the nearest effort that the model supports, or None if it does not reason."""
    level = level_of(request_options)
    if level is None or not able.reasoning:
        return None
    return nearest_level(level, able.guidance.efforts or USUAL_EFFORTS)
