"""``Vectors`` of the contract in SQLite. ``vector_writes`` writes them, ``vector_search`` searches them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from contextinfinity.domain.ids import ChunkId
from contextinfinity.domain.search import HEAD, Scope, VectorHit
from contextinfinity.storage.database import Connection, StoreResource, looks, reads, writes
from contextinfinity.storage.invariants import check_vector, row_limit
from contextinfinity.storage.ledger.namespaces import (
    Space,
    find_space,
    list_namespaces,
    list_unplaced,
    must_space,
    open_namespace,
    switch_to,
)
from contextinfinity.storage.ledger.rows import pack
from contextinfinity.storage.sqlite.database import SqliteDatabase
from contextinfinity.storage.sqlite.vector_writes import drop_old, put_vectors

if TYPE_CHECKING:
    from contextinfinity.storage.sqlite.vector_search import VectorSearch


def read_bodies(connection: Connection, namespace: str, chunk_ids: Sequence[ChunkId]) -> tuple[bytes | None, ...]:
    """Read the vectors of chunks."""
    space = find_space(connection, namespace)
    if space is None:
        return (None,) * len(chunk_ids)
    return _bodies(connection, space, chunk_ids)


def place_vectors(connection: Connection, namespace: str, vectors: Sequence[tuple[ChunkId, bytes]]) -> None:
    """Add vectors. Existing vectors are kept, and deleted chunks are skipped."""
    space = must_space(connection, namespace)
    by_session: dict[bytes, list[tuple[int, bytes]]] = {}
    for chunk_id, body in vectors:
        check_vector(namespace, space.dim, body)
        row = connection.one("select_chunk_place", (pack(chunk_id),))
        if row is not None:
            by_session.setdefault(row[1], []).append((row[0], body))
    for session_id, bodies in by_session.items():
        put_vectors(connection, session_id, namespace, bodies)


class _Pack(NamedTuple):
    """A decoded pack."""

    keys: list[int]
    bodies: bytes

    def body(self, key: int, size: int) -> bytes | None:
        """Return the vector of a key."""
        if key not in self.keys:
            return None
        slot = self.keys.index(key)
        return self.bodies[slot * size : (slot + 1) * size]


_NO_PACK = _Pack([], b"")


def _bodies(connection: Connection, space: Space, chunk_ids: Sequence[ChunkId]) -> tuple[bytes | None, ...]:
    """Return the vectors of chunks; reads in order of age, so that each pack is read once."""
    found: list[bytes | None] = [None] * len(chunk_ids)
    values = {"namespace": space.key, "chunks": json.dumps([pack(chunk_id).hex() for chunk_id in chunk_ids])}
    packs: dict[bytes, _Pack] = {}
    for place, key, session_id, loose in connection.many("select_vectors", values):
        if loose is None and key not in packs.get(session_id, _NO_PACK).keys:
            packs[session_id] = _pack_of(connection, space, session_id, key)
        found[place] = loose if loose is not None else packs[session_id].body(key, HEAD + space.dim)
    return tuple(found)


def _pack_of(connection: Connection, space: Space, session_id: bytes, key: int) -> _Pack:
    row = connection.one("select_pack_of", (space.key, session_id, key))
    return _NO_PACK if row is None else _Pack(msgspec.json.decode(row[1], type=list[int]), row[2])


class SqliteVectors(StoreResource):
    """``Vectors`` on SQLite. HNSW files are in ``folder`` and can be deleted at any time.

    An in-memory ledger has none. ``least``: namespaces up to this size are searched without such a file.
    """

    bodies = reads(read_bodies)
    namespaces = looks(list_namespaces)
    open = writes(open_namespace)
    unplaced = reads(list_unplaced)
    place = writes(place_vectors, bulk=True)
    switch = writes(switch_to)

    def __init__(self, database: SqliteDatabase, folder: Path | None, *, least: int = 50_000) -> None:
        super().__init__(database)
        self._sqlite = database
        self._folder = folder
        self._least = least
        self._search: VectorSearch | None = None

    async def drop_old(self, *, limit: int = 1000) -> int:
        """Delete a batch of vectors of old namespaces; without any, nothing is committed."""
        if await self._sqlite.look(lambda connection: connection.one("select_old")) is None:
            return 0
        return await self._sqlite.write(lambda connection: drop_old(connection, row_limit(limit)))

    async def near(self, vector: bytes, namespace: str, scope: Scope, *, most: int = 128) -> tuple[VectorHit, ...]:
        """Return the chunks with the nearest vectors."""

        def find(connection: Connection) -> tuple[VectorHit, ...]:
            space = find_space(connection, namespace)
            if space is None:
                return ()
            check_vector(namespace, space.dim, vector)
            return self._searching().near(connection, vector, space, scope, row_limit(most))

        return await self._database.read(find)

    def _searching(self) -> VectorSearch:
        """Return the search, imported when it is first needed."""
        if self._search is None:
            from contextinfinity.storage.sqlite.vector_search import VectorSearch

            self._search = VectorSearch(self._sqlite, self._folder, self._least)
        return self._search

    async def build(self) -> bool:
        """Build HNSW files of large namespaces where they are due."""
        generations = self._searching().generations
        return generations is not None and await asyncio.to_thread(generations.build)
