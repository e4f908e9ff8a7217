"""Filters the results of a vector search by scope.

A ranking consists of keys only. Each key is looked up before it is returned: it may be deleted, on an invisible branch,
or outside of the filter. Rankings are read in growing steps up to a limit.
"""

from __future__ import annotations

import json
from typing import Any

from contextinfinity.domain.ids import to_millis
from contextinfinity.domain.search import Scope, TextPosition, VectorHit
from contextinfinity.domain.session import Lineage
from contextinfinity.storage.database import Connection
from contextinfinity.storage.invariants import end_place
from contextinfinity.storage.ledger.matrices import Source
from contextinfinity.storage.ledger.rows import pack, unpack
from contextinfinity.storage.ledger.sessions import lineage_of

FARTHEST = 16_384
"""The most vectors of one ranking that are looked up; the result is what the filter leaves of them."""


_FIRST = 32  # least number of keys looked up at once


class VectorScope:
    """A scope resolved for this ledger: which vectors can be in it, and which of them may be returned."""

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
    def has_no_filter(self) -> bool:
        """Whether every vector of its session, owner or the ledger may be returned."""
        scope = self.scope
        return not (scope.branch_id or scope.sides or scope.types or scope.since or scope.until)

    def statement(self) -> str:
        """Return the name of the statement that reads what the filter needs."""
        if self.scope.since or self.scope.until:
            return "select_found_where_and_when"
        return "select_found_where" if self.scope.branch_id else "select_found"

    def is_in_scope(self, row: Any) -> bool:
        """Return whether a row may be returned to the caller."""
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


def nearest_in_scope(
    connection: Connection, asked: VectorScope, source: Source, most: int
) -> tuple[list[VectorHit], int]:
    """Return the nearest hits within the scope, and how many of the looked-up vectors are deleted."""
    statement, hits, gone = asked.statement(), list[VectorHit](), 0
    everything = asked.has_no_filter and asked.scope.owner is None
    seen: set[int] = set()
    step = max(_FIRST, most if asked.has_no_filter else most + most // 2)
    while len(hits) < most and len(seen) < FARTHEST:
        keys, scores = source(step)
        found = zip(keys.tolist(), scores.tolist(), strict=True)
        fresh = {key: score for key, score in found if key not in seen}
        if not fresh:
            break
        seen |= fresh.keys()
        rows = connection.many(statement, {"keys": json.dumps(list(fresh))})
        gone += len(fresh) - len(rows)
        hits += [_hit(row, fresh[row[0]]) for row in rows if everything or asked.is_in_scope(row)]
        step = min(2 * step, FARTHEST)
    hits.sort(key=lambda hit: -hit.similarity)  # an HNSW graph that is asked for more may find a nearer one
    return hits[:most], gone


def _hit(row: Any, similarity: float) -> VectorHit:
    return VectorHit(
        place=TextPosition(turn_id=unpack(row[2]), side=row[3]), chunk_id=unpack(row[1]), similarity=similarity
    )
