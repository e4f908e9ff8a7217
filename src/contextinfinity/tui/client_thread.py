"""Calls from the screen's event loop to a client that lives in the engine's.

The engine has a thread and an event loop of its own, so that no work of it delays a key press. A call is awaited in the
screen's loop and runs in the engine's; cancelling the await cancels the call.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from contextinfinity.domain.session import Owner

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
