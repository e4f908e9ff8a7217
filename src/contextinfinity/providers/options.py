"""Merge a model's options into a request body.

Options are passed to the provider unchanged, under its own names. They cannot set what the engine controls, and can
only lower its limits. No option is dropped silently: one that cannot be followed raises ``ProviderError``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType

from msgspec import Struct

from contextinfinity.domain.message import Json
from contextinfinity.errors import ProviderError

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
