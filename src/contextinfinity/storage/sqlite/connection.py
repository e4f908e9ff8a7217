"""Opens SQLite connections: the one place that configures SQLite.

Commits are durable when they return (WAL, ``synchronous=FULL``). A custom busy handler replaces SQLite's, whose growing
sleeps let four processes stall each other for seconds; this one retries after about a millisecond with jitter.
"""

from __future__ import annotations

import errno
import os
import random
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import apsw
import msgspec

from contextinfinity.errors import (
    LedgerBusy,
    LedgerCorrupt,
    LedgerError,
    LedgerFailed,
    LedgerForeign,
    LedgerFull,
    LedgerReadOnly,
)
from contextinfinity.storage.encryption.protection import protection_of
from contextinfinity.storage.folders import make_private, sync_folder

if TYPE_CHECKING:
    from contextinfinity.storage.encryption.cipher import Protection

BUSY_SECONDS = 10.0
"""Seconds to wait for another process that holds the lock."""

MOMENT = 0.2
"""Seconds to wait for work that can be postponed."""

STILL_WAITING = 0.1
"""A connection that asked for a lock within this many seconds is regarded as waiting for it."""

CIPHERS = "multipleciphers"
"""The VFS of SQLite that encrypts."""

APPLICATION_ID = 0x43495831  # "CIX1" in the file's header

_CAUSES: tuple[tuple[type[apsw.Error], type[LedgerError], str], ...] = (
    (apsw.BusyError, LedgerBusy, "is in use by another process"),
    (apsw.LockedError, LedgerBusy, "is locked"),
    (apsw.FullError, LedgerFull, "cannot grow: the disk is full"),
    (apsw.ReadOnlyError, LedgerReadOnly, "cannot be written"),
    (apsw.CantOpenError, LedgerReadOnly, "cannot be opened"),
    (apsw.PermissionsError, LedgerReadOnly, "may not be opened by this user"),
    (
        apsw.NotADBError,
        LedgerForeign,
        "is not a ledger, or it is encrypted and the file beside it (cix-encryption.json, …-encryption) is missing",
    ),
    (apsw.CorruptError, LedgerCorrupt, "is damaged"),
    (apsw.IOError, LedgerFailed, "could not be read or written"),
    (apsw.SQLError, LedgerCorrupt, "does not have the shape of a ledger"),
)

UNREADABLE = (ValueError, msgspec.DecodeError, zlib.error)
"""Errors of decoding a damaged row: invalid UTF-8, JSON, phase or zlib data."""

TRANSLATED = (apsw.Error, *UNREADABLE)


def translate(error: BaseException, path: str) -> LedgerError:
    """Translate an error of SQLite, or of decoding a row, to a ``LedgerError``."""
    if getattr(error, "extendedresult", None) == apsw.SQLITE_IOERR_SHMSIZE:
        return LedgerFull(f"The ledger {path} cannot be opened: the disk is full.")
    for theirs, ours, words in _CAUSES:
        if isinstance(error, theirs):
            return ours(f"The ledger {path} {words} ({error or type(error).__name__}).")
    if isinstance(error, UNREADABLE):
        return LedgerCorrupt(f"The ledger {path} holds something that cannot be read ({error}).")
    return LedgerFailed(f"The ledger {path} returned an error: {error!r}.")


LEAST_INDEX = 32_768
"""Size of the WAL index (``-shm``); a smaller file was truncated by a full disk."""
LEAST_PAGE = 512
"""The page size is a multiple of this."""


@contextmanager
def translated(path: str) -> Iterator[None]:
    """Raise errors of SQLite and of decoding rows inside the block as ``LedgerError``."""
    try:
        yield
    except TRANSLATED as error:
        raise translate(error, path) from error


def create_private(path: Path) -> None:
    """Create the file with mode 0600 before SQLite does; its journals inherit the mode.

    An existing file is not opened: closing it would drop the POSIX locks that SQLite holds on it in this process, and
    another process could then delete the write-ahead log.
    """
    try:
        make_private(path.parent)
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        with suppress(FileExistsError):
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
            sync_folder(path.parent)
    except OSError as error:
        raise LedgerReadOnly(f"The ledger {path} cannot be opened ({error.strerror}).") from error


def shares_locks(path: Path) -> bool:
    """Return whether closing a file would drop the locks that SQLite holds on it in this process."""
    return path.with_name(f"{path.name}-shm").exists()


def read_blocks(path: Path, size: int) -> Iterator[bytes]:
    """Read the bytes of a database that may be open in this process.

    SQLite's own VFS closes the file only when this process holds no locks on it.
    """
    file = apsw.VFSFile("unix", str(path), [apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_READONLY, 0])
    try:
        for start in range(0, file.xFileSize(), size):
            yield file.xRead(size, start)
    finally:
        file.xClose()


def refuse_cut_short(path: Path) -> None:
    """Raise an error for a file that ends inside a page, unless the write-ahead log may hold the rest."""
    log = Path(f"{path}-wal")
    if path.stat().st_size % LEAST_PAGE and not (log.exists() and log.stat().st_size):
        raise LedgerCorrupt(f"The ledger {path} was cut short: it ends in the middle of a page.")


def connect(
    path: str,
    *,
    vfs: str | None = None,
    read_only: bool = False,
    patience: float = BUSY_SECONDS,
    waits: BusyWaits | None = None,
) -> apsw.Connection:
    """Open a connection with all pragmas set."""
    connection = open_as_it_is(path, vfs=vfs, patience=patience, waits=waits, create=not read_only)
    try:
        set_up(connection, read_only=read_only, patience=patience)
    except BaseException:
        close_quietly(connection)
        raise
    return connection


def open_database(
    path: Path | str, *, flags: int, vfs: str | None = None, parameters: str = "", protection: Protection | None = None
) -> apsw.Connection:
    """Open a file with the encryption key of its folder; every connection to a file is opened here.

    ``parameters`` are URI parameters. ``protection`` defaults to that of the folder.
    """
    protection = protection_of(path) if protection is None else protection
    if protection.is_on and vfs is not None:
        vfs = f"{CIPHERS}-{vfs}"  # the ciphers are a layer above a VFS; the default VFS includes them
    name = str(path) if not parameters else f"file:{quote(str(path))}?{parameters}"
    flags |= apsw.SQLITE_OPEN_URI if parameters else 0
    connection = apsw.Connection(name, flags=flags, vfs=vfs, statementcachesize=256)
    for pragma in protection.database_pragmas:
        connection.execute(pragma).fetchall()
    return connection


def open_as_it_is(
    path: str,
    *,
    vfs: str | None = None,
    patience: float = BUSY_SECONDS,
    waits: BusyWaits | None = None,
    create: bool = True,
) -> apsw.Connection:
    """Open a connection without changing the file, which may belong to another program."""
    flags = apsw.SQLITE_OPEN_READWRITE | (apsw.SQLITE_OPEN_CREATE if create else 0)
    connection = open_database(path, flags=flags, vfs=vfs)
    # Otherwise SQLite re-plans a join whenever a value is bound, which costs more than running it.
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
    connection.set_busy_handler((waits or BusyWaits()).handler(patience))
    return connection


def connect_unwritable(
    path: Path, *, patience: float = BUSY_SECONDS, waits: BusyWaits | None = None
) -> apsw.Connection:
    """Open a connection to a ledger on a read-only medium. Raises ``LedgerReadOnly`` if that is impossible.

    Without a write-ahead log the file is opened as immutable. With a log and its index (``-shm``) SQLite reads both. A
    missing index cannot be created: SQLite keeps it in memory, which needs an exclusive lock and so a VFS without
    locks.
    """
    has_index = _size(f"{path}-shm") >= LEAST_INDEX
    has_log_alone = not has_index and _size(f"{path}-wal") > 0
    connection = open_database(
        path,
        flags=apsw.SQLITE_OPEN_READONLY,
        vfs="unix-none" if has_log_alone else None,
        parameters="mode=ro" if has_index or has_log_alone else "mode=ro&immutable=1",
    )
    if has_log_alone:
        connection.execute("PRAGMA locking_mode = EXCLUSIVE").fetchall()
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
    connection.set_busy_handler((waits or BusyWaits()).handler(patience))
    connection.execute("PRAGMA temp_store = MEMORY; PRAGMA query_only = 1").fetchall()
    return connection


def _size(name: str) -> int:
    try:
        return Path(name).stat().st_size
    except OSError:
        return 0


def set_up(connection: apsw.Connection, *, read_only: bool = False, patience: float = BUSY_SECONDS) -> None:
    """Set all pragmas; this turns on the write-ahead log."""
    if not connection.execute("PRAGMA page_count").get:  # it has no effect on an existing file
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL").fetchall()
    _turn_on_log(connection, BusyHandler(patience))
    for pragma in (
        "synchronous = FULL",
        "fullfsync = ON",  # empties the cache of the drive on macOS; nothing elsewhere
        "foreign_keys = ON",
        "recursive_triggers = ON",
        "temp_store = MEMORY",
        "secure_delete = ON",
        f"query_only = {int(read_only)}",
    ):
        connection.execute(f"PRAGMA {pragma}").fetchall()


def _turn_on_log(connection: apsw.Connection, busy: BusyHandler) -> None:
    """Switch the file to WAL, and retry while another process does the same.

    Two processes that switch a new file at once both hold a shared lock and want an exclusive one. SQLite then fails
    with ``SQLITE_BUSY`` without calling the busy handler, because waiting would be a deadlock.
    """
    for attempt in count():
        try:
            connection.execute("PRAGMA journal_mode = WAL").fetchall()
        except apsw.BusyError:
            if not busy(attempt):
                raise
        else:
            return


def close_quietly(connection: apsw.Connection) -> None:
    """Close a connection and ignore disk errors: everything acknowledged is in the write-ahead log."""
    with suppress(apsw.Error):
        connection.close()


def leave_untouched(connection: apsw.Connection, path: str) -> None:
    """Close a connection without a checkpoint, so that a file of another program does not change."""
    with suppress(apsw.Error, OSError):
        log = Path(f"{path}-wal")
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, int(log.exists() and log.stat().st_size > 0))
    close_quietly(connection)


class BusyWaits:
    """Tracks how long the connections of one file have been waiting for another process."""

    def __init__(self) -> None:
        self._handlers: list[BusyHandler] = []

    def handler(self, seconds: float) -> BusyHandler:
        """Return a busy handler for one connection."""
        self._handlers.append(made := BusyHandler(seconds))
        return made

    def longest(self) -> float:
        """Return the duration of the longest current wait in seconds."""
        return max((handler.waited() for handler in self._handlers), default=0.0)

    @contextmanager
    def in_passing(self) -> Iterator[None]:
        """Wait only ``MOMENT`` for locks and do not count it; for work that can be postponed."""
        for handler in self._handlers:
            handler.in_passing = True
        try:
            yield
        finally:
            for handler in self._handlers:
                handler.in_passing = False


class BusyHandler:
    """A busy handler that retries after 0.5 to 1.5 ms until its timeout."""

    def __init__(self, seconds: float) -> None:
        self.in_passing = False
        self._seconds = seconds
        self._began = self._asked = 0.0

    def __call__(self, times_asked: int) -> bool:
        """Return whether SQLite should retry."""
        present = time.monotonic()
        if times_asked == 0:
            self._began = present
        if present - self._began > (min(self._seconds, MOMENT) if self.in_passing else self._seconds):
            return False
        if not self.in_passing:
            self._asked = present
        time.sleep(random.uniform(0.0005, 0.0015))  # noqa: S311 - jitter, not a secret
        return True

    def waited(self) -> float:
        """Return how long it has waited; SQLite does not report the end of a wait."""
        is_waiting = time.monotonic() - self._asked < STILL_WAITING
        return max(self._asked - self._began, 0.0) if is_waiting else 0.0
