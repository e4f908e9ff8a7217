"""Threads that run transactions, and hand their results to an event loop.

``concurrent.futures`` does the same with several locks and objects for each call, which cost more than a short
transaction.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from typing import Generic, TypeVar

T = TypeVar("T")


class ThreadPool:
    """A number of threads; each is started when a call finds none idle."""

    def __init__(self, size: int, name: str) -> None:
        self._size = size
        self._name = name
        self._calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._counting = threading.Lock()
        self._free = 0
        """Idle threads, less the calls that wait for one."""

    def submit(self, call: Callable[[], None]) -> None:
        """Run a call, which handles its own errors, in one of the threads."""
        with self._counting:
            self._free -= 1
            if self._free < 0 and len(self._threads) < self._size:
                thread = threading.Thread(target=self._run, name=f"{self._name}-{len(self._threads)}", daemon=True)
                self._threads.append(thread)
                self._free += 1
                thread.start()
        self._calls.put(call)

    def close(self) -> None:
        """Run what was submitted, and end the threads."""
        for _ in self._threads:
            self._calls.put(None)
        for thread in self._threads:
            thread.join()

    def _run(self) -> None:
        while (call := self._calls.get()) is not None:
            call()
            with self._counting:
                self._free += 1


class LoopFuture(Generic[T]):
    """Takes a result from a thread, for the event loop that made it."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.result: asyncio.Future[T] = self._loop.create_future()

    def set_running_or_notify_cancel(self) -> bool:
        """Return whether the result is still awaited."""
        return not self.result.cancelled()

    def set_result(self, value: T) -> None:
        """Set the result."""
        self._call(self._settle, value, None)

    def set_exception(self, error: BaseException) -> None:
        """Set the error."""
        self._call(self._settle, None, error)

    def _call(self, function: Callable[..., None], *values: object) -> None:
        with suppress(RuntimeError):  # the loop is closed, and with it who waited
            self._loop.call_soon_threadsafe(function, *values)

    def _settle(self, value: T, error: BaseException | None) -> None:
        if self.result.done():  # cancelled
            return
        if error is None:
            self.result.set_result(value)
        else:
            self.result.set_exception(error)
