"""Journals in a ledger that several hosts share: what is written of them, and the thread that writes it.

The file of a journal stays the first copy. While it is written, its new entries are copied to the ledger at intervals,
those of all journals of a process in one transaction. While the ledger is away nothing is lost: the file is read from
where the last copy ended.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection, Sequence
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple, Protocol

from contextinfinity.domain.ids import StepId
from contextinfinity.errors import LedgerError
from contextinfinity.storage.journal.journal_reader import ChangeSignal, JournalEntry, JournalReader, open_lines

log = logging.getLogger(__name__)

MOST_WAITING = 10_000
"""Entries of a journal that wait for the ledger; later ones are read from the file when these are written."""


class SharedJournals(Protocol):
    """A shared store of journals. All hosts see an entry soon after it is written."""

    def write(self, written: Sequence[WrittenEntries]) -> Collection[StepId]:
        """Add entries, each once; return the steps that the ledger knows. Blocks, and is called by a thread."""
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
    """Entries of a journal that follow each other."""

    step_id: StepId
    entries: Sequence[JournalEntry]


class JournalPublisher:
    """Copies the journals that this process writes to where they are shared."""

    def __init__(self, shared: SharedJournals, seconds: float) -> None:
        self._shared = shared
        self._seconds = seconds
        self._open: dict[StepId, _Copied] = {}
        self._stopping = threading.Event()
        self._some = threading.Event()
        self._thread: threading.Thread | None = None

    def add(self, step_id: StepId, path: Path) -> None:
        """Copy a journal that was opened for writing."""
        self._open[step_id] = _Copied(path)
        self._some.set()
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="journal-publisher", daemon=True)
            self._thread.start()

    def closed(self, step_id: StepId) -> None:
        """Note that nothing more will be written to a journal."""
        if (copied := self._open.get(step_id)) is not None:
            copied.closed = True

    def close(self) -> None:
        """Copy what was written last, and end the thread."""
        self._stopping.set()
        self._some.set()
        if self._thread is not None:
            self._thread.join()
        for copied in self._open.values():
            copied.close()

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._some.wait()
            self._stopping.wait(self._seconds)
            self._some.clear()
            self._copy()
            if self._open:
                self._some.set()
        self._copy()

    def _copy(self) -> None:
        """Copy what is new. What fails is tried again with the next copy: the thread must go on after any error."""
        due = {step_id: copied for step_id, copied in list(self._open.items()) if self._read(step_id, copied)}
        try:
            written = [WrittenEntries(step_id, copied.waiting) for step_id, copied in due.items()]
            known = self._shared.write(written) if written else ()
        except LedgerError as error:
            log.info("journals cannot be shared now: %s", error)
            return
        except Exception:
            log.exception("journals cannot be shared now")
            return
        for step_id in known:
            due[step_id].waiting = []

    def _read(self, step_id: StepId, copied: _Copied) -> bool:
        """Read new entries of a journal; return whether it has any. One that cannot be read delays no other."""
        try:
            if not copied.read():
                self._forget(step_id)
        except Exception as error:
            log.info("the journal of step %s cannot be shared now: %s", step_id, error)
        return bool(copied.waiting)

    def _forget(self, step_id: StepId) -> None:
        self._open.pop(step_id).close()


class _Copied:
    """A journal and how far it is copied."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.closed = False
        self.waiting: list[JournalEntry] = []
        self._lines: JournalReader | None = None

    def read(self) -> bool:
        """Read new entries; return False if there is nothing to copy now or later."""
        was_closed = self.closed
        self._lines = self._lines or open_lines(self.path)
        if self._lines is None:
            return False
        while len(self.waiting) < MOST_WAITING and (entries := self._lines.next_block()):
            self.waiting += entries
        return bool(self.waiting) or not (was_closed or self._lines.ended or self._lines.removed)

    def close(self) -> None:
        if self._lines is not None:
            self._lines.close()
