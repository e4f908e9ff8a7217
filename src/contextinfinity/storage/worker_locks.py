"""A lock a worker: held while its process lives, free the moment it dies, whatever killed it.

The operating system lets go of a file lock when a process ends, so a free lock is proof of death, at once
and without a clock. A lock file that is not there counts as free.
"""

from __future__ import annotations

import errno
import fcntl
import os
from contextlib import suppress
from pathlib import Path

from contextinfinity.domain.ids import WorkerId
from contextinfinity.errors import LedgerFailed, LedgerFull, LedgerReadOnly
from contextinfinity.storage.folders import make_private
from contextinfinity.storage.journal.entries import FULL

UNWRITABLE = frozenset({errno.EROFS, errno.EACCES, errno.EPERM})
"""Why a folder will not take a file, however often that is tried."""


class WorkerLocks:
    """The locks of all workers of one ledger, as files in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._held: dict[WorkerId, int] = {}

    def hold(self, worker: WorkerId) -> None:
        """Take this process's lock."""
        path = self._path(worker)
        try:
            make_private(self._folder)
            handle = locked(path, os.O_CREAT)
            while handle is None or not is_at(handle, path):  # somebody who tidied up removed it under our hands
                handle = locked(path, os.O_CREAT)
        except OSError as error:
            kind = LedgerReadOnly if error.errno in UNWRITABLE else LedgerFull if error.errno in FULL else LedgerFailed
            raise kind(f"The folder {self._folder} cannot be written ({error.strerror}).") from error
        self._held[worker] = handle

    def release(self, worker: WorkerId) -> None:
        """Let go of it and remove its file. A lock of another process that is free is removed too."""
        path = self._path(worker)
        with suppress(FileNotFoundError, NotADirectoryError):
            handle = self._held.pop(worker, None) or locked(path)
            if handle is not None:  # removed only while we hold it, so that nobody else does
                if is_at(handle, path):
                    path.unlink()
                os.close(handle)

    def is_free(self, worker: WorkerId) -> bool:
        """Tell whether no process holds it."""
        if worker in self._held:
            return False
        try:
            handle = locked(self._path(worker))
        except (FileNotFoundError, NotADirectoryError):
            return True
        if handle is None:
            return False
        os.close(handle)
        return True

    def is_abandoned(self, worker: WorkerId) -> bool:
        """Return whether a worker of this folder left its lock file behind, and no process holds it."""
        return self._path(worker).exists() and self.is_free(worker)

    def release_all(self) -> None:
        """Let go of every lock this process holds."""
        for worker in list(self._held):
            self.release(worker)

    def stray(self, known: set[WorkerId]) -> list[Path]:
        """Name the free lock files of workers nobody knows: what a process that died while entering left."""
        files = self._folder.glob("*.lock") if self._folder.is_dir() else ()
        return sorted(path for path in files if path.stem not in known and self.is_free(path.stem))

    def _path(self, worker: WorkerId) -> Path:
        return self._folder / f"{worker}.lock"


class ProcessLocks:
    """The workers of a ledger in memory: one that this process did not enter, or that has left, is dead."""

    def __init__(self) -> None:
        self._held: set[WorkerId] = set()

    def hold(self, worker: WorkerId) -> None:
        """Note a worker as alive."""
        self._held.add(worker)

    def release(self, worker: WorkerId) -> None:
        """Note that a worker has left."""
        self._held.discard(worker)

    def is_free(self, worker: WorkerId) -> bool:
        """Return whether a worker is dead."""
        return worker not in self._held

    def release_all(self) -> None:
        """Note that all have left."""
        self._held.clear()


def locked(path: Path, flags: int = 0) -> int | None:
    """Open a lock file and lock it; None when somebody else has it."""
    handle = os.open(path, os.O_RDWR | os.O_CLOEXEC | flags, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        return None
    return handle


def is_at(handle: int, path: Path) -> bool:
    """Tell whether an open file is still the one of that name."""
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False
