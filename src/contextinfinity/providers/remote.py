"""A provider on the network: a wire, a connection, and retries.

The wire writes the request, the connection sends it, and the wire assembles the reply. A failure before the first text
is retried, with a ``Retry`` event. ``Finished`` is sent after the final event and the usage have arrived.

Providers are created from ``[models.NAME]``. Models at the same address share connections; each has its own wire,
because their settings differ.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing, suppress

import msgspec
from msgspec.structs import replace

from contextinfinity.domain.message import Json, TextBlock, blocks_of
from contextinfinity.domain.prompt import (
    Abilities,
    CallPiece,
    ProviderEvent,
    ProviderRequest,
    RequestOptions,
    StreamedPiece,
    TextDelta,
)
from contextinfinity.providers.catalogue import abilities_of
from contextinfinity.providers.contract import Accumulator, EncodedRequest, Provider, Wire, wire_package, write
from contextinfinity.providers.failures import cut_off, garbled, scrub
from contextinfinity.providers.request_options import AppliedOptions
from contextinfinity.providers.transport import (
    Address,
    HttpReply,
    ModelConnection,
    RetryPolicy,
    VendorConnection,
    events,
    read_whole,
    retrying,
)
from contextinfinity.providers.wire_values import sent_to
from contextinfinity.settings import ModelSettings, Settings
from contextinfinity.text.tokens import Counter, counter_of
from contextinfinity.vendors import VENDORS

DONE = "[DONE]"
ONCE = RetryPolicy(attempts=1)
REST_SECONDS = 2.0
"""How long to wait for data after the final event."""


class RemoteProvider:
    """A ``Provider`` that calls a vendor's API."""

    def __init__(
        self,
        wire: Wire,
        connection: VendorConnection,
        *,
        overrides: Mapping[str, Json] | None = None,
        policy: RetryPolicy | None = None,
    ) -> None:
        self.name = connection.address.vendor
        self._wire = wire
        self._connection = connection
        self._overrides = dict(overrides or {})
        self._policy = policy or RetryPolicy()
        self.form = str(getattr(wire, "form", ""))
        """The wire form whose clients are passed through unchanged (``domain.sent_form``)."""

    @property
    def missing(self) -> str:
        """The missing key, if one is needed and its variable is not set."""
        address = self._connection.address
        needs_key = address.key_env is not None and not self._connection.key
        return f"{address.key_env} is not set" if needs_key else ""

    def abilities(self, model_id: str) -> Abilities:
        """Return the capabilities of a model; the settings take precedence over the catalogue."""
        return abilities_of(self.name, model_id, self._overrides)

    def context_limit(self, model_id: str) -> int:
        """Return the context window of a model: the tokens of a request and its answer together."""
        return self.abilities(model_id).context_limit

    def counter(self, model_id: str) -> Counter:
        """Return a counter with the vendor's tokenizer if that is public, else an estimate."""
        return counter_of(self.name, model_id, self.abilities(model_id).encoding)

    def estimate_prompt_tokens(self, request: ProviderRequest) -> int:
        """Estimate the number of tokens of a request."""
        return self.counter(request.model_id).prompt(request.prompt)

    def write(self, request: ProviderRequest) -> EncodedRequest:
        """Encode a request in the vendor's format."""
        return write(self.name, self._wire, self.abilities(request.model_id), request)

    def options_for(self, request_options: RequestOptions, model_id: str) -> AppliedOptions:
        """Convert request options to the vendor's options."""
        return self._wire.convert_options(request_options, self.abilities(model_id))

    async def stream(self, written: EncodedRequest) -> AsyncIterator[ProviderEvent]:
        """Send a request with retries and yield events as they arrive; raise ``ProviderError`` if all fail."""
        policy = self._policy if written.may_retry else ONCE
        async with aclosing(retrying(lambda: self._attempt(written), policy, vendor=self.name)) as attempts:  # type: ignore[type-var]
            async for event in attempts:
                yield event

    async def close(self) -> None:
        """Close connections."""
        await self._connection.close()

    async def _attempt(self, written: EncodedRequest) -> AsyncIterator[ProviderEvent]:
        """Make one attempt."""
        model_id = written.request.model_id
        reply, held = self._wire.accumulate(), list[StreamedPiece]()
        sent = sent_to(written.request, self.form) if self.form else None
        headers = {} if sent is None else sent.get("headers") or {}
        async with self._connection.post(self._wire.path(model_id), written.body, model_id, headers) as arrived:
            if arrived.streams:
                stream, done = events(arrived.chunks, vendor=self.name), False
                async for name, data in stream:
                    if done := data == DONE:
                        break
                    for piece in self._take(reply, name, data):
                        if written.may_retry and isinstance(piece, CallPiece):
                            continue  # partial calls are only for clients that run the tools themselves
                        held.append(piece)
                        if isinstance(piece, TextDelta | CallPiece):  # until then a failed attempt can be retried
                            for each in held:
                                yield each
                            held.clear()
                    if reply.ended:
                        await self._rest(reply, stream)
                        break
                if not (reply.ended or done):
                    return  # cut off: the caller sees that ``Finished`` is missing
            whole = reply.assembled() if arrived.streams else await self._read(arrived)
        finished = self._wire.read(self._scrubbed(whole), self.abilities(model_id))
        text = "".join(block.text for block in blocks_of(finished.items) if isinstance(block, TextBlock))
        if text and not arrived.streams:
            yield TextDelta(text=text)
        yield finished

    async def _rest(self, reply: Accumulator, stream: AsyncIterator[tuple[str, str]]) -> None:
        """Read what follows the final event, such as the usage; errors are ignored."""
        with suppress(Exception):
            async with asyncio.timeout(REST_SECONDS):
                async for name, data in stream:
                    if data == DONE:
                        return
                    self._take(reply, name, data)

    def _take(self, reply: Accumulator, name: str, data: str) -> Sequence[StreamedPiece]:
        secrets = self._connection.secrets
        data = scrub(data, secrets)
        try:
            event = msgspec.json.decode(data)
        except (msgspec.DecodeError, RecursionError) as error:
            if "truncated" in str(error):  # the stream broke off inside its last event
                raise cut_off(self.name) from None
            raise garbled(self.name, f"{error}: {data[:100]}") from None
        return [
            replace(piece, text=scrub(piece.text, secrets)) if isinstance(piece, TextDelta) else piece
            for piece in reply.feed(name, event)
        ]

    def _scrubbed(self, whole: Json) -> Json:
        """Remove keys from a reply, however they are escaped."""
        text = msgspec.json.encode(whole).decode()
        clean = scrub(text, self._connection.secrets)
        return whole if clean == text else msgspec.json.decode(clean)

    async def _read(self, arrived: HttpReply) -> Json:
        """Read a non-streaming reply; raise ``ProviderError`` if it is not JSON."""
        body = await read_whole(arrived, self.name)
        text = scrub(body.decode("utf-8", "replace"), self._connection.secrets)
        try:
            return msgspec.json.decode(text)
        except (msgspec.DecodeError, RecursionError):
            raise garbled(self.name, f"{arrived.media_type or 'no content type'}: {text[:200]}") from None


OVERRIDES = (
    *("context_limit", "max_output_tokens", "tools", "images", "files", "reasoning", "one_system"),
    *("min_cache_tokens", "price_input", "price_output", "price_cached", "price_cache_write"),
)


class ProviderFactory:
    """Creates providers; those at the same address share a connection."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._open: dict[Address, VendorConnection] = {}

    def provider(self, model: ModelSettings) -> Provider:
        """Return the provider of a remote model; nothing is sent yet."""
        policy = RetryPolicy(attempts=model.attempts)
        return RemoteProvider(
            wire(model, self._settings), self._connection(model), overrides=overrides(model), policy=policy
        )

    def line(self, model: ModelSettings) -> ModelConnection:
        """Return a connection for requests with non-streaming replies; nothing is sent yet."""
        return ModelConnection(
            self._connection(model), model.model_id or "", policy=RetryPolicy(attempts=model.attempts)
        )

    def _connection(self, model: ModelSettings) -> VendorConnection:
        where = address(model)
        return self._open.setdefault(where, VendorConnection(where))


def address(model: ModelSettings) -> Address:
    """Return the address of a model and its key variable; a custom server gets no key unless one is configured."""
    auth, base_url = VENDORS[model.provider].auth, model.base_url
    gets_key = base_url is None or auth.hosts is None or re.match(auth.hosts, base_url) is not None
    return Address(
        vendor=model.provider,
        base_url=base_url,
        key_env=model.api_key_env or (auth.key_env if gets_key else None),
        in_keyring=model.api_key_keyring,
        seconds=model.timeout_seconds,
    )


def wire(model: ModelSettings, settings: Settings) -> Wire:
    """Return the wire of a model according to the settings."""
    opened: Wire = wire_package(VENDORS[model.provider].wire).open_wire(model, settings)
    return opened


def overrides(model: ModelSettings) -> dict[str, Json]:
    """Return the capabilities that the settings override."""
    fields = msgspec.structs.asdict(model)
    return {name: fields[name] for name in OVERRIDES if fields[name] is not None}
