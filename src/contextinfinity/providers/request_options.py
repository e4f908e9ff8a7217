"""How a caller wants a model to answer, as options of a wire: what the wires share.

Each wire turns wishes that name no vendor into its own options, and names those that the model cannot be told there.
Nothing is sent that the vendor would refuse: an answer that is a little different is better than none. A wish that is
met anyway is never named. How long an answer may be is part of a request, and no option of a wire.
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
"""What a model that thinks can be told where nobody says more of it."""
BUDGETS = {"minimal": 1024, "low": 2048, "medium": 8000, "high": 16_000, "xhigh": 32_000, "max": 64_000}
"""About as many tokens to think with as each effort comes to."""

MET_ANYWAY = frozenset(
    {
        *(("temperature", 1), ("top_p", 1), ("presence_penalty", 0), ("frequency_penalty", 0)),
        *(("tool_choice", "auto"), ("tool_choice", "none"), ("parallel_tools", False)),
        *(("effort", "none"), ("thinking_tokens", 0)),
    }
)
"""Wishes that a model meets of itself where it cannot be told them."""


class AppliedOptions(NamedTuple):
    """Wishes as options of a wire. ``left_out`` names those that are not met, or only in part."""

    options: dict[str, Json]
    left_out: tuple[str, ...] = ()


Offer: TypeAlias = Callable[[Any], Mapping[str, Json] | None]
"""Puts what is wished for into options; None where that cannot be said."""


def plain(wishes: RequestOptions) -> AppliedOptions:
    """Wish in our own words, the length too, for a provider that has no wire."""
    return AppliedOptions(msgspec.json.decode(msgspec.json.encode(wishes)))


def wished_options(
    wishes: RequestOptions, offers: Mapping[str, Offer | None], in_part: Collection[str] = ()
) -> AppliedOptions:
    """Apply each offer to its wish; name the wishes that are not met, or only in part (``in_part``)."""
    options: dict[str, Json] = {}
    left_out = []
    for name, value in msgspec.structs.asdict(wishes).items():
        if name == "max_output_tokens" or value is None or value == ():
            continue
        offer = offers.get(name)
        said = None if offer is None else offer(value)
        options = joined(options, said or {})
        if name in in_part or (said is None and (name, value) not in MET_ANYWAY):
            left_out.append(name)
    return AppliedOptions(options, tuple(left_out))


def as_option(key: str) -> Offer:
    """Offer a wish under that name, as it is."""
    return lambda value: {key: value}


def forces_call(choice: str | None) -> bool:
    """Return whether a choice of tools makes the model call one."""
    return choice is not None and choice not in ("auto", "none")


def choice_offer(able: Abilities, key: str, write: Callable[[str], Json]) -> Offer | None:
    """Offer a choice of tools, unless the model knows none, or cannot be made to call one."""

    def offer(choice: str) -> dict[str, Json] | None:
        possible = able.guidance.forced_tools or not forces_call(choice)
        return {key: write(choice)} if possible else None

    return offer if able.tools else None


def parallel_offer(able: Abilities, allowed: bool, one: Mapping[str, Json] | None = None) -> Offer | None:
    """Offer one call at a time; several only where the settings allow it."""
    ask = one or {"parallel_tool_calls": False}

    def offer(several: bool) -> Mapping[str, Json] | None:
        if several:
            return {} if allowed or not able.tools else None
        return ask

    return offer


def level_of(wishes: RequestOptions) -> str | None:
    """Tell how much thinking is wished for; None: nobody said, or in a word that is not known."""
    if wishes.effort is not None:
        return wishes.effort if wishes.effort in LEVELS else None
    if wishes.thinking_tokens is None:
        return None
    fitting = [level for level, tokens in BUDGETS.items() if tokens <= wishes.thinking_tokens]
    return fitting[-1] if fitting else ("minimal" if wishes.thinking_tokens > 0 else "none")


def nearest_level(level: str, levels: Sequence[str]) -> str:
    """Choose among the levels that a model takes; of two that are as near, the one nearer to the middle."""
    wanted, middle = LEVELS.index(level), LEVELS.index("medium")
    places = [LEVELS.index(each) for each in levels]
    return LEVELS[min(places, key=lambda place: (abs(place - wanted), abs(place - middle)))]


def effort_of(wishes: RequestOptions, able: Abilities) -> str | None:
    """Return the level nearest to the wished one that the model takes; None where it does not think."""
    level = level_of(wishes)
    if level is None or not able.reasoning:
        return None
    return nearest_level(level, able.guidance.efforts or USUAL_EFFORTS)
