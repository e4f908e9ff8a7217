"""The SQLite ``Database``: ``read``, ``look`` (a small read) and ``write``, each one transaction.

In WAL mode readers and the writer never block each other. Handing work to a thread costs several times as much as
looking up a row, so small reads run on the calling thread, on a connection of their own, unless they would have to
wait. ``MemoryDatabase`` runs everything on the calling thread.

All take a function from a connection to a result and are awaited. Callers without an event loop use ``writing`` and
``reading`` and wait for the future.
"""

from __future__ import annotations

import asyncio
import math
import shutil
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, suppress
from functools import cache
from pathlib import Path
from typing import TypeVar

import apsw

from contextinfinity.domain.wire import unicode_only
from contextinfinity.errors import LedgerBusy, LedgerClosed, LedgerError, LedgerFailed, LedgerFull, LedgerReadOnly
from contextinfinity.storage.sqlite.connection import (
    BUSY_SECONDS,
    TRANSLATED,
    BusyWaits,
    close_quietly,
    connect,
    connect_unwritable,
    create_private,
    leave_untouched,
    open_as_it_is,
    refuse_cut_short,
    set_up,
    translate,
    translated,
)
from contextinfinity.storage.sqlite.identity import Content, LedgerFile, refuse_lost, refuse_other, remember, remembered
from contextinfinity.storage.sqlite.migrate import migrate, migrations, version_of
from contextinfinity.storage.sqlite.named_sql import SqliteConnection
from contextinfinity.storage.sqlite.secure_erase import is_wiped, overwrite_next, set_clean, sweep
from contextinfinity.storage.sqlite.writer import Writer

READERS = 4
CHECKED_SECONDS = 0.02
"""How long a check of the file's path is valid for reads; every commit checks it again."""


class Readers:
    """A pool of reader threads. ``open_connection`` gets whether its connection may wait for locks."""

    def __init__(
        self, open_connection: Callable[[bool], apsw.Connection], path: str, check: Callable[[], None]
    ) -> None:
        self._path = path
        self._check = check
        self._mine = threading.local()
        self._at_hand: SqliteConnection | None = None
        self._asking = threading.Lock()
        self._open_connection = open_connection
        self._connections: list[apsw.Connection] = []
        self._threads = ThreadPoolExecutor(READERS, "ledger-reader")
        self._closed = False
        self._checked_at = -math.inf

    def submit(self, work: Callable[[SqliteConnection], T]) -> Future[T]:
        """Submit a read to a reader thread."""
        if self._closed:
            raise LedgerClosed("The ledger is closed.")
        return self._threads.submit(self._work, work)

    def at_once(self, work: Callable[[SqliteConnection], T]) -> T:
        """Run a small read on the calling thread. Raises ``LedgerBusy`` if it would have to wait."""
        if not self._asking.acquire(blocking=False):
            raise LedgerBusy("Another thread uses this connection.")
        try:
            if self._closed:
                raise LedgerClosed("The ledger is closed.")
            self._check_place()
            if self._at_hand is None:
                with translated(self._path):
                    self._at_hand = self._opened(is_patient=False)
            return self._run(self._at_hand, work)
        finally:
            self._asking.release()

    def close(self) -> None:
        """Finish pending reads, then close the connections."""
        self._closed = True
        self._threads.shutdown()
        with self._asking:
            while self._connections:
                close_quietly(self._connections.pop())

    def _work(self, work: Callable[[SqliteConnection], T]) -> T:
        self._check_place()
        with translated(self._path):
            connection = self._connection()
        return self._run(connection, work)

    def _run(self, connection: SqliteConnection, work: Callable[[SqliteConnection], T]) -> T:
        try:
            with unicode_only():
                return _in_one_moment(connection, work)
        except TRANSLATED as error:
            raise translate(error, self._path) from error

    def _check_place(self) -> None:
        """Check that the file is still at its path, at most once within ``CHECKED_SECONDS``."""
        moment = time.monotonic()
        if moment - self._checked_at > CHECKED_SECONDS:
            self._check()
            self._checked_at = moment

    def _connection(self) -> SqliteConnection:
        connection: SqliteConnection | None = getattr(self._mine, "connection", None)
        if connection is None:
            connection = self._mine.connection = self._opened(is_patient=True)
        return connection

    def _opened(self, *, is_patient: bool) -> SqliteConnection:
        """Open another connection; a failure is temporary, because the file was opened before."""
        try:
            connection = self._open_connection(is_patient)
        except apsw.CantOpenError as error:
            raise LedgerFailed(f"The ledger {self._path} cannot be opened any more.") from error
        self._connections.append(connection)
        return SqliteConnection(connection)


def _in_one_moment(connection: SqliteConnection, work: Callable[[SqliteConnection], T]) -> T:
    raw = connection.raw
    raw.execute("BEGIN")
    try:
        return work(connection)
    finally:
        if raw.in_transaction:
            raw.execute("ROLLBACK")


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


NAME = ":memory:"


class MemoryDatabase(SqliteDatabase):
    """A ``Database`` that holds everything in memory and forgets it when it is closed."""

    def __init__(self) -> None:
        self.path = Path(NAME)
        self.writing_waits, self.reading_waits = BusyWaits(), BusyWaits()
        self._lock = threading.Lock()
        self._writer = self._place = None
        raw = apsw.Connection(NAME, statementcachesize=256)
        raw.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
        raw.deserialize("main", _image())
        raw.execute("PRAGMA foreign_keys = ON; PRAGMA recursive_triggers = ON; PRAGMA temp_store = MEMORY").fetchall()
        self._connection: SqliteConnection | None = SqliteConnection(raw)

    async def write(self, work: Callable[[SqliteConnection], T], *, bulk: bool = False, wipe: bool = False) -> T:
        """Run a write."""
        return self._run(work)

    async def read(self, work: Callable[[SqliteConnection], T]) -> T:
        """Run a read."""
        return self._run(work)

    async def look(self, work: Callable[[SqliteConnection], T]) -> T:
        """Run a small read."""
        return self._run(work)

    def writing(self, work: Callable[[SqliteConnection], T]) -> Future[T]:
        """``write`` for callers without an event loop."""
        done: Future[T] = Future()
        try:
            done.set_result(self._run(work))
        except Exception as error:
            done.set_exception(error)
        return done

    def reading(self, work: Callable[[SqliteConnection], T]) -> Future[T]:
        """``read`` for callers without an event loop."""
        return self.writing(work)

    async def overwrite_unused(self) -> bool:
        """Only note that it is done: there is no file."""
        await self.write(set_clean)
        return False

    @property
    def log_was_emptied(self) -> bool:
        """Always True: there is no log."""
        return True

    @property
    def refused(self) -> LedgerError | None:
        """Always None: writes to memory do not fail."""
        return None

    def close(self) -> None:
        """Discard all data. Closing twice does nothing."""
        with self._lock:
            if self._connection is not None:
                close_quietly(self._connection.raw)
                self._connection = None

    def _run(self, work: Callable[[SqliteConnection], T]) -> T:
        with self._lock:
            if self._connection is None:
                raise LedgerClosed("The ledger is closed.")
            raw = self._connection.raw
            with translated(NAME), unicode_only():
                raw.execute("BEGIN IMMEDIATE")
                try:
                    result = work(self._connection)
                    self._connection.finish()
                    raw.execute("COMMIT")
                finally:
                    self._connection.unindexed.clear()
                    if raw.in_transaction:
                        raw.execute("ROLLBACK")
            return result


@cache
def _image() -> bytes:
    """Migrate an empty ledger and return its bytes."""
    connection = apsw.Connection(NAME)
    try:
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL").fetchall()
        migrate(connection, NAME)
        return connection.serialize("main")
    finally:
        connection.close()
