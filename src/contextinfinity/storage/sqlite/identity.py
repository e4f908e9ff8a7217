"""A data_dir remembers which ledger it holds, so that a lost one is noticed and never replaced by an empty one.

The mark is a small file beside the ledger, ``ledger.db-identity``. It holds the time at which the ledger's first
migration was applied, which every backup of that ledger shares. It is written once the schema is committed, and by this
release for ledgers of earlier ones. A second mark in the data_dir, ``identity-…``, survives what takes the first one
along: ``rm ledger.db*``, or a volume with the ledger that is not mounted.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import apsw

from contextinfinity.domain.ids import now
from contextinfinity.errors import LedgerLost, LedgerReadOnly, LedgerUnlocked
from contextinfinity.storage.folders import make_private, sync_folder
from contextinfinity.storage.sqlite.connection import open_database

FRONT_BYTES = 65_536
"""Bytes at the front of a ledger's file within which its identity is: ``schema_version`` is its first table."""
FILES = ("", "-wal", "-shm", "-spool")
"""What belongs to a ledger and bears its name."""


def mark_of(path: Path) -> Path:
    """Return the file that remembers which ledger is at a path."""
    return path.with_name(f"{path.name}-identity")


def marks_of(path: Path, data_dir: Path | None) -> list[Path]:
    """Return all files that remember which ledger is at a path, those of the data_dir first."""
    if data_dir is None:
        return [mark_of(path)]
    place = path.relative_to(data_dir) if path.is_relative_to(data_dir) else path.absolute()  # a data_dir may be moved
    return [data_dir / f"identity-{hashlib.sha256(os.fsencode(place)).hexdigest()[:16]}", mark_of(path)]


def remembered(path: Path, data_dir: Path | None = None) -> str | None:
    """Read which ledger was at a path; None when none was."""
    for mark in marks_of(path, data_dir):
        with suppress(OSError):
            return mark.read_text("utf-8", errors="replace").strip()
    return None


def identity_of(connection: apsw.Connection) -> str:
    """Read the identity of an open ledger; empty for one without a schema."""
    if not connection.execute("SELECT count(*) FROM sqlite_schema WHERE name = 'schema_version'").get:
        return ""
    first: int | None = connection.execute("SELECT applied_at FROM schema_version ORDER BY version LIMIT 1").get
    return "" if first is None else str(first)


def refuse_lost(path: Path, known: str | None) -> None:
    """Raise ``LedgerLost`` for a missing or empty file where a ledger was, or one that is no database any more.

    This comes before SQLite opens the file, since SQLite deletes the log beside an empty one. A log that holds
    something, or a spool, proves that there was a ledger, too.
    """
    had_log = _size(Path(f"{path}-wal")) > 0  # first: whoever makes a ledger writes to its file before its log
    if _size(path) > 0:
        if known is not None and not _is_database(path):
            raise LedgerLost(f"The file {path} is not a ledger any more: it was overwritten or damaged.")
        return
    if known is None and not had_log and not any(Path(f"{path}-spool").glob("*.spool")):
        return
    state = "is empty" if path.exists() else "is missing"
    raise LedgerLost(f"The ledger {path} {state}, and there was one before.")


def refuse_other(connection: apsw.Connection, path: Path, known: str | None) -> None:
    """Raise ``LedgerLost`` for a ledger that is not the one that was here."""
    if known is None:
        return
    found = identity_of(connection)
    if not found:
        raise LedgerLost(f"The ledger {path} is empty, and there was one before.")
    if known and found != known:
        raise LedgerLost(f"The ledger {path} is not the one that was there before: it was replaced by another.")


def remember(connection: apsw.Connection, path: Path, data_dir: Path | None = None) -> None:
    """Write the marks that are not there; a disk that does not take one now gets it the next time."""
    for mark in marks_of(path, data_dir):
        if _size(mark) == 0:
            _write(mark, identity_of(connection))


def _write(mark: Path, identity: str) -> None:
    partial = mark.with_name(f"{mark.name}.{os.getpid()}.partial")
    with suppress(OSError):
        try:
            make_private(mark.parent)
            descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            try:
                os.write(descriptor, f"{identity}\n".encode())
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            partial.rename(mark)
        finally:
            partial.unlink(missing_ok=True)
        sync_folder(mark.parent)


def begin_new(path: Path, data_dir: Path | None = None) -> list[Path]:
    """Let a data_dir that lost its ledger start over; return the remains, which are set aside and never deleted.

    A ledger that is there stays: its own is left as it is, another one is accepted from now on.
    """
    try:
        refuse_lost(path, remembered(path, data_dir))
        remains: list[Path] = []
    except LedgerLost:
        remains = [there for end in FILES if (there := Path(f"{path}{end}")).exists()]
    kept = []
    try:
        for there in remains:
            aside = there.with_name(f"{there.name}.lost-{now():%Y%m%dT%H%M%S}")
            kept.append(there.rename(aside))
        for mark in marks_of(path, data_dir):
            mark.unlink(missing_ok=True)
        if path.parent.is_dir():
            sync_folder(path.parent)
    except OSError as error:
        raise LedgerReadOnly(f"The folder {path.parent} cannot be written ({error.strerror}).") from error
    return kept


class LedgerFile:
    """Where an open ledger is: checks that its file and its log are still the ones of their names.

    The log can vanish alone. SQLite keeps other users from removing it with POSIX locks on the ledger, which belong to
    the process and not to a file descriptor: when a second SQLite library in the same process opens the ledger and
    closes it again, all locks are dropped, and that library deletes the log as if it were the last user.
    """

    def __init__(self, path: Path) -> None:
        self._path = str(path)
        self._log = f"{path}-wal"
        self._opened = _file(self._path, 1)
        self._opened_log = _file(self._log, 0)

    def check(self) -> None:
        """Raise when what is written now would not be found by the next process; two calls of ``stat``."""
        found, log = _file(self._path, 1), _file(self._log, 0)
        if self._opened is None or self._opened_log is None:  # SQLite creates each with the first write to it
            self._opened, self._opened_log = self._opened or found, self._opened_log or log
        if found != self._opened:
            raise LedgerLost(
                f"The ledger {self._path} was moved, deleted or replaced while it was open.",
                hint="Put the same file back; or end this process, restore a backup and start again. What is said "
                "meanwhile is kept in the spool.",
            )
        if log != self._opened_log:
            raise LedgerUnlocked(
                f"The log of the ledger {self._path} was deleted while it was open. The usual cause is a second SQLite "
                "library in this process, such as Python's sqlite3 module, that opened the ledger and closed it again: "
                "that drops the locks of the whole process."
            )


class Content:
    """What an open ledger's file holds: checks that it was not overwritten in its place (``cp other.db ledger.db``).

    Only checkpoints write to the file, so it is read only when it has changed: its first pages, past the log and past
    SQLite's cache, which must contain the time that is the ledger's identity. To be used where its connection is.
    """

    def __init__(self, connection: apsw.Connection, path: Path) -> None:
        self._connection = connection
        self._path = str(path)
        self._page_size: int = connection.execute("PRAGMA page_size").get
        self._identity = int(identity_of(connection)).to_bytes(6, "big")  # as SQLite writes it into its row
        if not self._holds_identity():  # a new ledger is in its log alone
            with suppress(apsw.Error):
                connection.wal_checkpoint()
        self._is_known = self._holds_identity() is True
        self._changed_at = _changed_at(self._path)

    def check(self) -> None:
        """Raise ``LedgerLost`` when the file holds another ledger."""
        changed_at = _changed_at(self._path)
        if changed_at == self._changed_at:
            return
        is_ours = self._holds_identity()
        if is_ours:
            self._is_known, self._changed_at = True, changed_at
        elif is_ours is False and self._is_known:
            raise LedgerLost(
                f"The ledger {self._path} is not the one that was there before: it was overwritten while it was open.",
                hint="End this process, restore a backup and start again. What is said meanwhile is kept in the spool.",
            )

    def _holds_identity(self) -> bool | None:
        """Read the front of the file; None: it cannot be read now."""
        with suppress(apsw.Error):
            return any(self._identity in page for page in self._front())
        return None

    def _front(self) -> Iterator[bytes]:
        """Read the front of the file page by page: an encrypted one is decrypted by page."""
        for start in range(0, FRONT_BYTES, self._page_size):
            yield self._connection.read("main", 0, start, self._page_size)[1]


def _changed_at(name: str) -> tuple[int, int]:
    """Tell when a file was last changed, and its size then."""
    try:
        found = os.stat(name)  # noqa: PTH116 - at every commit: a Path would cost more than the call
    except OSError:
        return (0, 0)
    return (found.st_mtime_ns, found.st_size)


def _file(name: str, least: int) -> tuple[int, int] | None:
    """Return which file has a name; None for none, or one of fewer bytes than ``least``."""
    try:
        found = os.stat(name)  # noqa: PTH116 - at every commit: a Path would cost more than the call
    except OSError:
        return None
    return (found.st_dev, found.st_ino) if found.st_size >= least else None


def _is_database(path: Path) -> bool:
    """Return whether SQLite can read a file; False only if it is not a database.

    The file is opened with SQLite: closing it any other way would drop the locks that this process has on it. As an
    immutable one it gets no log and no index beside it.
    """
    try:
        with closing(open_database(path, flags=apsw.SQLITE_OPEN_READONLY, parameters="immutable=1")) as connection:
            connection.execute("PRAGMA schema_version").fetchall()
    except apsw.NotADBError:
        return False
    except apsw.Error:  # opening it for good says what is wrong
        return True
    return True


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
