"""The circuit breaker: detects that the ledger is unavailable, and makes requests fail fast.

Requests pass while it is closed. It opens when the ledger fails one, or when another process has kept one waiting for
250 ms; all that wait then fail at once with ``LedgerAway``, and later ones fail without waiting. It is closed from
outside, after a probe succeeded.

Only waiting for another process counts. A write that is slow because this process writes much does not open it.

``GuardedDatabase`` runs every read and write of a ``Database`` through the breakers for reading and for writing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from copy import copy
from datetime import datetime
from functools import partial
from typing import TypeVar

from contextinfinity.domain.ids import now
from contextinfinity.errors import LedgerAway, LedgerBusy, LedgerError, LedgerFailed, LedgerLost, LedgerUnlocked
from contextinfinity.storage.contract import Store
from contextinfinity.storage.database import Connection, Database

T = TypeVar("T")

PASSING = (LedgerBusy, LedgerFailed, LedgerLost)
"""Failures that may be temporary. A full disk and a damaged or foreign file are raised unchanged."""

SHORTEST_LOOK = 0.002
"""Interval in seconds at which a breaker looks whether a wait grows that has lasted for its patience."""

GUARDED = ("sessions", "branches", "turns", "states", "contents", "jobs", "workers", "replays", "deletions")
"""The resources whose reads and writes use the breakers."""
READ_GUARDED = ("prefix_hashes", "chunks", "index", "vectors", "memories")
"""Those of which only the reads do: their writes, as those of all others, wait, and raise the ledger's own errors."""


class CircuitBreaker:
    """The breaker for reading or for writing; ``blocked_seconds`` returns how long another process has blocked it."""

    def __init__(self, blocked_seconds: Callable[[], float], on_open: Callable[[], None], patience: float) -> None:
        self.since: datetime | None = None
        """Since when it is open; None: it is closed."""
        self.reason = ""
        self._hint: str | None = None
        self._held_up = blocked_seconds
        self._on_open = on_open
        self._patience = patience
        self._waited = 0.0
        self._waiting: set[asyncio.Timeout] = set()
        self._look: asyncio.TimerHandle | None = None

    @property
    def is_open(self) -> bool:
        """Whether the ledger is regarded as unavailable."""
        return self.since is not None

    async def through(self, ask: Callable[[], Awaitable[T]], *, probing: bool = False) -> T:
        """Run a request. Raises ``LedgerAway`` if the ledger is unavailable, at once if the breaker is open.

        With ``probing`` the request runs even if the breaker is open.
        """
        if self.is_open and not probing:
            raise self._away()
        limit = asyncio.Timeout(None)  # `timeout` would look up the event loop for nothing
        try:
            async with limit:
                self._watch(limit)
                return await ask()
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise self.open(LedgerBusy("Another process holds the ledger.")) from error
        except PASSING as error:
            raise self.open(error) from error
        finally:
            self._waiting.discard(limit)

    def close(self) -> None:
        """Let requests pass again."""
        self.since, self.reason = None, ""

    def open(self, error: LedgerError) -> LedgerAway:
        """Reject requests from now on; return the error that they get."""
        self.reason = error.message
        self._hint = error.hint if isinstance(error, LedgerUnlocked) else None  # waiting does not help in this case
        if self.since is None:
            self.since = now()
            self._on_open()
        return self._away()

    def _away(self) -> LedgerAway:
        return LedgerAway(f"The ledger is unavailable: {self.reason}", hint=self._hint)

    def _watch(self, limit: asyncio.Timeout) -> None:
        """Check ten times within the patience, and at its end, whether the ledger is held, while a request waits."""
        self._waiting.add(limit)
        if self._look is None:
            self._waited = self._held_up()
            self._look_soon()

    def _look_soon(self) -> None:
        rest = max(self._patience - self._waited, SHORTEST_LOOK)
        self._look = asyncio.get_running_loop().call_later(min(self._patience / 10, rest), self._look_up)

    def _look_up(self) -> None:
        self._look = None
        if not self._waiting:
            return
        before, self._waited = self._waited, self._held_up()
        if self._waited > before and self._waited >= self._patience:  # it grows: the wait is not one that is over
            present = asyncio.get_running_loop().time()
            for limit in self._waiting:
                limit.reschedule(present)
            self._waiting.clear()
        else:
            self._look_soon()


class GuardedDatabase:
    """A ``Database`` whose reads and writes fail with ``LedgerAway`` while its breaker for them, if any, is open."""

    def __init__(self, database: Database, reads: CircuitBreaker, writes: CircuitBreaker | None) -> None:
        self._database = database
        self._reads = reads
        self._writes = writes

    @property
    def rejects_writes(self) -> bool:
        """Whether writes fail without reaching the ledger."""
        return self._writes is not None and self._writes.is_open

    async def read(self, work: Callable[[Connection], T]) -> T:
        """Run a read."""
        return await self._reads.through(lambda: self._database.read(work))

    async def look(self, work: Callable[[Connection], T]) -> T:
        """Run a small read."""
        return await self._reads.through(lambda: self._database.look(work))

    async def write(self, work: Callable[[Connection], T], *, bulk: bool = False, wipe: bool = False) -> T:
        """Run a write. After ``LedgerAway`` because another process held the ledger, nothing is written later."""
        return await self._written(lambda: self._database.write(work, bulk=bulk, wipe=wipe))

    async def sweep(self, steps: int) -> bool:
        """Erase the remains of deleted rows."""
        return await self._written(lambda: self._database.sweep(steps))

    async def is_wiped(self) -> bool:
        """Return whether the files contain no deleted text."""
        return await self._reads.through(self._database.is_wiped)

    async def _written(self, ask: Callable[[], Awaitable[T]]) -> T:
        return await (ask() if self._writes is None else self._writes.through(ask))


def guarded(ledger: Store, reads: CircuitBreaker, writes: CircuitBreaker) -> Store:
    """Return a ledger whose ``GUARDED`` resources use the breakers."""
    behind = copy(ledger)
    for name in (*GUARDED, *READ_GUARDED):
        guard = partial(GuardedDatabase, reads=reads, writes=writes if name in GUARDED else None)
        setattr(behind, name, getattr(ledger, name).through(guard))
    return behind
