"""Shadow mode: write to two thread backends, answer from the first, and report where the second differs.

No failure of the second backend reaches a caller. A difference is written as a line of JSON to a file and as a warning
to the log; it contains the thread id and counts, never message text.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

from contextinfinity.compat.threads import ThreadLog
from contextinfinity.domain.ids import now
from contextinfinity.domain.thread import Thread, Turn
from contextinfinity.errors import ContextInfinityError
from contextinfinity.storage.folders import make_private

log = logging.getLogger(__name__)

Verb: TypeAlias = Literal["get", "get_or_create", "history", "add", "clear"]


class ThreadDifference(msgspec.Struct, frozen=True, kw_only=True):
    """A difference of the second backend: it failed, or its turns differ from some index on."""

    at: str
    verb: Verb
    thread_id: str
    turns: int = 0
    shadow_turns: int = 0
    first_difference: int | None = None
    """The index of the first different turn; None if one of the two has no such thread, or it failed."""
    error: str | None = None


class ShadowThreads:
    """``ThreadLog`` that compares two others; it closes both."""

    def __init__(self, main: ThreadLog, shadow: ThreadLog, report: Path) -> None:
        self._main = main
        self._shadow = shadow
        self._report = report
        self._lock = threading.Lock()

    def get(self, thread_id: str) -> Thread | None:
        """Return the first backend's thread."""
        thread = self._main.get(thread_id)
        self._ask("get", thread_id, lambda: self._compare_presence(thread_id, thread))
        return thread

    def get_or_create(self, thread_id: str) -> Thread:
        """Create the thread in both."""
        thread = self._main.get_or_create(thread_id)
        self._ask("get_or_create", thread_id, lambda: self._shadow.get_or_create(thread_id))
        return thread

    def history(self, thread_id: str, max_turns: int) -> list[Turn]:
        """Read both, and return the turns of the first."""
        turns = self._main.history(thread_id, max_turns)
        self._ask("history", thread_id, lambda: self._compare(thread_id, turns, max_turns))
        return turns

    def add(self, thread_id: str, turn: Turn) -> None:
        """Append to both, in the same order for all callers of this process."""
        with self._lock:
            self._main.add(thread_id, turn)
            self._ask("add", thread_id, lambda: self._shadow.add(thread_id, turn))

    def clear(self, thread_id: str) -> None:
        """Clear both."""
        with self._lock:
            self._main.clear(thread_id)
            self._ask("clear", thread_id, lambda: self._shadow.clear(thread_id))

    def identity(self, thread_id: str) -> str | None:
        """Return the identity of the thread in the first backend."""
        return self._main.identity(thread_id)

    def close(self) -> None:
        """Close both."""
        self._main.close()
        self._shadow.close()

    def _compare(self, thread_id: str, turns: Sequence[Turn], max_turns: int) -> None:
        shadow = self._shadow.history(thread_id, max_turns)
        if shadow != turns:
            pairs = enumerate(zip(turns, shadow, strict=False))
            first = next((place for place, (one, other) in pairs if one != other), min(len(turns), len(shadow)))
            self._note(
                ThreadDifference(
                    at=now().isoformat(),
                    verb="history",
                    thread_id=thread_id,
                    turns=len(turns),
                    shadow_turns=len(shadow),
                    first_difference=first,
                )
            )

    def _compare_presence(self, thread_id: str, thread: Thread | None) -> None:
        if (self._shadow.get(thread_id) is None) != (thread is None):
            self._note(ThreadDifference(at=now().isoformat(), verb="get", thread_id=thread_id))

    def _ask(self, verb: Verb, thread_id: str, work: Callable[[], object]) -> None:
        """Run an operation on the second backend; a failure is reported as a difference."""
        try:
            work()
        except ContextInfinityError as error:
            self._note(ThreadDifference(at=now().isoformat(), verb=verb, thread_id=thread_id, error=error.message))

    def _note(self, difference: ThreadDifference) -> None:
        log.warning("the shadow of thread %s differs (%s)", difference.thread_id, difference.error or difference.verb)
        make_private(self._report.parent)
        file = os.open(self._report, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.write(file, msgspec.json.encode(difference) + b"\n")
        finally:
            os.close(file)


def report_file(data_dir: Path) -> Path:
    """Return where the differences are written."""
    return data_dir / "threads-shadow.jsonl"


def read_report(report: Path) -> tuple[ThreadDifference, ...]:
    """Return the differences in a report file, oldest first; empty if there is no file."""
    if not report.is_file():
        return ()
    lines = report.read_bytes().splitlines()
    return tuple(msgspec.json.decode(line, type=ThreadDifference) for line in lines)
