"""Vectors in SQLite: the noun. How they are written is in ``placing``, how they are searched in ``searching``."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from contextinfinity.domain.chunk import Chunk
from contextinfinity.domain.ids import ChunkId
from contextinfinity.domain.search import Namespace, NearHit, Scope
from contextinfinity.domain.vectors import HEAD
from contextinfinity.storage.database import Connection
from contextinfinity.storage.ledger.chunks import chunk_of
from contextinfinity.storage.ledger.rows import pack
from contextinfinity.storage.rules import check_vector, row_limit
from contextinfinity.storage.sqlite.database import SqliteDatabase
from contextinfinity.storage.sqlite.vector_writes import (
    Space,
    drop_old,
    find_space,
    must_space,
    open_space,
    put_vectors,
    spaces,
    switch_to,
)

if TYPE_CHECKING:
    from contextinfinity.storage.sqlite.vector_search import Search


class SqliteVectors:
    """``Vectors`` on a SQLite file. Files that make a search quicker lie in ``folder`` and can go at any time.

    A ledger in memory has neither. ``least``: how many vectors of a namespace are searched without such a file.
    """

    def __init__(self, database: SqliteDatabase, folder: Path | None, *, least: int = 50_000) -> None:
        self._database = database
        self._folder = folder
        self._least = least
        self._search: Search | None = None

    async def near(self, vector: bytes, namespace: str, scope: Scope, *, most: int = 128) -> tuple[NearHit, ...]:
        """Find the chunks whose vectors are nearest."""

        def find(connection: Connection) -> tuple[NearHit, ...]:
            space = find_space(connection, namespace)
            if space is None:
                return ()
            check_vector(namespace, space.dim, vector)
            return self._searching().near(connection, vector, space, scope, row_limit(most))

        return await self._database.read(find)

    def _searching(self) -> Search:
        """Give what searches, loaded when it is first needed."""
        if self._search is None:
            from contextinfinity.storage.sqlite.vector_search import Search

            self._search = Search(self._database, self._folder, self._least)
        return self._search

    async def bodies(self, namespace: str, chunk_ids: Sequence[ChunkId]) -> tuple[bytes | None, ...]:
        """Read the vectors of chunks."""

        def read(connection: Connection) -> tuple[bytes | None, ...]:
            space = find_space(connection, namespace)
            if space is None:
                return (None,) * len(chunk_ids)
            return _bodies(connection, space, chunk_ids)

        return await self._database.read(read)

    async def namespaces(self) -> tuple[Namespace, ...]:
        """Tell which there are, the current one first."""
        return await self._database.look(lambda connection: tuple(space.shown() for space in spaces(connection)))

    async def open(self, name: str, dim: int) -> Namespace:
        """Make sure there is one of that name."""
        return await self._database.write(lambda connection: open_space(connection, name, dim).shown())

    async def unplaced(self, namespace: str, *, limit: int = 256) -> tuple[Chunk, ...]:
        """Read chunks that have no vector there, the oldest first."""

        def read(connection: Connection) -> tuple[Chunk, ...]:
            space = must_space(connection, namespace)
            values = {"namespace": space.key, "filled": space.filled, "limit": row_limit(limit)}
            found = (chunk_of(connection, chunk_id) for (chunk_id,) in connection.many("select_unplaced", values))
            return tuple(chunk for chunk in found if chunk is not None)

        return await self._database.read(read)

    async def place(self, namespace: str, vectors: Sequence[tuple[ChunkId, bytes]]) -> None:
        """Add vectors; a chunk that has one there keeps it, one that is gone is passed over."""
        await self._database.write(lambda connection: _place(connection, namespace, vectors), bulk=True)

    async def switch(self, namespace: str) -> bool:
        """Make it the current one, unless chunks are unplaced there."""
        return await self._database.write(lambda connection: switch_to(connection, namespace))

    async def drop_old(self, *, limit: int = 1000) -> int:
        """Remove vectors of old namespaces, some at a time."""
        return await self._database.write(lambda connection: drop_old(connection, row_limit(limit)))

    async def build(self) -> bool:
        """Make a file for namespaces with very many vectors, where it is due."""
        generations = self._searching().generations
        return generations is not None and await asyncio.to_thread(generations.build)


def _place(connection: Connection, namespace: str, vectors: Sequence[tuple[ChunkId, bytes]]) -> None:
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
    """A pack that was read."""

    keys: list[int]
    bodies: bytes

    def body(self, key: int, size: int) -> bytes | None:
        """Give the vector of a key."""
        if key not in self.keys:
            return None
        slot = self.keys.index(key)
        return self.bodies[slot * size : (slot + 1) * size]


_NO_PACK = _Pack([], b"")


def _bodies(connection: Connection, space: Space, chunk_ids: Sequence[ChunkId]) -> tuple[bytes | None, ...]:
    """Read the vectors of chunks, by their age: so each pack of a session is read once."""
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
