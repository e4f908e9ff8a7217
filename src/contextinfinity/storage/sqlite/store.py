"""The SQLite ledger: all nouns on one file."""

from __future__ import annotations

import asyncio
from pathlib import Path

from contextinfinity.domain.health import Health
from contextinfinity.errors import LedgerError
from contextinfinity.storage.arrivals import Arrivals
from contextinfinity.storage.contract import Branches, Chunks, Contents, Jobs, Sessions, States, Turns, Workers
from contextinfinity.storage.deletions import Deletions
from contextinfinity.storage.index import Index
from contextinfinity.storage.landings import Landings
from contextinfinity.storage.memories import Memories
from contextinfinity.storage.sqlite.arrivals import SqliteArrivals
from contextinfinity.storage.sqlite.chunks import SqliteChunks
from contextinfinity.storage.sqlite.connection import BUSY_SECONDS
from contextinfinity.storage.sqlite.content import SqliteContents
from contextinfinity.storage.sqlite.database import Database
from contextinfinity.storage.sqlite.deletions import SqliteDeletions
from contextinfinity.storage.sqlite.index import SqliteIndex
from contextinfinity.storage.sqlite.jobs import SqliteJobs
from contextinfinity.storage.sqlite.landing import SqliteLandings
from contextinfinity.storage.sqlite.memories import SqliteMemories
from contextinfinity.storage.sqlite.sessions import SqliteBranches, SqliteSessions
from contextinfinity.storage.sqlite.states import SqliteStates
from contextinfinity.storage.sqlite.tokens import SqliteTokens
from contextinfinity.storage.sqlite.trails import SqliteTrails
from contextinfinity.storage.sqlite.turns import SqliteTurns
from contextinfinity.storage.sqlite.vectors import SqliteVectors
from contextinfinity.storage.sqlite.workers import SqliteWorkers
from contextinfinity.storage.tokens import Tokens
from contextinfinity.storage.trails import Trails
from contextinfinity.storage.vectors import Vectors
from contextinfinity.storage.worker_locks import WorkerLocks


class SqliteStore:
    """``Store`` on a SQLite file.

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
        path: Path,
        *,
        vfs: str | None = None,
        patience: float = BUSY_SECONDS,
        read_only: bool = False,
        data_dir: Path | None = None,
    ) -> None:
        self.database = Database(path, vfs=vfs, patience=patience, read_only=read_only, data_dir=data_dir)
        self.sessions = SqliteSessions(self.database)
        self.branches = SqliteBranches(self.database)
        self.turns = SqliteTurns(self.database)
        self.arrivals = SqliteArrivals(self.database)
        self.states = SqliteStates(self.database)
        self.chunks = SqliteChunks(self.database)
        self.index = SqliteIndex(self.database)
        self.vectors = SqliteVectors(self.database, path.parent / "vectors")
        self.memories = SqliteMemories(self.database)
        self.contents = SqliteContents(self.database)
        self.jobs = SqliteJobs(self.database)
        self.deletions = SqliteDeletions(self.database)
        self.tokens = SqliteTokens(self.database)
        self.trails = SqliteTrails(self.database)
        self._locks = WorkerLocks(path.parent / "workers")
        self.workers = SqliteWorkers(self.database, self._locks)
        self.landings = SqliteLandings(self.database)

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
