"""The ledger in a SQLite file, or in memory."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from pathlib import Path

from contextinfinity.domain.store_health import StoreHealth
from contextinfinity.errors import LedgerError
from contextinfinity.storage.contract import Store
from contextinfinity.storage.encryption.folder_swap import lock_shared
from contextinfinity.storage.folders import make_private
from contextinfinity.storage.sqlite.connection import BUSY_SECONDS
from contextinfinity.storage.sqlite.database import MemoryDatabase, SqliteDatabase
from contextinfinity.storage.sqlite.vector_table import SqliteVectors
from contextinfinity.storage.worker_locks import ProcessLocks, WorkerLocks


class SqliteStore(Store):
    """``Store`` on a SQLite file; without a path in memory, for this process and until it is closed.

    ``vfs`` names a SQLite VFS; tests use it to inject disk faults. ``patience`` is the lock timeout in seconds, after
    which ``LedgerBusy`` is raised. ``unwritable``: why the ledger can only be read; every write raises it. ``data_dir``
    is the folder with the ledger's identity file.
    """

    def __init__(
        self,
        path: Path | None,
        *,
        vfs: str | None = None,
        patience: float = BUSY_SECONDS,
        unwritable: LedgerError | None = None,
        data_dir: Path | None = None,
    ) -> None:
        self.database: SqliteDatabase
        self._use: int | None = None
        """The lock that keeps others from replacing the files of the data_dir."""
        self._locks: WorkerLocks | ProcessLocks
        if path is None:
            self.database, self._locks, folder = MemoryDatabase(), ProcessLocks(), None
        else:
            self._use = None if data_dir is None else _use(data_dir)
            try:
                self.database = SqliteDatabase(
                    path, vfs=vfs, patience=patience, unwritable=unwritable, data_dir=data_dir
                )
            except BaseException:
                self._end_use()
                raise
            self._locks, folder = WorkerLocks(path.parent / "workers"), path.parent / "vectors"
        super().__init__(self.database, SqliteVectors(self.database, folder), self._locks)

    def blocked_seconds(self, *, reading: bool = False) -> float:
        """Return for how many seconds this process has waited for a lock while its holder wrote nothing.

        While other processes commit, the ledger is available, and this process gets the lock in turn.
        """
        waited = (self.database.reading_waits if reading else self.database.writing_waits).longest()
        return waited if reading or not waited else min(waited, self.database.still_for())

    def health(self) -> StoreHealth:
        """Return whether the file is still at its path and accepts writes; heartbeats try every few seconds."""
        try:
            self.database.check_place()
        except LedgerError as lost:
            return StoreHealth(status="degraded", reason=str(lost))
        refused = self.database.refused
        return StoreHealth() if refused is None else StoreHealth(status="degraded", reason=str(refused))

    async def close(self) -> None:
        """Finish pending work, then close the file."""
        await asyncio.get_running_loop().run_in_executor(None, self.database.close)
        self._locks.release_all()
        self._end_use()

    def _end_use(self) -> None:
        if self._use is not None:
            os.close(self._use)
            self._use = None


def _use(data_dir: Path) -> int | None:
    with suppress(OSError):  # files on a read-only medium are not replaced
        make_private(data_dir)
    return lock_shared(data_dir)
