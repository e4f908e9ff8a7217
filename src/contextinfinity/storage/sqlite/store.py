"""The SQLite ledger: all nouns on one file."""

from __future__ import annotations

import asyncio
from pathlib import Path

from contextinfinity.domain.health import Health
from contextinfinity.errors import LedgerError
from contextinfinity.storage.contract import Branches, Chunks, Contents, Jobs, Sessions, States, Turns, Workers
from contextinfinity.storage.deletions import Deletions
from contextinfinity.storage.imports import Arrivals
from contextinfinity.storage.index import Index
from contextinfinity.storage.ledger.chunks import LedgerChunks
from contextinfinity.storage.ledger.contents import LedgerContents
from contextinfinity.storage.ledger.deletions import LedgerDeletions
from contextinfinity.storage.ledger.imports import LedgerArrivals
from contextinfinity.storage.ledger.index import LedgerIndex
from contextinfinity.storage.ledger.jobs import LedgerJobs
from contextinfinity.storage.ledger.memories import LedgerMemories
from contextinfinity.storage.ledger.prefix_hashes import LedgerTrails
from contextinfinity.storage.ledger.replay import LedgerLandings
from contextinfinity.storage.ledger.sessions import LedgerBranches, LedgerSessions
from contextinfinity.storage.ledger.states import LedgerStates
from contextinfinity.storage.ledger.tokens import LedgerTokens
from contextinfinity.storage.ledger.turns import LedgerTurns
from contextinfinity.storage.ledger.workers import LedgerWorkers
from contextinfinity.storage.memories import Memories
from contextinfinity.storage.prefix_hashes import Trails
from contextinfinity.storage.replay import Landings
from contextinfinity.storage.sqlite.connection import BUSY_SECONDS
from contextinfinity.storage.sqlite.database import SqliteDatabase
from contextinfinity.storage.sqlite.memory import MemoryDatabase
from contextinfinity.storage.sqlite.vectors import SqliteVectors
from contextinfinity.storage.tokens import Tokens
from contextinfinity.storage.vectors import Vectors
from contextinfinity.storage.worker_locks import ProcessLocks, WorkerLocks


class SqliteStore:
    """``Store`` on a SQLite file; without a path in memory, for this process and until it is closed.

    ``vfs`` names another way to reach the disk; tests use it to break one. ``patience`` is how many seconds to wait
    for another process that holds the lock, before ``LedgerBusy``. ``read_only``: every write is ``LedgerReadOnly``.
    ``data_dir`` is the folder that remembers which ledger it holds.
    """

    sessions: Sessions
    branches: Branches
    turns: Turns
    arrivals: Arrivals
    states: States
    chunks: Chunks
    index: Index
    vectors: Vectors
    memories: Memories
    contents: Contents
    jobs: Jobs
    workers: Workers
    landings: Landings
    deletions: Deletions
    tokens: Tokens
    trails: Trails

    def __init__(
        self,
        path: Path | None,
        *,
        vfs: str | None = None,
        patience: float = BUSY_SECONDS,
        read_only: bool = False,
        data_dir: Path | None = None,
    ) -> None:
        folder = None if path is None else path.parent
        if path is None:
            self.database: SqliteDatabase = MemoryDatabase()
        else:
            self.database = SqliteDatabase(path, vfs=vfs, patience=patience, read_only=read_only, data_dir=data_dir)
        self.sessions = LedgerSessions(self.database)
        self.branches = LedgerBranches(self.database)
        self.turns = LedgerTurns(self.database)
        self.arrivals = LedgerArrivals(self.database)
        self.states = LedgerStates(self.database)
        self.chunks = LedgerChunks(self.database)
        self.index = LedgerIndex(self.database)
        self.vectors = SqliteVectors(self.database, folder and folder / "vectors")
        self.memories = LedgerMemories(self.database)
        self.contents = LedgerContents(self.database)
        self.jobs = LedgerJobs(self.database)
        self.deletions = LedgerDeletions(self.database)
        self.tokens = LedgerTokens(self.database)
        self.trails = LedgerTrails(self.database)
        self._locks: WorkerLocks | ProcessLocks = ProcessLocks() if folder is None else WorkerLocks(folder / "workers")
        self.workers = LedgerWorkers(self.database, self._locks)
        self.landings = LedgerLandings(self.database)

    def held_up(self, *, reading: bool = False) -> float:
        """Tell for how many seconds another process has held the lock that is waited for here, and written nothing.

        Where others commit, the ledger is there: their turn comes, and so does ours.
        """
        waited = (self.database.reading_waits if reading else self.database.writing_waits).longest()
        return waited if reading or not waited else min(waited, self.database.still_for())

    def health(self) -> Health:
        """Say whether the file is still where it was, and takes writes: heartbeats try every few seconds."""
        try:
            self.database.check_place()
        except LedgerError as lost:
            return Health(status="degraded", reason=str(lost))
        refused = self.database.refused
        return Health() if refused is None else Health(status="degraded", reason=str(refused))

    async def close(self) -> None:
        """Finish what was asked for, then close the file."""
        await asyncio.get_running_loop().run_in_executor(None, self.database.close)
        self._locks.release_all()
