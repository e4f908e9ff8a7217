"""Names and times.

Every durable thing is named by a UUIDv7 in its canonical text form: unique everywhere, and ordered by
the time it was made. Within one process ids strictly increase, even when the clock stands still or
jumps back, so that "newest by id" is always true for what one process made.
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
    """Where something stands in a list by time: its moment, and its id among what is of the same moment."""

    moment: datetime
    id: str


_CANONICAL = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_lock = threading.Lock()
_last = 0  # the 60 bits in front of the random part: milliseconds and a counter of 12 bits


def new_id() -> str:
    """Make an id later than every id this process made before."""
    global _last
    with _lock:
        # The counter carries into the milliseconds when it overflows: order matters more than the last bit of time.
        _last = max(_last + 1, (time.time_ns() // 1_000_000) << 12)
        front = _last
    value = (front >> 12) << 80 | 0x7 << 76 | (front & 0xFFF) << 64 | 0b10 << 62
    value |= int.from_bytes(os.urandom(8), "big") >> 2
    text = f"{value:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def is_id(text: str) -> bool:
    """Tell whether a text is a UUID in canonical form (of any version: clients bring their own)."""
    return _CANONICAL.fullmatch(text) is not None


def is_ours(text: str) -> bool:
    """Tell whether a text has the form of the ids that are made here; one that nothing has is gone, or a mistake."""
    return is_id(text) and text[14] == "7"


def time_of(identifier: str) -> datetime:
    """Give the moment an id of ours was made, to the millisecond."""
    return from_millis(int(identifier[:8] + identifier[9:13], 16))


def now() -> datetime:
    """Give the present moment in UTC, to the millisecond: what storage keeps."""
    return from_millis(time.time_ns() // 1_000_000)


def to_millis(moment: datetime) -> int:
    """Turn a moment into milliseconds since 1970."""
    return round(moment.timestamp() * 1000)


def from_millis(millis: int) -> datetime:
    """Turn milliseconds since 1970 into a moment in UTC."""
    return datetime.fromtimestamp(millis / 1000, UTC)  # a float is exact to the microsecond for the next 200 years
