"""Scope filter: which of the positions that a search found are within its scope.

For every position the turn is read, and its owner, session, branch, age, time and chunk types are checked. A position
that is not admitted here is never returned.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import msgspec

from contextinfinity.domain.ids import to_millis
from contextinfinity.domain.search import ChunkSide, Scope, TextPosition
from contextinfinity.storage.database import Connection, Row
from contextinfinity.storage.invariants import end_place
from contextinfinity.storage.ledger.rows import pack, unpack
from contextinfinity.storage.ledger.sessions import lineage_of

Number: TypeAlias = int
"""A position: 2 * message.key, plus 1 for the tool side of the turn that the message asks."""


class ScopeFilter:
    """Checks positions against a scope."""

    def __init__(self, connection: Connection, scope: Scope) -> None:
        self._connection = connection
        self._scope = scope
        self._session = None if scope.session_id is None else pack(scope.session_id)
        self._stretches = self._lineage()
        self._since = None if scope.since is None else to_millis(scope.since)
        self._until = None if scope.until is None else to_millis(scope.until)

    def admitted(self, numbers: Sequence[Number]) -> dict[Number, TextPosition]:
        """Return the positions that the scope admits."""
        keys = msgspec.json.encode(sorted({number >> 1 for number in numbers})).decode()
        asked = {row[0]: row for row in self._connection.many("select_asked", (keys,))}
        answered = {row[0]: row for row in self._connection.many("select_answered", (keys,))}
        found: dict[Number, TextPosition] = {}
        for number in numbers:
            key = number >> 1
            row = asked.get(key) or answered.get(key)
            side: ChunkSide = "tool" if number & 1 else "user" if key in asked else "assistant"
            if row is not None and self._is_in_scope(row, side):
                found[number] = TextPosition(unpack(row[1]), side)
        return found

    def _is_in_scope(self, row: Row, side: ChunkSide) -> bool:
        """Return whether a row is within the scope; cheap checks come first."""
        key, turn_id, session_id, branch_id, turn_seq, created_at, org_id, user_id = row
        scope = self._scope
        if self._session is not None and session_id != self._session:
            return False
        if scope.sides and side not in scope.sides:
            return False
        if self._stretches is not None and not self._is_seen(branch_id, turn_seq):
            return False
        return (
            (scope.owner is None or (org_id, user_id) == (scope.owner.org_id, scope.owner.user_id))
            and (self._since is self._until is None or self._is_of_that_time(key, created_at))
            and (not scope.types or self._is_of_those_types(turn_id, side))
        )

    def _lineage(self) -> dict[bytes, tuple[int, int]] | None:
        branch, before = self._scope.branch_id, end_place(self._scope.before)
        if branch is None:
            return None
        line = lineage_of(self._connection, branch).backwards(before)
        return {pack(owner): (first, last) for owner, first, last in line}

    def _is_seen(self, branch_id: bytes, turn_seq: int) -> bool:
        first, last = (self._stretches or {}).get(branch_id, (1, 0))
        return first <= turn_seq <= last

    def _is_of_that_time(self, key: int, created_at: int) -> bool:
        (elsewhere,) = self._connection.many("select_said_at", (key,))[0]
        said_at = created_at if elsewhere is None else elsewhere
        return (self._since is None or said_at >= self._since) and (self._until is None or said_at < self._until)

    def _is_of_those_types(self, turn_id: bytes, side: ChunkSide) -> bool:
        types = self._connection.many("select_types", (turn_id, side))
        return any(name in self._scope.types for (name,) in types)
