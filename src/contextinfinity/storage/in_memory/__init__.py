"""A ledger in plain dicts, for tests and for conversations nobody wants to keep.

It follows the contract to the letter and forgets everything when the process ends. Values are frozen, so
they are handed out as they are, without copies.
"""

from __future__ import annotations

from contextinfinity.domain.health import Health
from contextinfinity.storage.arrivals import Arrivals
from contextinfinity.storage.contract import Branches, Chunks, Contents, Jobs, Sessions, States, Turns, Workers
from contextinfinity.storage.deletions import Deletions
from contextinfinity.storage.in_memory.arrivals import InMemoryArrivals
from contextinfinity.storage.in_memory.branches import InMemoryBranches
from contextinfinity.storage.in_memory.chunks import InMemoryChunks
from contextinfinity.storage.in_memory.contents import InMemoryContents
from contextinfinity.storage.in_memory.deletions import InMemoryDeletions
from contextinfinity.storage.in_memory.index import InMemoryIndex
from contextinfinity.storage.in_memory.jobs import InMemoryJobs
from contextinfinity.storage.in_memory.landing import InMemoryLandings
from contextinfinity.storage.in_memory.memories import InMemoryMemories
from contextinfinity.storage.in_memory.sessions import InMemorySessions
from contextinfinity.storage.in_memory.states import InMemoryStates
from contextinfinity.storage.in_memory.tables import Tables
from contextinfinity.storage.in_memory.tokens import InMemoryTokens
from contextinfinity.storage.in_memory.trails import InMemoryTrails
from contextinfinity.storage.in_memory.turns import InMemoryTurns
from contextinfinity.storage.in_memory.vectors import InMemoryVectors
from contextinfinity.storage.in_memory.workers import InMemoryWorkers
from contextinfinity.storage.index import Index
from contextinfinity.storage.landings import Landings
from contextinfinity.storage.memories import Memories
from contextinfinity.storage.tokens import Tokens
from contextinfinity.storage.trails import Trails
from contextinfinity.storage.vectors import Vectors


class InMemoryStore:
    """A ``Store`` for one process; any number of threads may share it."""

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
    tokens: Tokens
    trails: Trails
    landings: Landings
    deletions: Deletions

    def __init__(self, tables: Tables | None = None) -> None:
        self._tables = tables or Tables()
        self.sessions = InMemorySessions(self._tables)
        self.branches = InMemoryBranches(self._tables)
        self.turns = InMemoryTurns(self._tables)
        self.arrivals = InMemoryArrivals(self._tables)
        self.states = InMemoryStates(self._tables)
        self.chunks = InMemoryChunks(self._tables)
        self.index = InMemoryIndex(self._tables)
        self.vectors = InMemoryVectors(self._tables)
        self.memories = InMemoryMemories(self._tables)
        self.contents = InMemoryContents(self._tables)
        self.jobs = InMemoryJobs(self._tables)
        self.workers = InMemoryWorkers(self._tables)
        self.tokens = InMemoryTokens(self._tables)
        self.trails = InMemoryTrails(self._tables)
        self.landings = InMemoryLandings(self._tables)
        self.deletions = InMemoryDeletions(self._tables)

    def held_up(self, *, reading: bool = False) -> float:
        """Nobody ever is: there is one process."""
        return 0.0

    def health(self) -> Health:
        """Say that all is well: what fails here is told to its caller."""
        return Health()

    async def close(self) -> None:
        """Refuse everything from now on. Closing twice does nothing."""
        self._tables.close()


__all__ = ["InMemoryStore"]
