"""PostgreSQL as the ledger's verbs see it: ``read``, ``look`` and ``write``, each one transaction.

The verbs are synchronous, so a pool is a number of threads with a connection each: some for writes, some for reads, so
that a write that waits keeps no read from running. Every transaction sees one snapshot (REPEATABLE READ). Many writes
run at the same time; of two that change the same row, or insert the same key, the one that comes second is run again on
a new snapshot. Writes of this process that extend the same branch follow each other and are acknowledged in that order.
An advisory lock orders those of several processes. A snapshot from before the lock is useless, so a write that met
another one takes the lock on a second connection before it begins again.

With a serving role, transactions that act for an owner (``storage/database.py``) use that role's connections and
name the owner's tenant; all others, and those of ``maintenance``, use the role that owns the ledger.
"""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import ExitStack
from itertools import count
from typing import Any, Literal, TypeAlias, TypeVar
from weakref import WeakValueDictionary

import psycopg
from psycopg.errors import UniqueViolation

from contextinfinity.domain.session import Owner
from contextinfinity.domain.wire import unicode_only
from contextinfinity.errors import LedgerBusy, LedgerClosed, LedgerError, LedgerFailed, LedgerReadOnly
from contextinfinity.storage.database import NO_OWNER, acting_owner
from contextinfinity.storage.postgres.connection import (
    LOCK_SECONDS,
    RETRIED,
    DatabaseUrl,
    connect,
    translated,
)
from contextinfinity.storage.postgres.migrate import migrate
from contextinfinity.storage.postgres.named_sql import LOCK_BRANCH, PostgresConnection, lock_key
from contextinfinity.storage.postgres.pipeline import Pipeline, PostgresSession
from contextinfinity.storage.postgres.row_security import admit_serving_role
from contextinfinity.storage.postgres.silence import ServerSilence
from contextinfinity.storage.postgres.thread_pool import LoopFuture, ThreadPool

T = TypeVar("T")
_Work: TypeAlias = Callable[[PostgresConnection], T]
_Done: TypeAlias = Future[T] | LoopFuture[T]
_Run: TypeAlias = Callable[[_Work[T], Owner | None, _Done[T]], None]
_Role: TypeAlias = Literal["maintenance", "serving", "lock"]

WRITERS, READERS = 8, 4
"""Connections of a process."""
UNWRITABLE = (LedgerFailed, LedgerReadOnly)
"""Failures that every other write would meet too, until they are repaired."""
ATTEMPTS = 10
"""How often a write is run that inserts a key which is there: it may be there since after its snapshot."""
QUEUES_AFTER = 3
"""After meeting others so often a write that extends no branch runs after the other writes that met some so often."""

_WRITE = b"BEGIN ISOLATION LEVEL REPEATABLE READ"
_READ = b"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_SET_TENANT = b"SELECT set_config('contextinfinity.tenant', %s, true)"
_KNOWN_TENANTS = 10_000
_QUEUE = bytes(8)
"""What writes lock that met others too often."""


class _Turnstile:
    """Lets one write of this process at a time extend a branch, until its caller has the result."""

    def __init__(self, branches: WeakValueDictionary[bytes, _Gate]) -> None:
        self._branches = branches
        self._held: _Gate | None = None
        self.branch_id: bytes | None = None
        self.is_locked = False
        """Whether the advisory lock of the branch is held already."""

    def enter(self, branch_id: bytes) -> bool:
        """Wait for writes that extend the same branch; return whether the transaction has to lock it.

        A write that has entered one branch waits for no other.
        """
        if self._held is None:
            gate = self._branches.setdefault(branch_id, _Gate())
            if not gate.lock.acquire(timeout=LOCK_SECONDS):
                raise LedgerBusy("Another write to the same branch takes too long.")
            self._held, self.branch_id = gate, branch_id
        return branch_id == self.branch_id and not self.is_locked

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

    def __init__(self, url: str, serving_url: str | None = None) -> None:
        self.address = DatabaseUrl(url)
        self._serving = None if serving_url is None else DatabaseUrl(serving_url)
        self.maintenance = MaintenanceDatabase(self)
        self.refused: LedgerError | None = None
        """The permanent error of the last write; None if it succeeded."""
        with translated(self.address.name):
            connection = connect(self.address)
            try:
                migrate(connection, self.address.name)
                if self._serving is not None:
                    admit_serving_role(connection, self._serving)
            except BaseException:
                connection.close()
                raise
        self.silence = ServerSilence(self.address, connection)
        self._mine = threading.local()
        self._connections: set[psycopg.Connection[Any]] = set()
        self._writers = ThreadPool(WRITERS, "postgres-writer")
        self._readers = ThreadPool(READERS, "postgres-reader")
        self._branches: WeakValueDictionary[bytes, _Gate] = WeakValueDictionary()
        self._tenants: dict[Owner, str] = {NO_OWNER: ""}
        self._closed = False

    async def write(self, work: Callable[[PostgresConnection], T], *, bulk: bool = False, wipe: bool = False) -> T:
        """Run a change; when this returns it is durable."""
        return await self._awaited(self._writers, self._write, work)

    async def read(self, work: Callable[[PostgresConnection], T]) -> T:
        """Run a read against one snapshot."""
        return await self._awaited(self._readers, self._read, work)

    look = read

    def writing(self, work: Callable[[PostgresConnection], T], owner: Owner | None = None) -> Future[T]:
        """``write`` for callers without an event loop; with ``owner``, as the serving role for that owner."""
        done: Future[T] = Future()
        self._submit(self._writers, self._write, work, owner, done)
        return done

    def reading(self, work: Callable[[PostgresConnection], T], owner: Owner | None = None) -> Future[T]:
        """``read`` for callers without an event loop; with ``owner``, as the serving role for that owner."""
        done: Future[T] = Future()
        self._submit(self._readers, self._read, work, owner, done)
        return done

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
        self._writers.close()
        self._readers.close()
        while self._connections:
            self._connections.pop().close()

    def _acting(self) -> Owner | None:
        return None if self._serving is None else acting_owner()

    async def _awaited(self, pool: ThreadPool, run: _Run[T], work: _Work[T]) -> T:
        done = LoopFuture[T]()
        self._submit(pool, run, work, self._acting(), done)
        return await done.result

    def _submit(self, pool: ThreadPool, run: _Run[T], work: _Work[T], owner: Owner | None, done: _Done[T]) -> None:
        if self._closed:
            raise LedgerClosed("The ledger is closed.")
        pool.submit(lambda: run(work, owner, done))

    def _write(self, work: _Work[T], owner: Owner | None, done: _Done[T]) -> None:
        if not done.set_running_or_notify_cancel():
            return
        with _Turnstile(self._branches) as turnstile:
            try:
                with translated(self.address.name), unicode_only():
                    result = self._until_alone(work, owner, turnstile)
            except BaseException as error:
                self.refused = error if isinstance(error, UNWRITABLE) else None
                done.set_exception(error)
            else:
                self.refused = None
                done.set_result(result)

    def _read(self, work: _Work[T], owner: Owner | None, done: _Done[T]) -> None:
        if not done.set_running_or_notify_cancel():
            return
        try:
            with translated(self.address.name), unicode_only():
                result = self._transaction(work, owner, None)
        except BaseException as error:
            done.set_exception(error)
        else:
            done.set_result(result)

    def _until_alone(self, work: _Work[T], owner: Owner | None, turnstile: _Turnstile) -> T:
        """Run a write, again while it meets another that changes the same rows.

        Raises the database's error if it still does ``LOCK_SECONDS`` after its turn came.
        """
        last, is_queued = time.monotonic() + LOCK_SECONDS, False
        with ExitStack() as locked:
            for attempt in count():
                try:
                    return self._transaction(work, owner, turnstile.enter)
                except RETRIED as error:
                    is_taken = isinstance(error, UniqueViolation) and attempt >= ATTEMPTS - 1
                    if is_taken or time.monotonic() > last:
                        raise
                if turnstile.branch_id is not None and not turnstile.is_locked:
                    locked.callback(self._undo, self._lock(turnstile.branch_id))
                    turnstile.is_locked = is_queued = True
                elif attempt >= QUEUES_AFTER and not is_queued:
                    locked.callback(self._undo, self._lock(_QUEUE))
                    last, is_queued = time.monotonic() + LOCK_SECONDS, True
                else:
                    time.sleep(random.uniform(0, 0.001 * 2 ** min(attempt, 5)))  # noqa: S311 - jitter, not a secret
        raise AssertionError("unreachable")

    def _lock(self, branch_id: bytes) -> psycopg.Connection[Any]:
        """Lock a branch against writes of other processes, until the returned connection is rolled back."""
        connection = self._session("lock").connection
        with self.silence:
            connection.execute("BEGIN")
            connection.execute(LOCK_BRANCH, (lock_key(branch_id),))
        return connection

    def _transaction(self, work: _Work[T], owner: Owner | None, enter: Callable[[bytes], bool] | None) -> T:
        """Run ``work`` and commit; once more on another connection if the first one breaks before the commit."""
        tenant = None if owner is None else self._tenant(owner)
        for is_last in (False, True):
            session = self._session("maintenance" if owner is None else "serving")
            pipeline = Pipeline(session, self.silence)
            try:
                pipeline.begin(_READ if enter is None else _WRITE)
                if tenant is not None:
                    pipeline.send(_SET_TENANT, (tenant,))
                named = PostgresConnection(pipeline, enter, serving=owner is not None)
                result = work(named)
                named.finish()
                if enter is None:
                    pipeline.release()
                else:
                    pipeline.commit()
                return result
            except BaseException as error:
                self._undo(session.connection, pipeline)
                is_broken = isinstance(error, psycopg.OperationalError) and session.connection.closed
                if is_last or pipeline.is_committing or not is_broken:
                    raise
        raise AssertionError("unreachable")

    def _tenant(self, owner: Owner) -> str:
        """Return the tenant of an owner, from the database the first time."""
        if (known := self._tenants.get(owner)) is None:
            values = (owner.org_id, owner.user_id)
            found = self._transaction(lambda connection: connection.many("select_tenant", values), None, None)
            if len(self._tenants) >= _KNOWN_TENANTS:
                self._tenants = {NO_OWNER: ""}
            known = self._tenants[owner] = str(found[0][0])
        return known

    def _undo(self, connection: psycopg.Connection[Any], pipeline: Pipeline | None = None) -> None:
        """Roll back; a connection that cannot is closed, and the next transaction of its thread opens another."""
        try:
            if pipeline is not None:
                pipeline.abandon()
            with self.silence:
                connection.rollback()
        except psycopg.Error:
            connection.close()

    def _address(self, role: _Role) -> DatabaseUrl:
        return self._serving if role == "serving" and self._serving is not None else self.address

    def _session(self, role: _Role) -> PostgresSession:
        """Return this thread's connection for a role; one that was closed is replaced."""
        session: PostgresSession | None = getattr(self._mine, role, None)
        if session is None or not session.is_usable():
            if session is not None:
                session.connection.close()
                self._connections.discard(session.connection)
            address = self._address(role)
            with self.silence:
                session = PostgresSession(address)
            setattr(self._mine, role, session)
            self._connections.add(session.connection)
        return session


class MaintenanceDatabase:
    """The same ledger for what works on behalf of all owners, regardless of the caller: jobs, workers, tokens."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database
        self.sweep = database.sweep
        self.is_wiped = database.is_wiped

    async def write(self, work: Callable[[PostgresConnection], T], *, bulk: bool = False, wipe: bool = False) -> T:
        """Run a change; when this returns it is durable."""
        return await asyncio.wrap_future(self._database.writing(work))

    async def read(self, work: Callable[[PostgresConnection], T]) -> T:
        """Run a read against one snapshot."""
        return await asyncio.wrap_future(self._database.reading(work))

    look = read
