"""Shared parts of converting request options to a wire's own options.

Each wire converts vendor-neutral options to its own, and names those that the model does not support. Options that the
vendor would reject are not sent: a slightly different answer is better than none. Options that the default already
satisfies are never named. The answer length is part of a request and no option of a wire.

A model's own options are passed to the provider unchanged, under its own names. They cannot set what the engine
controls, and can only lower its limits. No option is dropped silently: one that cannot be followed raises
``ProviderError``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

import msgspec
from msgspec import Struct

from contextinfinity.domain.message import Json
from contextinfinity.domain.prompt import Abilities, RequestOptions
from contextinfinity.errors import ProviderError
from contextinfinity.vendors.record import LEVELS

OWNED = MappingProxyType(
    {
        "model": "use model_id",
        "stream": "answers are always streamed",
        "tools": "the engine offers its own; use provider_tools",
        "messages": "it is the prompt, which the engine writes",
    }
)
"""Options that no wire lets users set, and why."""

UPSTREAM_STATE = ("previous_response_id", "conversation", "background", "prompt", "container", "store")
"""Options that make an answer depend on state at the provider, or let it store something."""

HINT = "Remove it from the model's options in config.toml."


class Rules(Struct, frozen=True, kw_only=True):
    """The rules of a wire for options. ``limits`` are its names for the answer length, newest last."""

    vendor: str
    limits: tuple[str, ...]
    owned: Mapping[str, str] = OWNED
    may_forbid: tuple[str, ...] = ()
    """Owned options that may be set to false, but not to true."""
    least: int = 1
    upstream_state: bool = False
    state_hint: str = HINT


def table_of(options: Json, vendor: str) -> dict[str, Json]:
    """Return options as a dict; raise ``ProviderError`` if they are anything else."""
    if options is not None and not isinstance(options, dict):
        raise refused(vendor, "the options are not a table of names and values")
    return dict(options or {})


def with_options(
    body: dict[str, Json], options: Json, rules: Rules, passed_over: Collection[str] = ()
) -> dict[str, Json]:
    """Add options to a body that already has its limit; those in ``passed_over`` do not apply to this request.

    Objects and lists that both have are merged; the body's values win. Raises ``ProviderError`` for options that are
    not allowed.
    """
    given = table_of(options, rules.vendor)
    _check(given, rules)
    body = _limited(body, given, rules)
    for key, each in given.items():
        if key in rules.limits or key in passed_over:
            continue
        mine = body.get(key)
        if isinstance(mine, dict) and isinstance(each, dict):
            each = {**each, **mine}
        elif isinstance(mine, list) and isinstance(each, list):
            each = mine + [one for one in each if one not in mine]
        body[key] = each
    return body


def joined(configured: Mapping[str, Json] | None, requested: Mapping[str, Json]) -> dict[str, Json]:
    """Merge a caller's options over the configured ones, key by key.

    Objects that both have are merged, unless their ``type`` differs: then the caller's replaces the other.
    """
    out = dict(configured or {})
    for key, each in requested.items():
        mine = out.get(key)
        if isinstance(mine, dict) and isinstance(each, dict) and _alike(mine, each):
            each = {**mine, **each}
        out[key] = each
    return out


def _alike(mine: Mapping[str, Json], other: Mapping[str, Json]) -> bool:
    return "type" not in mine or "type" not in other or mine["type"] == other["type"]


def refused(vendor: str, what: str, hint: str = HINT) -> ProviderError:
    """Return the error for options that cannot be followed."""
    return ProviderError(f"{vendor}: {what}; nothing was sent.", kind="bad_request", hint=hint)


def _check(given: Mapping[str, Json], rules: Rules) -> None:
    for key in given:
        forbids = key in rules.may_forbid and given[key] is False
        if key in rules.owned and not forbids:
            raise refused(rules.vendor, f"the option {key} cannot be set here: {rules.owned[key]}")
        if key in UPSTREAM_STATE and given[key] and not rules.upstream_state:
            raise refused(rules.vendor, f"the option {key} makes the provider store the conversation", rules.state_hint)


def _limited(body: dict[str, Json], given: Mapping[str, Json], rules: Rules) -> dict[str, Json]:
    """Lower the limit to that of the options, under the name they use, because a server accepts only one name."""
    request_options = {key: given[key] for key in rules.limits if given.get(key) is not None}
    for key, value in request_options.items():
        if type(value) is not int:
            raise refused(rules.vendor, f"the option {key} is {value!r}, not an integer")
    if not request_options:
        return body
    name = [*request_options][-1]
    mine = next(key for key in rules.limits if key in body)
    lowered = max(rules.least, min(body[mine], *request_options.values()))
    return {(name if key == mine else key): (lowered if key == mine else each) for key, each in body.items()}


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
