"""PostgreSQL as the ledger's verbs see it: ``read``, ``look`` and ``write``, each one transaction.

The verbs are synchronous, so a pool is a number of threads with a connection each: some for writes, some for reads, so
that a write that waits keeps no read from running. Every transaction sees one snapshot (REPEATABLE READ). Many writes
run at the same time; of two that change the same row, or insert the same key, the one that comes second is run again on
a new snapshot. Writes of this process that extend the same branch follow each other and are acknowledged in that order.
"""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any, TypeAlias, TypeVar
from weakref import WeakValueDictionary

import psycopg

from contextinfinity.domain.wire import unicode_only
from contextinfinity.errors import LedgerBusy, LedgerClosed, LedgerError, LedgerFailed, LedgerFull, LedgerReadOnly
from contextinfinity.storage.postgres.connection import (
    LOCK_SECONDS,
    RETRIED,
    SCHEMA,
    STATEMENT_SECONDS,
    DatabaseUrl,
    connect,
    translated,
)
from contextinfinity.storage.postgres.migrate import migrate
from contextinfinity.storage.postgres.named_sql import PostgresConnection
from contextinfinity.storage.postgres.silence import ServerSilence

T = TypeVar("T")
_Work: TypeAlias = Callable[[PostgresConnection], T]

WRITERS, READERS = 8, 4
"""Connections of a process."""
UNWRITABLE = (LedgerFailed, LedgerFull, LedgerReadOnly)
"""Failures that every other write would meet too, until they are repaired."""
ATTEMPTS = 10
"""How often a write is run while it meets others."""

_BEGIN = (
    f"SET LOCAL search_path = {SCHEMA}, public; SET LOCAL statement_timeout = '{STATEMENT_SECONDS}s';"
    f"SET LOCAL lock_timeout = '{LOCK_SECONDS}s'"
)
_WRITE = f"BEGIN ISOLATION LEVEL REPEATABLE READ; {_BEGIN}".encode()
_READ = f"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; {_BEGIN}".encode()


class _Turnstile:
    """Lets one write of this process at a time extend a branch, until its caller was told."""

    def __init__(self, branches: WeakValueDictionary[bytes, _Gate]) -> None:
        self._branches = branches
        self._held: _Gate | None = None

    def enter(self, branch_id: bytes) -> None:
        """Wait for writes that extend the same branch; a write that has entered one branch waits for no other."""
        if self._held is None:
            gate = self._branches.setdefault(branch_id, _Gate())
            if not gate.lock.acquire(timeout=LOCK_SECONDS):
                raise LedgerBusy("Another write to the same branch takes too long.")
            self._held = gate

    def __enter__(self) -> _Turnstile:
        return self

    def __exit__(self, *details: object) -> None:
        if self._held is not None:
            self._held.lock.release()


class _Gate:
    """A lock that a weak reference can name."""

    __slots__ = ("__weakref__", "lock")

    def __init__(self) -> None:
        self.lock = threading.Lock()


class PostgresDatabase:
    """One ledger in a PostgreSQL database."""

    def __init__(self, url: str) -> None:
        self.address = DatabaseUrl(url)
        self.silence = ServerSilence(self.address)
        self.refused: LedgerError | None = None
        """Why the last write failed for good; None when it did not."""
        with translated(self.address.name):
            connection = connect(self.address)
            with connection:
                migrate(connection, self.address.name)
        self._mine = threading.local()
        self._connections: set[psycopg.Connection[Any]] = set()
        self._writers = ThreadPoolExecutor(WRITERS, "postgres-writer")
        self._readers = ThreadPoolExecutor(READERS, "postgres-reader")
        self._branches: WeakValueDictionary[bytes, _Gate] = WeakValueDictionary()
        self._closed = False

    async def write(self, work: Callable[[PostgresConnection], T], *, bulk: bool = False, wipe: bool = False) -> T:
        """Run a change; when this returns it is durable."""
        return await asyncio.wrap_future(self.writing(work))

    async def read(self, work: Callable[[PostgresConnection], T]) -> T:
        """Run a read against one snapshot."""
        return await asyncio.wrap_future(self.reading(work))

    look = read

    def writing(self, work: Callable[[PostgresConnection], T]) -> Future[T]:
        """``write`` for callers without an event loop."""
        return self._submit(self._writers, self._write, work)

    def reading(self, work: Callable[[PostgresConnection], T]) -> Future[T]:
        """``read`` for callers without an event loop."""
        return self._submit(self._readers, self._read, work)

    async def sweep(self, steps: int) -> bool:
        """Do nothing: PostgreSQL's vacuum removes deleted rows from its files."""
        return False

    async def is_wiped(self) -> bool:
        """Return True: what is left in the files is up to the server's vacuum and log recycling."""
        return True

    def close(self) -> None:
        """Finish what was asked for, then close the connections. Closing twice does nothing."""
        self._closed = True
        self.silence.close()
        self._writers.shutdown()
        self._readers.shutdown()
        while self._connections:
            self._connections.pop().close()

    def _submit(
        self, pool: ThreadPoolExecutor, run: Callable[[_Work[T], Future[T]], None], work: _Work[T]
    ) -> Future[T]:
        if self._closed:
            raise LedgerClosed("The ledger is closed.")
        done: Future[T] = Future()
        pool.submit(run, work, done)
        return done

    def _write(self, work: _Work[T], done: Future[T]) -> None:
        if not done.set_running_or_notify_cancel():
            return
        with _Turnstile(self._branches) as turnstile:
            try:
                with translated(self.address.name), unicode_only():
                    result = self._until_alone(work, turnstile.enter)
            except BaseException as error:
                self.refused = error if isinstance(error, UNWRITABLE) else None
                done.set_exception(error)
            else:
                self.refused = None
                done.set_result(result)

    def _read(self, work: _Work[T], done: Future[T]) -> None:
        if not done.set_running_or_notify_cancel():
            return
        try:
            with translated(self.address.name), unicode_only():
                result = self._transaction(work, None)
        except BaseException as error:
            done.set_exception(error)
        else:
            done.set_result(result)

    def _until_alone(self, work: _Work[T], enter: Callable[[bytes], None]) -> T:
        """Run a write, again while it meets another that changes the same rows."""
        for attempt in range(ATTEMPTS):
            try:
                return self._transaction(work, enter)
            except RETRIED:
                if attempt == ATTEMPTS - 1:
                    raise
                time.sleep(random.uniform(0, 0.001 * 2**attempt))  # noqa: S311 - jitter, not a secret
        raise AssertionError("unreachable")

    def _transaction(self, work: _Work[T], enter: Callable[[bytes], None] | None) -> T:
        connection = self._begun(_READ if enter is None else _WRITE)
        try:
            with connection.cursor() as cursor:
                named = PostgresConnection(cursor, self.silence, enter)
                result = work(named)
                named.finish()
                with self.silence.timed():
                    cursor.execute(b"COMMIT", prepare=False)
                return result
        except BaseException:
            self._undo(connection)
            raise

    def _begun(self, begin: bytes) -> psycopg.Connection[Any]:
        """Return a connection in a new transaction; one that the server closed meanwhile is replaced."""
        connection = self._connection()
        try:
            with self.silence.timed():
                connection.execute(begin, prepare=False)
        except psycopg.OperationalError:
            self._undo(connection)
            connection = self._connection()
            with self.silence.timed():
                connection.execute(begin, prepare=False)
        return connection

    def _undo(self, connection: psycopg.Connection[Any]) -> None:
        """Roll back; a connection that cannot is closed, and the next transaction of its thread opens another."""
        with suppress(psycopg.Error), self.silence.timed():
            connection.rollback()
        if connection.closed:
            self._connections.discard(connection)
            self._mine.connection = None
            with suppress(psycopg.Error):
                connection.close()

    def _connection(self) -> psycopg.Connection[Any]:
        connection: psycopg.Connection[Any] | None = getattr(self._mine, "connection", None)
        if connection is None or connection.closed:
            with self.silence.timed():
                connection = self._mine.connection = connect(self.address)
            self._connections.add(connection)
        return connection
