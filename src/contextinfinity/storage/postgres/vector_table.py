"""Vectors in PostgreSQL: the noun.

Within a session, and for an owner with not very many, all vectors are compared in memory, as on SQLite. ``build`` makes
an HNSW index of pgvector for each owner with more.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, cast

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
from contextinfinity.storage.postgres.database import PostgresDatabase
from contextinfinity.storage.postgres.named_sql import PostgresConnection
from contextinfinity.storage.postgres.vector_writes import drop_old, put_vectors

if TYPE_CHECKING:
    from contextinfinity.storage.ledger.matrices import Bodies, Keys, Matrices, MatrixOwner
    from contextinfinity.storage.postgres.vector_graphs import VectorGraphs

log = logging.getLogger(__name__)

_READ = 16_384  # rows that are put together at a time


def read_bodies(connection: Connection, namespace: str, chunk_ids: Sequence[ChunkId]) -> tuple[bytes | None, ...]:
    """Read the vectors of chunks."""
    space = find_space(connection, namespace)
    found: list[bytes | None] = [None] * len(chunk_ids)
    if space is not None:
        values = {"namespace": space.key, "chunks": json.dumps([pack(chunk_id).hex() for chunk_id in chunk_ids])}
        for place, body in connection.many("select_vectors", values):
            found[place] = body
    return tuple(found)


def place_vectors(connection: Connection, namespace: str, vectors: Sequence[tuple[ChunkId, bytes]]) -> None:
    """Add vectors; a chunk that has one there keeps it, one that is gone is passed over."""
    space = must_space(connection, namespace)
    by_session: dict[bytes, list[tuple[int, bytes]]] = {}
    for chunk_id, body in vectors:
        check_vector(namespace, space.dim, body)
        row = connection.one("select_chunk_place", (pack(chunk_id),))
        if row is not None:
            by_session.setdefault(row[1], []).append((row[0], body))
    for session_id, bodies in by_session.items():
        put_vectors(connection, session_id, namespace, bodies)


def newer(connection: Connection, whose: MatrixOwner, after: int) -> Iterator[tuple[Keys, Bodies]]:
    """Read vectors with a higher key, many at a time."""
    from contextinfinity.storage.ledger.matrices import together

    values: dict[str, object] = {"namespace": whose.space, "session": whose.session_id, "after": after}
    if whose.session_id is not None:
        name = "select_vectors_of_session"
    elif whose.owner is not None:
        name = "select_vectors_of_owner"
        values |= {"org_id": whose.owner.org_id, "user_id": whose.owner.user_id}
    else:
        name = "select_all_vectors"
    rows = connection.each(name, values)
    while some := list(islice(rows, _READ)):
        yield together([key for key, _ in some], (body for _, body in some), whose.dim, after)


class PostgresVectors(StoreResource):
    """``Vectors`` on PostgreSQL. ``least``: from how many vectors on an owner has an HNSW index."""

    bodies = reads(read_bodies)
    namespaces = looks(list_namespaces)
    open = writes(open_namespace)
    unplaced = reads(list_unplaced)
    place = writes(place_vectors, bulk=True)
    switch = writes(switch_to)

    def __init__(self, database: PostgresDatabase, *, least: int = 100_000) -> None:
        super().__init__(database)
        self._postgres = database
        self._least = least
        self._matrices: Matrices | None = None
        self._graphs: VectorGraphs | None = None

    async def drop_old(self, *, limit: int = 1000) -> int:
        """Remove vectors of old namespaces, some at a time."""
        if await self._database.look(lambda connection: connection.one("select_old")) is None:
            return 0
        return await self._database.write(lambda connection: drop_old(connection, row_limit(limit)))

    async def near(self, vector: bytes, namespace: str, scope: Scope, *, most: int = 128) -> tuple[VectorHit, ...]:
        """Find the chunks whose vectors are nearest."""

        def find(connection: Connection) -> tuple[VectorHit, ...]:
            space = find_space(connection, namespace)
            if space is None:
                return ()
            check_vector(namespace, space.dim, vector)
            return self._near(connection, vector, space, scope, row_limit(most))

        return await self._database.read(find)

    def _near(
        self, connection: Connection, vector: bytes, space: Space, scope: Scope, most: int
    ) -> tuple[VectorHit, ...]:
        import numpy as np

        from contextinfinity.storage.ledger.matrices import Matrices, MatrixOwner, scanned
        from contextinfinity.storage.ledger.vector_scope import VectorScope, nearest_in_scope

        asked = VectorScope(connection, scope)
        if asked.is_empty:
            return ()
        self._matrices = self._matrices or Matrices(newer)
        query = np.frombuffer(vector, np.int8, offset=HEAD)
        owner = scope.owner if asked.session_id is None else None
        source = (
            None if owner is None else self._indexes().source(cast(PostgresConnection, connection), space, owner, query)
        )
        whose = MatrixOwner(space.key, space.dim, session_id=asked.session_id, owner=owner)
        source = source or scanned(self._matrices.rows(connection, whose), query)
        hits, gone = nearest_in_scope(connection, asked, source, most)
        if gone > len(hits):
            self._matrices.forget(whose)
        return tuple(hits)

    async def build(self) -> bool:
        """Make the HNSW indexes that are due."""
        return await asyncio.to_thread(self._indexes().build)

    def _indexes(self) -> VectorGraphs:
        """Return the HNSW indexes; their module is imported when it is first needed."""
        if self._graphs is None:
            from contextinfinity.storage.postgres.vector_graphs import VectorGraphs

            self._graphs = VectorGraphs(self._postgres, self._least)
        return self._graphs
