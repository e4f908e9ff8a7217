"""The way to a vendor: its official SDK carries the bytes, through its low-level post.

The SDK is imported when the first request is made. It knows the vendor's addresses, headers and ways to prove who is
asking; asking again is ours, where people can see it. Keys come from the environment and go nowhere else.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager, suppress
from importlib import import_module
from typing import Any, Literal

from msgspec import Struct

from contextinfinity.errors import ProviderError
from contextinfinity.providers.failures import connection_failure, failure, garbled

CONNECT_SECONDS = 10.0
EVENTS = (b"data:", b"event:", b"id:", b"retry:", b":")
"""How a stream of events begins."""
NO_KEY = "none"
"""Stands for a key where a server asks for none; the SDK wants something."""
LEFT_SECONDS = 0.25
"""How long the end of a stream may take after the last word."""
LARGEST_REPLY = 64 * 1024 * 1024


class Address(Struct, frozen=True, kw_only=True):
    """Where a vendor is, and what opens its door."""

    sdk: Literal["openai", "anthropic"]
    vendor: str
    base_url: str | None = None
    """None: where the vendor itself is."""
    key_env: str | None = None
    """The environment variable that holds the key; None: no key is needed."""
    seconds: float = 600.0
    """How long nothing may come before it counts as lost."""


class Arrived(Struct, frozen=True, kw_only=True):
    """An answer that has begun to come."""

    media_type: str
    chunks: AsyncIterator[bytes]
    streams: bool = True
    """Whether it comes as a stream of events; not what a server says counts, but what it sends."""


class Connection:
    """A line to one address, opened when it is first used and shared by all who ask."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self._client: Any = None

    @property
    def key(self) -> str:
        """The key, read anew each time."""
        return os.environ.get(self.address.key_env or "", "").strip()

    @property
    def secrets(self) -> tuple[str, ...]:
        """What must never be repeated."""
        return (self.key,) if self.key else ()

    @asynccontextmanager
    async def post(
        self, path: str, body: bytes, model_id: str, *, accept: str = "text/event-stream"
    ) -> AsyncGenerator[Arrived, None]:
        """Send a request; whatever keeps it from being answered becomes a ``ProviderError``."""
        import httpx2

        response = None
        if self._client is None:  # importing takes a second; others go on meanwhile
            await asyncio.to_thread(import_module, self.address.sdk)
        try:
            client = self._opened()  # held until the answer has come: one that nobody holds closes itself
            response = await client.post(
                path,
                cast_to=httpx2.Response,
                content=body,
                options={"headers": {"Content-Type": "application/json", "Accept": accept}},
                stream=True,
            )
            kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
            chunks = response.aiter_bytes()
            first = await anext(chunks, b"")
            streams = kind == "text/event-stream" or first.lstrip().startswith(EVENTS)
            yield Arrived(media_type=kind, chunks=_again(first, chunks), streams=streams)
            await _read_to_end(chunks)
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError, self._sdk_error()) as error:
            raise self._told(error, model_id) from None  # the cause may hold the key
        finally:
            if response is not None:
                with suppress(Exception):
                    await response.aclose()

    async def close(self) -> None:
        """Let go of the connections."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    def _opened(self) -> Any:
        key, address = self.key, self.address
        if address.key_env is not None and not key:
            raise ProviderError(
                f"{address.vendor} needs a key, and the environment variable {address.key_env} is not set.",
                kind="authentication",
                hint=f"Set {address.key_env}, or name another variable with api_key_env in config.toml.",
            )
        if not (key.isascii() and key.isprintable()):
            raise ProviderError(
                f"What the environment variable {address.key_env} holds cannot be a key of {address.vendor}: it has a "
                "line break in it, or a character that no key has.",
                kind="authentication",
                hint=f"Set {address.key_env} to the key and nothing else.",
            )
        if self._client is not None and self._client.api_key != (key or NO_KEY):
            self._client = None  # the key was changed; requests under way keep the old client to their end
        if self._client is None:
            self._client = self._open(key or NO_KEY)
        return self._client

    def _open(self, key: str) -> Any:
        import httpx2

        patience = httpx2.Timeout(self.address.seconds, connect=CONNECT_SECONDS)
        if self.address.sdk == "anthropic":
            from anthropic import AsyncAnthropic

            return AsyncAnthropic(api_key=key, base_url=self.address.base_url, max_retries=0, timeout=patience)
        from openai import AsyncOpenAI, Omit

        if self.address.vendor == "openai":
            return AsyncOpenAI(api_key=key, base_url=self.address.base_url, max_retries=0, timeout=patience)
        # What the environment says for OpenAI is nobody else's business.
        lines = os.environ.get("OPENAI_CUSTOM_HEADERS", "").splitlines()
        unsent: Any = {line.partition(":")[0].strip(): Omit() for line in lines if ":" in line}
        client = AsyncOpenAI(
            api_key=key, base_url=self.address.base_url, max_retries=0, timeout=patience, default_headers=unsent
        )
        client.organization = client.project = None
        return client

    def _sdk_error(self) -> type[Exception]:
        if self.address.sdk == "anthropic":
            from anthropic import AnthropicError

            return AnthropicError
        from openai import OpenAIError

        return OpenAIError

    def _told(self, error: Exception, model_id: str) -> ProviderError:
        """Say what an exception of the SDK, or of the connection under it, means."""
        vendor, secrets = self.address.vendor, self.secrets
        status = getattr(error, "status_code", None)
        if isinstance(status, int):
            headers = dict(getattr(getattr(error, "response", None), "headers", {}))
            body = getattr(error, "body", None) or _text_of(error)
            key_env = self.address.key_env or ""
            return failure(vendor, status, body, headers, model_id=model_id, secrets=secrets, key_env=key_env)
        place = str(getattr(self._client, "base_url", self.address.base_url or ""))
        return connection_failure(vendor, place, error, secrets=secrets)


async def read_whole(arrived: Arrived, vendor: str) -> bytes:
    """Read an answer that comes in one piece."""
    body = bytearray()
    async for chunk in arrived.chunks:
        body += chunk
        if len(body) > LARGEST_REPLY:
            raise garbled(vendor, f"a reply of more than {LARGEST_REPLY} bytes")
    return bytes(body)


async def _again(first: bytes, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Give what was read already, then what follows."""
    yield first
    async for chunk in rest:
        yield chunk


async def _read_to_end(chunks: AsyncIterator[bytes]) -> None:
    """Read what is left of an answer, so that its connection can be used again."""
    with suppress(Exception):
        async with asyncio.timeout(LEFT_SECONDS):
            async for _ in chunks:
                pass


def _text_of(error: Exception) -> str:
    """Read what came with an error that was no JSON: a proxy's page, most likely."""
    with suppress(Exception):
        return str(error.response.text)  # type: ignore[attr-defined]
    return ""
