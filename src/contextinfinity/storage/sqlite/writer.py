"""The writer thread with group commit.

A durable commit costs one fsync, whatever its size. So all writes of a process go to one thread, which takes all
pending writes, runs each in a savepoint, and commits them together. A caller is notified after the commit of its write.
A write that fails is rolled back alone; a failed commit fails all its writes, because none of them is durable.

This thread also runs checkpoints, after the callers were notified; SQLite's automatic checkpoint would run inside a
commit and delay it.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple, TypeVar

import apsw

from contextinfinity.domain.wire import unicode_only
from contextinfinity.errors import LedgerClosed, LedgerError, LedgerFailed, LedgerFull, LedgerReadOnly
from contextinfinity.storage.sqlite.connection import TRANSLATED, BusyWaits, close_quietly, translate
from contextinfinity.storage.sqlite.named_sql import SqliteConnection

T = TypeVar("T")
Work = Callable[[SqliteConnection], T]

LARGEST_GROUP = 512
"""The most writes in one commit, so that the first caller does not wait too long."""

LONG_LOG = 1000
"""Pages in the write-ahead log that trigger a checkpoint; SQLite's default."""


LONGEST_LOG = 16_000
"""The same during bulk writes, so that pages written repeatedly are copied once."""


UNWRITABLE = (LedgerFull, LedgerReadOnly, LedgerFailed)
"""Failures that affect every write until the cause is removed."""


class _Piece(NamedTuple):
    work: Work[Any]
    done: Future[Any] | asyncio.Future[Any]
    loop: asyncio.AbstractEventLoop | None = None
    bulk: bool = False
    wipe: bool = False

    def begin(self) -> bool:
        """Return whether its caller still waits for the result."""
        if isinstance(self.done, Future):
            return self.done.set_running_or_notify_cancel()
        return not self.done.cancelled()


_Results = list[tuple["Future[Any] | asyncio.Future[Any]", Any, BaseException | None]]


class Writer:
    """Runs pieces of work, grouped into durable commits, in the order they were submitted.

    ``check`` raises an error if the file is no longer at its path; then nothing of the commit is acknowledged.
    """

    def __init__(
        self,
        connection: apsw.Connection,
        path: str,
        waits: BusyWaits | None = None,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        self._connection = connection
        self._named = SqliteConnection(connection)
        self._check = check
        self._waits = waits or BusyWaits()
        self._path = path
        self._waiting: SimpleQueue[_Piece | None] = SimpleQueue()
        self._closing = threading.Lock()
        self._closed = False
        self._log_pages = 0
        self.log_was_emptied = False
        """Whether the last write with ``wipe`` could empty the log."""
        self.refused: LedgerError | None = None
        """Why the last write failed; None if it succeeded."""
        connection.set_wal_hook(self._count_log)  # replaces SQLite's automatic checkpoint
        self._thread = threading.Thread(target=self._run, name="ledger-writer", daemon=True)
        self._thread.start()

    def submit(self, work: Work[T]) -> Future[T]:
        """Submit a write; its future is resolved when it is durable."""
        done: Future[T] = Future()
        self._submit(_Piece(work, done))
        return done

    def submit_async(self, work: Work[T], *, bulk: bool = False, wipe: bool = False) -> asyncio.Future[T]:
        """Submit a write from an event loop; a whole group is resolved with one wake-up of the loop.

        ``bulk``: one of many large writes, so the log may grow longer before a checkpoint. ``wipe``: the log is emptied
        after it, so that it contains no deleted text.
        """
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()
        self._submit(_Piece(work, done, loop, bulk, wipe))
        return done

    def _submit(self, piece: _Piece) -> None:
        with self._closing:
            if self._closed:
                raise LedgerClosed("The ledger is closed.")
            self._waiting.put(piece)

    def close(self) -> None:
        """Finish everything submitted, then stop."""
        with self._closing:
            if not self._closed:
                self._closed = True
                self._waiting.put(None)
        self._thread.join()
        try:
            self._check()
        except LedgerError:  # the file may be another ledger by now: do not checkpoint this log into it
            self._connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        close_quietly(self._connection)

    def _run(self) -> None:
        while (piece := self._waiting.get()) is not None:
            if piece.done.cancelled():
                continue  # its caller is gone: do not wait for a lock on its behalf
            self._commit(piece)
            self._checkpoint(LONGEST_LOG if piece.bulk else LONG_LOG)

    def _commit(self, first: _Piece) -> None:
        """Run ``first`` and all pending writes in one transaction."""
        group: list[_Piece] = []
        results: list[tuple[Any, BaseException | None]] = []
        try:
            self._check()
            self._connection.execute("BEGIN IMMEDIATE")
            piece: _Piece | None = first
            while piece is not None:
                if piece.begin():  # False: its caller is gone
                    group.append(piece)
                    results.append(self._run_piece(piece, alone=len(group) == 1))
                piece = self._next(len(group))
            self._named.finish()
            self._check()  # so that a lost ledger does not keep writes that are reported as failed
            self._connection.execute("COMMIT")
            self._check()  # so that no write to a removed file is acknowledged
        except BaseException as error:
            self._undo()
            failure = error if isinstance(error, LedgerError) else translate(error, self._path)
            if not group and first.begin():  # BEGIN itself failed
                group = [first]
            results = [(None, failure)] * len(group)
        self._note(results)
        if any(piece.wipe for piece in group):
            self._empty_log()
        _resolve_futures(group, results)

    def _note(self, results: list[tuple[Any, BaseException | None]]) -> None:
        """Record whether the file accepts writes; errors of a single write's content are ignored."""
        for _, failure in results:
            if failure is None:
                self.refused = None
            elif isinstance(failure, UNWRITABLE):
                self.refused = failure

    def _next(self, already: int) -> _Piece | None:
        """Return the next pending write for the group; None if there is none or the group is full."""
        if already >= LARGEST_GROUP:
            return None
        with suppress(Empty):
            piece = self._waiting.get_nowait()
            if piece is not None:
                return piece
            self._waiting.put(None)  # closing: leave the mark for _run
        return None

    def _run_piece(self, piece: _Piece, *, alone: bool) -> tuple[Any, BaseException | None]:
        """Run one write in isolation: in a savepoint, or at the start of the transaction; return result and error."""
        if not alone:
            self._connection.execute("SAVEPOINT piece")
        unindexed = dict(self._named.unindexed)
        try:
            with unicode_only():
                result = piece.work(self._named)
        except BaseException as error:
            if not self._connection.in_transaction:
                raise  # a full disk or an I/O error ended the whole transaction: it concerns the group
            self._named.unindexed = unindexed
            if alone:
                self._connection.execute("ROLLBACK")
                self._connection.execute("BEGIN IMMEDIATE")
            else:
                self._connection.execute("ROLLBACK TO piece")
                self._connection.execute("RELEASE piece")
            ours = translate(error, self._path) if isinstance(error, TRANSLATED) else error
            return None, ours
        if not alone:
            self._connection.execute("RELEASE piece")
        return result, None

    def _count_log(self, _connection: apsw.Connection, _database: str, pages: int) -> int:
        self._log_pages = pages
        return apsw.SQLITE_OK

    def _checkpoint(self, long: int) -> None:
        """Checkpoint a long log. If that fails, the log still holds everything."""
        if self._log_pages >= long:
            with suppress(apsw.Error, LedgerError):
                self._check()
                self._connection.wal_checkpoint()

    def _empty_log(self) -> None:
        """Checkpoint the whole log and truncate it, unless another process reads an older snapshot.

        The first checkpoint is passive: while a reader is active, it does not block writers.
        """
        self.log_was_emptied = False
        with suppress(apsw.Error, LedgerError), self._waits.in_passing():
            self._check()
            pages, copied = self._connection.wal_checkpoint()
            if copied == pages:
                self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
                self.log_was_emptied = True

    def _undo(self) -> None:
        """Roll back a failed transaction, if SQLite has not done so already."""
        self._named.unindexed.clear()
        if self._connection.in_transaction:
            with suppress(apsw.Error):
                self._connection.execute("ROLLBACK")


def _resolve_futures(group: list[_Piece], results: list[tuple[Any, BaseException | None]]) -> None:
    """Resolve the futures of all callers, with one wake-up per event loop."""
    by_loop: dict[asyncio.AbstractEventLoop | None, _Results] = {}
    for piece, (result, failure) in zip(group, results, strict=True):
        by_loop.setdefault(piece.loop, []).append((piece.done, result, failure))
    for loop, entries in by_loop.items():
        if loop is None:
            _settle(entries)
        else:
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(_settle, entries)


def _settle(entries: _Results) -> None:
    for done, result, failure in entries:
        if done.cancelled():
            continue
        if failure is None:
            done.set_result(result)
        else:
            done.set_exception(failure)
