"""All resources of the ``Store`` contract on one database; a backend's store derives from it."""

from __future__ import annotations

from contextinfinity.storage.contract import (
    Branches,
    Chunks,
    Contents,
    Jobs,
    Sessions,
    States,
    Tokens,
    Turns,
    Vectors,
    Workers,
)
from contextinfinity.storage.database import Database
from contextinfinity.storage.deletions import Deletions
from contextinfinity.storage.imports import ImportStore
from contextinfinity.storage.index import Index
from contextinfinity.storage.ledger.chunks import LedgerChunks
from contextinfinity.storage.ledger.contents import LedgerContents
from contextinfinity.storage.ledger.deletions import LedgerDeletions
from contextinfinity.storage.ledger.imports import LedgerImports
from contextinfinity.storage.ledger.index import LedgerIndex
from contextinfinity.storage.ledger.jobs import LedgerJobs
from contextinfinity.storage.ledger.memories import LedgerMemories
from contextinfinity.storage.ledger.prefix_hashes import LedgerPrefixHashes
from contextinfinity.storage.ledger.replay import LedgerReplay
from contextinfinity.storage.ledger.sessions import LedgerBranches, LedgerSessions
from contextinfinity.storage.ledger.states import LedgerStates
from contextinfinity.storage.ledger.tokens import LedgerTokens
from contextinfinity.storage.ledger.transfers import LedgerTransfers
from contextinfinity.storage.ledger.turns import LedgerTurns
from contextinfinity.storage.ledger.workers import LedgerWorkers, Liveness
from contextinfinity.storage.memories import Memories
from contextinfinity.storage.prefix_hashes import PrefixHashStore
from contextinfinity.storage.replay import ReplayStore
from contextinfinity.storage.transfers import TransferStore


class LedgerStore:
    """The resources. A backend supplies the database, its vectors, and the liveness check for workers."""

    def __init__(self, database: Database, vectors: Vectors, liveness: Liveness) -> None:
        self.sessions: Sessions = LedgerSessions(database)
        self.branches: Branches = LedgerBranches(database)
        self.turns: Turns = LedgerTurns(database)
        self.arrivals: ImportStore = LedgerImports(database)
        self.states: States = LedgerStates(database)
        self.chunks: Chunks = LedgerChunks(database)
        self.index: Index = LedgerIndex(database)
        self.vectors: Vectors = vectors
        self.memories: Memories = LedgerMemories(database)
        self.contents: Contents = LedgerContents(database)
        self.jobs: Jobs = LedgerJobs(database)
        self.workers: Workers = LedgerWorkers(database, liveness)
        self.landings: ReplayStore = LedgerReplay(database)
        self.deletions: Deletions = LedgerDeletions(database)
        self.tokens: Tokens = LedgerTokens(database)
        self.transfers: TransferStore = LedgerTransfers(database)
        self.trails: PrefixHashStore = LedgerPrefixHashes(database)
