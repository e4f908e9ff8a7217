"""A limit for repeated log records, so that a failing process does not fill the disk.

Warnings and errors of one kind (logger, level, start of the message) pass 20 times in 10 seconds. The last one that
passes says that more are suppressed, and the first of a later period says how many were.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

MOST_REPEATS = 20

PERIOD_SECONDS = 10.0

BEGINNING = 40
"""The characters of the message that identify its kind; variable parts usually follow."""

MOST_KINDS = 1000

Kind = tuple[str, int, str]


@dataclass
class _RepeatCount:
    since: float
    passed: int = 0
    left_out: int = 0


class RepeatLimit(logging.Filter):
    """A logging filter for a handler; records below a warning always pass."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._counts: dict[Kind, _RepeatCount] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether to write a record."""
        if record.levelno < logging.WARNING:
            return True
        count, left_out = self._count((record.name, record.levelno, str(record.msg)[:BEGINNING]))
        if count.passed >= MOST_REPEATS:
            count.left_out += 1
            return False
        count.passed += 1
        if left_out:
            _add(record, f"{left_out} similar messages were suppressed")
        if count.passed == MOST_REPEATS:
            _add(record, f"more like this are left out for up to {PERIOD_SECONDS:g} seconds")
        return True

    def _count(self, kind: Kind) -> tuple[_RepeatCount, int]:
        """Return the count of the current period, and how many records were suppressed in the previous one."""
        moment, before = self._clock(), self._counts.get(kind)
        if before is not None and moment - before.since < PERIOD_SECONDS:
            return before, 0
        if len(self._counts) >= MOST_KINDS:
            self._counts.clear()
        count = self._counts[kind] = _RepeatCount(since=moment)
        return count, 0 if before is None else before.left_out


def _add(record: logging.LogRecord, remark: str) -> None:
    record.msg, record.args = f"{record.getMessage()} ({remark})", ()
