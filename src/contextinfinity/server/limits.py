"""How much each user may do at once, counted by all workers together.

The counts stand in a file that the workers share in memory, a region for the rates and one for each worker's streams.
They are changed under the file's lock, which ends with the process that holds it; a worker that takes the place of a
dead one begins its region anew. One worker alone keeps all of it to itself.
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
    """What a worker has in common with others: a folder; and its own number among them."""

    folder: str
    workers: int
    number: int


class CounterTable:
    """A number for each name, 0 where none was put. Where too many crowd together the smallest gives way."""

    def __init__(self, memory: bytearray | mmap.mmap, region: int) -> None:
        self._memory = memory
        self._first = region * REGION

    def get(self, name: str) -> float:
        """Read a number."""
        key = _key(name)
        held, number = ENTRY.unpack_from(self._memory, self._place(key))
        return number if held == key else 0.0

    def put(self, name: str, number: float) -> None:
        """Write a number."""
        key = _key(name)
        ENTRY.pack_into(self._memory, self._place(key), key, number)

    def clear(self) -> None:
        """Make all of them 0."""
        self._memory[self._first : self._first + REGION] = bytes(REGION)

    def _place(self, key: int) -> int:
        """Find where a name stands; where it stands nowhere, the place it would take."""
        place, least = 0, float("inf")
        for step in range(WINDOW):
            here = self._first + (key + step) % SLOTS * ENTRY.size
            held, number = ENTRY.unpack_from(self._memory, here)
            if held == key:
                return here
            if number < least:
                place, least = here, number
        return place


def _key(name: str) -> int:
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "little") or 1


class _Lock:
    """A file's lock, for the moment that a change takes."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def __enter__(self) -> None:
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        fcntl.flock(self._descriptor, fcntl.LOCK_UN)


class Counts:
    """What all limits count in."""

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
    """How many requests each user may still make: those of a minute, evenly, a few of them ahead of their time."""

    def __init__(self, per_minute: int, counts: Counts) -> None:
        self._per_minute = per_minute
        self._pause = 60 / per_minute if per_minute else 0.0
        self._ahead = max(BURST_SECONDS - self._pause, 0.0)
        self._counts = counts

    def take(self, user: str) -> None:
        """Count a request; ``TooMany`` when its time has not come."""
        if not self._per_minute:
            return
        moment, times = monotonic(), self._counts.requests  # the same clock in all processes of a machine
        with self._counts.alone:
            its_time = max(times.get(user), moment)
            if (wait := its_time - self._ahead - moment) <= GRAIN:
                times.put(user, its_time + self._pause)
                return
        raise TooMany(f"These are more than {self._per_minute} requests a minute.", retry_after=wait)


class Streams:
    """How many streams each user has open."""

    def __init__(self, most: int, counts: Counts, figures: Metrics) -> None:
        self._most = most
        self._counts = counts
        self._figures = figures

    def take(self, owner: Owner) -> Callable[[], None]:
        """Open one more, and give what closes it."""
        user, counts = name_of(owner), self._counts
        with counts.alone:
            if sum(each.get(user) for each in counts.streams) >= self._most:
                raise TooMany(f"{owner.user_id} has {self._most} streams open, and more are not allowed.")
            counts.own_streams.put(user, counts.own_streams.get(user) + 1)
        self._figures.streams.inc()

        def close() -> None:
            with counts.alone:
                counts.own_streams.put(user, max(counts.own_streams.get(user) - 1, 0))
            self._figures.streams.dec()

        return close


def name_of(owner: Owner) -> str:
    """Name a user for a count."""
    return f"{owner.org_id}\n{owner.user_id}"
