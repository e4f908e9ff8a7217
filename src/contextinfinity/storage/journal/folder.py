"""All journals of a data directory: opening, reading, following and pruning them by step.

With ``shared``, entries are stored there before they are shown here, and journals of other hosts are read there.

Each consumer follows a journal with its own loop: it reads the complete entries after its position and waits for more,
for a signal if the journal is open in this process, by polling otherwise. A consumer needs memory for one block of the
file, however far behind it is, and consumers do not block each other.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import aclosing, suppress
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

from contextinfinity.domain.events import Durability
from contextinfinity.domain.ids import StepId, WorkerId, is_id
from contextinfinity.domain.ids import now as present
from contextinfinity.errors import InvalidInput, LedgerClosed, LedgerError, TurnLost
from contextinfinity.storage.encryption.cipher import Protection
from contextinfinity.storage.encryption.protection import protection_of
from contextinfinity.storage.folders import NewNames, make_private
from contextinfinity.storage.journal.journal_reader import (
    END,
    ChangeSignal,
    JournalEntry,
    open_lines,
    to_line,
    translate,
)
from contextinfinity.storage.journal.journal_writer import Flusher, FlushPolicy, Journal
from contextinfinity.storage.journal.shared import JournalPublisher, SharedJournal, SharedJournals

POLL_SECONDS = 0.02
"""Polling interval for a journal that another process writes."""
POLLS_A_QUESTION = 25
"""After this many polls without new entries, ``is_over`` is called."""

SHARED_POLL_SECONDS = 0.5
"""Polling interval for a journal of another host, if no notification comes."""

_SUFFIX = ".jsonl"


class JournalFolder:
    """The journals in one folder. A step without a journal reads as empty; invalid ids raise ``InvalidInput``."""

    def __init__(
        self,
        folder: Path,
        *,
        flush_ms: float = 250,
        flush_bytes: int = 8192,
        fsync_ms: float = 2000,
        shared: SharedJournals | None = None,
    ) -> None:
        self.folder = folder
        self._shared = shared
        self._publisher = None if shared is None else JournalPublisher(shared, flush_ms / 1000)
        self._pace = FlushPolicy(flush_seconds=flush_ms / 1000, flush_bytes=flush_bytes, sync_seconds=fsync_ms / 1000)
        self._flusher = Flusher()
        self._names = NewNames(folder)
        self._opening = threading.Lock()
        self._open: dict[StepId, Journal] = {}
        self._closed = False
        self._protection: Protection | None = None

    def open(self, step_id: StepId, provider: str, writer: WorkerId = "") -> Journal:
        """Create the journal of a step, or continue an unfinished one; ``writer`` is the worker that has its turn.

        Raises an error if a process is writing it or if it has ended.
        """
        path = self._path(step_id)
        with self._opening:
            if self._closed:
                raise LedgerClosed(f"The journals in {self.folder} are closed.")
            self._make_folder(path)

            def forget() -> None:
                self._open.pop(step_id, None)

            kind = Journal if self._publisher is None else partial(SharedJournal, self._publisher, step_id, writer)
            journal = self._open[step_id] = kind(
                path=path,
                provider=provider,
                pace=self._pace,
                flusher=self._flusher,
                names=self._names,
                protection=self._protect(path),
                on_close=forget,
            )
            self._flusher.start()
            if self._publisher is not None:
                self._publisher.start()
            return journal

    def read(self, step_id: StepId, after: int = 0) -> Iterator[JournalEntry]:
        """Yield the complete entries after number ``after``."""
        path = self._path(step_id)
        if journal := self._open.get(step_id):
            with suppress(LedgerError, TurnLost):  # what was written before it failed is there to be read
                journal.flush()
        return _entries(path, after)

    async def tail(self, step_id: StepId, after: int = 0) -> AsyncGenerator[JournalEntry, None]:
        """Yield the entries that ``follow`` yields."""
        async with aclosing(self.follow(step_id, after)) as followed:
            async for entry in followed:
                if isinstance(entry, JournalEntry):
                    yield entry

    async def follow(
        self,
        step_id: StepId,
        after: int = 0,
        is_over: Callable[[], Awaitable[bool]] | None = None,
        *,
        is_written_here: bool = False,
    ) -> AsyncGenerator[JournalEntry | Durability, None]:
        """Yield the entries after number ``after`` and new ones as they are written, up to the end.

        For a journal that this process writes, also yield how much of it is durable whenever that changes, even if no
        entry follows. Stops early if the journal is removed or this folder is closed; raises the failure of a journal
        that this process writes, but reads on from the ledger if another worker has the turn. A step without a journal
        yields nothing. ``is_over`` is called now and then for a journal of another process, which may have died. With
        ``is_written_here`` a journal without a file is not looked for on other hosts.
        """
        path = self._path(step_id)
        lines = open_lines(path, self._protect(path))
        if lines is None:
            if self._shared is not None and not is_written_here:
                async for entry in self._follow_shared(self._shared, step_id, after, is_over):
                    yield entry
            return
        bell, journal, looks, deserted, durable = ChangeSignal(), None, 0, False, -1
        try:
            while True:
                bell.clear()
                # Asked before reading, so that what was written until then is still given.
                over = deserted or self._closed or (journal is not None and journal.failure is not None)
                journal = self._listen(step_id, bell, journal)
                for entry in lines.next_block():
                    looks = 0
                    if entry.seq > after:
                        after = entry.seq
                        yield entry
                if journal is not None and journal.displayed and journal.durable != durable:
                    counts = journal.durability()
                    durable = counts.durable
                    yield counts
                if lines.ended:
                    return
                if lines.behind:
                    await asyncio.sleep(0)  # a block at a time: a long journal leaves room for other tasks
                elif over or lines.removed:
                    break
                elif journal is not None and self._open.get(step_id) is journal:
                    await bell.wait()
                else:  # written elsewhere, or opened here just now and not listened to yet
                    await asyncio.sleep(POLL_SECONDS)
                    looks += 1
                    deserted = is_over is not None and looks % POLLS_A_QUESTION == 0 and await is_over()
        finally:
            if journal is not None:
                journal.unlisten(bell)
            lines.close()
        if self._shared is not None and journal is not None and isinstance(journal.failure, TurnLost):
            async for entry in self._follow_shared(self._shared, step_id, after, is_over):
                yield entry
        elif journal is not None:
            journal.check()

    async def adopt(self, step_id: StepId) -> None:
        """Add to a journal what only the shared ledger has of it. Its writer is dead."""
        if self._shared is None:
            return
        path = self._path(step_id)
        here = list(_entries(path, 0))
        if not (more := await self._shared.entries(step_id, here[-1].seq if here else 0)):
            return
        protection = self._protect(path)
        self._make_folder(path)
        copy = path.with_suffix(".adopted")
        try:
            copy.write_bytes(b"".join(to_line(entry, protection) for entry in (*here, *more)))
            copy.replace(path)
        except OSError as error:
            raise translate(error, path) from error

    async def _follow_shared(
        self, shared: SharedJournals, step_id: StepId, after: int, is_over: Callable[[], Awaitable[bool]] | None
    ) -> AsyncGenerator[JournalEntry, None]:
        """Do what ``follow`` does for a journal of another host."""
        bell, is_quiet = ChangeSignal(), True
        shared.listen(step_id, bell)
        try:
            while True:
                bell.clear()
                over = is_quiet and (self._closed or is_over is None or await is_over())
                for entry in await shared.entries(step_id, after):
                    after = entry.seq
                    yield entry
                    if entry.event_type == END:
                        return
                if over:
                    return
                is_quiet = True
                with suppress(TimeoutError):
                    async with asyncio.timeout(SHARED_POLL_SECONDS):
                        await bell.wait()
                        is_quiet = False
        finally:
            shared.unlisten(step_id, bell)

    def steps(self) -> list[StepId]:
        """Return the steps that have a journal, oldest first."""
        names = (path.stem for path in self.folder.glob(f"*{_SUFFIX}"))
        return sorted(name for name in names if is_id(name))

    def remove(self, step_id: StepId) -> bool:
        """Delete the journal of a step; return whether there was one."""
        path = self._path(step_id)
        try:
            path.unlink()
        except FileNotFoundError:
            return False
        except OSError as error:
            raise translate(error, path) from error
        return True

    def prune(self, keep: timedelta, now: datetime | None = None) -> int:
        """Delete the journals that ended longer ago than ``keep``, and return how many.

        An unfinished journal is never deleted: it may be the only copy of an answer.
        """
        limit = (now or present()) - keep
        if self._shared is not None:
            with suppress(LedgerError):  # the ledger is away: next time
                self._shared.prune(keep)
        return sum(self.remove(step_id) for step_id in self.steps() if _ended_before(self._path(step_id), limit))

    def close(self) -> None:
        """Sync and close all journals; then raise the first failure, if any."""
        with self._opening:
            self._closed = True
            journals = list(self._open.values())
        failures: list[LedgerError] = []
        for journal in journals:
            try:
                journal.close()
            except LedgerError as error:
                failures.append(error)
        self._flusher.stop()
        if self._publisher is not None:
            self._publisher.close()
        if failures:
            raise failures[0]

    def _path(self, step_id: StepId) -> Path:
        if not is_id(step_id):  # it becomes a file name
            raise InvalidInput(f"{step_id!r} is not the id of a step.")
        return self.folder / f"{step_id}{_SUFFIX}"

    def _make_folder(self, wanted: Path) -> None:
        if self.folder.is_dir():
            return
        try:
            make_private(self.folder)
        except OSError as error:
            raise translate(error, wanted) from error

    def _protect(self, path: Path) -> Protection:
        """Return how the journals are sealed: a plain folder is not encrypted while a store of its data_dir is open."""
        if self._protection is None or self._protection.is_on:
            self._protection = protection_of(path)
        return self._protection

    def _listen(self, step_id: StepId, bell: ChangeSignal, heard: Journal | None) -> Journal | None:
        """Subscribe to the journal if this process writes it, and flush it."""
        journal = self._open.get(step_id)
        if journal is None:
            return heard
        if journal is not heard:
            if heard is not None:
                heard.unlisten(bell)
            journal.listen(bell)
        with suppress(LedgerError, TurnLost):  # kept by the journal; first what can be read is read
            journal.flush()
        return journal


def _entries(path: Path, after: int) -> Iterator[JournalEntry]:
    lines = open_lines(path)
    if lines is None:
        return
    try:
        while entries := lines.next_block():
            yield from (entry for entry in entries if entry.seq > after)
    finally:
        lines.close()


def _ended_before(path: Path, limit: datetime) -> bool:
    lines = open_lines(path)
    if lines is None:  # another process prunes too
        return False
    try:
        last = lines.last()
    finally:
        lines.close()
    return last is not None and last.event_type == END and last.ts < limit
