"""Threads that read, each with a connection of its own.

Readers never wait for the writer and never hold it up (WAL). A read runs in one transaction, so that all
it sees is of one moment.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

import apsw

from contextinfinity.domain.wire import unicode_only
from contextinfinity.errors import LedgerClosed, LedgerFailed
from contextinfinity.storage.sqlite.connection import let_go, translated

T = TypeVar("T")

READERS = 4


class Readers:
    """A few threads that answer questions."""

    def __init__(self, open_connection: Callable[[], apsw.Connection], path: str) -> None:
        self._path = path
        self._mine = threading.local()
        self._open_connection = open_connection
        self._connections: list[apsw.Connection] = []
        self._threads = ThreadPoolExecutor(READERS, "ledger-reader")
        self._closed = False

    def submit(self, work: Callable[[apsw.Connection], T]) -> Future[T]:
        """Hand in a question."""
        if self._closed:
            raise LedgerClosed("The ledger is closed.")
        return self._threads.submit(self._read, work)

    def close(self) -> None:
        """Answer what was asked, then let go of the connections."""
        self._closed = True
        self._threads.shutdown()
        while self._connections:
            let_go(self._connections.pop())

    def _read(self, work: Callable[[apsw.Connection], T]) -> T:
        with translated(self._path), unicode_only():
            connection = self._connection()
            connection.execute("BEGIN")
            try:
                return work(connection)
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")

    def _connection(self) -> apsw.Connection:
        connection: apsw.Connection | None = getattr(self._mine, "connection", None)
        if connection is None:
            connection = self._mine.connection = self._opened()
            self._connections.append(connection)
        return connection

    def _opened(self) -> apsw.Connection:
        """Open one more: the file was opened before, so if that fails now, it is for the moment."""
        try:
            return self._open_connection()
        except apsw.CantOpenError as error:
            raise LedgerFailed(f"The ledger {self._path} cannot be opened any more.") from error
