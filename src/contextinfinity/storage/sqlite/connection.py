"""Opening the file: one place for everything SQLite must be told.

Commits are durable when they return (WAL, ``synchronous=FULL``). The busy handler is our own: SQLite's
sleeps ever longer and lets four processes stall each other for seconds; ours asks again after about a
millisecond, with a little chance in it so that two waiters do not keep meeting.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw

from contextinfinity.errors import (
    LedgerBusy,
    LedgerCorrupt,
    LedgerError,
    LedgerFailed,
    LedgerForeign,
    LedgerFull,
    LedgerReadOnly,
)

BUSY_SECONDS = 10.0
APPLICATION_ID = 0x43495831  # "CIX1" in the file's header: this is a ledger of ours

_CAUSES: tuple[tuple[type[apsw.Error], type[LedgerError], str], ...] = (
    (apsw.BusyError, LedgerBusy, "is in use by another process"),
    (apsw.LockedError, LedgerBusy, "is locked"),
    (apsw.FullError, LedgerFull, "cannot grow: the disk is full"),
    (apsw.ReadOnlyError, LedgerReadOnly, "cannot be written"),
    (apsw.CantOpenError, LedgerReadOnly, "cannot be opened"),
    (apsw.PermissionsError, LedgerReadOnly, "may not be opened by this user"),
    (apsw.NotADBError, LedgerForeign, "is not a ledger (or it is encrypted)"),
    (apsw.CorruptError, LedgerCorrupt, "is damaged"),
    (apsw.IOError, LedgerFailed, "could not be read or written"),
)


def translate(error: apsw.Error, path: str) -> LedgerError:
    """Say in our words what SQLite said in its own."""
    for theirs, ours, words in _CAUSES:
        if isinstance(error, theirs):
            return ours(f"The ledger {path} {words} ({error}).")
    return LedgerFailed(f"The ledger {path} refused: {error}.")


@contextmanager
def translated(path: str) -> Iterator[None]:
    """Turn SQLite's errors inside the block into ours."""
    try:
        yield
    except apsw.Error as error:
        raise translate(error, path) from error


def create_private(path: Path) -> None:
    """Make the file, readable by its user alone, before SQLite does; its journals inherit the mode."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    except OSError as error:
        raise LedgerReadOnly(f"The ledger {path} cannot be opened ({error.strerror}).") from error


def connect(path: str, *, vfs: str | None = None, read_only: bool = False) -> apsw.Connection:
    """Open a connection with everything set."""
    connection = apsw.Connection(path, vfs=vfs, statementcachesize=256)
    connection.set_busy_handler(patient_handler(BUSY_SECONDS))
    for pragma in (
        "journal_mode = WAL",
        "synchronous = FULL",
        "foreign_keys = ON",
        "temp_store = MEMORY",
        "secure_delete = ON",
        f"query_only = {int(read_only)}",
    ):
        connection.execute(f"PRAGMA {pragma}").fetchall()
    return connection


def patient_handler(seconds: float) -> Callable[[int], bool]:
    """Make a busy handler that asks again after 0.5 to 1.5 ms until the time is up."""
    began = 0.0

    def ask_again(times_asked: int) -> bool:
        nonlocal began
        if times_asked == 0:
            began = time.monotonic()
        if time.monotonic() - began > seconds:
            return False
        time.sleep(random.uniform(0.0005, 0.0015))  # noqa: S311 - jitter, not a secret
        return True

    return ask_again
