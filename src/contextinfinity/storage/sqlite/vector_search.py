"""Vector search in SQLite.

Within a session, and in small namespaces, all vectors are compared. For all owners, or an owner with a large share of
the vectors, a generation (an HNSW file) finds candidates, and newer vectors are compared one by one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import msgspec
import numpy as np

from contextinfinity.domain.search import HEAD, Scope, VectorHit
from contextinfinity.domain.session import Owner
from contextinfinity.storage.database import Connection
from contextinfinity.storage.ledger.matrices import (
    Bodies,
    Keys,
    Matrices,
    MatrixOwner,
    Source,
    merged,
    scanned,
    streamed,
    together,
)
from contextinfinity.storage.ledger.namespaces import Space
from contextinfinity.storage.ledger.vector_scope import VectorScope, nearest_in_scope
from contextinfinity.storage.sqlite.database import SqliteDatabase
from contextinfinity.storage.sqlite.generations import SHARE, Generation, Generations
from contextinfinity.storage.sqlite.vector_writes import PACK

_READ = 16_384  # rows read at a time
_MOST_OWNERS = 1024  # size of the cache of owners with many vectors
_GROWTH = 0.1  # growth of a namespace after which owners are counted again


class VectorSearch:
    """The vector search of one ledger, with its in-memory caches."""

    def __init__(self, database: SqliteDatabase, folder: Path | None, least: int) -> None:
        self.generations = None if folder is None else Generations(database, folder, least)
        self._matrices = Matrices(newer)
        self._wide: dict[tuple[int, Owner], tuple[int, bool]] = {}

    def near(
        self, connection: Connection, vector: bytes, space: Space, scope: Scope, most: int
    ) -> tuple[VectorHit, ...]:
        """Return the nearest vectors within the scope, nearest first."""
        asked = VectorScope(connection, scope)
        if asked.is_empty:
            return ()
        query = np.frombuffer(vector, np.int8, offset=HEAD)
        whose = MatrixOwner(space.key, space.dim, session_id=asked.session_id)
        if asked.session_id is None:
            generation = None if self.generations is None else self.generations.of(space)
            if generation is not None and self._is_wide(connection, space, scope.owner):
                source, whose = self._beyond(connection, query, whose, generation)
                return self._shown(connection, asked, source, whose, most)
            whose = whose._replace(owner=scope.owner)
        return self._shown(connection, asked, self._exact(connection, query, whose, space), whose, most)

    def _exact(self, connection: Connection, query: Bodies, whose: MatrixOwner, space: Space) -> Source:
        if whose.session_id is None and whose.owner is None and space.placed * space.dim > self._matrices.memory:
            return streamed(newer, connection, whose, query)
        return scanned(self._matrices.rows(connection, whose), query)

    def _beyond(
        self, connection: Connection, query: Bodies, whose: MatrixOwner, generation: Generation
    ) -> tuple[Source, MatrixOwner]:
        """Merge the results of a generation with those of newer vectors."""
        newer = whose._replace(above=generation.last)
        rest = scanned(self._matrices.rows(connection, newer), query)
        return merged(lambda most: generation.near(query, most), rest), newer

    def _shown(
        self, connection: Connection, asked: VectorScope, source: Source, whose: MatrixOwner, most: int
    ) -> tuple[VectorHit, ...]:
        hits, gone = nearest_in_scope(connection, asked, source, most)
        if gone > len(hits):
            self._matrices.forget(whose)  # most of it is deleted: read it again
        return tuple(hits)

    def _is_wide(self, connection: Connection, space: Space, owner: Owner | None) -> bool:
        """Return whether an owner has enough of a namespace to search all of it and filter."""
        if owner is None:
            return True
        placed, wide = self._wide.get((space.key, owner), (0, False))
        if abs(space.placed - placed) > _GROWTH * placed:
            wide = _has(connection, space, owner, math.ceil(SHARE * space.placed))
            if len(self._wide) >= _MOST_OWNERS:
                self._wide.clear()
            self._wide[space.key, owner] = (space.placed, wide)
        return wide


def _has(connection: Connection, space: Space, owner: Owner, many: int) -> bool:
    """Return whether an owner has at least ``many`` vectors."""
    values = {"namespace": space.key, "org_id": owner.org_id, "user_id": owner.user_id}
    packs = connection.one("count_packs_of_owner", {**values, "limit": math.ceil(many / PACK)})
    found = PACK * int(packs[0])  # type: ignore[index]
    if found < many:
        loose = connection.one("count_loose_of_owner", {**values, "limit": many - found})
        found += int(loose[0])  # type: ignore[index]
    return found >= many


def newer(connection: Connection, whose: MatrixOwner, after: int) -> Iterator[tuple[Keys, Bodies]]:
    """Yield vectors with a higher key, in batches."""
    values: dict[str, int | bytes | str | None] = {
        "namespace": whose.space,
        "session": whose.session_id,
        "after": after,
        "org_id": None if whose.owner is None else whose.owner.org_id,
        "user_id": None if whose.owner is None else whose.owner.user_id,
    }
    packs, loose = _statements(whose, after)
    rows = connection.each(packs, values)
    while some := list(islice(rows, _READ // PACK)):
        yield together(
            [key for keys, _ in some for key in msgspec.json.decode(keys)], (b for _, b in some), whose.dim, after
        )
    rows = connection.each(loose, values)
    while some := list(islice(rows, _READ)):
        yield together([key for key, _ in some], (body for _, body in some), whose.dim, after)


def _statements(whose: MatrixOwner, after: int) -> tuple[str, str]:
    if whose.session_id is not None:
        return "select_packs_of_session", "select_loose_of_session"
    if whose.owner is None:
        return "select_packs", "select_loose"
    if after == 0:
        return "select_packs_of_owner", "select_loose_of_owner"
    return "select_newer_packs_of_owner", "select_newer_loose_of_owner"
