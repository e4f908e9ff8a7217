"""ASGI middleware in front of the routes: checks host and origin, size and duration, and logs each request."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
from time import perf_counter
from typing import Any
from urllib.parse import unquote_to_bytes

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from contextinfinity.domain.ids import new_id
from contextinfinity.errors import ContextInfinityError, InvalidInput, TooLarge, TooSlow
from contextinfinity.server import problems
from contextinfinity.server.app_state import Metrics
from contextinfinity.server.v1.vendors import is_for_vendor, request_id_of
from contextinfinity.settings import Server
from contextinfinity.storage.database import NO_OWNER, act_for

log = logging.getLogger(__name__)

READING = frozenset({"GET", "HEAD", "OPTIONS"})
UPLOADS = frozenset({"/import"})
LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]"})


def is_loopback(host: str) -> bool:
    """Return whether an address is reachable from this machine only."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


class Guard:
    """Rejects requests that no route should see, and measures the others."""

    def __init__(self, app: ASGIApp, *, server: Server, figures: Metrics) -> None:
        self._app = app
        self._server = server
        self._figures = figures
        self._hosts = self._known_hosts()

    def _known_hosts(self) -> frozenset[str] | None:
        """Return the hosts a request may name; None allows any, because there the token protects."""
        named = frozenset(name.lower() for name in self._server.allowed_hosts)
        if is_loopback(self._server.host):
            return named | LOOPBACK | {self._server.host}
        return named | {self._server.host} if named else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward a request, count it, and log it."""
        if scope["type"] != "lifespan":
            act_for(NO_OWNER)
        if scope["type"] == "websocket" and self._is_foreign(Headers(scope=scope)):
            await receive()
            await send({"type": "websocket.close", "code": 1008, "reason": "wrong host or origin"})
            return
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun, request_id, status = perf_counter(), new_id(), 500
        noted: dict[str, Any] = {}
        scope.setdefault("state", {}).update(noted=noted, begun=begun, request_id=request_id)

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), *_added(scope, request_id)]
            await send(message)

        try:
            await self._let_in(scope, receive, answer)
        finally:
            self._note(scope, status, perf_counter() - begun, {"request_id": request_id, **noted})

    async def _let_in(self, scope: Scope, receive: Receive, answer: Send) -> None:
        if (refused := self._refused(scope, Headers(scope=scope))) is None:
            await self._app(scope, self._measured(scope, receive), answer)
            return
        # What is left of such a request is not read, so nothing can follow it on its connection.
        await problems.answer(scope, refused, {"connection": "close"})(scope, receive, answer)

    def _refused(self, scope: Scope, headers: Headers) -> problems.ProblemDocument | None:
        """Return why a request is rejected; None if it may continue."""
        if self._hosts is not None and _name_of(headers.get("host", "")) not in self._hosts:
            return problems.plain_problem(
                400, "wrong_host", "The Host header names an unknown host.", "Add it to server.allowed_hosts."
            )
        is_foreign = self._is_embedded if scope["method"] in READING else self._is_cross_site
        if is_foreign(headers):
            return problems.plain_problem(
                403,
                "cross_site",
                "The request comes from a web page of another origin.",
                "Add the page's origin to server.cors_origins if it may use this server.",
            )
        if sum(len(name) + len(value) for name, value in headers.raw) > (most := self._server.max_header_bytes):
            return problems.plain_problem(431, "headers_too_large", f"The headers take more than {most} bytes.")
        declared = headers.get("content-length", "")
        if declared and "transfer-encoding" in headers:  # who reads one and who the other disagree on where it ends
            return problems.plain_problem(400, "no_http", "The request has two lengths of its body.")
        if declared.isdecimal() and len(declared) < 20 and int(declared) > self._most(scope):
            return problems.problem_of(self._too_large(scope))
        if not (_is_text(scope.get("raw_path") or b"") and _is_text(scope["query_string"])):
            hint = "Write it in UTF-8, percent-encoded, and without NUL."
            return problems.problem_of(InvalidInput("The URL contains bytes that are not UTF-8 text.", hint=hint))
        return None

    def _is_foreign(self, headers: Headers) -> bool:
        """Return whether a WebSocket names another host, or was opened by a page of another site."""
        is_known = self._hosts is None or _name_of(headers.get("host", "")) in self._hosts
        return not is_known or self._is_cross_site(headers)

    def _is_cross_site(self, headers: Headers) -> bool:
        """Return whether a browser sent the request for a page of another origin that the settings do not allow."""
        origin, allowed = headers.get("origin"), self._server.cors_origins
        if origin in allowed or (origin is not None and "*" in allowed):
            return False
        if headers.get("sec-fetch-site", "").strip().lower() == "cross-site":
            return True
        return origin is not None and origin.lower().partition("://")[2] != headers.get("host", "").lower()

    def _is_embedded(self, headers: Headers) -> bool:
        """Return whether a page of another origin loads something of ours into itself, by fetch or as an image.

        It cannot read the response, but how long a search takes would tell it what was found. Following a link is
        allowed.
        """
        allowed = self._server.cors_origins
        if "*" in allowed or headers.get("origin") in allowed:
            return False
        site, mode = (headers.get(f"sec-fetch-{name}", "").strip().lower() for name in ("site", "mode"))
        return site in ("cross-site", "same-site") and mode != "navigate"

    def _most(self, scope: Scope) -> int:
        """Return the maximum size of a request body in bytes."""
        return self._server.max_import_bytes if scope["path"] in UPLOADS else self._server.max_body_bytes

    def _too_large(self, scope: Scope) -> ContextInfinityError:
        return TooLarge(f"The request is larger than {self._most(scope)} bytes.")

    def _measured(self, scope: Scope, receive: Receive) -> Receive:
        """Limit the size of a body and the time it takes; of an upload, the time between two pieces."""
        size, is_whole = 0, False
        clock, is_upload = asyncio.get_running_loop().time, scope["path"] in UPLOADS
        deadline = clock() + self._server.body_seconds

        async def receive_measured() -> Message:
            nonlocal size, is_whole
            if is_whole:
                return await receive()
            try:
                async with asyncio.timeout_at(clock() + self._server.body_seconds if is_upload else deadline):
                    message = await receive()
            except TimeoutError:
                raise TooSlow(f"The request did not arrive within {self._server.body_seconds:g} seconds.") from None
            size += len(message.get("body", b""))
            is_whole = not message.get("more_body", False)
            if size > self._most(scope):
                raise self._too_large(scope)
            return message

        return receive_measured

    def _note(self, scope: Scope, status: int, seconds: float, noted: dict[str, Any]) -> None:
        route = getattr(scope.get("route"), "path", "none")
        method = scope["method"] if route != "none" else "any"  # what is no route of ours must not fill the figures
        self._figures.requests.labels(route, method, status).inc()
        self._figures.seconds.labels(route).observe(seconds)
        self._figures.mirror()
        if (first := noted.pop("first_seconds", None)) is not None:
            self._figures.first_event.observe(first)
        fields = {"method": scope["method"], "route": route, "status": status, "ms": round(seconds * 1000, 2), **noted}
        log.info("%s %s %d", scope["method"], route, status, extra={"fields": fields})


def _added(scope: Scope, request_id: str) -> list[tuple[bytes, bytes]]:
    """Return the headers of every response; clients of some vendors look for the request id elsewhere."""
    added = [(b"x-request-id", request_id.encode()), (b"x-content-type-options", b"nosniff")]
    return [*added, (b"request-id", request_id_of(scope).encode())] if is_for_vendor(scope) else added


def _is_text(address: bytes) -> bool:
    """Return whether a part of a URL decodes to text; a route would receive anything else altered."""
    if b"%" not in address:
        return True
    try:
        return "\x00" not in unquote_to_bytes(address).decode()
    except UnicodeDecodeError:
        return False


def _name_of(host: str) -> str:
    """Return the host name of a Host header, without its port."""
    name, _, port = host.rpartition(":")
    return (name if name and port.isdecimal() else host).lower()
