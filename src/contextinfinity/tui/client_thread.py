"""Calls from the screen's event loop to a client that lives in the engine's.

The engine has a thread and an event loop of its own, so that no work of it delays a key press. A call is awaited in the
screen's loop and runs in the engine's; cancelling the await cancels the call.

Notices of the engine are warnings in its log, and folds.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from textual.app import App

from contextinfinity.domain.events import CompactionCompleted, CompactionEvent, CompactionFailed
from contextinfinity.domain.session import Owner
from contextinfinity.errors import ContextInfinityError
from contextinfinity.telemetry.repeat_limit import RepeatLimit

if TYPE_CHECKING:
    from contextinfinity.client.contract import Client

T = TypeVar("T")


class Submit(Protocol):
    """Starts a coroutine in the engine's event loop."""

    def __call__(self, coroutine: Coroutine[Any, Any, T], /) -> Future[T]:
        """Return the future of its result."""
        ...


class ClientThread:
    """A client, the owner it is used for, and the way into its event loop."""

    def __init__(self, client: Client, submit: Submit, *, owner: Owner, user_id: str | None) -> None:
        self.client = client
        self.owner = owner
        self.user_id = user_id
        """The user that was named on the command line; None if none was."""
        self._submit = submit

    async def call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a call of the client and return its result."""
        return await asyncio.wrap_future(self._submit(coroutine))

    async def stream(self, events: AsyncIterator[T]) -> AsyncIterator[list[T]]:
        """Yield what the iterator gives, in batches: all that came since the last one."""
        loop, queue = asyncio.get_running_loop(), asyncio.Queue[T | None]()

        async def pump() -> None:
            try:
                async for event in events:
                    loop.call_soon_threadsafe(queue.put_nowait, event)
            finally:
                if not loop.is_closed():
                    loop.call_soon_threadsafe(queue.put_nowait, None)

        pumping = self._submit(pump())
        try:
            while True:
                batch = [await queue.get()]
                while not queue.empty():
                    batch.append(queue.get_nowait())
                if given := [event for event in batch if event is not None]:
                    yield given
                if batch[-1] is None:
                    break
            await asyncio.wrap_future(pumping)
        finally:
            pumping.cancel()


FOLLOW_AGAIN_SECONDS = 10.0
"""How long to wait before following again a server that was away or cannot report folds."""


class _Forward(logging.Handler):
    """Hands warnings of any thread to the screen's event loop."""

    def __init__(self, app: App[Any], loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(logging.WARNING)
        self._app, self._loop = app, loop
        self.addFilter(RepeatLimit())

    def emit(self, record: logging.LogRecord) -> None:
        """Show a record as a notice."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(lambda: self._app.notify(record.getMessage(), severity="warning"))


async def log_notices(app: App[Any]) -> None:
    """Show the engine's warnings as notices until the app ends."""
    logger = logging.getLogger("contextinfinity")
    handler = _Forward(app, asyncio.get_running_loop())
    logger.addHandler(handler)
    try:
        await asyncio.Event().wait()
    finally:
        logger.removeHandler(handler)


async def follow_folds(app: App[Any], thread: ClientThread) -> None:
    """Report folds as they end until the app ends, also those after a server was away."""
    while True:
        with suppress(ContextInfinityError):
            async for batch in thread.stream(thread.client.folds.follow()):
                for event in batch:
                    _report(app, event)
        await asyncio.sleep(FOLLOW_AGAIN_SECONDS)


def _report(app: App[Any], event: CompactionEvent) -> None:
    if isinstance(event, CompactionFailed):
        app.notify(f"Folding failed and is tried again: {event.message}", severity="warning")
    elif isinstance(event, CompactionCompleted) and event.case != "none":
        figures = f"{event.tokens_before:,} → {event.tokens_after:,} tokens"
        app.notify(
            f"The summary covers the turns up to {event.covers_turn_seq} now, {figures}. "
            f"Ctrl+O f shows it and undoes it. {event.notice}".rstrip()
        )
