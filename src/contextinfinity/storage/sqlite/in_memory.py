"""An in-memory ledger, for tests and for conversations that are not stored.

It uses one connection to SQLite's ``:memory:``; all calls are serialised and run on the calling thread. It is opened
from the image of a migrated, empty ledger in about 0.1 ms; only the first one of a process runs the migrations.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import cache
from pathlib import Path
from typing import TypeVar

import apsw

from contextinfinity.domain.wire import unicode_only
from contextinfinity.errors import LedgerClosed, LedgerError
from contextinfinity.storage.sqlite.connection import BusyWaits, close_quietly, translated
from contextinfinity.storage.sqlite.database import SqliteDatabase
from contextinfinity.storage.sqlite.migrate import migrate
from contextinfinity.storage.sqlite.named_sql import SqliteConnection
from contextinfinity.storage.sqlite.secure_erase import set_clean

T = TypeVar("T")

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
