"""Writing a request down so that it can be written again: the same bytes, from the same prompt, years later.

What besides the prompt decides how a request reads is its form: who the provider was, how its wire was set, what the
model was taken to be able to do. Wires that change what they write get a new version here, and keep the old one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import msgspec

from contextinfinity.domain.message import Json
from contextinfinity.domain.model import Abilities
from contextinfinity.domain.prompt import ProviderRequest
from contextinfinity.errors import NotFound
from contextinfinity.providers.contract import Wire, Written, written

VERSION = 1


def write(provider: str, wire: Wire, abilities: Abilities, request: ProviderRequest) -> Written:
    """Write a request, and what its form is."""
    form = {
        "version": VERSION,
        "provider": provider,
        "wire": dataclasses.asdict(wire),  # type: ignore[call-overload]  # every wire is a dataclass
        "abilities": msgspec.to_builtins(abilities),
    }
    return written(request, wire.write(request, abilities), form)


def written_again(form: Json, request: ProviderRequest) -> Written:
    """Write a request as it was written then."""
    provider = form.get("provider")
    if provider == "scripted":
        return written(request, msgspec.to_builtins(request), form)
    if provider not in WIRES or form.get("version") != VERSION:
        raise NotFound(f"This release cannot write requests to {provider!r} in form {form.get('version')!r}.")
    settings = {name: tuple(value) if isinstance(value, list) else value for name, value in form["wire"].items()}
    return write(provider, WIRES[provider](settings), msgspec.convert(form["abilities"], Abilities), request)


def _responses(settings: dict[str, Json]) -> Wire:
    from contextinfinity.providers.openai_responses import ResponsesWire

    return ResponsesWire(**settings)


def _messages(settings: dict[str, Json]) -> Wire:
    from contextinfinity.providers.anthropic import AnthropicWire

    return AnthropicWire(**settings)


def _chat(settings: dict[str, Json]) -> Wire:
    from contextinfinity.providers.openai_chat import ChatWire

    return ChatWire(**{"text_separator": "", **settings})


WIRES: dict[str, Callable[[dict[str, Json]], Wire]] = {
    "openai": _responses,
    "anthropic": _messages,
    "openai_chat": _chat,
    "perplexity": _chat,
    "local": _chat,
}
