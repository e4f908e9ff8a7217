"""One thread that looks after all open journals.

Journals say when they want to be looked at, and for which of two errands: a flush, which is quick, or a
sync, which may take as long as the disk likes. The thread runs the errands by the moment they were due, so
nobody is passed over, and a due flush always goes before a due sync: a slow disk under one journal holds
the flushes of the others up for one sync at most. In between it sleeps until the next moment, or for good
while there is none. Moments are of the monotonic clock, so setting the wall clock changes nothing.
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

Errand: TypeAlias = Callable[[float], float | None]
"""Is told the present moment, does what is due by then, and says when to come again (None: no need)."""

_Agenda: TypeAlias = list[tuple[float, int, Errand]]


class Flusher:
    """Runs errands when they are due. Its thread starts with the first ``start`` and ends with ``stop``."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._flushes: _Agenda = []
        self._syncs: _Agenda = []
        self._tie = count()  # errands due at the same moment are run in the order they came
        self._stopped = False
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread, unless it runs."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="journal-flusher", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """End the thread once its present errand is done; what is still planned is dropped."""
        with self._changed:
            self._stopped = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join()

    def plan_flush(self, moment: float, errand: Errand) -> None:
        """Run a quick errand at a moment."""
        self._plan(self._flushes, moment, errand)

    def plan_sync(self, moment: float, errand: Errand) -> None:
        """Run an errand at a moment that may keep the thread for a while."""
        self._plan(self._syncs, moment, errand)

    def _plan(self, agenda: _Agenda, moment: float, errand: Errand) -> None:
        with self._changed:
            heappush(agenda, (moment, next(self._tie), errand))
            if agenda[0][2] is errand:  # else the thread wakes early enough as it is
                self._changed.notify()

    def _run(self) -> None:
        while (due := self._next()) is not None:
            agenda, errand = due
            with suppress(LedgerError):  # the journal keeps its own failure for whoever uses it next
                again = errand(time.monotonic())
                if again is not None:
                    self._plan(agenda, again, errand)

    def _next(self) -> tuple[_Agenda, Errand] | None:
        """Sleep until something is due and take it; None when the thread should end."""
        with self._changed:
            while not self._stopped:
                present = time.monotonic()
                for agenda in (self._flushes, self._syncs):
                    if agenda and agenda[0][0] <= present:
                        return agenda, heappop(agenda)[2]
                moments = [agenda[0][0] for agenda in (self._flushes, self._syncs) if agenda]
                self._changed.wait(min(moments) - present if moments else None)
        return None
