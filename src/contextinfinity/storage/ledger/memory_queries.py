"""Finds memories that may be relevant to a turn: by the rarest words of its question, and those always included.

The number of postings and rows that are read is bounded. Memories from abandoned branches are skipped unless the turn
sees the branch or a person asked to keep them; so are memories whose source turns have all expired. A skipped memory
supersedes nothing: a fact whose correction is not visible stays valid.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from heapq import nlargest
from math import log

from contextinfinity.domain.ids import BranchId, MemoryId, to_millis
from contextinfinity.domain.memory import Memory, MemoryMatch, MemoryRecall, Recall
from contextinfinity.domain.session import Lineage
from contextinfinity.storage.database import Connection, Row
from contextinfinity.storage.ledger.memories import find_owner, to_memory, to_vector
from contextinfinity.storage.ledger.rows import pack, unpack
from contextinfinity.storage.ledger.sessions import lineage_of


def sees(lineage: Lineage, branch_id: BranchId, turn_seq: int) -> bool:
    """Return whether a lineage includes this turn of the branch."""
    return any(
        stretch.branch_id == branch_id
        and stretch.first <= turn_seq
        and (stretch.last is None or turn_seq <= stretch.last)
        for stretch in lineage.stretches
    )


POSTINGS = 2_000
"""Postings read for all words together, the rarest words first."""


def recall(connection: Connection, asked: Recall) -> MemoryRecall:
    """Return memories that may be relevant to a turn."""
    owner = find_owner(connection, asked.owner)
    if owner is None:
        return MemoryRecall()
    sight = _Sight(connection, asked, owner)
    matches = _matches(connection, owner, asked)
    best = nlargest(asked.most // 2, ((match, key) for key, match in matches.items()))
    keys = json.dumps([key for _, key in best])
    found = sight.look(connection.many("select_memories_by_key", sight.values | {"keys": keys}))
    shelves = [
        connection.many("select_standing", sight.values | {"thread": shelf, "limit": asked.most})
        for shelf in (sight.values["thread"], b"")
    ]
    standing = sight.or_beneath(sight.look([row for rows in shelves for row in rows]))
    standing.sort(key=lambda row: (-row[12], -row[14], -row[2]))
    true = {row[2] for row in sight.nearest(_latest([*sight.true(found), *standing]))}
    return MemoryRecall(
        found=tuple(sight.candidate(row, matches) for row in found if row[2] in true),
        standing=tuple(sight.candidate(row, matches) for row in standing if row[2] in true),
    )


def current(connection: Connection, asked: Recall, ids: str) -> dict[MemoryId, Memory]:
    """Return for each memory the one that is valid for the turn: itself, or the one that superseded it."""
    owner = find_owner(connection, asked.owner)
    if owner is None:
        return {}
    sight = _Sight(connection, asked, owner)
    rows = sight.look(connection.many("select_memories", sight.values | {"ids": ids}))
    above = sight.above(rows, to_the_end=True)
    instead = ((row, sight.visible_successor(row, above)) for row in rows)
    return {unpack(row[3]): sight.candidate(other, {}).memory for row, other in instead if other is not None}


def _matches(connection: Connection, owner: int, asked: Recall) -> dict[int, float]:
    """Score memories by the words they share with the question; rare words have more weight."""
    terms = json.dumps(sorted(set(asked.terms)))
    counted = sorted(connection.many("count_memory_words", {"owner": owner, "terms": terms}), key=lambda row: row[1])
    matches: dict[int, float] = defaultdict(float)
    room = POSTINGS
    for term, count in counted:
        if count:
            room -= count
            if room < 0 and matches:
                break
            weight = log(1 + 20_000 / count)
            for (key,) in connection.many("select_having", (owner, term)):
                matches[key] += weight
    return matches


def _latest(rows: Sequence[Row]) -> list[Row]:
    """Drop memories valid only because their correction is not visible, if a later one has the same subject."""
    last: dict[tuple[bytes, str], tuple[bool, int]] = {}
    for row in rows:
        thing = (row[5], row[9])
        last[thing] = max(last.get(thing, (False, 0)), (row[17] is None, row[14]))
    return [row for row in rows if row[17] is None or not row[9] or (False, row[14]) >= last[row[5], row[9]]]


class _Sight:
    """The memories visible to a turn. Those that are not visible supersede nothing for it."""

    def __init__(self, connection: Connection, asked: Recall, owner: int) -> None:
        self._connection, self._asked = connection, asked
        self._sources: dict[int, list[Row]] = {}
        self._lines: dict[bytes, Lineage] = {}
        self.values: dict[str, object] = {
            "owner": owner,
            "thread": pack(asked.session_id),
            "at": to_millis(asked.at),
            "oldest": to_millis(asked.oldest),
        }

    def look(self, rows: list[Row]) -> list[Row]:
        """Load the source turns of these memories, latest first."""
        new = [row[2] for row in rows if row[2] not in self._sources]
        self._sources |= {key: [] for key in new}
        for source in self._connection.many("select_sources", (json.dumps(new),)) if new else ():
            self._sources[source[0]].append(source)
        return rows

    def sees(self, row: Row) -> bool:
        """Return whether a memory is visible to the turn, regardless of later corrections."""
        said, origin, is_of_user = self._sources[row[2]], row[10], not row[5]
        if not said or origin == "person":
            return True
        kept = [source for source in said if source[8] is None or source[8] > self.values["at"]]
        if is_of_user and (self._asked.other_branches or origin != "drawn"):
            return bool(kept)
        return any(map(self._is_in_line, kept))

    def _is_in_line(self, source: Row) -> bool:
        asked = self._asked
        line = pack(asked.branch_id) if source[4] == pack(asked.session_id) else source[7]
        if source[5] == line:
            return True
        if line not in self._lines:
            self._lines[line] = lineage_of(self._connection, unpack(line))
        return sees(self._lines[line], unpack(source[5]), source[6])

    def or_beneath(self, rows: list[Row]) -> list[Row]:
        """Return the visible memories, and for each invisible one those that it superseded."""
        seen: list[Row] = []
        while rows:
            seen += [row for row in rows if self.sees(row)]
            hidden = [row[3].hex() for row in rows if not self.sees(row)]
            values = self.values | {"ids": json.dumps(hidden)}
            rows = self.look(self._connection.many("select_superseded", values)) if hidden else []
        return seen

    def true(self, rows: list[Row]) -> list[Row]:
        """Return the visible memories that no visible memory supersedes."""
        seen = [row for row in rows if self.sees(row)]
        above = self.above(seen)
        return [row for row in seen if self.visible_successor(row, above) is row]

    def above(self, rows: Sequence[Row], *, to_the_end: bool = False) -> dict[bytes, Row]:
        """Load the chain of memories that superseded these, up to the first visible one or to the end."""
        found: dict[bytes, Row] = {}
        ids = {row[17] for row in rows if row[17] is not None}
        while ids:
            values = self.values | {"ids": json.dumps([each.hex() for each in ids])}
            rows = self.look(self._connection.many("select_memories", values))
            found |= {row[3]: row for row in rows}
            ids = {row[17] for row in rows if row[17] is not None and (to_the_end or not self.sees(row))} - found.keys()
        return found

    def visible_successor(self, row: Row, above: dict[bytes, Row]) -> Row | None:
        """Return the last visible memory of the chain that superseded a row; None if it was forgotten."""
        best = row if self.sees(row) else None
        while row[17] is not None:
            if row[17] not in above:
                return None
            row = above[row[17]]
            best = row if self.sees(row) else best
        return best

    def nearest(self, rows: list[Row]) -> list[Row]:
        """Prefer the conversation's memory about a subject, unless the user's was stated later in this conversation."""
        here = {row[9]: row[14] for row in rows if row[5] and row[9]}
        later = {
            row[9] for row in rows if not row[5] and row[14] > here.get(row[9], row[14]) and self._is_said_here(row)
        }
        return [row for row in rows if row[9] not in here or bool(row[5]) != (row[9] in later)]

    def _is_said_here(self, row: Row) -> bool:
        return any(source[4] == self.values["thread"] for source in self._sources[row[2]][:1])

    def candidate(self, row: Row, matches: dict[int, float]) -> MemoryMatch:
        """Return a row as a match, as it is valid for the turn."""
        as_seen = (*row[:17], None, None, *row[19:])
        memory = to_memory(as_seen, next(iter(self._sources[row[2]]), None))
        return MemoryMatch(memory=memory, match=matches.get(row[2], 0.0), vector=to_vector(row))
