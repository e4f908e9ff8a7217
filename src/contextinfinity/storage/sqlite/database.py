"""The SQLite ``Database``: ``read``, ``look`` (a small read) and ``write``, each one transaction.

All take a function from a connection to a result and are awaited. Callers without an event loop use ``writing`` and
``reading`` and wait for the future.
"""

from __future__ import annotations

import asyncio
import math
import shutil
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import closing, suppress
from pathlib import Path
from typing import TypeVar

import apsw

from contextinfinity.errors import LedgerBusy, LedgerError, LedgerFull, LedgerReadOnly
from contextinfinity.storage.sqlite.connection import (
    BUSY_SECONDS,
    BusyWaits,
    connect,
    connect_unwritable,
    create_private,
    leave_untouched,
    open_as_it_is,
    refuse_cut_short,
    set_up,
    translated,
)
from contextinfinity.storage.sqlite.identity import Content, LedgerFile, refuse_lost, refuse_other, remember, remembered
from contextinfinity.storage.sqlite.migrate import migrate, migrations, version_of
from contextinfinity.storage.sqlite.named_sql import SqliteConnection
from contextinfinity.storage.sqlite.readers import Readers
from contextinfinity.storage.sqlite.secure_erase import is_wiped, overwrite_next, sweep
from contextinfinity.storage.sqlite.writer import Writer

T = TypeVar("T")

LEAST_FREE_BYTES = 1 << 18
"""The free space below which a message may not fit."""
OVERWRITE_SECONDS = 0.1
"""How long the overwriting of unused bytes waits for readers and writers; it is tried again later."""


class SqliteDatabase:
    """One ledger file: a writer and a few readers.

    ``unwritable``: the error that opening it for writing raised; then it is only read, and every write raises this
    error. ``data_dir``: the folder with the ledger's identity file.
    """

    def __init__(
        self,
        path: Path,
        *,
        vfs: str | None = None,
        patience: float = BUSY_SECONDS,
        unwritable: LedgerError | None = None,
        data_dir: Path | None = None,
    ) -> None:
        self.path = path
        self._unwritable = unwritable
        self._vfs = vfs
        self._data_dir = data_dir
        self.writing_waits, self.reading_waits = BusyWaits(), BusyWaits()
        name = str(path)
        known = remembered(path, data_dir)
        refuse_lost(path, known)
        self._writer: Writer | None = None
        self._place: LedgerFile | None = None
        """The check that the open file is still at its path; None if it is only read."""
        if unwritable is not None:
            self._refuse_unreadable(known)
        else:
            connection = self._open(known, vfs, patience)
            self._place = LedgerFile(path)
            content = Content(connection, path)

            def check() -> None:
                self.check_place()
                content.check()

            self._writer = Writer(connection, name, self.writing_waits, check)

        def for_reading(is_patient: bool) -> apsw.Connection:
            waits = (patience, self.reading_waits) if is_patient else (0.0, None)
            if unwritable is not None:
                return connect_unwritable(path, patience=waits[0], waits=waits[1])
            self.check_place()
            return connect(name, vfs=vfs, read_only=True, patience=waits[0], waits=waits[1])

        self._readers = Readers(for_reading, name, self.check_place)

    def _open(self, known: str | None, vfs: str | None, patience: float) -> apsw.Connection:
        """Open the writer's connection; create or migrate the file if needed."""
        path, name = self.path, str(self.path)
        create_private(path)
        with translated(name):
            connection = open_as_it_is(name, vfs=vfs, patience=patience, waits=self.writing_waits)
            try:
                if connection.readonly("main"):
                    raise LedgerReadOnly(f"The ledger {path} cannot be written.")
                version_of(connection, name)  # first: reject a file of another program before changing anything
                refuse_cut_short(path)
                refuse_other(connection, path, known)
                set_up(connection, patience=patience)
                migrate(connection, name)
                remember(connection, path, self._data_dir)
            except BaseException:
                leave_untouched(connection, name)
                raise
        return connection

    def _refuse_unreadable(self, known: str | None) -> None:
        """Raise an error if a ledger on a read-only medium cannot be read."""
        with translated(str(self.path)), closing(connect_unwritable(self.path)) as connection:
            version = version_of(connection, str(self.path))
            refuse_other(connection, self.path, known)
        if version != migrations()[-1].version:
            raise LedgerReadOnly(
                f"The ledger {self.path} was written by an older release and cannot be upgraded because it is "
                "read-only."
            )

    async def write(self, work: Callable[[SqliteConnection], T], *, bulk: bool = False, wipe: bool = False) -> T:
        """Run a write; it is durable when this returns. ``bulk``: one of many large writes.

        ``wipe``: the write-ahead log is emptied afterwards, so that no deleted text remains there.
        """
        return await self._writing().submit_async(work, bulk=bulk, wipe=wipe)

    @property
    def log_was_emptied(self) -> bool:
        """Whether the last write with ``wipe`` could empty the log; another process may still need it."""
        return self._writing().log_was_emptied

    async def read(self, work: Callable[[SqliteConnection], T]) -> T:
        """Run a read against one snapshot of the file."""
        return await asyncio.wrap_future(self._readers.submit(work))

    async def look(self, work: Callable[[SqliteConnection], T]) -> T:
        """Run a small read on the calling thread; on a reader thread if it would have to wait."""
        try:
            return self._readers.at_once(work)
        except LedgerBusy:
            return await self.read(work)

    def writing(self, work: Callable[[SqliteConnection], T]) -> Future[T]:
        """``write`` for callers without an event loop."""
        return self._writing().submit(work)

    def reading(self, work: Callable[[SqliteConnection], T]) -> Future[T]:
        """``read`` for callers without an event loop."""
        return self._readers.submit(work)

    async def sweep(self, steps: int) -> bool:
        """Erase the remains of deleted rows, at most this many steps; return whether more can be done now."""
        return await sweep(self, steps)

    async def overwrite_unused(self) -> bool:
        """Overwrite the unused bytes of the next pages; return whether more can be done now."""
        return await asyncio.to_thread(self._overwrite_unused)

    def _overwrite_unused(self) -> bool:
        self.check_place()
        name = str(self.path)
        with translated(name), closing(connect(name, vfs=self._vfs, patience=OVERWRITE_SECONDS)) as connection:
            return overwrite_next(connection)

    async def is_wiped(self) -> bool:
        """Return whether the file and its log contain no deleted text."""
        return await self.look(is_wiped)

    def check_place(self) -> None:
        """Raise ``LedgerLost`` or ``LedgerUnlocked`` if the open file or its log was replaced or removed."""
        if self._place is not None:
            self._place.check()

    @property
    def refused(self) -> LedgerError | None:
        """Why the last write failed, or the next one will; None if there is no such reason."""
        return self._unwritable if self._writer is None else self._writer.refused or self._full()

    def _full(self) -> LedgerFull | None:
        """Return an error if the disk is full: small writes may still fit into the log, the next message may not."""
        with suppress(OSError):
            if shutil.disk_usage(self.path.parent).free < LEAST_FREE_BYTES:
                return LedgerFull(f"The disk of the ledger {self.path} is full.", hint="Free some disk space.")
        return None

    def still_for(self) -> float:
        """Return for how many seconds no process has written to the log."""
        with suppress(OSError):
            return max(0.0, time.time() - Path(f"{self.path}-wal").stat().st_mtime)
        return math.inf

    def close(self) -> None:
        """Finish pending work, then close the file."""
        self._readers.close()
        if self._writer is not None:
            self._writer.close()
        self._place = None

    def _writing(self) -> Writer:
        if self._unwritable is not None:
            raise type(self._unwritable)(self._unwritable.message, hint=self._unwritable.hint)
        assert self._writer is not None  # noqa: S101 - only a ledger that cannot be written has no writer
        return self._writer
