"""Server-sent events: what a turn says, as it says it, over one connection.

A reader goes through the journal at its own speed; nothing waits for it and nothing is kept for it. Whoever was cut off
comes back with the last id it saw. Events are named as in ``domain.events``; ``done`` holds the finished turn itself.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import suppress
from typing import TypeVar

import msgspec
from msgspec import Struct
from starlette.responses import StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from contextinfinity.client.contract import Stamped
from contextinfinity.domain.events import CompactionEvent, FinishedTurn, TurnDone, TurnFailed
from contextinfinity.errors import ContextInfinityError, Ending
from contextinfinity.server.door import Door

E = TypeVar("E")

log = logging.getLogger(__name__)

MEDIA_TYPE = "text/event-stream"
KEEP_ALIVE = b": still here\n\n"
COME_BACK = b"retry: 1000\n"
"""How long, in milliseconds, a browser waits before it comes back to a stream that was cut."""
HEADERS = {"cache-control": "no-store", "x-accel-buffering": "no"}

_encoder = msgspec.json.Encoder()


def frame(stamped: Stamped) -> bytes:
    """Write one event of a turn."""
    event = stamped.event
    said = event.turn if isinstance(event, TurnDone) else event
    return _block(str(event.__struct_config__.tag), said, stamped.id)


def _block(name: str, said: Struct, event_id: str | None = None) -> bytes:
    """Write an event; JSON has no line ends, so its data is always one line."""
    data = _encoder.encode(said)
    if said.__struct_config__.tag is not None:
        data = data.replace(b'"type":"%b",' % name.encode(), b"", 1)  # the name stands beside the data already
    head = b"" if event_id is None else b"id: %b\n" % event_id.encode()
    return b"%bevent: %b\ndata: %b\n\n" % (head, name.encode(), data)


async def frames(door: Door, first: Stamped | None, events: AsyncIterator[Stamped]) -> AsyncGenerator[bytes]:
    """Write events as they come, and a comment when none does; to their end, or to the server's."""
    yield COME_BACK + (KEEP_ALIVE if first is None else frame(first))
    try:
        async for stamped in _or_none(door, events):
            if stamped is None:
                yield KEEP_ALIVE
                continue
            if isinstance(stamped.event, TurnDone):
                door.figures.turn(stamped.event.turn)
            yield frame(stamped)
    except ContextInfinityError as error:  # the status is gone; the stream itself has to say it
        yield frame(Stamped(event=TurnFailed(code=error.code, message=error.message, hint=error.hint)))
    except Exception:
        log.exception("a stream broke off")
        told = TurnFailed(code="error", message="The stream broke off.", hint="Resume it with Last-Event-ID.")
        yield frame(Stamped(event=told))


async def last(door: Door, events: AsyncIterator[Stamped]) -> FinishedTurn:
    """Wait for the end of a turn; ``Ending`` when the server ends before it."""
    async for stamped in _or_none(door, events):
        if stamped is not None and isinstance(stamped.event, TurnDone):
            door.figures.turn(stamped.event.turn)
            return stamped.event.turn
    raise Ending("The server is ending, and the answer is not there yet.")


async def told_frames(door: Door, events: AsyncIterator[CompactionEvent]) -> AsyncGenerator[bytes]:
    """Write what happens as it happens, and comments between; there is no end but the reader's or the server's."""
    yield COME_BACK + KEEP_ALIVE
    async for event in _or_none(door, events):
        yield KEEP_ALIVE if event is None else _block(str(event.__struct_config__.tag), event)


async def _or_none(door: Door, events: AsyncIterator[E]) -> AsyncIterator[E | None]:
    """Give events; None whenever nothing came for a while. It ends with them, or when the server does."""
    ending = asyncio.ensure_future(door.ending.wait())
    coming: asyncio.Future[E] | None = None
    try:
        while True:
            coming = coming or asyncio.ensure_future(anext(events))
            await asyncio.wait((coming, ending), timeout=door.server.keep_alive_seconds, return_when="FIRST_COMPLETED")
            if coming.done():
                try:
                    stamped = coming.result()
                except StopAsyncIteration:
                    return
                coming = None
                yield stamped
            elif ending.done():
                return
            else:
                yield None
    finally:
        ending.cancel()
        if coming is not None:
            coming.cancel()
            with suppress(asyncio.CancelledError, StopAsyncIteration, ContextInfinityError):
                await coming


class EventStream(StreamingResponse):
    """A stream that is counted while it is open, and let go when its reader takes nothing any more."""

    def __init__(self, content: AsyncGenerator[bytes], *, close: Callable[[], None], stall_seconds: float) -> None:
        super().__init__(content, media_type=MEDIA_TYPE, headers=HEADERS)
        self._content = content
        self._close = close
        self._stall_seconds = stall_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it, to its end or to the end of a reader's patience."""

        async def patient(message: Message) -> None:
            async with asyncio.timeout(self._stall_seconds):
                await send(message)

        try:
            await super().__call__(scope, receive, patient)
        except* TimeoutError:
            log.info("a reader took nothing for %g seconds and was let go", self._stall_seconds)
            scope["state"]["abort"]()
        finally:
            self._close()
            await self._content.aclose()
