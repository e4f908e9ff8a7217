"""Online backups: a consistent, private snapshot of a ledger, made while other processes write.

A backup is called ``.partial`` until it is complete and durable, so every ``ledger-….db`` is a whole ledger. The
process holds a lock on it; a ``.partial`` file without a lock is left over from a crash.

The module also copies a database into a new file with another encryption.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from urllib.parse import quote, urlencode

import apsw

from contextinfinity.domain.ids import now
from contextinfinity.errors import LedgerBusy, LedgerFull, LedgerReadOnly
from contextinfinity.storage.encryption.cipher import Protection
from contextinfinity.storage.encryption.protection import BESIDE, carry_header, protection_of
from contextinfinity.storage.folders import sync_folder
from contextinfinity.storage.sqlite.connection import (
    APPLICATION_ID,
    BUSY_SECONDS,
    BusyHandler,
    close_quietly,
    open_database,
    translated,
)

PATTERN = "ledger-*.db"
PARTIAL = ".partial"

_PAGES = 2000  # copied at a time


def back_up(
    ledger: Path,
    folder: Path,
    progress: Callable[[float], None],
    complete: Callable[[Path], None] = lambda _: None,
    name: str | None = None,
) -> Path:
    """Copy a ledger into a folder, named after the current time by default, and return the path of the copy.

    A copy of an encrypted ledger outside of its data_dir gets a header file next to it. ``complete`` is called with the
    copy before it is renamed, to remove deleted data from it.
    """
    name = name or f"ledger-{now():%Y%m%dT%H%M%S.%f}"[:-3] + "Z.db"
    partial = folder / f"{name}{PARTIAL}"
    _make_room(ledger, folder)
    lock = _create(partial)
    try:
        carry_header(ledger, partial)
        with translated(str(ledger)):
            _copy(str(ledger), str(partial), progress)
        complete(partial)
        carry_header(ledger, folder / name)
        partial.rename(folder / name)
        sync_folder(folder)
    except OSError as error:
        raise LedgerReadOnly(f"The folder {folder} cannot be written ({error.strerror}).") from error
    finally:
        with suppress(OSError):
            partial.unlink(missing_ok=True)  # only there if something went wrong
            for end in ("-journal", BESIDE):
                partial.with_name(f"{partial.name}{end}").unlink(missing_ok=True)
        os.close(lock)
    return folder / name


def is_whole(path: Path) -> bool:
    """Return whether a file is a complete ledger, judging by its header and size."""
    size = path.stat().st_size
    try:
        with closing(open_database(path, flags=apsw.SQLITE_OPEN_READONLY, parameters="immutable=1")) as connection:
            application, *pages = (
                connection.execute(f"PRAGMA {name}").get for name in ("application_id", "page_size", "page_count")
            )
    except apsw.Error:
        return False
    return bool(application == APPLICATION_ID and size == pages[0] * pages[1])


def _make_room(ledger: Path, folder: Path) -> None:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        size, free = ledger.stat().st_size, shutil.disk_usage(folder).free
    except OSError as error:
        raise LedgerReadOnly(f"The folder {folder} cannot be written ({error.strerror}).") from error
    if free < size:  # trying would use the space that conversations need
        raise LedgerFull(f"A copy of the ledger needs {size:,} bytes, and only {free:,} are free in {folder}.")


def _create(partial: Path) -> int:
    try:
        descriptor = os.open(partial, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise LedgerReadOnly(f"The file {partial} cannot be made ({error.strerror}).") from error
    return descriptor


def _copy(ledger: str, target: str, progress: Callable[[float], None]) -> None:
    protection = protection_of(ledger)
    source = open_database(ledger, flags=apsw.SQLITE_OPEN_READONLY, protection=protection)
    copy = open_database(target, flags=apsw.SQLITE_OPEN_READWRITE, protection=protection)
    try:
        source.set_busy_handler(BusyHandler(BUSY_SECONDS))
        # One read transaction: otherwise every commit of another process would restart the copy.
        source.execute("BEGIN")
        source.execute("SELECT count(*) FROM sqlite_schema").fetchall()
        with copy.backup("main", source, "main") as backup:
            while not backup.done:
                backup.step(_PAGES)
                progress(1 - backup.remaining / max(backup.page_count, 1))
        source.execute("ROLLBACK")
    finally:
        copy.close()
        source.close()


def copy_database(source: Path, target: Path, protection: Protection) -> None:
    """Copy a database with another encryption. Raises ``LedgerBusy`` if another process uses it.

    Only the new form is written to disk.
    """
    with translated(str(source)):
        connection = open_database(source, flags=apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_URI)
        try:
            _hold_alone(connection, source)
            _vacuum_into(connection, target, protection)
        finally:
            close_quietly(connection)


def copy_backup(source: Path, target: Path, protection: Protection) -> None:
    """Write a backup once more, sealed with a protection; the backup may be on a read-only medium."""
    log = source.with_name(f"{source.name}-wal")
    parameters = "mode=ro" if log.exists() and log.stat().st_size else "immutable=1"
    with translated(str(source)):
        connection = open_database(source.absolute(), flags=apsw.SQLITE_OPEN_READONLY, parameters=parameters)
        try:
            connection.execute("PRAGMA temp_store = MEMORY").fetchall()
            _vacuum_into(connection, target, protection)
        finally:
            close_quietly(connection)


def _vacuum_into(connection: apsw.Connection, target: Path, protection: Protection) -> None:
    name = f"file:{quote(str(target))}?{urlencode(protection.database_parameters)}"
    connection.execute("VACUUM INTO ?", (name,)).fetchall()


def _hold_alone(connection: apsw.Connection, path: Path) -> None:
    """Take exclusive use of the file; only its last user can leave WAL mode."""
    connection.execute("PRAGMA temp_store = MEMORY; PRAGMA locking_mode = EXCLUSIVE").fetchall()
    try:
        mode = connection.execute("PRAGMA journal_mode = DELETE").get
    except apsw.BusyError:
        mode = "wal"
    if mode != "delete":
        raise LedgerBusy(f"Another process uses the ledger {path}.", hint="End it and try again.")
