"""Copies a database into a new file with another encryption."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote, urlencode

import apsw

from contextinfinity.errors import LedgerBusy
from contextinfinity.storage.encryption.cipher import Protection
from contextinfinity.storage.sqlite.connection import close_quietly, open_database, translated


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
