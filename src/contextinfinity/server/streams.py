"""Server-sent events: the events of a turn over one connection.

A reader goes through the journal at its own speed; nothing waits for it, and only a few events are read ahead of it. A
client that was disconnected resumes with the last id it received. Events are named as in ``domain.events``; ``done``
contains the finished turn.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing, suppress
from types import MappingProxyType
from typing import Any, TypeAlias, TypeVar

import msgspec
from msgspec import Struct
from starlette.responses import StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from contextinfinity.client.contract import StampedEvent, end_of
from contextinfinity.domain.events import CompactionEvent, FinishedTurn, TurnDone, TurnFailed
from contextinfinity.errors import ContextInfinityError, Ending, LedgerError, TokenNeeded
from contextinfinity.server.app_state import AppState

E = TypeVar("E")
Check: TypeAlias = Callable[[], Awaitable[object]]
"""Raises an error once the token of a stream is revoked or expired, which ends the stream."""

log = logging.getLogger(__name__)

MEDIA_TYPE = "text/event-stream"
KEEP_ALIVE = b": still here\n\n"
RECONNECT_MILLISECONDS = b"retry: 1000\n"
"""How long, in milliseconds, a browser waits before it reconnects to an interrupted stream."""
HEADERS = {"cache-control": "no-store", "x-accel-buffering": "no"}

CHECK_SECONDS = 0.5
"""How often the token of a request that is being answered is checked."""
READ_AHEAD = 32
"""The most events that are read ahead of a slow reader."""

_encoder = msgspec.json.Encoder()


def frame(stamped: StampedEvent) -> bytes:
    """Format one event of a turn."""
    event = stamped.event
    body = event.turn if isinstance(event, TurnDone) else event
    return _block(str(event.__struct_config__.tag), body, stamped.id)


def _block(name: str, said: Struct, event_id: str | None = None) -> bytes:
    """Format an event; JSON has no line breaks, so its data is always one line."""
    data = _encoder.encode(said)
    if said.__struct_config__.tag is not None:
        data = data.replace(b'"type":"%b",' % name.encode(), b"", 1)  # the name is sent with the data already
    head = b"" if event_id is None else b"id: %b\n" % event_id.encode()
    return b"%bevent: %b\ndata: %b\n\n" % (head, name.encode(), data)


async def frames(
    app_state: AppState, first: StampedEvent | None, events: AsyncIterator[StampedEvent], check: Check | None = None
) -> AsyncGenerator[bytes]:
    """Yield events as they arrive, and keep-alive comments, until the turn, the server or the token ends."""
    yield RECONNECT_MILLISECONDS + (KEEP_ALIVE if first is None else frame(first))
    try:
        async with aclosing(event_batches(app_state, events, check=check)) as coming:
            async for handful in coming:
                yield b"".join(map(frame, handful)) or KEEP_ALIVE
    except ContextInfinityError as error:  # the status was sent already: report the error in the stream
        yield frame(StampedEvent(event=TurnFailed(code=error.code, message=error.message, hint=error.hint)))
    except Exception:
        log.exception("a stream was cut off")
        failure = TurnFailed(code="error", message="The stream was cut off.", hint="Resume it with Last-Event-ID.")
        yield frame(StampedEvent(event=failure))


async def last(app_state: AppState, events: AsyncIterator[StampedEvent], check: Check | None = None) -> FinishedTurn:
    """Wait for the end of a turn; raises ``Ending`` when the server ends first, or what ``check`` raises."""
    end, ending = asyncio.ensure_future(end_of(events)), asyncio.ensure_future(app_state.ending.wait())
    checking = [] if check is None else [asyncio.ensure_future(_checked(check))]
    try:
        await asyncio.wait((end, ending, *checking), return_when="FIRST_COMPLETED")
        for task in checking:
            if task.done():
                task.result()  # raises
        if end.done():
            return end.result()
        raise Ending("The server is shutting down, and the answer is not complete yet.")
    finally:
        await _cancel_all(end, ending, *checking)


async def event_frames(
    app_state: AppState, events: AsyncIterator[CompactionEvent], check: Check | None = None
) -> AsyncGenerator[bytes]:
    """Yield events as they happen, with keep-alive comments, until the client or the server ends.

    A server that is shutting down does not wait: the client misses nothing that it could not read later.
    """
    yield RECONNECT_MILLISECONDS + KEEP_ALIVE
    with suppress(TokenNeeded):
        async with aclosing(event_batches(app_state, events, end=app_state.closing, check=check)) as coming:
            async for handful in coming:
                written = (_block(str(event.__struct_config__.tag), event) for event in handful)
                yield b"".join(written) or KEEP_ALIVE


async def event_batches(
    app_state: AppState, events: AsyncIterator[E], *, end: asyncio.Event | None = None, check: Check | None = None
) -> AsyncGenerator[list[E]]:
    """Yield events in batches as they arrive, and an empty batch periodically while none arrive.

    Events that arrive together are sent together: a task and a packet for each token would cost more than answering. It
    ends with the events, or when ``end`` is set; None: when the server cancels running requests. ``check`` is called
    twice a second, and what it raises is raised here.
    """
    held: list[E] = []
    news, room = asyncio.Event(), asyncio.Event()
    beating = asyncio.ensure_future(_beat(news, app_state.server.keep_alive_seconds))

    async def read() -> None:
        async for event in events:
            held.append(event)
            news.set()
            if len(held) == READ_AHEAD:
                room.clear()
                await room.wait()

    reading, ending = asyncio.ensure_future(read()), asyncio.ensure_future((end or app_state.ending).wait())
    checking = [] if check is None else [asyncio.ensure_future(_checked(check))]
    for task in (reading, ending, *checking):
        task.add_done_callback(lambda _: news.set())
    try:
        while held or not (reading.done() or ending.done()):
            await news.wait()
            for task in checking:
                if task.done():
                    task.result()  # raises
            is_over = reading.done() or ending.done()
            handful = held.copy()
            held.clear()
            news.clear()
            room.set()
            if handful or not is_over:
                yield handful
        if reading.done():
            reading.result()  # or what went wrong
    finally:
        await _cancel_all(reading, ending, beating, *checking)


async def _checked(check: Check) -> None:
    """Call ``check`` twice a second until it raises; an unavailable ledger proves nothing about a token."""
    while True:
        await asyncio.sleep(CHECK_SECONDS)
        with suppress(LedgerError):
            await check()


async def _beat(news: asyncio.Event, seconds: float) -> None:
    """Set an event periodically: one timer per stream instead of one per token."""
    while True:
        await asyncio.sleep(seconds)
        news.set()


async def _cancel_all(*tasks: asyncio.Future[Any]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


class _ReadTimeout:
    """Disconnects a reader that stops reading: one timer per stream, because one per token would cost too much."""

    def __init__(self, send: Send, seconds: float, give_up: Callable[[], None]) -> None:
        self._send = send
        self._seconds = seconds
        self._give_up = give_up
        self._loop = asyncio.get_running_loop()
        self._since: float | None = None
        self._clock = self._loop.call_later(seconds, self._look)

    async def send(self, message: Message) -> None:
        """Send, and record how long it takes."""
        self._since = self._loop.time()
        await self._send(message)
        self._since = None

    def end(self) -> None:
        """Stop the timer."""
        self._clock.cancel()

    def _look(self) -> None:
        if self._since is None or self._loop.time() - self._since < self._seconds:
            self._clock = self._loop.call_later(self._seconds / 4, self._look)
        else:
            log.info("a client read nothing for %g seconds and was disconnected", self._seconds)
            self._give_up()


class EventStream(StreamingResponse):
    """A streaming response that is counted while open, and ended if its reader stops reading."""

    def __init__(
        self,
        content: AsyncGenerator[bytes],
        *,
        close: Callable[[], None],
        stall_seconds: float,
        headers: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        super().__init__(content, media_type=MEDIA_TYPE, headers={**HEADERS, **headers})
        self._content = content
        self._close = close
        self._stall_seconds = stall_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the stream until it ends or its reader is disconnected."""
        patience = _ReadTimeout(send, self._stall_seconds, scope["state"]["abort"])
        try:
            await super().__call__(scope, receive, patience.send)
        finally:
            patience.end()
            self._close()
            await self._content.aclose()
