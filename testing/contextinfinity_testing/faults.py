"""Failing disks for tests of a SQLite ledger: real files and real SQLite on a VFS that injects faults.

A disk is entered, its name given to ``SqliteStore(path, vfs=disk.name)``, and left after the store is closed::

    with FailingDisk(fail_at=17, kind="full") as disk:
        store = SqliteStore(path, vfs=disk.name)

Both count operations, so that a first run without a fault shows how many faults a sweep has to try. Neither
flushes the machine's own disk: what they promise concerns the files they leave behind, and a sweep is quick.

What is not simulated: locks and the shared memory beside the file (``-shm``) are the machine's own. They
are memory, so after a power cut the ``-shm`` file has to be removed before the ledger is opened again.
SQLite ignores a failed checkpoint inside a commit, but apsw raises whatever a disk in Python raised; so a
connection used with these disks should call for its checkpoints itself, as the ledger's writer does.
"""

# ruff: noqa: N802 - SQLite names these methods

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Collection
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias, assert_never

import apsw

from contextinfinity.domain.ids import new_id

Operation: TypeAlias = Literal["open", "read", "write", "sync", "truncate", "delete"]
FaultKind: TypeAlias = Literal["full", "io"]
Keeping: TypeAlias = Literal["nothing", "prefix", "torn", "any"]
FileName: TypeAlias = str | apsw.URIFilename | None

CHANGING: tuple[Operation, ...] = ("open", "write", "sync", "truncate", "delete")
"""What a disk that fails counts unless told otherwise: all but reading."""

_FAILURES: dict[Operation, int] = {
    "open": apsw.SQLITE_CANTOPEN,
    "read": apsw.SQLITE_IOERR_READ,
    "write": apsw.SQLITE_IOERR_WRITE,
    "sync": apsw.SQLITE_IOERR_FSYNC,
    "truncate": apsw.SQLITE_IOERR_TRUNCATE,
    "delete": apsw.SQLITE_IOERR_DELETE,
}


class _Disk(apsw.VFS):
    """A SQLite VFS over the default one, registered under its own name until the ``with`` block ends."""

    def __init__(self) -> None:
        self.name = f"{type(self).__name__}-{new_id()}"
        self.lock = threading.RLock()
        self.operations: Counter[Operation] = Counter()
        super().__init__(self.name, "")

    @property
    def count(self) -> int:
        """Return the number of operations so far."""
        return self.operations.total()

    def __exit__(self, *_: object) -> None:
        self.unregister()


class FailingDisk(_Disk):
    """A disk whose n-th operation fails, once or (``lasting``) from then on.

    ``kind`` is what a write meets: no room, or an I/O error. A flush, a deletion or an opening that fails is an
    I/O error on any disk. Only the ``counted`` operations, on files whose name ends with ``only``, count and fail.
    With ``fail_at`` 0 it never fails.
    """

    def __init__(
        self,
        *,
        fail_at: int = 0,
        kind: FaultKind = "io",
        lasting: bool = False,
        counted: Collection[Operation] = CHANGING,
        only: str = "",
    ) -> None:
        super().__init__()
        self.failed = 0
        self._fail_at = fail_at
        self._kind = kind
        self._lasting = lasting
        self._counted = frozenset(counted)
        self._only = only

    def __enter__(self) -> FailingDisk:
        return self

    def break_down(self, kind: FaultKind = "full") -> None:
        """Make all operations fail until ``repair`` is called."""
        self._fail_at, self._kind, self._lasting = 1, kind, True

    def repair(self) -> None:
        """Stop failing."""
        self._fail_at = 0

    def attempt(self, operation: Operation, path: str) -> None:
        """Count an operation; raise an error if it has to fail."""
        if operation not in self._counted or not path.endswith(self._only):
            return
        with self.lock:
            self.operations[operation] += 1
            reached = self.count >= self._fail_at if self._lasting else self.count == self._fail_at
            if not self._fail_at or not reached:
                return
            self.failed += 1
        full = self._kind == "full" and operation == "write"
        raise apsw.exception_for(apsw.SQLITE_FULL if full else _FAILURES[operation])

    def xOpen(self, name: FileName, flags: list[int]) -> apsw.VFSFile:
        """Open a file that fails with its disk."""
        self.attempt("open", _path(name))
        return _FailingFile(self, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:
        """Delete a file, or fail."""
        self.attempt("delete", filename)
        super().xDelete(filename, syncdir)


class _FailingFile(apsw.VFSFile):
    def __init__(self, disk: FailingDisk, name: FileName, flags: list[int]) -> None:
        self._disk = disk
        self._path = _path(name)
        super().__init__("", name, flags)

    def xRead(self, amount: int, offset: int) -> bytes:
        self._disk.attempt("read", self._path)
        return super().xRead(amount, offset)

    def xWrite(self, data: bytes, offset: int) -> None:
        self._disk.attempt("write", self._path)
        super().xWrite(data, offset)

    def xTruncate(self, newsize: int) -> None:
        self._disk.attempt("truncate", self._path)
        super().xTruncate(newsize)

    def xSync(self, flags: int) -> None:
        self._disk.attempt("sync", self._path)


class ForgetfulDisk(_Disk):
    """A disk that loses all data that was not flushed when its power is cut.

    Until then every program sees what was written, as a machine's memory shows it. ``cut_power`` (or the
    ``cut_at``-th operation, which does not happen any more) leaves in the real files what was flushed, and of the
    rest of each file what ``keep`` says: nothing; the first so many writes; the same with the last of them
    torn; or any of them, as a disk that writes in the order it likes. Every operation after the cut fails.
    A disk that is left without a cut leaves everything that was written.
    """

    def __init__(self, *, cut_at: int = 0, keep: Keeping = "nothing", seed: int = 0) -> None:
        super().__init__()
        self.is_off = False
        self._cut_at = cut_at
        self._keep = keep
        self._chance = random.Random(seed)  # noqa: S311 - a sweep that can be repeated
        self._files: dict[str, _Contents] = {}

    def __enter__(self) -> ForgetfulDisk:
        return self

    def __exit__(self, *_: object) -> None:
        if not self.is_off:
            for path, contents in self._files.items():
                _leave(path, contents.seen)
        super().__exit__()

    def cut_power(self) -> None:
        """Lose all unflushed data and fail from now on."""
        with self.lock:
            if self.is_off:
                return
            self.is_off = True
            for path, contents in sorted(self._files.items()):
                contents.flush(_survivors(contents.unflushed, self._keep, self._chance))
                _leave(path, contents.flushed)

    def alter(self, operation: Operation, path: str, change: _Change | None = None) -> None:
        """Count an operation and apply its change in memory. The one at which the power is cut may be kept in part."""
        with self.lock:
            self.refuse_if_off()
            self.operations[operation] += 1
            if change is not None:
                self.contents(path).alter(change)
            if self.count == self._cut_at:
                self.cut_power()
            self.refuse_if_off()

    def contents(self, path: str) -> _Contents:
        """Return a file's content as programs see it."""
        if path not in self._files:
            real = Path(path)
            self._files[path] = _Contents(real.read_bytes() if real.exists() else None)
        return self._files[path]

    def flush_folder(self, path: str) -> None:
        """Flush a file's folder, so that deletions in it are durable."""
        for other, contents in self._files.items():
            if Path(other).parent == Path(path).parent:
                contents.flush_deletion()

    def refuse_if_off(self) -> None:
        """Raise an error if the power is off."""
        if self.is_off:
            raise apsw.exception_for(apsw.SQLITE_IOERR)

    def xOpen(self, name: FileName, flags: list[int]) -> apsw.VFSFile:
        """Open a file of this disk."""
        with self.lock:
            self.refuse_if_off()
            contents = self.contents(_path(name))
            if contents.seen is None and not flags[0] & apsw.SQLITE_OPEN_CREATE:
                raise apsw.exception_for(apsw.SQLITE_CANTOPEN)
            opened = _ForgetfulFile(self, name, flags)
            contents.seen = bytearray() if contents.seen is None else contents.seen
            return opened

    def xDelete(self, filename: str, syncdir: bool) -> None:
        """Delete a file: permanently if its folder is flushed too, else until the power is cut."""
        with self.lock:
            self.alter("delete", filename, _Deletion())
            if syncdir:
                self.contents(filename).flush()

    def xAccess(self, pathname: str, flags: int) -> bool:
        """Return whether there is such a file."""
        with self.lock:
            self.refuse_if_off()
            known = self._files.get(pathname)
            return super().xAccess(pathname, flags) if known is None else known.seen is not None


class _ForgetfulFile(apsw.VFSFile):
    """One handle of a file. The real file below it is used for locks only.

    As SQLite's own do, a handle that may have made a journal or a log flushes their folder too, with its first flush.
    """

    def __init__(self, disk: ForgetfulDisk, name: FileName, flags: list[int]) -> None:
        self._disk = disk
        self._path = _path(name)
        self._flushes_folder = bool(flags[0] & (apsw.SQLITE_OPEN_WAL | apsw.SQLITE_OPEN_MAIN_JOURNAL))
        super().__init__("", name, flags)

    def xRead(self, amount: int, offset: int) -> bytes:
        with self._disk.lock:
            self._disk.refuse_if_off()
            return bytes(self._seen[offset : offset + amount])

    def xFileSize(self) -> int:
        with self._disk.lock:
            self._disk.refuse_if_off()
            return len(self._seen)

    def xWrite(self, data: bytes, offset: int) -> None:
        self._disk.alter("write", self._path, _Writing(offset, bytes(data)))

    def xTruncate(self, newsize: int) -> None:
        self._disk.alter("truncate", self._path, _Truncation(newsize))

    def xSync(self, flags: int) -> None:
        with self._disk.lock:
            self._disk.alter("sync", self._path)
            self._disk.contents(self._path).flush()
            if self._flushes_folder:
                self._disk.flush_folder(self._path)
                self._flushes_folder = False

    @property
    def _seen(self) -> bytearray:
        return self._disk.contents(self._path).seen or bytearray()


class _Writing(NamedTuple):
    offset: int
    data: bytes


class _Truncation(NamedTuple):
    size: int


class _Deletion(NamedTuple):
    pass


_Change: TypeAlias = _Writing | _Truncation | _Deletion


class _Contents:
    """A file's content as programs see it, its content on disk (None: no such file), and the unflushed changes."""

    def __init__(self, real: bytes | None) -> None:
        self.seen = None if real is None else bytearray(real)
        self.flushed = None if real is None else bytearray(real)
        self.unflushed: list[_Change] = []

    def alter(self, change: _Change) -> None:
        """Apply a change in memory only."""
        self.seen = _altered(self.seen, change)
        self.unflushed.append(change)

    def flush(self, changes: list[_Change] | None = None) -> None:
        """Flush all changes to the disk, or only these and discard the others."""
        for change in self.unflushed if changes is None else changes:
            self.flushed = _altered(self.flushed, change)
        self.unflushed = []

    def flush_deletion(self) -> None:
        """Flush a deletion to the disk. Data written to a new file of that name since then is not flushed."""
        deletions = [place for place, change in enumerate(self.unflushed) if isinstance(change, _Deletion)]
        if deletions:
            self.flushed = None
            del self.unflushed[: deletions[-1] + 1]


def _altered(content: bytearray | None, change: _Change) -> bytearray | None:
    """Apply a change to a content and return the result."""
    content = bytearray() if content is None else content
    match change:
        case _Deletion():
            return None
        case _Truncation(size=size):
            del content[size:]
        case _Writing(offset=offset, data=data):
            content.extend(bytes(max(0, offset - len(content))))
            content[offset : offset + len(data)] = data
        case _:
            assert_never(change)
    return content


def _survivors(changes: list[_Change], keep: Keeping, chance: random.Random) -> list[_Change]:
    """Choose which of the unflushed changes reach the disk."""
    if keep == "nothing":
        return []
    if keep == "any":
        return [change for change in changes if chance.random() < 0.5]
    kept = changes[: chance.randint(0, len(changes))]
    if keep == "torn" and kept and isinstance(last := kept[-1], _Writing):
        kept[-1] = last._replace(data=last.data[: chance.randint(0, len(last.data))])
    return kept


def _leave(path: str, content: bytearray | None) -> None:
    """Write the disk's content to the real file."""
    if content is None:
        Path(path).unlink(missing_ok=True)
    else:
        Path(path).write_bytes(content)


def _path(name: FileName) -> str:
    return name.filename() if isinstance(name, apsw.URIFilename) else name or ""
