"""How a plain call waits for something that is awaited.

The ledger's verbs are coroutines. Here they run on an event loop with an OS thread of its own, and the caller waits
for the result: it may have an event loop or none, and be on any OS thread.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from contextinfinity.errors import LedgerClosed

T = TypeVar("T")


class LoopThread:
    """An event loop on a thread of its own."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._closing = threading.Lock()
        self._closed = False
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)
        self._thread.start()

    def wait(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run a coroutine and give its result."""
        with self._closing:
            if self._closed:
                raise LedgerClosed("The ledger is closed.")
            future: Future[T] = asyncio.run_coroutine_threadsafe(work(), self._loop)
        return future.result()

    def begin(self, work: Callable[[], Coroutine[Any, Any, object]]) -> None:
        """Run a coroutine that nobody waits for; what it raises is its own."""
        with self._closing:
            if not self._closed:
                asyncio.run_coroutine_threadsafe(work(), self._loop)

    def close(self, last: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run a last coroutine, let the others come to their end, and stop. Closing twice does nothing."""
        with self._closing:
            if self._closed:
                return
            self._closed = True
        try:
            asyncio.run_coroutine_threadsafe(_end(last), self._loop).result()
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()


async def _end(last: Callable[[], Coroutine[Any, Any, None]]) -> None:
    try:
        await last()
    finally:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        await asyncio.gather(*others, return_exceptions=True)
        await asyncio.get_running_loop().shutdown_default_executor()
