"""HTTP to a vendor: a shared client per address, authentication, and errors as ``ProviderError``.

``httpx2`` is imported with the first request. Retries are made by the caller, which reports them. Keys are read from
the environment and never stored.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from functools import cache
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING

from msgspec import Struct

from contextinfinity.errors import ProviderError
from contextinfinity.providers.failures import connection_failure, failure, garbled
from contextinfinity.providers.vendor_keys import vendor_key
from contextinfinity.vendors import VENDORS

if TYPE_CHECKING:
    import ssl

    import httpx2

CONNECT_SECONDS = 10.0
MOST_CONNECTIONS, MOST_IDLE_CONNECTIONS = 1000, 100
EVENTS = (b"data:", b"event:", b"id:", b"retry:", b":")
"""The prefixes of an event stream."""
NO_KEY = "none"
"""Sent as the key if none is needed: some servers reject a request without one."""
LEFT_SECONDS = 0.25
"""How long to wait for the end of a stream after its last event."""
LARGEST_REPLY = 64 * 1024 * 1024
LARGEST_ERROR = 1024 * 1024


class Address(Struct, frozen=True, kw_only=True):
    """The base URL, key variable and timeout of requests."""

    vendor: str
    base_url: str | None = None
    """None: the vendor's own base URL."""
    key_env: str | None = None
    """The environment variable that holds the key; None: no key is needed."""
    in_keyring: bool = False
    """Whether the keyring has the key where the variable is not set."""
    seconds: float = 600.0
    """The read timeout."""


class HttpReply(Struct, frozen=True, kw_only=True):
    """A reply whose body has begun to arrive."""

    media_type: str
    chunks: AsyncIterator[bytes]
    streams: bool = True
    """Whether it is a stream of events, judged by what the server sends, not by what it declares."""


@cache
def _tls(cert_file: str | None, cert_dir: str | None) -> ssl.SSLContext:
    """Return the TLS settings of all clients; reading the certificates takes 20 ms. httpx2 reads the two variables."""
    import httpx2

    return httpx2.create_ssl_context()


class VendorConnection:
    """The HTTP client of one address, opened with the first request and shared by all requests."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self._client: httpx2.AsyncClient | None = None

    @property
    def key(self) -> str:
        """The key; read each time, because it may change."""
        return vendor_key(self.address.key_env, in_keyring=self.address.in_keyring)

    @property
    def secrets(self) -> tuple[str, ...]:
        """Values that must never be shown."""
        return (self.key,) if self.key else ()

    @asynccontextmanager
    async def post(
        self,
        path: str,
        body: bytes,
        model_id: str,
        more_headers: Mapping[str, str] = MappingProxyType({}),
        *,
        accept: str = "text/event-stream",
    ) -> AsyncGenerator[HttpReply, None]:
        """Send a request; raise ``ProviderError`` if there is no reply or one with an error status."""
        response = None
        if self._client is None:  # the import takes 0.1 s; other tasks run meanwhile
            await asyncio.to_thread(import_module, "httpx2")
        import httpx2

        try:
            if self._client is None:
                self._client = self._open()
            headers = {**self._headers(), **more_headers, "Content-Type": "application/json", "Accept": accept}
            request = self._client.build_request("POST", path.lstrip("/"), content=body, headers=headers)
            response = await self._client.send(request, stream=True)
            if not response.is_success:
                raise await self._failure(response, model_id)
            kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
            chunks = response.aiter_bytes()
            first = await anext(chunks, b"")
            streams = kind == "text/event-stream" or first.lstrip().startswith(EVENTS)
            yield HttpReply(media_type=kind, chunks=_again(first, chunks), streams=streams)
            await _read_to_end(chunks)
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
            raise connection_failure(
                self.address.vendor, self._base_url, error, secrets=self.secrets
            ) from None  # the cause may contain the key
        finally:
            if response is not None:
                with suppress(Exception):
                    await response.aclose()

    async def close(self) -> None:
        """Close the client. Closing twice does nothing."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    @property
    def _base_url(self) -> str:
        vendor = VENDORS[self.address.vendor]
        from_environment = os.environ.get(vendor.base_url_env or "", "").strip()
        return self.address.base_url or from_environment or vendor.base_url

    def _open(self) -> httpx2.AsyncClient:
        import httpx2

        return httpx2.AsyncClient(
            base_url=self._base_url,
            timeout=httpx2.Timeout(self.address.seconds, connect=CONNECT_SECONDS),
            limits=httpx2.Limits(max_connections=MOST_CONNECTIONS, max_keepalive_connections=MOST_IDLE_CONNECTIONS),
            follow_redirects=True,
            verify=_tls(os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR")),
        )

    def _headers(self) -> dict[str, str]:
        """Return the request headers: those of the vendor's record, and those of the environment."""
        vendor, key = VENDORS[self.address.vendor], self._checked_key()
        lines = os.environ.get(vendor.custom_headers_env or "", "").splitlines()
        custom = {
            name.strip(): value.strip() for name, colon, value in (line.partition(":") for line in lines) if colon
        }
        named = {header: os.environ.get(variable, "").strip() for header, variable in vendor.headers_env.items()}
        return {
            "User-Agent": "contextinfinity",
            **vendor.headers,
            **{header: value for header, value in named.items() if value},
            vendor.auth.header: f"{vendor.auth.prefix}{key}",
            **custom,
        }

    def _checked_key(self) -> str:
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
                hint=f"Set {address.key_env} to the key alone.",
            )
        return key or NO_KEY

    async def _failure(self, response: httpx2.Response, model_id: str) -> ProviderError:
        """Read the body of an error, up to a limit."""
        body = bytearray()
        async for chunk in response.aiter_bytes():
            body += chunk
            if len(body) > LARGEST_ERROR:
                break
        return failure(
            self.address.vendor,
            response.status_code,
            bytes(body).decode("utf-8", "replace"),
            dict(response.headers),
            model_id=model_id,
            secrets=self.secrets,
            key_env=self.address.key_env or "",
        )


async def read_whole(arrived: HttpReply, vendor: str) -> bytes:
    """Read a whole reply; raise ``ProviderError`` if it is too large."""
    body = bytearray()
    async for chunk in arrived.chunks:
        body += chunk
        if len(body) > LARGEST_REPLY:
            raise garbled(vendor, f"a reply of more than {LARGEST_REPLY} bytes")
    return bytes(body)


async def _again(first: bytes, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield the chunk that was read already, then the rest."""
    yield first
    async for chunk in rest:
        yield chunk


async def _read_to_end(chunks: AsyncIterator[bytes]) -> None:
    """Read the rest of a reply, so that its connection can be used again."""
    with suppress(Exception):
        async with asyncio.timeout(LEFT_SECONDS):
            async for _ in chunks:
                pass
