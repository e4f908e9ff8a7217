"""Journals in a ledger that several hosts share: an entry is shown when the ledger has it.

A host that is lost takes its files with it. So an entry is first stored in the ledger, with those of all journals of
the process, and only then written to the file that readers here follow. One write runs at a time, and what was appended
meanwhile goes with the next.

While the ledger is away, entries are shown at once, as are those of a turn that the ledger does not know yet; they are
stored when it is back. A worker that was declared dead stores and shows nothing: its turns have been taken over, and
its journals raise ``TurnLost``.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import deque
from collections.abc import Collection, Sequence
from concurrent.futures import Future, wait
from contextlib import suppress
from datetime import timedelta
from typing import Any, NamedTuple, Protocol

from contextinfinity.domain.ids import StepId, WorkerId
from contextinfinity.errors import LedgerBusy, LedgerError, TurnLost
from contextinfinity.storage.journal.journal_reader import ChangeSignal, JournalEntry
from contextinfinity.storage.journal.journal_writer import Journal

log = logging.getLogger(__name__)

GATHER_SECONDS = 0.005
"""How long entries are gathered before they are stored."""
PATIENCE_SECONDS = 0.25
"""After how long a silence of the ledger it is away."""
LOOK_SECONDS = 0.05
"""Interval at which a write that takes long is looked at."""
UNKNOWN_SECONDS = 60.0
"""How long a journal that has ended is kept for a ledger that does not know its step."""
MOST_WAITING = 10_000
"""Entries of journals that have ended and wait for the ledger; older journals are not stored there."""


class SharedJournals(Protocol):
    """A shared store of journals. All hosts see an entry soon after it is written."""

    def write(self, written: Sequence[WrittenEntries]) -> Future[StoredSteps]:
        """Store entries, each once."""
        ...

    def blocked_seconds(self) -> float:
        """Return for how many seconds the store has given no sign while this process waits for it."""
        ...

    def prune(self, keep: timedelta) -> None:
        """Delete what was written longer ago than ``keep`` and belongs to steps that have ended. Blocks."""
        ...

    async def entries(self, step_id: StepId, after: int) -> Sequence[JournalEntry]:
        """Return the entries after number ``after``, in order."""
        ...

    def listen(self, step_id: StepId, bell: ChangeSignal) -> None:
        """Signal when a host adds entries."""
        ...

    def unlisten(self, step_id: StepId, bell: ChangeSignal) -> None:
        """Stop signalling."""
        ...


class WrittenEntries(NamedTuple):
    """Entries of a journal that follow each other, and the worker that wrote them."""

    step_id: StepId
    writer: WorkerId
    entries: Sequence[JournalEntry]


class StoredSteps(NamedTuple):
    """What became of a write; a step that is in neither is not known."""

    stored: Collection[StepId]
    lost: Collection[StepId]
    """Those whose writer was declared dead."""


class _Hidden(NamedTuple):
    """An entry that waits to be shown, as ``Journal`` shows it."""

    entry: JournalEntry
    line: bytes
    shown: int


class SharedJournal(Journal):
    """A journal whose entries are shown when the shared ledger has them."""

    def __init__(self, publisher: JournalPublisher, step_id: StepId, writer: WorkerId, **file: Any) -> None:
        super().__init__(**file)
        self.step_id = step_id
        self.writer = writer
        self.unknown_since: float | None = None
        """Since when the ledger is there and does not know its step; None: it knows it, or was not asked."""
        self._publisher = publisher
        self._unshared: list[JournalEntry] = []
        self._hidden: deque[_Hidden] = deque()
        self._stored = 0
        """The number of the last entry that is stored."""
        self._all_shown = threading.Condition(self._lock)

    @property
    def displayed(self) -> int:
        """The number of bytes of displayed text in the events appended here."""
        with self._lock:
            return self._displayed + sum(each.shown for each in self._hidden)

    @property
    def is_urgent(self) -> bool:
        """Whether an entry waits to be shown that no transaction is about to store with the end of its step."""
        return bool(self._hidden) and not self._sealed

    @property
    def is_over(self) -> bool:
        """Whether nothing more will be appended."""
        return self._sealed

    def sync(self) -> None:
        """Wait until everything is shown, then flush and fsync the file."""
        with self._lock:
            if self._hidden:
                self._publisher.hurry()
                self._all_shown.wait_for(lambda: not self._hidden)
        super().sync()

    def show(self) -> None:
        """Show what was appended: the ledger has it in another form, or is away."""
        with self._lock, suppress(LedgerError):  # kept, and raised by its next use
            self._show_until(self._seq)

    def unshared(self) -> list[JournalEntry]:
        """Return the entries that are not stored yet."""
        with self._lock:
            return self._unshared.copy()

    def stored(self, count: int) -> None:
        """Note that as many entries more are stored, and show them."""
        self.unknown_since = None
        with self._lock, suppress(LedgerError):
            last = self._unshared[count - 1].seq
            del self._unshared[:count]
            self._stored = last
            self._show_until(last)

    def lose(self) -> None:
        """Fail with ``TurnLost`` and forget what is not stored: another worker has the turn.

        The file is removed, unless more was shown than the ledger has.
        """
        with self._lock:
            if self._seq - len(self._hidden) <= self._stored:
                self._remove()
            else:
                with suppress(LedgerError):  # it is lost either way
                    self._write()
            self.failure = TurnLost(f"The worker of step {self.step_id} was declared dead; another one has its turn.")
            self._unshared.clear()
            self._hidden.clear()
            self._all_shown.notify_all()
        self._release()

    # Everything below is called with the lock held, except where it says otherwise.

    def _show(self, entry: JournalEntry, line: bytes, shown: int) -> None:
        """Take a new entry, which is shown later."""
        self._unshared.append(entry)
        self._hidden.append(_Hidden(entry, line, shown))
        if self._publisher.is_away or self.unknown_since is not None:
            self._show_until(entry.seq)
        self._publisher.add(self)

    def _show_until(self, seq: int) -> None:
        while self._hidden and self._hidden[0].entry.seq <= seq:
            super()._show(*self._hidden.popleft())
        if not self._hidden:
            self._note_shown()

    def _note_shown(self) -> None:
        self._all_shown.notify_all()
        if self._sealed:
            self._flusher.plan_sync(time.monotonic(), self._sync_if_due)

    def _sync_if_due(self, present: float) -> float | None:
        """Run by the flusher; takes the locks itself."""
        if self._sealed and self._hidden:
            return None  # planned again when they are shown
        return super()._sync_if_due(present)

    def _remove(self) -> None:
        """Remove the file, unless it was closed or another worker has replaced it."""
        with suppress(OSError):  # it stays
            if self._descriptor >= 0 and os.path.samestat(os.fstat(self._descriptor), self.path.stat()):
                self.path.unlink()

    def _fail(self, error: OSError) -> LedgerError:
        self._hidden.clear()
        self._all_shown.notify_all()
        return super()._fail(error)


class JournalPublisher:
    """The thread that stores what this process appends to its journals."""

    def __init__(self, shared: SharedJournals, seconds: float) -> None:
        self.is_away = False
        """Whether the last write failed, or waits for a server that gives no sign."""
        self._shared = shared
        self._seconds = seconds
        self._waiting: dict[SharedJournal, None] = {}
        self._some = threading.Event()
        self._hurry = threading.Event()
        self._stopping = False
        self._began = 0.0
        """When the last write began."""
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread, unless it runs."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="journal-publisher", daemon=True)
            self._thread.start()

    def add(self, journal: SharedJournal) -> None:
        """Store new entries of a journal soon."""
        self._waiting[journal] = None
        self._some.set()

    def hurry(self) -> None:
        """Store what waits at once."""
        self._hurry.set()
        self._some.set()

    def close(self) -> None:
        """Store what was appended last, and end the thread."""
        self._stopping = True
        self.hurry()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._stopping:
            rest = self._began + self._seconds - time.monotonic()
            self._some.wait(max(rest, 0.0) if self._waiting else None)
            self._some.clear()
            self._hurry.wait(GATHER_SECONDS)
            if self._is_due():
                self._copy()
        self._copy()

    def _is_due(self) -> bool:
        """Return whether to write now. The end of a step is stored by its transaction too, so it need not hurry."""
        if self._hurry.is_set() or time.monotonic() >= self._began + self._seconds:
            return True
        return not self.is_away and any(journal.is_urgent for journal in list(self._waiting))

    def _copy(self) -> None:
        """Store what is new. What fails is tried again with the next write: the thread must go on after any error."""
        self._hurry.clear()
        self._began = time.monotonic()
        taken = list(self._waiting)
        for journal in taken:
            del self._waiting[journal]
        batch = {journal: entries for journal in taken if (entries := journal.unshared())}
        if not batch:
            return
        try:
            steps = self._write(batch)
        except Exception as error:
            log.info("journals cannot be shared now: %s", error, exc_info=not isinstance(error, LedgerError))
            self._show_here(batch)
            self._keep(batch)
            return
        self.is_away = False
        for journal, entries in batch.items():
            if journal.step_id in steps.stored:
                journal.stored(len(entries))
            elif journal.step_id in steps.lost:
                journal.lose()
            else:
                self._keep_unknown(journal)

    def _write(self, batch: dict[SharedJournal, list[JournalEntry]]) -> StoredSteps:
        """Store entries. While the ledger is silent what waits is shown."""
        written = [WrittenEntries(journal.step_id, journal.writer, entries) for journal, entries in batch.items()]
        done = self._shared.write(written)
        while not wait([done], LOOK_SECONDS).done:
            if self._shared.blocked_seconds() >= PATIENCE_SECONDS:
                self._show_here(batch)
                if self._stopping:
                    raise LedgerBusy("The ledger gives no sign.")
        return done.result()

    def _show_here(self, batch: Collection[SharedJournal]) -> None:
        """Show everything without the ledger, from now on."""
        self.is_away = True
        for journal in (*batch, *list(self._waiting)):
            journal.show()

    def _keep(self, batch: Collection[SharedJournal]) -> None:
        """Keep journals for the next write; of those that have ended the latest."""
        self._waiting.update(dict.fromkeys(batch))
        sizes = {journal: len(journal.unshared()) for journal in list(self._waiting) if journal.is_over}
        excess = sum(sizes.values()) - MOST_WAITING
        for journal, size in sizes.items():
            if excess <= 0:
                break
            del self._waiting[journal]
            excess -= size

    def _keep_unknown(self, journal: SharedJournal) -> None:
        """Show a journal of which the ledger knows nothing yet, and try again until it has long ended."""
        journal.unknown_since = journal.unknown_since or time.monotonic()
        journal.show()
        if not journal.is_over or time.monotonic() - journal.unknown_since < UNKNOWN_SECONDS:
            self._waiting[journal] = None
