"""The contracts of providers and wire formats.

A provider writes a request in its own wire format and streams back events: text deltas as they arrive, and one
``Finished`` at the end. A stream that ends without it was cut off. Every failure is a ``ProviderError``.

A remote provider consists of a ``Wire`` and a connection. The wire converts values and does no I/O, so it can be tested
without a network.

The exact bytes of a past request can be rebuilt from its prompt. Besides the prompt, the bytes depend on the provider,
the fields of its wire and the abilities of the model: the form, which is stored with the plan. If a wire changes its
output, it gets a new version here and keeps the old one.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import AsyncIterator, Sequence
from importlib import import_module
from typing import Any, Protocol

import msgspec
from msgspec import Struct

from contextinfinity.domain.message import Json
from contextinfinity.domain.prompt import (
    Abilities,
    Finished,
    ProviderEvent,
    ProviderRequest,
    RequestOptions,
    StreamedPiece,
)
from contextinfinity.errors import NotFound
from contextinfinity.providers.request_options import AppliedOptions
from contextinfinity.text.tokens import Counter
from contextinfinity.vendors import VENDORS


class EncodedRequest(Struct, frozen=True, kw_only=True):
    """A request in its final form: the bytes and their canonical hash.

    ``form`` is everything else that determines the bytes: ``written_again`` rebuilds them from the request and the
    form.
    """

    request: ProviderRequest
    body: bytes
    sha256: str
    form: Json = None
    may_retry: bool = True
    """Whether to retry a failed request; False if the client's own SDK retries."""


class Provider(Protocol):
    """Access to the models of one vendor."""

    name: str

    @property
    def missing(self) -> str:
        """Why no request can be sent, as the end of a sentence ("its key is not set"); empty if nothing is."""
        ...

    def abilities(self, model_id: str) -> Abilities:
        """Return the capabilities of a model."""
        ...

    def context_limit(self, model_id: str) -> int:
        """Return the context window of a model: the tokens of a request and its answer together."""
        ...

    def counter(self, model_id: str) -> Counter:
        """Return the token counter of a model; always the same object, because it is calibrated by use."""
        ...

    def estimate_prompt_tokens(self, request: ProviderRequest) -> int:
        """Estimate the number of tokens of a request."""
        ...

    def write(self, request: ProviderRequest) -> EncodedRequest:
        """Encode a request in the form in which it is sent."""
        ...

    def options_for(self, request_options: RequestOptions, model_id: str) -> AppliedOptions:
        """Convert request options to the provider's options, and name those that the model does not support."""
        ...

    def stream(self, written: EncodedRequest) -> AsyncIterator[ProviderEvent]:
        """Send a request and yield events as they arrive; raise ``ProviderError`` if it fails."""
        ...

    async def close(self) -> None:
        """Close connections. Closing twice does nothing."""
        ...


class Accumulator(Protocol):
    """Assembles a streamed reply into the form of a whole one."""

    ended: bool
    """Whether the provider has sent its final event."""

    def feed(self, event: str, data: Json) -> Sequence[StreamedPiece]:
        """Process one event (its name, if any, and its JSON) and return what it adds.

        Unknown events are kept in the raw reply and otherwise ignored. Raises ``ProviderError`` for an error event.
        """
        ...

    def assembled(self) -> Json:
        """Return the reply in the vendor's non-streaming form."""
        ...


class Wire(Protocol):
    """The request and reply format of one vendor API."""

    def path(self, model_id: str) -> str:
        """Return the request path below the base URL."""
        ...

    def write(self, request: ProviderRequest, abilities: Abilities) -> dict[str, Json]:
        """Return a request in the vendor's JSON."""
        ...

    def convert_options(self, request_options: RequestOptions, abilities: Abilities) -> AppliedOptions:
        """Convert request options to the vendor's options, and name those that the model does not support."""
        ...

    def accumulate(self) -> Accumulator:
        """Return an accumulator for a streamed reply."""
        ...

    def read(self, whole: Json, abilities: Abilities) -> Finished:
        """Parse a whole reply; unknown parts are kept unchanged."""
        ...


def canonical(body: Json) -> bytes:
    """Encode JSON in canonical form for hashing: sorted keys, UTF-8, no spaces."""
    return msgspec.json.encode(body, order="sorted")


def written(request: ProviderRequest, body: Json, form: Json) -> EncodedRequest:
    """Encode a body and hash it; keys keep their order, because models read schemas in order."""
    sha256 = hashlib.sha256(canonical(body)).hexdigest()
    return EncodedRequest(request=request, body=msgspec.json.encode(body), sha256=sha256, form=form)


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
