"""Searching vectors: which of them a search looks at, and which of those it may show.

Within a session, and wherever there are not very many, all vectors are compared. Over everybody, or for an owner with a
good part of everything: those that a generation (an HNSW file) names, and one by one what is newer than it.

A ranking consists of numbers only. Each is looked up before it is shown: it may be deleted, on a branch that must not
be seen, or outside of the filter. Rankings are walked in ever larger steps up to a limit, so that a search never
becomes a scan of the ledger.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np

from contextinfinity.domain.ids import to_millis
from contextinfinity.domain.search import Scope, TextPosition, VectorHit
from contextinfinity.domain.session import Lineage, Owner
from contextinfinity.domain.vectors import HEAD
from contextinfinity.storage.database import Connection
from contextinfinity.storage.invariants import end_place
from contextinfinity.storage.ledger.rows import pack, unpack
from contextinfinity.storage.ledger.sessions import lineage_of
from contextinfinity.storage.sqlite.database import SqliteDatabase
from contextinfinity.storage.sqlite.generations import SHARE, Generation, Generations
from contextinfinity.storage.sqlite.matrices import Bodies, Matrices, MatrixOwner, Source, merged, scanned, streamed
from contextinfinity.storage.sqlite.vector_writes import PACK, Space

FARTHEST = 16_384
"""Vectors of one list that are looked up; what a filter leaves of them is the result."""

_FIRST = 32  # the least to be looked up at once


class VectorScope:
    """A scope, made ready for this ledger: whose vectors can be in it, and which of them may be shown."""

    def __init__(self, connection: Connection, scope: Scope) -> None:
        self.scope = scope
        self.session_id: bytes | None = None if scope.session_id is None else pack(scope.session_id)
        self.is_empty = False
        self._stretches: dict[bytes, tuple[int, int]] = {}
        if scope.branch_id is not None:
            self._follow(connection, lineage_of(connection, scope.branch_id), scope.branch_id)

    def _follow(self, connection: Connection, lineage: Lineage, branch_id: str) -> None:
        row = connection.one("select_branch", (pack(branch_id),))
        if row is None or self.session_id not in (None, row[1]):
            self.is_empty = True
            return
        self.session_id = row[1]
        for branch, first, last in lineage.backwards(end_place(self.scope.before)):
            self._stretches[pack(branch)] = (first, last)
        self.is_empty = not self._stretches

    @property
    def admits_all(self) -> bool:
        """Whether everything of its session, its owner or everybody may be shown."""
        scope = self.scope
        return not (scope.branch_id or scope.sides or scope.types or scope.since or scope.until)

    def statement(self) -> str:
        """Return the name of the statement that reads what the filter needs."""
        if self.scope.since or self.scope.until:
            return "select_found_where_and_when"
        return "select_found_where" if self.scope.branch_id else "select_found"

    def admits(self, row: Any) -> bool:
        """Return of a row whether it may be shown."""
        scope = self.scope
        _, _, _, side, chunk_type, org_id, user_id, branch, turn_seq, said_at = row
        if scope.owner is not None and (org_id, user_id) != (scope.owner.org_id, scope.owner.user_id):
            return False
        if (scope.sides and side not in scope.sides) or (scope.types and chunk_type not in scope.types):
            return False
        if scope.branch_id is not None:
            first, last = self._stretches.get(branch, (0, -1))
            if not first <= turn_seq <= last:
                return False
        if scope.since is not None and said_at < to_millis(scope.since):
            return False
        return scope.until is None or said_at < to_millis(scope.until)


def walk(connection: Connection, asked: VectorScope, source: Source, most: int) -> tuple[list[VectorHit], int]:
    """Go down a list until enough may be shown; return how many of those that were looked up are gone."""
    statement, hits, gone = asked.statement(), list[VectorHit](), 0
    everything = asked.admits_all and asked.scope.owner is None
    seen: set[int] = set()
    step = max(_FIRST, most if asked.admits_all else most + most // 2)
    while len(hits) < most and len(seen) < FARTHEST:
        keys, scores = source(step)
        found = zip(keys.tolist(), scores.tolist(), strict=True)
        fresh = {key: score for key, score in found if key not in seen}
        if not fresh:
            break
        seen |= fresh.keys()
        rows = connection.many(statement, {"keys": json.dumps(list(fresh))})
        gone += len(fresh) - len(rows)
        hits += [_hit(row, fresh[row[0]]) for row in rows if everything or asked.admits(row)]
        step = min(2 * step, FARTHEST)
    hits.sort(key=lambda hit: -hit.similarity)  # a graph that is asked for more may find a nearer one
    return hits[:most], gone


def _hit(row: Any, similarity: float) -> VectorHit:
    return VectorHit(
        place=TextPosition(turn_id=unpack(row[2]), side=row[3]), chunk_id=unpack(row[1]), similarity=similarity
    )


_MOST_OWNERS = 1024  # of whom it is remembered whether they have much
_GROWTH = 0.1  # of a namespace, after which it is counted again


class VectorSearch:
    """Searches of one process in one ledger, with what they keep in memory."""

    def __init__(self, database: SqliteDatabase, folder: Path | None, least: int) -> None:
        self.generations = None if folder is None else Generations(database, folder, least)
        self._matrices = Matrices()
        self._wide: dict[tuple[int, Owner], tuple[int, bool]] = {}

    def near(
        self, connection: Connection, vector: bytes, space: Space, scope: Scope, most: int
    ) -> tuple[VectorHit, ...]:
        """Find the nearest, the nearest first."""
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
            return streamed(connection, whose, query)
        return scanned(self._matrices.rows(connection, whose), query)

    def _beyond(
        self, connection: Connection, query: Bodies, whose: MatrixOwner, generation: Generation
    ) -> tuple[Source, MatrixOwner]:
        """Make one list of a generation and what is newer."""
        newer = whose._replace(above=generation.last)
        rest = scanned(self._matrices.rows(connection, newer), query)
        return merged(lambda most: generation.near(query, most), rest), newer

    def _shown(
        self, connection: Connection, asked: VectorScope, source: Source, whose: MatrixOwner, most: int
    ) -> tuple[VectorHit, ...]:
        hits, gone = walk(connection, asked, source, most)
        if gone > len(hits):
            self._matrices.forget(whose)  # most of it is gone: it is read again
        return tuple(hits)

    def _is_wide(self, connection: Connection, space: Space, owner: Owner | None) -> bool:
        """Return whether an owner has so much of a namespace that going down a list of all of it finds enough."""
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
    """Return whether an owner has so many vectors; counts no further."""
    values = {"namespace": space.key, "org_id": owner.org_id, "user_id": owner.user_id}
    packs = connection.one("count_packs_of_owner", {**values, "limit": math.ceil(many / PACK)})
    found = PACK * int(packs[0])  # type: ignore[index]
    if found < many:
        loose = connection.one("count_loose_of_owner", {**values, "limit": many - found})
        found += int(loose[0])  # type: ignore[index]
    return found >= many
