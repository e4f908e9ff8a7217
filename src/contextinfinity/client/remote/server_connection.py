"""HTTP to a server: requests with retries, problem documents as our errors, streams that resume."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote, urlsplit

import msgspec

from contextinfinity.domain.session import Owner
from contextinfinity.domain.wire import lone_surrogate
from contextinfinity.errors import (
    ContextInfinityError,
    Ending,
    HeadMoved,
    InvalidInput,
    LedgerBusy,
    NotFound,
    QueueFull,
    Refused,
    ServerAway,
)

if TYPE_CHECKING:
    import httpx2

log = logging.getLogger(__name__)

T = TypeVar("T")

WAITS = (0.1, 0.2, 0.5, 1.0, 2.0, 4.0)
"""Seconds before each further try to reach a server that is away; it may be starting."""
READS = 3
"""The number of these after which reading is reported as failed."""
PIECE = 1 << 18
SILENT_SECONDS = 60.0
"""A stream that says nothing for so long, not even that it is there, is taken for cut."""
LOCAL = Owner()


class Unreachable(ServerAway):
    """The server does not answer, or a proxy answers for it; a retry may succeed."""


class ServerConnection:
    """A connection to one server, as one caller.

    A request names the user it acts for in its query: the one the line acts for, or else the owner that a verb is
    given. ``LOCAL`` names no user: the server then takes the token's user.
    """

    def __init__(self, url: str, token: str | None = None) -> None:
        self._url = _checked_url(url)
        self._acting: Owner | None = None
        self._token = None if token is None else _checked_token(token.strip())
        self._made: httpx2.AsyncClient | None = None

    @property
    def _http(self) -> httpx2.AsyncClient:
        if self._made is None:
            import httpx2

            headers = {} if self._token is None else {"authorization": f"Bearer {self._token}"}
            limits = httpx2.Limits(max_connections=None, max_keepalive_connections=20)
            # A proxy for the internet is not meant for this machine.
            is_here = urlsplit(self._url).hostname in ("localhost", "127.0.0.1", "::1")
            self._made = httpx2.AsyncClient(
                base_url=self._url,
                headers=headers,
                limits=limits,
                timeout=SILENT_SECONDS,
                trust_env=not is_here,
                verify=not self._url.lower().startswith("http:"),  # without TLS no certificates are read
            )
        return self._made

    def acting_for(self, owner: Owner) -> ServerConnection:
        """Return a view of the same connections whose requests all act for an owner."""
        line = copy(self)
        line._made, line._acting = self._http, owner
        return line

    async def close(self) -> None:
        """Close the connections."""
        if self._made is not None:
            await self._made.aclose()

    async def get(self, path: str, kind: type[T], *, owner: Owner = LOCAL, **query: Any) -> T:
        """Send a GET request."""
        return await self._asked("GET", path, kind, owner, query=query)

    async def send(
        self,
        method: str,
        path: str,
        kind: type[T],
        body: object,
        *,
        owner: Owner = LOCAL,
        key: str | None = None,
        **query: Any,
    ) -> T:
        """Send a request that changes something; with a key it may be retried."""
        return await self._asked(method, path, kind, owner, body=body, key=key, query=query)

    async def remove(self, path: str, kind: type[T], *, owner: Owner = LOCAL, **query: Any) -> T:
        """Send a DELETE request and return the response."""
        return await self._asked("DELETE", path, kind, owner, query=query)

    async def _asked(
        self,
        method: str,
        path: str,
        kind: type[T],
        owner: Owner,
        *,
        query: Mapping[str, Any] | None = None,
        body: object = None,
        key: str | None = None,
    ) -> T:
        request = self._request(method, path, owner, query or {}, body, key)
        waits = WAITS[:READS] if method == "GET" else WAITS if key is not None else ()
        for wait in (*waits, None):
            try:
                return _read(await self._sent(request), kind)
            except (Unreachable, Ending, LedgerBusy):
                if wait is None:
                    raise
                await asyncio.sleep(wait)
        raise AssertionError("not reached: the last try raises or returns")

    async def _sent(self, request: httpx2.Request) -> bytes:
        async with self._answer(request) as answer:
            return await answer.aread()

    @asynccontextmanager
    async def _answer(self, request: httpx2.Request) -> AsyncIterator[httpx2.Response]:
        """Send a request and return a successful response."""
        import httpx2

        try:
            answer = await self._http.send(request, stream=True)
            try:
                if answer.status_code != 200:
                    raise error_of(await answer.aread(), answer.status_code)
                yield answer
            finally:
                await answer.aclose()
        except httpx2.RequestError as error:
            why = str(error) or type(error).__name__
            raise Unreachable(f"The server at {self._url} cannot be reached: {why}.") from error

    def _request(
        self,
        method: str,
        path: str,
        owner: Owner,
        query: Mapping[str, Any],
        body: object,
        key: str | None,
        content: AsyncIterator[bytes] | bytes | None = None,
    ) -> httpx2.Request:
        params = {name: value for name, value in query.items() if value is not None}
        whose = self._acting or (owner if owner.user_id != LOCAL.user_id else None)
        params |= {} if whose is None else {"user_id": whose.user_id}
        org_id = (self._acting or owner).org_id
        headers = {"x-org-id": org_id} if org_id else {}
        if key is not None:
            headers["idempotency-key"] = checked_key(key)
        if body is not None:
            headers["content-type"] = "application/json"
            content = _written(body)
        return self._http.build_request(method, path, params=params, content=content, headers=headers)

    async def upload(
        self,
        path: str,
        kind: type[T],
        file: Path,
        *,
        owner: Owner = LOCAL,
        progress: Callable[[int, int], None] | None = None,
        **query: Any,
    ) -> T:
        """Upload a file as it is read, and wait as long as the server works on it."""
        request = self._request("POST", path, owner, query, None, None, content=_pieces(file, progress))
        request.headers["content-type"] = "application/octet-stream"
        request.extensions["timeout"] = {"connect": SILENT_SECONDS, "read": None, "write": SILENT_SECONDS, "pool": None}
        return _read(await self._sent(request), kind)

    async def download(self, path: str, *, owner: Owner = LOCAL, **query: Any) -> AsyncIterator[bytes]:
        """Yield a response piece by piece."""
        async with self._answer(self._request("GET", path, owner, query, None, None)) as answer:
            async for piece in answer.aiter_bytes():
                yield piece

    @asynccontextmanager
    async def blocks(
        self,
        method: str,
        path: str,
        *,
        owner: Owner = LOCAL,
        body: object = None,
        key: str | None = None,
        after: str | None = None,
    ) -> AsyncIterator[AsyncIterator[tuple[str, bytes, str | None]]]:
        """Open a stream and yield its events as (name, data, id)."""
        request = self._request(method, path, owner, {}, body, key)
        if after is not None:
            request.headers["last-event-id"] = after
        async with self._answer(request) as answer:
            if not answer.headers.get("content-type", "").startswith("text/event-stream"):
                raise _not_a_server(answer.status_code)
            yield _blocks(answer)


async def _pieces(file: Path, progress: Callable[[int, int], None] | None) -> AsyncIterator[bytes]:
    sent = 0
    try:
        stream = sys.stdin.buffer if str(file) == "-" else await asyncio.to_thread(file.open, "rb")
    except OSError as error:
        raise InvalidInput(
            f"{file} cannot be read ({error.strerror or error}).", hint="A server takes a file."
        ) from error
    with stream:
        while piece := await asyncio.to_thread(stream.read, PIECE):
            yield piece
            sent += len(piece)
            if progress is not None:
                progress(sent, 0)


async def _blocks(answer: httpx2.Response) -> AsyncIterator[tuple[str, bytes, str | None]]:
    name, data, event_id = "", b"", None
    async for line in _lines(answer):
        if not line:
            if name:
                yield name, data, event_id
            name, data, event_id = "", b"", None
            continue
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"event":
            name = value.decode()
        elif field == b"data":
            data += value
        elif field == b"id":
            event_id = value.decode()


async def _lines(answer: httpx2.Response) -> AsyncIterator[bytes]:
    """Yield the lines of a stream; ``aiter_lines`` would also end one at U+2028 or U+0085 inside a model's text."""
    rest = b""
    async for piece in answer.aiter_bytes():
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            yield line.removesuffix(b"\r")


def error_of(body: bytes, status: int) -> ContextInfinityError:
    """Return the error that a problem document describes."""
    try:
        problem = msgspec.json.decode(body, type=_ProblemBody)
    except msgspec.DecodeError:
        return _not_a_server(status)
    kind = BY_CODE.get(problem.code, NotFound if status == 404 else Refused)
    if kind is QueueFull:
        return QueueFull(problem.detail, running=problem.running, hint=problem.hint)
    if kind is HeadMoved:
        return Refused(problem.detail, hint=problem.hint)
    return kind(problem.detail, hint=problem.hint)


def _not_a_server(status: int) -> ServerAway:
    kind = Unreachable if status >= 500 else ServerAway
    return kind(f"What answered with status {status} is not a ContextInfinity server.", hint="Check the address.")


def _read(answer: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(answer, type=kind)
    except msgspec.DecodeError:
        raise _not_a_server(200) from None


class _ProblemBody(msgspec.Struct, frozen=True, kw_only=True):
    detail: str
    code: str
    hint: str = ""
    running: str | None = None


def _kinds(kind: type[ContextInfinityError]) -> Iterator[type[ContextInfinityError]]:
    yield kind
    for narrower in kind.__subclasses__():
        yield from _kinds(narrower)


BY_CODE = {kind.code: kind for kind in _kinds(ContextInfinityError)}


def path(*names: str) -> str:
    """Return a path with its parts percent-encoded."""
    return "".join(f"/{quote(name, safe='')}" for name in names)


def _checked_url(url: str) -> str:
    if not url.lower().startswith(("http://", "https://")):
        raise InvalidInput(f"{url!r} is not a server URL.", hint="Use an address that begins with http:// or https://.")
    return url.rstrip("/")


def _checked_token(token: str) -> str:
    """Reject a token that cannot be sent in a header; the error does not repeat it."""
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise InvalidInput(
            "The token is not valid: it contains characters other than printable ASCII.", hint="Copy it again."
        )
    return token


def checked_key(key: str) -> str:
    """Reject a key that cannot be sent in a header."""
    if not key or not key.isascii() or not key.isprintable():
        raise InvalidInput("An idempotency key has 1 to 255 printable ASCII characters.")
    return key


def _written(body: object) -> bytes:
    try:
        return msgspec.json.encode(body)
    except UnicodeEncodeError as error:
        raise InvalidInput(f"The text holds {lone_surrogate(error)}.") from error
