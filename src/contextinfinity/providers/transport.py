"""HTTP to a vendor: a shared client per address, authentication, and errors as ``ProviderError``.

``httpx2`` is imported with the first request. Retries are made by the caller, which reports them. Keys are read from
the environment and never stored.

The key of a vendor: from the environment or the keyring of the operating system. It is written nowhere else.

Failed requests are retried. The result is the stream of one attempt, with a ``Retry`` event before each wait. There is
no retry once text has been yielded, because the reader has seen it.

Embedders make requests with non-streaming replies, with the same retries. Each retry is logged; keys and request
content never are.

Server-sent events are decoded from a byte stream. Chunks may be split anywhere, even inside a line ending or a
character. The result is pairs of event name ("" if it has none) and data, as soon as they are complete. Comments, ids
and retry times are ignored.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from functools import cache
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from contextinfinity.domain.prompt import Finished, ProviderEvent, Retry, TextDelta
from contextinfinity.errors import ProviderError, Refused
from contextinfinity.providers.failures import SOMEBODY, connection_failure, cut_off, failure, garbled
from contextinfinity.vendors import VENDORS

if TYPE_CHECKING:
    import ssl

    import httpx2

SERVICE = "contextinfinity vendor keys"
"""The name of the service in a keyring; the account is the name of the environment variable."""
HOW = "Set the environment variable {} instead."


def vendor_key(variable: str | None, *, in_keyring: bool = False) -> str:
    """Return the key that a variable holds, or else the keyring; empty if there is none."""
    if not variable:
        return ""
    return os.environ.get(variable, "").strip() or (_from_keyring(variable) if in_keyring else "")


def keep_vendor_key(variable: str, key: str) -> None:
    """Keep a key in the keyring. Raises ``Refused`` if there is no usable keyring."""
    keyring = _keyring()
    try:
        if keyring is None:
            raise RuntimeError("the package keyring is not installed")
        keyring.set_password(SERVICE, variable, key)
        if keyring.get_password(SERVICE, variable) != key:
            raise RuntimeError("it was not stored")
    except Exception as error:  # each backend has errors of its own
        raise Refused(f"The key cannot be stored in the keyring: {error}.", hint=HOW.format(variable)) from error
    _from_keyring.cache_clear()


@cache
def _from_keyring(variable: str) -> str:
    keyring = _keyring()
    try:
        return "" if keyring is None else (keyring.get_password(SERVICE, variable) or "").strip()
    except Exception:  # a locked or missing keyring: as without a key, and the request says so
        return ""


def _keyring() -> Any:
    try:
        import keyring
    except ImportError:
        return None
    return keyring


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


class RetryPolicy(Struct, frozen=True, kw_only=True):
    """The retry policy: waits double from ``first_wait`` (exponential back-off) up to ``longest_wait``."""

    attempts: int = 4
    first_wait: float = 1.0
    longest_wait: float = 60.0


async def retrying(
    attempt: Callable[[], AsyncIterator[ProviderEvent]],
    policy: RetryPolicy,
    *,
    vendor: str = SOMEBODY,
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    random: Callable[[], float] = random.random,
) -> AsyncIterator[ProviderEvent]:
    """Repeat attempts until an answer starts, at most ``policy.attempts`` times.

    An attempt that ends without text and without ``Finished`` was cut off and has failed. One that is cut off
    after text ends the stream. ``vendor`` is used in error messages. Raises ``ProviderError`` after the last attempt.
    """
    tried = 0
    while True:
        tried += 1
        shown = False
        stream = attempt()
        try:
            async for event in stream:
                shown = shown or (isinstance(event, TextDelta) and event.text != "")
                yield event
                if isinstance(event, Finished):
                    return
            if shown:
                return
            failed = cut_off(vendor)
        except ProviderError as error:
            if shown or not error.retryable:
                raise
            failed = error
        finally:
            await _close(stream)
        wait = wait_after(failed, policy, tried, random)
        yield Retry(attempt=tried, reason=failed.message, wait_seconds=wait)
        await sleep(wait)


def wait_after(
    failed: ProviderError, policy: RetryPolicy, tried: int, random: Callable[[], float] = random.random
) -> float:
    """Return the wait before the next attempt: random up to the doubled time (jitter), to spread retries.

    Raises the failure, with the reason why there is no retry, after the last attempt or if the requested wait is too
    long.
    """
    if tried >= policy.attempts:
        raise _final(failed, f"It was tried {tried} times." if tried > 1 else "") from failed
    requested = failed.retry_after or 0.0
    if requested > policy.longest_wait:
        raise _final(
            failed, f"It asked to wait {requested:.0f} seconds; we wait {policy.longest_wait:g} at most."
        ) from failed
    doubled = policy.first_wait * 2.0 ** min(tried - 1, 30)
    return max(requested, random() * min(policy.longest_wait, doubled))


def _final(failed: ProviderError, why: str) -> ProviderError:
    final = ProviderError(
        f"{failed.message} {why}".rstrip(),
        kind=failed.kind,
        hint=failed.hint,
        retryable=True,
        retry_after=failed.retry_after,
    )
    final.upstream = failed.upstream
    return final


async def _close(stream: AsyncIterator[ProviderEvent]) -> None:
    """Close the connection now, not at garbage collection."""
    close = getattr(stream, "aclose", None)
    if close is not None:
        await close()


log = logging.getLogger(__name__)


class ModelConnection:
    """The connection to one model."""

    def __init__(
        self,
        connection: VendorConnection,
        model_id: str,
        *,
        policy: RetryPolicy | None = None,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._connection = connection
        self._model_id = model_id
        self._policy = policy or RetryPolicy()
        self._sleep = sleep

    async def post(self, path: str, body: bytes) -> bytes:
        """Send a request with retries according to the policy; raise ``ProviderError`` if all attempts fail."""
        tried = 0
        while True:
            tried += 1
            try:
                return await self._once(path, body)
            except ProviderError as error:
                if not error.retryable:
                    raise
                wait, reason = wait_after(error, self._policy, tried), error.message
            log.warning("attempt %d failed, the next one follows in %.1f s: %s", tried, wait, reason)
            await self._sleep(wait)

    async def close(self) -> None:
        """Close connections."""
        await self._connection.close()

    async def _once(self, path: str, body: bytes) -> bytes:
        async with self._connection.post(path, body, self._model_id, accept="application/json") as arrived:
            return await read_whole(arrived, self._connection.address.vendor)


LONGEST_EVENT = 64 * 1024 * 1024
_MARK = b"\xef\xbb\xbf"


class SseDecoder:
    """Decodes bytes into events; ``close`` returns the last event."""

    def __init__(self, longest: int = LONGEST_EVENT, vendor: str = SOMEBODY) -> None:
        self._longest = longest
        self._vendor = vendor
        self._rest: list[bytes] = []  # pieces of an unfinished line, joined only once
        self._rest_size = 0
        self._after_return = False  # a line feed that follows belongs to the previous line ending
        self._begun = False
        self._event = b""
        self._data: list[bytes] = []
        self._data_size = 0

    def feed(self, chunk: bytes) -> list[tuple[str, str]]:
        """Add bytes and return the events they complete; raise ``ProviderError`` for an oversized event."""
        if self._after_return and chunk:
            self._after_return = False
            chunk = chunk.removeprefix(b"\n")
        if not chunk:
            return []
        lines = chunk.splitlines()
        self._after_return = chunk.endswith(b"\r")
        tail = b"" if self._after_return or chunk.endswith(b"\n") else lines.pop()
        if lines and self._rest:
            self._rest.append(lines[0])
            lines[0] = b"".join(self._rest)
            self._rest.clear()
            self._rest_size = 0
        found = self._read(lines) if lines else []
        if tail:
            self._rest.append(tail)
            self._rest_size += len(tail)
        if self._rest_size + self._data_size > self._longest:
            raise garbled(self._vendor, f"an event of more than {self._longest} bytes")
        return found

    def close(self) -> list[tuple[str, str]]:
        """Return the unfinished last event, as if its line had ended."""
        left = b"".join(self._rest)
        self._rest.clear()
        return self._read([left, b""] if left else [b""])

    def _read(self, lines: list[bytes]) -> list[tuple[str, str]]:
        if not self._begun:
            self._begun = True
            lines[0] = lines[0].removeprefix(_MARK)
        found: list[tuple[str, str]] = []
        for line in lines:
            if not line:
                if self._data:
                    data = self._data[0] if len(self._data) == 1 else b"\n".join(self._data)
                    found.append((self._event.decode("utf-8", "replace"), data.decode("utf-8", "replace")))
                    self._data = []
                    self._data_size = 0
                self._event = b""
                continue
            name, _, value = line.partition(b":")
            if name == b"data":
                self._data.append(value[1:] if value[:1] == b" " else value)
                self._data_size += len(line)
            elif name == b"event":
                self._event = value[1:] if value[:1] == b" " else value
        return found


async def events(chunks: AsyncIterator[bytes], vendor: str = SOMEBODY) -> AsyncIterator[tuple[str, str]]:
    """Yield the events of a byte stream as they arrive."""
    decoder = SseDecoder(vendor=vendor)
    async for chunk in chunks:
        for event in decoder.feed(chunk):
            yield event
    for event in decoder.close():
        yield event
