"""Run coroutines from synchronous code, on an event loop in a separate OS thread.

The caller may be on any OS thread, with or without an event loop of its own.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from contextinfinity.errors import LedgerClosed

T = TypeVar("T")

PATIENCE_SECONDS = 5.0
"""How long a synchronous call waits for a turn of the same branch that is being answered."""
LOOP_SECONDS = 0.2
"""The same for a caller inside an event loop: the turn may be answered on that very loop."""
LOOK_SECONDS = 0.02
"""Polling interval while waiting for the turn to end."""


class LoopThread:
    """An event loop in a separate thread."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._closing = threading.Lock()
        self._closed = False
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)
        self._thread.start()

    def wait(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run a coroutine and return its result."""
        with self._closing:
            if self._closed:
                raise LedgerClosed("The ledger is closed.")
            future: Future[T] = asyncio.run_coroutine_threadsafe(work(), self._loop)
        return future.result()

    def begin(self, work: Callable[[], Coroutine[Any, Any, object]]) -> None:
        """Start a coroutine in the background; its exceptions are not raised here."""
        with self._closing:
            if not self._closed:
                asyncio.run_coroutine_threadsafe(work(), self._loop)

    def close(self, last: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run a last coroutine, wait for the others, and stop the thread. Closing twice does nothing."""
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


def in_a_loop() -> bool:
    """Return whether the caller is inside a running event loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
