"""The storage contract: what a ``Store`` consists of, and the rules that hold for every resource of it.

Each resource is a class of ``storage.ledger``, which has each method once for all databases; its docstrings are the
specification. Only ``Vectors`` are the backend's own. Each method is one transaction. It is atomic, and durable when it
returns. These rules apply to all methods:

- **unknown ids**: a read returns None or an empty tuple; a write raises ``NotFound``. Reads never create anything.
- **repeated calls**: ``create`` and ``accept`` take the id of the new object. If it exists with the same content, they
  return it; if it exists with other content, they raise ``AlreadyExists``. ``create`` compares owner, external_id and
  kind; ``accept`` compares branch and message. A turn is committed and indexed once.
- **fencing**: a write to a running turn names its owner. It raises ``TurnLost`` if another worker owns the turn, and
  ``WrongPhase`` if the turn is not in the expected phase; nothing is written then.
- **immutability**: messages never change; database triggers enforce this. The last turn of a branch, if it was recorded
  without an answer, may get one once (``Turns.log``).

The transactions of a turn are called TX-0 (``Turns.accept``), TX-P (``Turns.open_step``), TX-A (``Turns.finalise``),
TX-B (``States.commit``) and TX-C (``Chunks.index``).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Protocol

from contextinfinity.domain.ids import ChunkId
from contextinfinity.domain.search import Chunk, Namespace, Scope, VectorHit
from contextinfinity.domain.store_health import StoreHealth
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


class Vectors(Protocol):
    """Vectors of chunks, at most one per chunk and namespace, and nearest-neighbour search.

    A namespace holds the vectors of one embedder. Searches use the current namespace. After a change of the embedder a
    second namespace is filled and becomes current when it is complete, so searches keep working and never compare
    vectors of two embedders. Vectors are bytes, as ``domain.vectors`` packs them.
    """

    async def near(self, vector: bytes, namespace: str, scope: Scope, *, most: int = 128) -> tuple[VectorHit, ...]:
        """Return the chunks with the nearest vectors, nearest first. Raises ``InvalidInput`` for a wrong dimension."""
        ...

    async def bodies(self, namespace: str, chunk_ids: Sequence[ChunkId]) -> tuple[bytes | None, ...]:
        """Return the vectors of chunks; None for a chunk without a vector in the namespace."""
        ...

    async def namespaces(self) -> tuple[Namespace, ...]:
        """Return all namespaces, the current one first."""
        ...

    async def open(self, name: str, dim: int) -> Namespace:
        """Return the namespace with that name; create it if needed.

        The first namespace is current at once; any other has to be filled first, also one that was current before.
        Raises ``InvalidInput`` if it exists with another dimension.
        """
        ...

    async def unplaced(self, namespace: str, *, limit: int = 256) -> tuple[Chunk, ...]:
        """Return chunks without a vector in the namespace, oldest first."""
        ...

    async def place(self, namespace: str, vectors: Sequence[tuple[ChunkId, bytes]]) -> None:
        """Add vectors. Existing vectors are kept, and deleted chunks are skipped."""
        ...

    async def switch(self, namespace: str) -> bool:
        """Make a namespace current and mark the previous one as old; return False if it still lacks vectors."""
        ...

    async def drop_old(self, *, limit: int = 1000) -> int:
        """Delete a batch of vectors of old namespaces; return how many."""
        ...

    async def build(self) -> bool:
        """Build the nearest-neighbour index of large namespaces where it is due; return whether one was built.

        This may take minutes and runs in the background. Searches work without the index and never wait for it.
        """
        ...


class Store(ABC):
    """A ledger. Open it once per process and close it at the end; both are fast at any size.

    A backend supplies the database, its vectors, and the liveness check for workers.
    """

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
        """Where journals are shared with other hosts; None: one host alone uses the ledger."""

    @abstractmethod
    def blocked_seconds(self, *, reading: bool = False) -> float:
        """Return for how many seconds another process has blocked writes (or reads) of this one; 0 if none does."""

    @abstractmethod
    def health(self) -> StoreHealth:
        """Return whether the ledger is available and has everything that was acknowledged."""

    @abstractmethod
    async def close(self) -> None:
        """Finish pending writes, then close the files. Closing twice does nothing."""
