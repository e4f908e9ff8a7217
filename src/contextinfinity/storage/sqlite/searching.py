"""Which vectors a search looks at: all of a session, of an owner, of everybody."""

from __future__ import annotations

import apsw
import numpy as np

from contextinfinity.domain.search import NearHit, Scope
from contextinfinity.domain.vectors import HEAD
from contextinfinity.storage.sqlite.matrices import Bodies, Matrices, Whose, scanned
from contextinfinity.storage.sqlite.nearest import Asked, walk
from contextinfinity.storage.sqlite.placing import Space


class Search:
    """Searches of one process in one ledger, with what they keep in memory."""

    def __init__(self) -> None:
        self._matrices = Matrices()

    def near(
        self, connection: apsw.Connection, vector: bytes, space: Space, scope: Scope, most: int
    ) -> tuple[NearHit, ...]:
        """Find the nearest, the nearest first."""
        asked = Asked(connection, scope)
        if asked.is_empty:
            return ()
        query = np.frombuffer(vector, np.int8, offset=HEAD)
        return self._exactly(connection, query, asked, whose(space, asked), most)

    def _exactly(
        self, connection: apsw.Connection, query: Bodies, asked: Asked, whose: Whose, most: int
    ) -> tuple[NearHit, ...]:
        rows = self._matrices.rows(connection, whose)
        hits, gone = walk(connection, asked, scanned(rows, query), most)
        if gone > len(hits):
            self._matrices.forget(whose)  # most of it is gone: it is read anew
        return tuple(hits)


def whose(space: Space, asked: Asked) -> Whose:
    """Name the vectors that a scope can hold."""
    if asked.session_id is not None:
        return Whose(space.key, space.dim, session_id=asked.session_id)
    return Whose(space.key, space.dim, owner=asked.scope.owner)
