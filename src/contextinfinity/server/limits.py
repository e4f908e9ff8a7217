"""Limits per user, counted by all workers together.

The counters are in a memory-mapped file that the workers share: one region for request rates and one per worker for
open streams. They are changed under the file's lock, which the operating system releases when its holder dies; a worker
that replaces a dead one clears its region. A single worker keeps the counters in its own memory.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import struct
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from hashlib import blake2b
from pathlib import Path
from time import monotonic
from types import TracebackType
from typing import NamedTuple

from contextinfinity.domain.session import Owner
from contextinfinity.errors import TooMany
from contextinfinity.server.metrics import Metrics

BURST_SECONDS = 10.0
"""Of the requests a minute, those of so many seconds may come at once."""
GRAIN = 1e-6
"""Seconds by which a clock may be wrong."""
ENTRY = struct.Struct("<Qd")
SLOTS, WINDOW = 8192, 16
REGION = SLOTS * ENTRY.size


class Share(NamedTuple):
    """The folder that workers share, and the number of this worker."""

    folder: str
    workers: int
    number: int


class CounterTable:
    """A fixed-size hash table of counters, 0 by default. When a bucket is full, its smallest counter is evicted."""

    def __init__(self, memory: bytearray | mmap.mmap, region: int) -> None:
        self._memory = memory
        self._first = region * REGION

    def get(self, name: str) -> float:
        """Return a counter."""
        key = _key(name)
        held, number = ENTRY.unpack_from(self._memory, self._place(key))
        return number if held == key else 0.0

    def put(self, name: str, number: float) -> None:
        """Set a counter."""
        key = _key(name)
        ENTRY.pack_into(self._memory, self._place(key), key, number)

    def clear(self) -> None:
        """Reset all counters."""
        self._memory[self._first : self._first + REGION] = bytes(REGION)

    def _place(self, key: int) -> int:
        """Return the slot of a name, or the slot it would take."""
        place, least = 0, float("inf")
        for step in range(WINDOW):
            offset = self._first + (key + step) % SLOTS * ENTRY.size
            held, number = ENTRY.unpack_from(self._memory, offset)
            if held == key:
                return offset
            if number < least:
                place, least = offset, number
        return place


def _key(name: str) -> int:
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "little") or 1


class _Lock:
    """A lock on the shared file, held for one change."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def __enter__(self) -> None:
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        fcntl.flock(self._descriptor, fcntl.LOCK_UN)


class Counts:
    """The counters of all limits."""

    def __init__(self, share: Share | None = None) -> None:
        workers, number = (1, 0) if share is None else (share.workers, share.number)
        self.alone: AbstractContextManager[None] = nullcontext()
        memory: bytearray | mmap.mmap = bytearray(2 * REGION)
        if share is not None:
            descriptor = os.open(Path(share.folder) / "limits", os.O_RDWR | os.O_CREAT, 0o600)
            os.ftruncate(descriptor, (1 + workers) * REGION)  # what is there already stays
            memory = mmap.mmap(descriptor, (1 + workers) * REGION)
            self.alone = _Lock(descriptor)
        self.requests = CounterTable(memory, 0)
        self.streams = tuple(CounterTable(memory, 1 + each) for each in range(workers))
        self.own_streams = self.streams[number]
        with self.alone:
            self.own_streams.clear()


class RateLimits:
    """A token bucket per user: so many requests a minute, with a small burst."""

    def __init__(self, per_minute: int, counts: Counts) -> None:
        self._per_minute = per_minute
        self._pause = 60 / per_minute if per_minute else 0.0
        self._ahead = max(BURST_SECONDS - self._pause, 0.0)
        self._counts = counts

    def take(self, user: str) -> None:
        """Count a request; raises ``TooMany`` if the bucket is empty."""
        if not self._per_minute:
            return
        moment, times = monotonic(), self._counts.requests  # the same clock in all processes of a machine
        with self._counts.alone:
            its_time = max(times.get(user), moment)
            if (wait := its_time - self._ahead - moment) <= GRAIN:
                times.put(user, its_time + self._pause)
                return
        raise TooMany(f"More than {self._per_minute} requests a minute.", retry_after=wait)


class Streams:
    """Open streams per user."""

    def __init__(self, most: int, counts: Counts, figures: Metrics) -> None:
        self._most = most
        self._counts = counts
        self._figures = figures

    def take(self, owner: Owner) -> Callable[[], None]:
        """Count one more open stream; returns the function that releases it."""
        user, counts = name_of(owner), self._counts
        with counts.alone:
            if sum(each.get(user) for each in counts.streams) >= self._most:
                raise TooMany(f"{owner.user_id} has {self._most} streams open, the maximum.")
            counts.own_streams.put(user, counts.own_streams.get(user) + 1)
        self._figures.streams.inc()

        def close() -> None:
            with counts.alone:
                counts.own_streams.put(user, max(counts.own_streams.get(user) - 1, 0))
            self._figures.streams.dec()

        return close


def name_of(owner: Owner) -> str:
    """Return the key under which a user is counted."""
    return f"{owner.org_id}\n{owner.user_id}"
