"""The SQLite ledger: all nouns on one file."""

from __future__ import annotations

import asyncio
from pathlib import Path

from contextinfinity.storage.contract import Branches, Chunks, Sessions, States, Turns
from contextinfinity.storage.sqlite.chunks import SqliteChunks
from contextinfinity.storage.sqlite.database import Database
from contextinfinity.storage.sqlite.sessions import SqliteBranches, SqliteSessions
from contextinfinity.storage.sqlite.states import SqliteStates
from contextinfinity.storage.sqlite.turns import SqliteTurns


class SqliteStore:
    """``Store`` on a SQLite file. ``vfs`` names another way to reach the disk; tests use it to break one."""

    sessions: Sessions
    branches: Branches
    turns: Turns
    states: States
    chunks: Chunks

    def __init__(self, path: Path, *, vfs: str | None = None) -> None:
        self.database = Database(path, vfs=vfs)
        self.sessions = SqliteSessions(self.database)
        self.branches = SqliteBranches(self.database)
        self.turns = SqliteTurns(self.database)
        self.states = SqliteStates(self.database)
        self.chunks = SqliteChunks(self.database)

    async def close(self) -> None:
        """Finish what was asked for, then close the file."""
        await asyncio.get_running_loop().run_in_executor(None, self.database.close)
