"""All resources of the ``Store`` contract on one database; a backend's store derives from it."""

from __future__ import annotations

from contextinfinity.storage.contract import Vectors
from contextinfinity.storage.database import Database
from contextinfinity.storage.journal.shared import SharedJournals
from contextinfinity.storage.ledger.chunks import Chunks
from contextinfinity.storage.ledger.contents import Contents
from contextinfinity.storage.ledger.deletions import Deletions
from contextinfinity.storage.ledger.imports import ImportStore
from contextinfinity.storage.ledger.index import Index
from contextinfinity.storage.ledger.jobs import Jobs
from contextinfinity.storage.ledger.memories import Memories
from contextinfinity.storage.ledger.prefix_hashes import PrefixHashStore
from contextinfinity.storage.ledger.replay import ReplayStore
from contextinfinity.storage.ledger.sessions import Branches, Sessions
from contextinfinity.storage.ledger.states import States
from contextinfinity.storage.ledger.tokens import Tokens
from contextinfinity.storage.ledger.transfers import TransferStore
from contextinfinity.storage.ledger.turns import Turns
from contextinfinity.storage.ledger.workers import Liveness, Workers


class LedgerStore:
    """The resources. A backend supplies the database, its vectors, and the liveness check for workers."""

    def __init__(self, database: Database, vectors: Vectors, liveness: Liveness) -> None:
        self.sessions = Sessions(database)
        self.branches = Branches(database)
        self.turns = Turns(database)
        self.imports = ImportStore(database)
        self.states = States(database)
        self.chunks = Chunks(database)
        self.index = Index(database)
        self.vectors: Vectors = vectors
        self.memories = Memories(database)
        self.contents = Contents(database)
        self.jobs = Jobs(database)
        self.workers = Workers(database, liveness)
        self.replays = ReplayStore(database)
        self.deletions = Deletions(database)
        self.tokens = Tokens(database)
        self.transfers = TransferStore(database)
        self.prefix_hashes = PrefixHashStore(database)
        self.journals: SharedJournals | None = None
