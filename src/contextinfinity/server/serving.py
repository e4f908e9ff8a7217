"""Run the server: one process, or several workers that share the listening socket.

The parent of several workers only supervises: it replaces a worker that dies, and on a signal it signals the workers
and waits. If the parent is killed, the workers end by themselves and the port is free again. A process that is asked to
end accepts no new connections, gives running requests their shutdown time, cancels the rest, and closes its engine.

Logs go to stderr: one JSON object a line for machines, or a short line of text for a person at a terminal. The line of
a request names its thread and branch, whether the thread was found, and how many turns were loaded. It never contains
messages or tokens.
"""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import math
import os
import resource
import shutil
import signal
import socket
import sys
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from http import HTTPStatus
from importlib.util import find_spec
from multiprocessing import connection, get_context, parent_process
from multiprocessing.process import BaseProcess
from operator import itemgetter
from pathlib import Path
from threading import Thread
from types import FrameType
from typing import Any, Literal, TypeAlias

import h11
import uvicorn
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from contextinfinity.client.contract import Client
from contextinfinity.client.local import LocalClient
from contextinfinity.errors import ContextInfinityError, Refused, SettingsError
from contextinfinity.server import problems
from contextinfinity.server.app import make_app
from contextinfinity.server.app_state import FOLDER_VARIABLE, AppState, OpenClient, Share, forget_worker
from contextinfinity.server.guard import is_loopback
from contextinfinity.settings import Settings
from contextinfinity.telemetry.repeat_limit import RepeatLimit

LogFormat: TypeAlias = Literal["json", "text"]
LOGGER = "contextinfinity"
FAILURE_FIELDS = ("operation", "session_id", "user_id", "error")
"""The fields of records about failed operations on the ledger."""


class JsonLines(logging.Formatter):
    """Formats a record as one line of JSON, with its ``fields`` as keys."""

    def format(self, record: logging.LogRecord) -> str:
        """Format a record."""
        moment = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        parts = {"time": moment, "level": record.levelname.lower(), "logger": record.name}
        parts["message"] = record.getMessage()
        parts |= getattr(record, "fields", {})
        parts |= {name: getattr(record, name) for name in FAILURE_FIELDS if hasattr(record, name)}
        if record.exc_info:
            parts["trace"] = self.formatException(record.exc_info)
        return json.dumps(parts)


class TextLines(logging.Formatter):
    """Formats a record for people: local time, event, duration, and thread."""

    def format(self, record: logging.LogRecord) -> str:
        """Format a record; control characters are replaced."""
        fields: dict[str, Any] = getattr(record, "fields", {})
        level = "" if record.levelno == logging.INFO else f"{record.levelname.lower()}: "
        parts = [f"{level}{record.getMessage()}"]
        parts += [f"{fields['ms']:.0f} ms"] if "ms" in fields else []
        parts += [f"thread {fields['thread_id']}"] if "thread_id" in fields else []
        parts += [f"turn {fields['turn_seq']}"] if "turn_seq" in fields else []
        parts += [f"{name} {getattr(record, name)}" for name in FAILURE_FIELDS if hasattr(record, name)]
        lines = [f"{datetime.fromtimestamp(record.created):%H:%M:%S} {', '.join(parts)}"]
        lines += self.formatException(record.exc_info).splitlines() if record.exc_info else []
        return "\n".join(map(_printable, lines))


def _printable(line: str) -> str:
    return "".join(one if one.isprintable() else "\N{REPLACEMENT CHARACTER}" for one in line)


def log_as(form: LogFormat) -> None:
    """Configure logging; uvicorn and asyncio log only warnings and errors, and repeated ones are rate-limited."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines() if form == "json" else TextLines())
    handler.addFilter(RepeatLimit())
    for name, level in ((LOGGER, logging.INFO), ("uvicorn", logging.WARNING), ("asyncio", logging.WARNING)):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(level)


log = logging.getLogger(__name__)

BACKLOG = 2048
GARBAGE = 20_000
"""Allocations between garbage collections: a long conversation allocates that many, and none of them is garbage."""
KEEP_ALIVE_SECONDS = 5
"""How long a connection without a request is kept for the next one."""
LAST_SECONDS = 5
"""How long uvicorn waits for requests after the shutdown time, before it cancels them."""
ENDING = (signal.SIGTERM, signal.SIGINT)


class KeepAliveProtocol(H11Protocol):
    """Closes a connection whose request headers do not arrive in time, however slowly they trickle in.

    Beyond ``most_connections`` the connection that has waited longest for a request is closed; if all others are
    busy, the requests of the new one are answered with 503.
    """

    header_seconds = 10.0
    most_connections = sys.maxsize
    _clock: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the timer for a request."""
        super().connection_made(transport)
        if len(self.connections) > self.most_connections and not self._close_idle():
            self.app = _too_many_connections
        self._wait()

    def _close_idle(self) -> bool:
        """Close the connection that has waited longest for a request; return False if there is none."""
        others = (one for one in self.connections if isinstance(one, KeepAliveProtocol))
        idle = ((one._clock.when(), one) for one in others if one._clock and not one.transport.is_closing())
        _, longest = min(idle, key=itemgetter(0), default=(0.0, None))
        if longest is not None:
            longest.transport.abort()
        return longest is not None

    def _should_upgrade(self) -> bool:
        return self.app is not _too_many_connections and super()._should_upgrade()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timer."""
        self._stop()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Process received bytes; the timer keeps running while the headers of a request are incomplete."""
        super().data_received(data)
        if self.transport.get_protocol() is not self:  # it is a WebSocket now
            self._stop()
        elif self.cycle is None or self.cycle.response_complete:
            self._wait()
        else:
            self._stop()
            self.scope["state"]["abort"] = self.transport.abort

    def send_400_response(self, msg: str) -> None:
        """Reject invalid HTTP with a problem document, unless a response has already started."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE) and self.conn.their_state is h11.ERROR:
            for part in _refusal(sys.exc_info()[1]):
                self.transport.write(self.conn.send(part) or b"")
        self.transport.close()

    def _wait(self) -> None:
        if self._clock is None:
            self._clock = self.loop.call_later(self.header_seconds, self.transport.close)

    def _stop(self) -> None:
        if self._clock is not None:
            self._clock.cancel()
            self._clock = None


def _refusal(error: BaseException | None) -> tuple[h11.Event, ...]:
    """Return the response to bytes that are not a valid request."""
    if getattr(error, "error_status_hint", 400) == 431:
        problem = problems.plain_problem(431, "headers_too_large", "The headers take more than is allowed.")
    else:
        problem = problems.plain_problem(400, "no_http", "This is not a valid HTTP/1.1 request.")
    answer = problems.response(problem, {"connection": "close"})
    head = h11.Response(
        status_code=problem.status, headers=answer.raw_headers, reason=HTTPStatus(problem.status).phrase
    )
    return head, h11.Data(data=bytes(answer.body)), h11.EndOfMessage()


async def _too_many_connections(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer a request for which no file descriptors are left."""
    problem = problems.plain_problem(
        503, "too_many_connections", "The server has too many open connections.", "Try again in a moment."
    )
    await problems.answer(scope, problem, {"connection": "close", "retry-after": "1"})(scope, receive, send)


def free_descriptors() -> int:
    """Return how many files and connections this process can still open."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if limit == resource.RLIM_INFINITY else limit - len([*Path("/dev/fd").iterdir()])


class ServerProcess(uvicorn.Server):
    """One process of the server.

    It opens its client before the application starts, so errors while opening are raised by ``run``. ``ready`` is
    called once the client is open.
    """

    def __init__(
        self,
        settings: Settings,
        open_client: OpenClient,
        share: Share | None = None,
        ready: Callable[[], None] = lambda: None,
    ) -> None:
        server = settings.server
        self._opening, self._open, self._ready = open_client(settings), AsyncExitStack(), ready
        self._app = make_app(settings, self._opened, shared_figures=FOLDER_VARIABLE in os.environ, share=share)
        named = {"header_seconds": server.header_seconds}
        self._protocol: type[KeepAliveProtocol] = type("Protocol", (KeepAliveProtocol,), named)
        config = uvicorn.Config(
            self._app,
            http=self._protocol,
            ws="websockets-sansio" if find_spec("websockets") else "none",
            ws_max_size=server.max_body_bytes,
            lifespan="on",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            backlog=BACKLOG,
            timeout_keep_alive=math.ceil(min(KEEP_ALIVE_SECONDS, server.header_seconds)),
            h11_max_incomplete_event_size=server.max_header_bytes,
            timeout_graceful_shutdown=round(server.shutdown_seconds) + LAST_SECONDS,
        )
        super().__init__(config)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start listening; objects that exist by now are excluded from garbage collection.

        Of the free file descriptors a quarter are for connections, because an answer takes up to four: its connection,
        its journal, the model's. asyncio accepts as many at once as its backlog says, for about four rounds of its
        loop before any can be closed.
        """
        self._client = await self._open.enter_async_context(self._opening)
        self._ready()
        free = free_descriptors()
        self._protocol.most_connections = max(free // 4, 1)
        self.config.backlog = max(min(BACKLOG, free // 16), 1)
        await super().startup(sockets)
        for sock in sockets or ():
            sock.listen(BACKLOG)  # connections wait in the queue of the operating system
        gc.collect()
        gc.freeze()
        gc.set_threshold(GARBAGE, *gc.get_threshold()[1:])

    @asynccontextmanager
    async def _opened(self, _: Settings) -> AsyncIterator[LocalClient]:
        """Return the application the open client, and close it with the application."""
        async with self._open:
            yield self._client

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Handle a signal."""
        super().handle_exit(sig, frame)
        self.end()

    def end(self) -> None:
        """Accept no new connections, and give running requests their shutdown time."""
        self.should_exit = True
        app_state: AppState | None = getattr(self._app.state, "app_state", None)
        if app_state is not None:
            app_state.end_soon()


def serve(
    settings: Settings, open_client: OpenClient, *, on_address: Callable[[str], None], log_format: LogFormat = "json"
) -> None:
    """Serve until asked to end; ``on_address`` receives the address once connections are accepted.

    Errors that keep the ledger from being opened (``LedgerBusy`` and others) are raised, or logged by the worker
    concerned.
    """
    server = settings.server
    if not is_loopback(server.host) and not asyncio.run(_has_token(open_client(settings))):
        raise Refused(
            f"{server.host} can be reached from other machines, and there is no valid token.",
            hint="Create one with `cix token create --user NAME`, or serve on 127.0.0.1.",
        )
    with listening(server.host, server.port) as sock:
        address = address_of(server.host, sock)
        if server.workers == 1:
            _work(settings, open_client, sock, log_format, ready=lambda: on_address(address))
        else:
            on_address(address)
            _watch(settings, open_client, sock, log_format)


def listening(host: str, port: int) -> socket.socket:
    """Open the socket that all workers share."""
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        # Without the protocol asyncio does not see that it is TCP, and every answer waits 40 ms for an acknowledgement.
        sock = socket.socket(family, kind, protocol)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(place)
        sock.listen(BACKLOG)
    except OSError as error:
        raise SettingsError(
            f"The server cannot listen on {host}, port {port}: {error.strerror}.", hint="Choose another with --port."
        ) from error
    sock.set_inheritable(True)
    return sock


def address_of(host: str, sock: socket.socket) -> str:
    """Return the URL of the server."""
    return f"http://{f'[{host}]' if ':' in host else host}:{sock.getsockname()[1]}"


async def _has_token(opening: AbstractAsyncContextManager[Client]) -> bool:
    async with opening as client:
        return await client.tokens.needed() and not await client.tokens.closed()


def _work_beside(
    settings: Settings, open_client: OpenClient, sock: socket.socket, log_format: LogFormat, share: Share
) -> None:
    """Run as one of several workers; a worker that cannot start logs why and exits with 1."""
    try:
        _work(settings, open_client, sock, log_format, share)
    except ContextInfinityError as error:
        log.error("the server cannot start: %s", error)
        raise SystemExit(1) from None


def _work(
    settings: Settings,
    open_client: OpenClient,
    sock: socket.socket,
    log_format: LogFormat,
    share: Share | None = None,
    ready: Callable[[], None] = lambda: None,
) -> None:
    """Run a worker until it is stopped."""
    log_as(log_format)
    # uvicorn sends the signal once more when it has ended, to the previous handler: to this one, which is then the end.
    for number in ENDING:
        signal.signal(number, _leave)
    worker = ServerProcess(settings, open_client, share, ready)
    Thread(target=_end_with_parent, args=(worker,), daemon=True).start()
    worker.run(sockets=[sock])
    if not worker.started:
        raise SystemExit(1)


def _end_with_parent(worker: ServerProcess) -> None:
    """Stop a worker whose parent is gone, because nothing would replace or stop it."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        worker.end()


def _leave(number: int, frame: FrameType | None) -> None:
    raise SystemExit(0)


def _watch(settings: Settings, open_client: OpenClient, sock: socket.socket, log_format: LogFormat) -> None:
    """Keep the configured number of workers running until stopped."""
    spawn, ended = get_context("spawn"), False
    folder = os.environ[FOLDER_VARIABLE] = tempfile.mkdtemp(prefix="cix-figures-")
    waking, wake = socket.socketpair()

    def end(number: int, frame: FrameType | None) -> None:
        nonlocal ended
        ended = True
        wake.send(b"!")

    def start(number: int) -> BaseProcess:
        share = Share(folder, settings.server.workers, number)
        worker = spawn.Process(target=_work_beside, args=(settings, open_client, sock, log_format, share))
        worker.start()
        return worker

    def replaced(number: int, dead: BaseProcess) -> BaseProcess:
        if dead.exitcode == 1:  # it failed to start and logged why
            raise SystemExit(1)
        forget_worker(folder, dead.pid or 0)
        return start(number)

    before = {number: signal.signal(number, end) for number in ENDING}
    workers = [start(number) for number in range(settings.server.workers)]
    try:
        while not ended:
            connection.wait([waking, *(worker.sentinel for worker in workers)])
            workers = [
                worker if worker.is_alive() or ended else replaced(number, worker)
                for number, worker in enumerate(workers)
            ]
    finally:
        for worker in workers:
            worker.terminate()
        for worker in workers:
            worker.join()
        for number, handler in before.items():
            signal.signal(number, handler)
        shutil.rmtree(folder, ignore_errors=True)
