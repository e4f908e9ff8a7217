"""One file lock per worker, held while its process lives.

The operating system releases a file lock when its process ends, however it ends. A free lock, or a missing lock file,
therefore proves that the worker is dead, at once and without a timeout.
"""

from __future__ import annotations

import errno
import fcntl
import os
import time
from contextlib import suppress
from pathlib import Path

from contextinfinity.domain.ids import WorkerId
from contextinfinity.errors import LedgerFailed, LedgerFull, LedgerReadOnly
from contextinfinity.storage.folders import make_private
from contextinfinity.storage.journal.journal_reader import FULL

UNWRITABLE = frozenset({errno.EROFS, errno.EACCES, errno.EPERM})
"""Errors for which creating a file in the folder is not retried."""


LOOKS, MOMENT = 4, 0.005
"""How often a lock that seems stray is looked at again, and after how many seconds."""


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
            while handle is None or not is_at(handle, path):  # a concurrent clean-up removed it
                handle = locked(path, os.O_CREAT)
        except OSError as error:
            kind = LedgerReadOnly if error.errno in UNWRITABLE else LedgerFull if error.errno in FULL else LedgerFailed
            raise kind(f"The folder {self._folder} cannot be written ({error.strerror}).") from error
        self._held[worker] = handle

    def release(self, worker: WorkerId) -> None:
        """Release the lock and remove its file; also removes the free lock file of another process."""
        path = self._path(worker)
        with suppress(FileNotFoundError, NotADirectoryError):
            handle = self._held.pop(worker, None) or locked(path)
            if handle is not None:  # remove it only while holding it
                if is_at(handle, path):
                    path.unlink()
                os.close(handle)

    def is_free(self, worker: WorkerId) -> bool:
        """Return whether no process holds the worker's lock."""
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
        return self.is_free(worker) and self._path(worker).exists()  # in this order: a released lock file is gone

    def release_all(self) -> None:
        """Release every lock this process holds."""
        for worker in list(self._held):
            self.release(worker)

    def stray(self, known: set[WorkerId]) -> list[Path]:
        """Return free lock files of unknown workers, left by processes that died while registering."""
        files = self._folder.glob("*.lock") if self._folder.is_dir() else ()
        found = sorted(path for path in files if path.stem not in known and self.is_abandoned(path.stem))
        for _ in range(LOOKS if found else 0):  # a process that registers creates its file a moment before it locks it
            time.sleep(MOMENT)
            found = [path for path in found if self.is_abandoned(path.stem)]
        return found

    def _path(self, worker: WorkerId) -> Path:
        return self._folder / f"{worker}.lock"


class ProcessLocks:
    """The workers of a ledger in memory: one that this process did not enter, or that has left, is dead."""

    def __init__(self) -> None:
        self._held: set[WorkerId] = set()

    def hold(self, worker: WorkerId) -> None:
        """Mark a worker as alive."""
        self._held.add(worker)

    def release(self, worker: WorkerId) -> None:
        """Mark a worker as gone."""
        self._held.discard(worker)

    def is_free(self, worker: WorkerId) -> bool:
        """Return whether a worker is dead."""
        return worker not in self._held

    def release_all(self) -> None:
        """Mark all workers as gone."""
        self._held.clear()


def locked(path: Path, flags: int = 0) -> int | None:
    """Open a lock file and lock it; return None if another process holds it."""
    handle = os.open(path, os.O_RDWR | os.O_CLOEXEC | flags, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        return None
    return handle


def is_at(handle: int, path: Path) -> bool:
    """Return whether an open file is still the one at that path."""
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False
