"""Threads that read, each with a connection of its own, and one connection for small questions on the event loop.

Readers never wait for the writer and never hold it up (WAL). A read runs in one transaction, so that all
it sees is of one moment. Handing a question to a thread and its answer back costs several times what looking up a row
does, so what is known to be small is answered where it is asked; what would have to wait there goes to a thread.
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
from contextinfinity.storage.sqlite.connection import let_go, translated
from contextinfinity.storage.sqlite.named_sql import SqliteConnection

T = TypeVar("T")

READERS = 4
CHECKED_SECONDS = 0.02
"""How long the place of the file is taken as checked for reads; every commit checks it again."""


class Readers:
    """A few threads that answer questions. ``open_connection`` is told whether its connection may wait for others."""

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
        """Hand in a question."""
        if self._closed:
            raise LedgerClosed("The ledger is closed.")
        return self._threads.submit(self._work, work)

    def at_once(self, work: Callable[[SqliteConnection], T]) -> T:
        """Answer a small question here and now; ``LedgerBusy`` where that would mean to wait."""
        if not self._asking.acquire(blocking=False):
            raise LedgerBusy("Another thread is asking.")
        try:
            if self._closed:
                raise LedgerClosed("The ledger is closed.")
            self._check_place()
            with translated(self._path), unicode_only():
                if self._at_hand is None:
                    self._at_hand = self._opened(is_patient=False)
                return _in_one_moment(self._at_hand, work)
        finally:
            self._asking.release()

    def close(self) -> None:
        """Answer what was asked, then let go of the connections."""
        self._closed = True
        self._threads.shutdown()
        with self._asking:
            while self._connections:
                let_go(self._connections.pop())

    def _work(self, work: Callable[[SqliteConnection], T]) -> T:
        self._check_place()
        with translated(self._path), unicode_only():
            return _in_one_moment(self._connection(), work)

    def _check_place(self) -> None:
        """Check that the file is in its place; reads that follow each other within milliseconds check once."""
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
        """Open one more: the file was opened before, so if that fails now, it is for the moment."""
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
