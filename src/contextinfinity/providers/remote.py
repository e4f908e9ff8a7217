"""A provider on the network: a wire, a connection, and patience.

A request is written by the wire, sent by the connection, and what comes back is put together by the wire again. What
fails before the first word is asked again, visibly. The last word is given once the vendor has said it, and all that
it counted has come.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing, suppress

import msgspec

from contextinfinity.domain.message import Json, TextBlock, blocks_of
from contextinfinity.domain.model import Abilities
from contextinfinity.domain.prompt import (
    CallPiece,
    ProviderEvent,
    ProviderRequest,
    RequestOptions,
    StreamedPiece,
    TextDelta,
)
from contextinfinity.providers.catalogue import abilities_of
from contextinfinity.providers.contract import Accumulator, EncodedRequest, Wire
from contextinfinity.providers.failures import cut_off, garbled, scrub
from contextinfinity.providers.rebuild_request import write
from contextinfinity.providers.request_options import AppliedOptions
from contextinfinity.providers.retrying import RetryPolicy, retrying
from contextinfinity.providers.sse import events
from contextinfinity.providers.transport import HttpReply, VendorConnection, read_whole
from contextinfinity.providers.wire_values import sent_to
from contextinfinity.text.tokens import Counter, counter_of

DONE = "[DONE]"
ONCE = RetryPolicy(attempts=1)
REST_SECONDS = 2.0
"""How long to wait for what may follow the last word."""


class RemoteProvider:
    """``Provider`` that asks a vendor."""

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
        """The wire form whose clients are passed through as they are (``domain.sent_form``)."""

    @property
    def missing(self) -> str:
        """The key, where one is needed and its variable is not set."""
        address = self._connection.address
        needs_key = address.key_env is not None and not self._connection.key
        return f"{address.key_env} is not set" if needs_key else ""

    def abilities(self, model_id: str) -> Abilities:
        """Look a model up; what the settings say of it counts first."""
        return abilities_of(self.name, model_id, self._overrides)

    def context_limit(self, model_id: str) -> int:
        """Tell how many tokens a request to that model may hold, its answer included."""
        return self.abilities(model_id).context_limit

    def counter(self, model_id: str) -> Counter:
        """Count as the vendor does, where its tokenizer is public, and estimate elsewhere."""
        return counter_of(self.name, model_id, self.abilities(model_id).encoding)

    def estimate_prompt_tokens(self, request: ProviderRequest) -> int:
        """Count what a request will cost."""
        return self.counter(request.model_id).prompt(request.prompt)

    def write(self, request: ProviderRequest) -> EncodedRequest:
        """Put a request into the vendor's form."""
        return write(self.name, self._wire, self.abilities(request.model_id), request)

    def options_for(self, wishes: RequestOptions, model_id: str) -> AppliedOptions:
        """Put wishes into the words of the vendor."""
        return self._wire.wished(wishes, self.abilities(model_id))

    async def stream(self, written: EncodedRequest) -> AsyncIterator[ProviderEvent]:
        """Ask, again if need be, and give what comes back as it comes."""
        policy = self._policy if written.may_retry else ONCE
        async with aclosing(retrying(lambda: self._attempt(written), policy, vendor=self.name)) as attempts:  # type: ignore[type-var]
            async for event in attempts:
                yield event

    async def close(self) -> None:
        """Let go of connections."""
        await self._connection.close()

    async def _attempt(self, written: EncodedRequest) -> AsyncIterator[ProviderEvent]:
        """Ask once."""
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
                            continue  # only clients that run the tools themselves are shown calls before they are whole
                        held.append(piece)
                        if isinstance(piece, TextDelta | CallPiece):  # until then a failed attempt can be made again
                            for each in held:
                                yield each
                            held.clear()
                    if reply.ended:
                        await self._rest(reply, stream)
                        break
                if not (reply.ended or done):
                    return  # it was cut: whoever listens sees that the last word is missing
            whole = reply.whole() if arrived.streams else await self._read(arrived)
        finished = self._wire.read(self._scrubbed(whole), self.abilities(model_id))
        text = "".join(block.text for block in blocks_of(finished.items) if isinstance(block, TextBlock))
        if text and not arrived.streams:
            yield TextDelta(text=text)
        yield finished

    async def _rest(self, reply: Accumulator, stream: AsyncIterator[tuple[str, str]]) -> None:
        """Take what comes after the last word, a count of tokens perhaps; nothing that goes wrong there counts."""
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
            if "truncated" in str(error):  # the last event of a stream that broke off inside it
                raise cut_off(self.name) from None
            raise garbled(self.name, f"{error}: {data[:100]}") from None
        return [
            TextDelta(text=scrub(piece.text, secrets)) if isinstance(piece, TextDelta) else piece
            for piece in reply.take(name, event)
        ]

    def _scrubbed(self, whole: Json) -> Json:
        """Take keys out of a reply, however they were written."""
        text = msgspec.json.encode(whole).decode()
        clean = scrub(text, self._connection.secrets)
        return whole if clean == text else msgspec.json.decode(clean)

    async def _read(self, arrived: HttpReply) -> Json:
        """Read the reply of a server that does not stream, or is none of the kind."""
        body = await read_whole(arrived, self.name)
        text = scrub(body.decode("utf-8", "replace"), self._connection.secrets)
        try:
            return msgspec.json.decode(text)
        except (msgspec.DecodeError, RecursionError):
            raise garbled(self.name, f"{arrived.media_type or 'no content type'}: {text[:200]}") from None
