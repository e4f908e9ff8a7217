"""A lock a worker: held while its process lives, free the moment it dies, whatever killed it.

The operating system lets go of a file lock when a process ends, so a free lock is proof of death, at once
and without a clock. A lock file that is not there counts as free.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path

from contextinfinity.domain.ids import WorkerId
from contextinfinity.errors import LedgerReadOnly


class WorkerLocks:
    """The locks of all workers of one ledger, as files in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._held: dict[WorkerId, int] = {}

    def hold(self, worker: WorkerId) -> None:
        """Take this process's lock."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            handle = os.open(self._path(worker), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise LedgerReadOnly(f"The folder {self._folder} cannot be written ({error.strerror}).") from error
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self._held[worker] = handle

    def release(self, worker: WorkerId) -> None:
        """Let go of it and remove its file. A lock of another process that is free is removed too."""
        if worker not in self._held and not self.is_free(worker):
            return
        with suppress(FileNotFoundError):
            self._path(worker).unlink()
        if (handle := self._held.pop(worker, None)) is not None:
            os.close(handle)

    def is_free(self, worker: WorkerId) -> bool:
        """Tell whether no process holds it."""
        if worker in self._held:
            return False
        try:
            handle = os.open(self._path(worker), os.O_RDWR | os.O_CLOEXEC)
        except (FileNotFoundError, NotADirectoryError):
            return True
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        finally:
            os.close(handle)
        return True

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
