"""Writes a journal: events are appended in memory and become durable shortly after.

``append`` numbers an event and keeps it in memory. It is written to the file once enough bytes wait or it
has waited long enough, and forced onto the disk after a longer while or after ``finish``, by the flusher's
thread; only ``sync``, ``end`` and ``close`` wait for the disk. What always holds: entries are numbered 1, 2, 3 …
without a gap, across reopening too; a file has one writer; ``durable`` never exceeds ``displayed``.

A journal that failed stays failed. After a sync that failed the system may forget which bytes never reached
the disk and report success the next time, so no later success could be believed.

One thread flushes and syncs all open journals. A journal schedules a flush (fast) or a sync (as slow as the disk).
The thread runs them in order of their due times;
a due flush always precedes a due sync, so a slow disk delays other flushes by one sync at most. Between them
it sleeps. Times are of the monotonic clock.
"""

from __future__ import annotations

import fcntl
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count
from pathlib import Path
from typing import TypeAlias

from contextinfinity.domain.events import Durability
from contextinfinity.domain.ids import now
from contextinfinity.domain.message import Json
from contextinfinity.errors import InvalidInput, LedgerBusy, LedgerClosed, LedgerError, Refused, TurnLost
from contextinfinity.storage.encryption.cipher import Protection
from contextinfinity.storage.folders import NewNames, sync_file
from contextinfinity.storage.journal.journal_reader import (
    END,
    ChangeSignal,
    JournalEntry,
    JournalReader,
    to_line,
    translate,
)

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
            with suppress(LedgerError, TurnLost):  # the journal raises its failure at its next use
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


@dataclass(frozen=True, kw_only=True)
class FlushPolicy:
    """When what was appended is written, and when it is forced onto the disk."""

    flush_seconds: float
    flush_bytes: int
    sync_seconds: float


class Journal:
    """The open journal of one step. Any thread may append; ``JournalFolder.open`` makes it."""

    def __init__(
        self,
        path: Path,
        provider: str,
        *,
        pace: FlushPolicy,
        flusher: Flusher,
        names: NewNames,
        protection: Protection,
        on_close: Callable[[], None],
    ) -> None:
        self.path = path
        self.provider = provider
        self._pace = pace
        self._flusher = flusher
        self._names = names
        self._on_close = on_close
        self._protection = protection
        # Held for moments only, so that append and flush may run on an event loop. Code that needs both locks
        # takes _syncing first; it is held while the disk works, and keeps the descriptor open meanwhile.
        self._lock = threading.Lock()
        self._syncing = threading.Lock()
        self._buffer = bytearray()
        self._bells: list[ChangeSignal] = []
        self.failure: LedgerError | TurnLost | None = None
        """What stopped this journal; ``check`` raises it."""
        self._sealed = False
        self._displayed = self._durable = 0
        # Since when the oldest byte has waited to be written, and to be synced; None while none does.
        self._unwritten_since: float | None = None
        self._unsynced_since: float | None = None
        self._flush_planned = self._sync_planned = False
        self._descriptor, self._seq = _open_for_appending(path, protection)
        self._name = names.add()
        self.synced = os.fstat(self._descriptor).st_size  # when it was opened or last forced onto the disk

    @property
    def displayed(self) -> int:
        """The number of bytes of displayed text in the events appended here."""
        return self._displayed

    @property
    def durable(self) -> int:
        """How many of these bytes are durable."""
        return self._durable

    def durability(self) -> Durability:
        """Return both counts, read atomically."""
        with self._lock:
            return Durability(displayed=self._displayed, durable=self._durable)

    def append(self, event_type: str, payload: Json, shown: int = 0) -> int:
        """Append an event that displays ``shown`` bytes of text, and return its number. Never waits for the disk.

        Raises an error for invalid JSON, and for an earlier failure in the background.
        """
        if event_type == END:
            raise InvalidInput(f"An event cannot be of type {END!r}: that is how a journal ends.")
        with self._lock:
            self._check_usable()
            return self._add(event_type, payload, shown)

    def flush(self) -> None:
        """Write everything to the file: other processes can read it, and it survives a crash of this process."""
        with self._lock:
            self._check_open()
            self._write()

    def show(self) -> None:
        """Show what waits for a shared ledger; here nothing does."""

    def sync(self) -> None:
        """Flush and fsync the file; blocks until it is durable."""
        with self._syncing:
            with self._lock:
                self._check_open()
                self._write()
                if self._unsynced_since is None and self._names.is_durable(self._name):
                    return
                shown, size = self._displayed, os.fstat(self._descriptor).st_size
                self._unsynced_since = None
            try:
                sync_file(self._descriptor)
                self._names.sync(self._name)  # a file is only found after a power cut if its folder knows of it
            except OSError as error:
                with self._lock:
                    raise self._fail(error) from error
            with self._lock:
                self._durable, self.synced = shown, size
                self._ring()

    def end(self, payload: Json) -> int:
        """Append the last entry, sync and close the file; return the entry's number. Blocks."""
        seq = self._add_end(payload)
        self.close()
        return seq

    def finish(self, payload: Json) -> int:
        """Append the last entry and write it; return its number. The flusher syncs and closes the file at once."""
        seq = self._add_end(payload)
        self._flusher.plan_sync(time.monotonic(), self._sync_if_due)
        return seq

    def close(self) -> None:
        """Sync and close the file, also if the sync fails. Idempotent. Without an end entry it can be continued."""
        with self._lock:
            self._sealed = True  # what is added from now on might miss the disk and still be numbered
            if self._descriptor < 0:
                return
        try:
            self.sync()
        except (LedgerClosed, TurnLost):
            pass  # another thread closed it in between, or another worker ends it
        finally:
            self._release()

    def check(self) -> None:
        """Raise the failure of this journal, if there is one."""
        if (failure := self.failure) is not None:
            raise type(failure)(failure.message, hint=failure.hint) from failure

    def listen(self, bell: ChangeSignal) -> None:
        """Signal from now on when there are new entries, when they become durable, or when the journal ends."""
        with self._lock:
            self._bells = [*self._bells, bell]
            bell.ring()  # it may have something to tell already

    def unlisten(self, bell: ChangeSignal) -> None:
        """Stop signalling."""
        with self._lock:
            self._bells = [other for other in self._bells if other is not bell]

    # Everything below is called with the lock held, except where it says otherwise.

    def _add(self, event_type: str, payload: Json, shown: int) -> int:
        seq = self._seq + 1
        entry = JournalEntry(ts=now(), provider=self.provider, event_type=event_type, seq=seq, payload=payload)
        line = to_line(entry, self._protection)
        self._seq = seq
        self._show(entry, line, shown)
        return seq

    def _show(self, _: JournalEntry, line: bytes, shown: int) -> None:
        self._buffer += line
        self._plan()
        if len(self._buffer) >= self._pace.flush_bytes:
            self._write()
        self._displayed += shown  # only now: an event that could not be kept is not shown
        self._ring()

    def _add_end(self, payload: Json) -> int:
        """Takes the lock itself."""
        try:
            with self._lock:
                self._check_usable()
                seq = self._add(END, payload, 0)
                self._sealed = True
                self._write()
                return seq
        except LedgerError:
            if self.failure is not None:  # its user has the error and is done with it: nothing else would close it
                self._release()
            raise

    def _plan(self) -> None:
        """Record since when bytes are pending, and schedule the flusher if needed."""
        if self._unwritten_since is None:
            self._unwritten_since = time.monotonic()
            if not self._flush_planned:
                self._flush_planned = True
                self._flusher.plan_flush(self._unwritten_since + self._pace.flush_seconds, self._flush_if_due)
        if self._unsynced_since is None:
            self._unsynced_since = self._unwritten_since
            if not self._sync_planned:
                self._sync_planned = True
                self._flusher.plan_sync(self._unsynced_since + self._pace.sync_seconds, self._sync_if_due)

    def _flush_if_due(self, present: float) -> float | None:
        """Run by the flusher; takes the lock itself."""
        with self._lock:
            self._flush_planned = False
            if self._descriptor < 0 or self._unwritten_since is None:
                return None
            due = self._unwritten_since + self._pace.flush_seconds
            if due > present:  # what waited when this was planned has been written since
                self._flush_planned = True
                return due
            self.check()
            self._write()
            return None

    def _sync_if_due(self, present: float) -> float | None:
        """Run by the flusher; takes the locks itself."""
        if self._sealed:
            self.close()
            return None
        with self._lock:
            self._sync_planned = False
            if self._descriptor < 0 or self._unsynced_since is None:
                return None
            due = self._unsynced_since + self._pace.sync_seconds
            if due > present:
                self._sync_planned = True
                return due
        Journal.sync(self)  # what is in the file; nothing here waits for a shared ledger
        return None

    def _write(self) -> None:
        try:
            while self._buffer:
                written = os.write(self._descriptor, self._buffer)
                del self._buffer[:written]
        except OSError as error:
            raise self._fail(error) from error
        self._unwritten_since = None

    def _fail(self, error: OSError) -> LedgerError:
        self.failure = translate(error, self.path)
        self._ring()
        return self.failure

    def _ring(self) -> None:
        for bell in self._bells:
            bell.ring()

    def _check_open(self) -> None:
        self.check()
        if self._descriptor < 0:
            raise LedgerClosed(f"The journal {self.path} is closed.")

    def _check_usable(self) -> None:
        self._check_open()
        if self._sealed:
            raise LedgerClosed(f"The journal {self.path} is being closed.")

    def _release(self) -> None:
        """Takes the locks itself."""
        with self._syncing, self._lock:
            if self._descriptor < 0:
                return
            # In this order: the folder forgets it while it is still locked against a second writer, and those
            # who listen look again when it is forgotten.
            self._on_close()
            os.close(self._descriptor)
            self._descriptor = -1
            self._ring()


def _open_for_appending(path: Path, protection: Protection) -> tuple[int, int]:
    """Open or create a file for one writer; returns its descriptor and the number of its last whole entry.

    A file that another process removes before it is locked here is created again.
    """
    try:
        while True:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            try:
                seq = _take_over(descriptor, path, protection)
                if os.fstat(descriptor).st_nlink:
                    return descriptor, seq
            except BaseException:
                os.close(descriptor)
                raise
            os.close(descriptor)
    except BlockingIOError as error:
        raise LedgerBusy(f"The journal {path} is being written already.") from error
    except OSError as error:
        raise translate(error, path) from error


def _take_over(descriptor: int, path: Path, protection: Protection) -> int:
    """Lock a file, truncate a torn end, and return the number of its last entry."""
    # The lock goes with the process that holds it. Two writers would number alike and cut each other's lines.
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    if os.fstat(descriptor).st_size == 0:
        return 0
    lines = JournalReader(descriptor, path, protection)
    while lines.next_block():
        pass
    if lines.ended:
        raise Refused(f"The journal {path} has ended.", hint="Nothing can be appended after its end.")
    if os.fstat(descriptor).st_size > lines.offset:
        os.ftruncate(descriptor, lines.offset)
    return lines.seq
