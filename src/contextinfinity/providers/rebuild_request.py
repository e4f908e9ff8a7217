"""Rebuild the exact bytes of a past request from its prompt.

Besides the prompt, the bytes depend on the provider, the fields of its wire and the abilities of the model: the form,
which is stored with the plan. If a wire changes its output, it gets a new version here and keeps the old one.
"""

from __future__ import annotations

import dataclasses
from importlib import import_module
from typing import Any

import msgspec

from contextinfinity.domain.message import Json
from contextinfinity.domain.model import Abilities
from contextinfinity.domain.prompt import ProviderRequest
from contextinfinity.errors import NotFound
from contextinfinity.providers.contract import EncodedRequest, Wire, written
from contextinfinity.vendors import VENDORS

VERSION = 1
LOCAL_WIRE = "openai_chat"
"""The wire package of local models."""


def write(provider: str, wire: Wire, abilities: Abilities, request: ProviderRequest) -> EncodedRequest:
    """Encode a request, and record its form."""
    form = {
        "version": VERSION,
        "provider": provider,
        "wire": dataclasses.asdict(wire),  # type: ignore[call-overload]  # every wire is a dataclass
        "abilities": msgspec.to_builtins(abilities),
    }
    return written(request, wire.write(request, abilities), form)


def written_again(form: Json, request: ProviderRequest) -> EncodedRequest:
    """Rebuild a past request from its form; raise ``NotFound`` if this release cannot."""
    provider = form.get("provider")
    if provider == "scripted":
        return written(request, msgspec.to_builtins(request), form)
    package = LOCAL_WIRE if provider == "local" else VENDORS[provider].wire if provider in VENDORS else None
    if package is None or form.get("version") != VERSION:
        raise NotFound(f"This release cannot rebuild requests to {provider!r} in form {form.get('version')!r}.")
    fields = {name: tuple(value) if isinstance(value, list) else value for name, value in form["wire"].items()}
    wire: Wire = wire_package(package).stored_wire(fields)
    return write(provider, wire, msgspec.convert(form["abilities"], Abilities), request)


def wire_package(name: str) -> Any:
    """Import the package of a wire format.

    Each has ``open_wire(model, settings)``, and ``stored_wire(fields)`` for stored fields, also of older releases.
    """
    return import_module(f"contextinfinity.providers.{name}")
