"""What every provider can do, and what every wire form has to say for itself.

A provider writes a neutral request in its own form, and streams back plain events: pieces of text as they come, and
one ``Finished`` at the end. A stream that ends without it was cut. What a provider cannot do it says with
``ProviderError``, in words for people.

A provider on the network is a ``Wire`` and a connection. The wire is plain values in, plain values out; it knows
nothing of sockets, so all of it can be tried without one.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Sequence
from typing import Protocol

import msgspec
from msgspec import Struct

from contextinfinity.domain.message import Json
from contextinfinity.domain.model import Abilities
from contextinfinity.domain.prompt import Finished, ProviderEvent, ProviderRequest, RequestOptions, StreamedPiece
from contextinfinity.providers.request_options import AppliedOptions
from contextinfinity.text.tokens import Counter


class EncodedRequest(Struct, frozen=True, kw_only=True):
    """A request as it will be sent: the bytes, and the hash of what they say.

    ``form`` is what besides the request decided how it reads: with both, ``written_again`` gives the same bytes.
    """

    request: ProviderRequest
    body: bytes
    sha256: str
    form: Json = None
    may_retry: bool = True
    """Whether to ask again where the vendor could not answer; a client of another vendor's SDK does so itself."""


class Provider(Protocol):
    """One way to reach models."""

    name: str

    @property
    def missing(self) -> str:
        """What it lacks to be asked at all, as the end of a sentence ("its key is not set"); empty: nothing."""
        ...

    def abilities(self, model_id: str) -> Abilities:
        """Tell what that model can do."""
        ...

    def context_limit(self, model_id: str) -> int:
        """Tell how many tokens a request to that model may hold, its answer included."""
        ...

    def counter(self, model_id: str) -> Counter:
        """Give what counts tokens as that model does: the same one each time, so that it can learn."""
        ...

    def estimate_prompt_tokens(self, request: ProviderRequest) -> int:
        """Count what a request will cost."""
        ...

    def write(self, request: ProviderRequest) -> EncodedRequest:
        """Put a request into the form in which it will be sent."""
        ...

    def options_for(self, wishes: RequestOptions, model_id: str) -> AppliedOptions:
        """Put wishes into options that its ``write`` takes, and name those that this model cannot be told."""
        ...

    def stream(self, written: EncodedRequest) -> AsyncIterator[ProviderEvent]:
        """Ask, and give what comes back as it comes."""
        ...

    async def close(self) -> None:
        """Let go of connections. Closing twice does nothing."""
        ...


class Accumulator(Protocol):
    """Puts a streamed reply together again, as if it had come in one piece."""

    ended: bool
    """Whether the provider has said its last word."""

    def take(self, event: str, data: Json) -> Sequence[StreamedPiece]:
        """Take one event off the wire (its name, if it has one, and its JSON) and return what it adds.

        An event that is not known is kept in the raw reply and passed over. ``ProviderError`` when the event says
        that something went wrong.
        """
        ...

    def whole(self) -> Json:
        """Give the reply in the form the vendor uses when it does not stream."""
        ...


class Wire(Protocol):
    """How one vendor wants to be asked, and how it answers."""

    def path(self, model_id: str) -> str:
        """Return where requests go, below the base URL."""
        ...

    def write(self, request: ProviderRequest, abilities: Abilities) -> dict[str, Json]:
        """Put a request into the vendor's JSON."""
        ...

    def wished(self, wishes: RequestOptions, abilities: Abilities) -> AppliedOptions:
        """Put wishes into the vendor's options, and name those that the model cannot be told."""
        ...

    def accumulate(self) -> Accumulator:
        """Begin to put a streamed reply together."""
        ...

    def read(self, whole: Json, abilities: Abilities) -> Finished:
        """Read a whole reply; what it says that is not known is kept as it came."""
        ...


def canonical(body: Json) -> bytes:
    """Write JSON in the one form that is hashed: sorted keys, UTF-8, no spaces."""
    return msgspec.json.encode(body, order="sorted")


def written(request: ProviderRequest, body: Json, form: Json) -> EncodedRequest:
    """Write a body down, keys in the order the wire gave them (models read schemas in order), and hash it."""
    sha256 = hashlib.sha256(canonical(body)).hexdigest()
    return EncodedRequest(request=request, body=msgspec.json.encode(body), sha256=sha256, form=form)
