"""The ledger in a PostgreSQL database."""

from __future__ import annotations

import asyncio
from pathlib import Path

from contextinfinity.domain.ids import WorkerId
from contextinfinity.domain.store_health import StoreHealth
from contextinfinity.storage.contract import Store
from contextinfinity.storage.database import Connection, Database
from contextinfinity.storage.journal.shared import SharedJournals
from contextinfinity.storage.ledger.jobs import Jobs
from contextinfinity.storage.ledger.replay import ReplayStore
from contextinfinity.storage.ledger.tokens import Tokens
from contextinfinity.storage.ledger.workers import Workers, known_workers
from contextinfinity.storage.postgres.database import PostgresDatabase
from contextinfinity.storage.postgres.journal_rows import JournalRows
from contextinfinity.storage.postgres.vector_table import PostgresVectors
from contextinfinity.storage.worker_locks import WorkerLocks

LEASE_SECONDS = 20
"""A worker without a heartbeat for so long, by the server's clock, is dead."""


class LeasedWorkers(Workers):
    """Workers of any number of hosts: alive while their lease lasts.

    A worker of this data_dir that died is known at once: its lock file is there, and free.
    """

    def __init__(self, database: Database, locks: WorkerLocks) -> None:
        super().__init__(database, locks)
        self._files = locks

    async def dead(self) -> tuple[WorkerId, ...]:
        """Name the workers known to be dead."""

        def read(connection: Connection) -> tuple[set[WorkerId], set[WorkerId]]:
            live = {name for (name,) in connection.many("select_live_workers", (LEASE_SECONDS,))}
            return known_workers(connection), live

        known, live = await self._database.read(read)
        return tuple(sorted(name for name in known if name not in live or self._files.is_abandoned(name)))


class PostgresStore(Store):
    """``Store`` on a PostgreSQL database; ``data_dir`` is where this host keeps its workers' lock files.

    With ``serving_url``, what acts for an owner runs as that role, under row-level security. Jobs, workers, tokens and
    the replay of spooled turns belong to no owner.
    """

    def __init__(self, url: str, data_dir: Path, *, serving_url: str | None = None) -> None:
        self.database = PostgresDatabase(url, serving_url)
        self._locks = WorkerLocks(data_dir / "workers")
        super().__init__(self.database, PostgresVectors(self.database), self._locks)
        everybody = self.database.maintenance
        self.workers: Workers = LeasedWorkers(everybody, self._locks)
        self.jobs: Jobs = Jobs(everybody)
        self.tokens: Tokens = Tokens(everybody)
        self.replays: ReplayStore = ReplayStore(everybody)
        self._journal_rows = JournalRows(self.database)
        self.journals: SharedJournals | None = self._journal_rows

    def blocked_seconds(self, *, reading: bool = False) -> float:
        """Return for how many seconds the server has given no sign while this process waits for it."""
        return self.database.silence.seconds()

    def health(self) -> StoreHealth:
        """Return whether the database takes writes."""
        refused = self.database.refused
        return StoreHealth() if refused is None else StoreHealth(status="degraded", reason=str(refused))

    async def close(self) -> None:
        """Finish what was asked for, then close the connections."""
        run = asyncio.get_running_loop().run_in_executor
        await run(None, self._journal_rows.close)
        await run(None, self.database.close)
        self._locks.release_all()
