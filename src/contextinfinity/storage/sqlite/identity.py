"""Identity files: they detect a lost ledger, so that it is never silently replaced by an empty one.

``ledger.db-identity`` next to the ledger holds the time of the ledger's first migration, which is the same in all its
backups. It is written after the schema is committed, or when an older ledger is opened. A second identity file in the
data_dir, ``identity-…``, survives ``rm ledger.db*`` and an unmounted volume.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import apsw

from contextinfinity.domain.ids import now
from contextinfinity.errors import LedgerError, LedgerForeign, LedgerLost, LedgerReadOnly, LedgerUnlocked
from contextinfinity.storage.folders import make_private, sync_file, sync_folder
from contextinfinity.storage.sqlite.connection import open_database
from contextinfinity.storage.sqlite.migrate import version_of

FRONT_BYTES = 65_536
"""The identity is within this many bytes at the start of the file: ``schema_version`` is its first table."""
FILES = ("", "-wal", "-shm", "-spool")
"""Suffixes of the files that belong to a ledger."""


def mark_of(path: Path) -> Path:
    """Return the identity file next to a ledger."""
    return path.with_name(f"{path.name}-identity")


def marks_of(path: Path, data_dir: Path | None) -> list[Path]:
    """Return the identity files of a ledger, that in the data_dir first."""
    if data_dir is None:
        return [mark_of(path)]
    place = path.relative_to(data_dir) if path.is_relative_to(data_dir) else path.absolute()  # a data_dir may be moved
    return [data_dir / f"identity-{hashlib.sha256(os.fsencode(place)).hexdigest()[:16]}", mark_of(path)]


def remembered(path: Path, data_dir: Path | None = None) -> str | None:
    """Return the identity of the ledger that was at a path; None if there was none."""
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
    """Raise ``LedgerLost`` if a ledger was here and its file is missing, empty or no ledger.

    Call this before SQLite opens the file, because SQLite deletes the log of an empty file. A non-empty log or a spool
    also proves that there was a ledger.
    """
    had_log = _size(Path(f"{path}-wal")) > 0  # first: a new ledger's file is written before its log
    if _size(path) > 0:
        if known is not None and not _is_ledger(path):
            raise LedgerLost(f"The file {path} is not a ledger any more: it was overwritten or damaged.")
        return
    if known is None and not had_log and not any(Path(f"{path}-spool").glob("*.spool")):
        return
    state = "is empty" if path.exists() else "is missing"
    raise LedgerLost(f"The ledger {path} {state}, but this data_dir had one.")


def refuse_other(connection: apsw.Connection, path: Path, known: str | None) -> None:
    """Raise ``LedgerLost`` if this is another ledger than the one that was here."""
    if known is None:
        return
    found = identity_of(connection)
    if not found:
        raise LedgerLost(f"The ledger {path} is empty, but this data_dir had one.")
    if known and found != known:
        raise LedgerLost(f"The ledger {path} is not the ledger of this data_dir: it was replaced by another.")


def remember(connection: apsw.Connection, path: Path, data_dir: Path | None = None) -> None:
    """Write missing identity files; if that fails, the next start tries again."""
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
                sync_file(descriptor)
            finally:
                os.close(descriptor)
            partial.rename(mark)
        finally:
            partial.unlink(missing_ok=True)
        sync_folder(mark.parent)


def begin_new(path: Path, data_dir: Path | None = None) -> list[Path]:
    """Let a data_dir that lost its ledger start with a new one; return the old files, which are renamed, not deleted.

    An existing ledger is kept; if it is another one than before, it is accepted from now on.
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
    """Checks that the paths of an open ledger and its log still refer to the same files.

    The log can be deleted alone. SQLite protects it with POSIX locks on the ledger, which belong to the process, not to
    a file descriptor: when a second SQLite library in the same process opens and closes the ledger, all locks are
    dropped, and that library deletes the log as if it were the last user.
    """

    def __init__(self, path: Path) -> None:
        self._path = str(path)
        self._log = f"{path}-wal"
        self._opened = _file(self._path, 1)
        self._opened_log = _file(self._log, 0)

    def check(self) -> None:
        """Raise an error if the next process would not find what is written now; costs two ``stat`` calls."""
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
    """Checks that an open ledger's file was not overwritten in place (``cp other.db ledger.db``).

    Only checkpoints write to the file. When it has changed, its first pages are read, bypassing the log and SQLite's
    cache; they must contain the ledger's identity. Use it on the thread of its connection.
    """

    def __init__(self, connection: apsw.Connection, path: Path) -> None:
        self._connection = connection
        self._path = str(path)
        self._page_size: int = connection.execute("PRAGMA page_size").get
        self._identity = int(identity_of(connection)).to_bytes(6, "big")  # SQLite's encoding in the row
        if not self._holds_identity():  # a new ledger is only in its log
            with suppress(apsw.Error):
                connection.wal_checkpoint()
        self._is_known = self._holds_identity() is True
        self._changed_at = _changed_at(self._path)

    def check(self) -> None:
        """Raise ``LedgerLost`` if the file contains another ledger."""
        changed_at = _changed_at(self._path)
        if changed_at == self._changed_at:
            return
        is_ours = self._holds_identity()
        if is_ours:
            self._is_known, self._changed_at = True, changed_at
        elif is_ours is False and self._is_known:
            raise LedgerLost(
                f"The ledger {self._path} is not the ledger of this data_dir: it was overwritten while it was open.",
                hint="End this process, restore a backup and start again. New messages are kept in the spool "
                "meanwhile.",
            )

    def _holds_identity(self) -> bool | None:
        """Return whether the start of the file contains the identity; None if it cannot be read now."""
        with suppress(apsw.Error):
            return any(self._identity in page for page in self._front())
        return None

    def _front(self) -> Iterator[bytes]:
        """Yield the first pages of the file, decrypted if needed."""
        for start in range(0, FRONT_BYTES, self._page_size):
            yield self._connection.read("main", 0, start, self._page_size)[1]


def _changed_at(name: str) -> tuple[int, int]:
    """Return the modification time and size of a file."""
    try:
        found = os.stat(name)  # noqa: PTH116 - at every commit: a Path would cost more than the call
    except OSError:
        return (0, 0)
    return (found.st_mtime_ns, found.st_size)


def _file(name: str, least: int) -> tuple[int, int] | None:
    """Return (device, inode) of a file; None if it is missing or smaller than ``least`` bytes."""
    try:
        found = os.stat(name)  # noqa: PTH116 - at every commit: a Path would cost more than the call
    except OSError:
        return None
    return (found.st_dev, found.st_ino) if found.st_size >= least else None


def _is_ledger(path: Path) -> bool:
    """Return whether a file is a ledger; False only if it is no database, or a database of another program.

    The file is opened with SQLite, since closing it any other way would drop this process's locks on it; and as
    immutable, so that no log or index is created.
    """
    try:
        with closing(open_database(path, flags=apsw.SQLITE_OPEN_READONLY, parameters="immutable=1")) as connection:
            version_of(connection, str(path))
    except (apsw.NotADBError, LedgerForeign):
        return False
    except (apsw.Error, LedgerError):  # opening it later reports the error
        return True
    return True


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
