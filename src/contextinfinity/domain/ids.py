"""Ids and timestamps.

Every durable object has a UUIDv7 in canonical text form: globally unique and ordered by creation time. Within one
process ids strictly increase, even when the clock stops or jumps back, so the largest id of a process is always its
newest.
"""

from __future__ import annotations

import os
import re
import threading
import time
from datetime import UTC, datetime
from typing import NamedTuple, TypeAlias

SessionId: TypeAlias = str
BranchId: TypeAlias = str
TurnId: TypeAlias = str
StepId: TypeAlias = str
StateId: TypeAlias = str
ChunkId: TypeAlias = str
MemoryId: TypeAlias = str
WorkerId: TypeAlias = str


class Position(NamedTuple):
    """A position in a list ordered by time; the id breaks ties."""

    moment: datetime
    id: str


_CANONICAL = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_lock = threading.Lock()
_last = 0  # the 60 bits before the random part: milliseconds and a 12-bit counter


def new_id() -> str:
    """Return a new id that is greater than every id this process made before."""
    global _last
    with _lock:
        # An overflowing counter carries into the milliseconds: order matters more than exact time.
        _last = max(_last + 1, (time.time_ns() // 1_000_000) << 12)
        front = _last
    value = (front >> 12) << 80 | 0x7 << 76 | (front & 0xFFF) << 64 | 0b10 << 62
    value |= int.from_bytes(os.urandom(8), "big") >> 2
    text = f"{value:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def is_id(text: str) -> bool:
    """Return whether a text is a UUID in canonical form, of any version: clients may supply their own ids."""
    return _CANONICAL.fullmatch(text) is not None


def is_ours(text: str) -> bool:
    """Return whether a text has the form of an id made here; if it is not found, it was deleted or is wrong."""
    return is_id(text) and text[14] == "7"


def time_of(identifier: str) -> datetime:
    """Return the time at which an id made by ``new_id`` was created, to the millisecond."""
    return from_millis(int(identifier[:8] + identifier[9:13], 16))


def now() -> datetime:
    """Return the current time in UTC, to the millisecond: the precision that storage keeps."""
    return from_millis(time.time_ns() // 1_000_000)


def to_millis(moment: datetime) -> int:
    """Convert a datetime to milliseconds since 1970."""
    return round(moment.timestamp() * 1000)


def from_millis(millis: int) -> datetime:
    """Convert milliseconds since 1970 to a datetime in UTC."""
    return datetime.fromtimestamp(millis / 1000, UTC)  # floats are exact to the microsecond for the next 200 years
