"""The file that holds what is said while the ledger is away.

Records go in, and are on the disk before anybody hears of it; all that wait go there with one flush. Each stands in a
frame with its length and a checksum: what a crash tore off at the end does not count. The file belongs to one
process, which holds its lock; the lock of a dead process is free, and one other process takes the file over. It is
removed, or set aside for people to look at, when the ledger has all of it.
"""

from __future__ import annotations

import asyncio
import os
import struct
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from zlib import crc32

from contextinfinity.errors import LedgerError, LedgerFailed, LedgerFull
from contextinfinity.storage.folders import make_private, sync_folder
from contextinfinity.storage.journal.entries import FULL
from contextinfinity.storage.worker_locks import is_at, locked

SUFFIX = ".spool"
REFUSED = ".refused"
_FRAME = struct.Struct("<II")


class Spool:
    """One such file, locked by this process."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self.size = os.fstat(descriptor).st_size
        self._descriptor = descriptor
        self._waiting: list[tuple[bytes, asyncio.Future[None]]] = []
        self._writing: asyncio.Task[None] | None = None
        self._broken: LedgerError | None = None

    @classmethod
    def begin(cls, folder: Path, name: str) -> Spool:
        """Make the file of that name."""
        path = folder / f"{name}{SUFFIX}"
        try:
            make_private(folder)
            descriptor = locked(path, os.O_CREAT)
            sync_folder(folder)
        except OSError as error:
            raise _translated(error, path) from error
        if descriptor is None:
            raise LedgerFailed(f"The spool {path} is held by another process.")
        return cls(path, descriptor)

    @classmethod
    def take(cls, folder: Path, name: str) -> Spool | None:
        """Take over the file of that name; None when it is gone, or another process holds it."""
        path = folder / f"{name}{SUFFIX}"
        try:
            descriptor = locked(path)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise _translated(error, path) from error
        if descriptor is None:
            return None
        if not is_at(descriptor, path):  # whoever had it was done with it just now
            os.close(descriptor)
            return None
        return cls(path, descriptor)

    @property
    def is_busy(self) -> bool:
        """Whether something is being written, so that it must not be let go of."""
        return self._writing is not None

    def read(self) -> list[bytes | None]:
        """Give the records; None for one that was damaged. What a crash tore off at the end is left out."""
        return records_in(self.path)

    async def append(self, *records: bytes) -> None:
        """Add records; when this returns they survive a power cut."""
        written = asyncio.get_running_loop().create_future()
        self._waiting.append((b"".join(_framed(record) for record in records), written))
        if self._writing is None:
            self._writing = asyncio.create_task(self._write_all())
        await asyncio.shield(written)

    def remove(self) -> None:
        """Let go of a file whose records have all landed."""
        with suppress(OSError):  # one that stays lands again and changes nothing
            self.path.unlink()
        self.close()

    def set_aside(self) -> None:
        """Keep a file for people to look at; nobody lands it again."""
        with suppress(OSError):
            self.path.rename(self.path.with_suffix(REFUSED))
        self.close()

    def close(self) -> None:
        """Let go of the file as it is; whoever comes next takes it over. Closing twice does nothing."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    async def _write_all(self) -> None:
        while self._waiting:
            group, self._waiting = self._waiting, []
            try:
                await asyncio.to_thread(self._write, b"".join(frames for frames, _ in group))
            except LedgerError as error:
                _tell(group, error)
            else:
                _tell(group, None)
        self._writing = None

    def _write(self, data: bytes) -> None:
        if self._broken is not None:
            raise self._broken
        try:
            rest = memoryview(data)
            os.lseek(self._descriptor, self.size, os.SEEK_SET)
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]
            os.fsync(self._descriptor)
        except OSError as error:
            self._cut(failure := _translated(error, self.path))
            raise failure from error
        self.size += len(data)

    def _cut(self, failure: LedgerError) -> None:
        """Take back what was written in part: what comes after a torn record would never be read."""
        try:
            os.ftruncate(self._descriptor, self.size)
        except OSError:
            self._broken = failure


def records_in(path: Path) -> list[bytes | None]:
    """Read a spool, whoever holds it, as ``Spool.read`` does."""
    return list(_records(path.read_bytes()))


def rewrite(path: Path, records: Sequence[bytes]) -> None:
    """Replace a spool that was set aside by one with these records, durably; without any it is removed."""
    if records:
        new = path.with_suffix(f"{REFUSED}.new")
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "wb") as file:
            file.write(b"".join(map(_framed, records)))
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
    else:
        path.unlink(missing_ok=True)
    sync_folder(path.parent)


def waiting(folder: Path) -> list[str]:
    """Name the spools that are there, whoever holds them, the oldest first."""
    return sorted(path.stem for path in folder.glob(f"*{SUFFIX}")) if folder.is_dir() else []


def is_left(folder: Path, name: str) -> bool:
    """Tell whether the spool of that name is there and nobody holds it."""
    if (spool := Spool.take(folder, name)) is None:
        return False
    spool.close()
    return True


def _tell(group: list[tuple[bytes, asyncio.Future[None]]], error: LedgerError | None) -> None:
    for _, written in group:
        if written.done():
            continue
        if error is None:
            written.set_result(None)
        else:
            written.set_exception(error)


def _framed(record: bytes) -> bytes:
    return _FRAME.pack(len(record), crc32(record)) + record


def _records(data: bytes) -> Iterator[bytes | None]:
    """Walk the records to the first that is not there whole; a wrong one with more behind it was damaged."""
    place = 0
    while place + _FRAME.size <= len(data):
        length, checksum = _FRAME.unpack_from(data, place)
        record = data[place + _FRAME.size : place + _FRAME.size + length]
        place += _FRAME.size + length
        if not 0 < length == len(record):
            return
        if crc32(record) == checksum:
            yield record
        elif place < len(data):
            yield None


def _translated(error: OSError, path: Path) -> LedgerError:
    said = f"({error.strerror or error})"
    if error.errno in FULL:
        return LedgerFull(f"The ledger is away, and the spool {path} cannot grow: the disk is full {said}.")
    return LedgerFailed(
        f"The ledger is away, and the spool {path} could not be written {said}.",
        hint="Nothing was taken on; check the disk, then run `cix doctor`.",
    )
