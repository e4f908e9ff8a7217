"""The thread that flushes and syncs all open journals.

A journal schedules a flush (fast) or a sync (as slow as the disk). The thread runs them in order of their due times;
a due flush always precedes a due sync, so a slow disk delays other flushes by one sync at most. Between them
it sleeps. Times are of the monotonic clock.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from heapq import heappop, heappush
from itertools import count
from typing import TypeAlias

from contextinfinity.errors import LedgerError

FlushRequest: TypeAlias = Callable[[float], float | None]
"""Called with the current time; does what is due and returns the time of its next run (None: no further run)."""

_FlushQueue: TypeAlias = list[tuple[float, int, FlushRequest]]


class Flusher:
    """Runs errands when they are due. Its thread starts with the first ``start`` and ends with ``stop``."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._flushes: _FlushQueue = []
        self._syncs: _FlushQueue = []
        self._tie = count()  # errands due at the same moment are run in the order they came
        self._stopped = False
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread, unless it runs."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="journal-flusher", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Stop the thread after its current task; scheduled tasks are dropped."""
        with self._changed:
            self._stopped = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join()

    def plan_flush(self, moment: float, errand: FlushRequest) -> None:
        """Schedule a flush."""
        self._plan(self._flushes, moment, errand)

    def plan_sync(self, moment: float, errand: FlushRequest) -> None:
        """Schedule a sync, which may block the thread for a while."""
        self._plan(self._syncs, moment, errand)

    def _plan(self, queue: _FlushQueue, moment: float, errand: FlushRequest) -> None:
        with self._changed:
            heappush(queue, (moment, next(self._tie), errand))
            if queue[0][2] is errand:  # else the thread wakes early enough as it is
                self._changed.notify()

    def _run(self) -> None:
        while (due := self._next()) is not None:
            queue, errand = due
            with suppress(LedgerError):  # the journal raises its failure at its next use
                again = errand(time.monotonic())
                if again is not None:
                    self._plan(queue, again, errand)

    def _next(self) -> tuple[_FlushQueue, FlushRequest] | None:
        """Sleep until a task is due and return it; None if the thread should end."""
        with self._changed:
            while not self._stopped:
                present = time.monotonic()
                for queue in (self._flushes, self._syncs):
                    if queue and queue[0][0] <= present:
                        return queue, heappop(queue)[2]
                moments = [queue[0][0] for queue in (self._flushes, self._syncs) if queue]
                self._changed.wait(min(moments) - present if moments else None)
        return None
