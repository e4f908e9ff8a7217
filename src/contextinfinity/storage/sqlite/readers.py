"""Reader threads with one connection each, and one connection for small reads on the event loop.

In WAL mode readers and the writer never block each other. A read runs in one transaction and sees one snapshot. Handing
work to a thread costs several times as much as looking up a row, so small reads run on the calling thread unless they
would have to wait.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

import apsw

from contextinfinity.domain.wire import unicode_only
from contextinfinity.errors import LedgerBusy, LedgerClosed, LedgerFailed
from contextinfinity.storage.sqlite.connection import TRANSLATED, close_quietly, translate, translated
from contextinfinity.storage.sqlite.named_sql import SqliteConnection

T = TypeVar("T")

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
