"""Which memories may matter to a turn, in SQLite: by the rarest words of its question, and what always matters.

However much a user said, so many postings are read and so many rows looked at. What was learned on a line of turns that
was left is passed over unless the turn sees it, or a person asked for it to be kept.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from math import log

import apsw

from contextinfinity.domain.ids import to_millis
from contextinfinity.domain.memory import Candidate, Recall, Recalled
from contextinfinity.domain.session import Lineage
from contextinfinity.storage.memories import sees
from contextinfinity.storage.sqlite.memories import SQL, find_owner, to_memory, to_vector
from contextinfinity.storage.sqlite.rows import Row, many, pack, unpack
from contextinfinity.storage.sqlite.sessions import lineage_of

POSTINGS = 2_000
"""Entries of all words together that are read, the rarest words first."""


def recall(connection: apsw.Connection, asked: Recall) -> Recalled:
    """Find what may matter to a turn."""
    owner = find_owner(connection, asked.owner)
    if owner is None:
        return Recalled()
    values = {
        "owner": owner,
        "thread": pack(asked.session_id),
        "at": to_millis(asked.at),
        "oldest": to_millis(asked.oldest),
        "limit": asked.most,
    }
    matches = _matches(connection, owner, asked)
    keys = json.dumps(sorted(matches, key=lambda key: (-matches[key], -key))[: asked.most // 2])
    found = many(connection, SQL["select_memories_by_key"], values | {"keys": keys})
    shelves = [
        many(connection, SQL["select_standing"], values | {"thread": shelf}) for shelf in (values["thread"], b"")
    ]
    standing = sorted((row for rows in shelves for row in rows), key=lambda row: (-row[12], -row[14], -row[2]))
    visible = _visible(connection, asked, {row[2]: row for row in (*found, *standing)})
    return Recalled(
        found=tuple(_candidate(row, visible, matches) for row in found if row[2] in visible),
        standing=tuple(_candidate(row, visible, matches) for row in standing if row[2] in visible),
    )


def _matches(connection: apsw.Connection, owner: int, asked: Recall) -> dict[int, float]:
    """Score the memories that have words of the question: the rarer a word, the more it counts."""
    terms = json.dumps(sorted(set(asked.terms)))
    counted = sorted(many(connection, SQL["count_words"], {"owner": owner, "terms": terms}), key=lambda row: row[1])
    matches: dict[int, float] = defaultdict(float)
    room = POSTINGS
    for term, count in counted:
        if count:
            room -= count
            if room < 0 and matches:
                break
            for (key,) in many(connection, SQL["select_having"], (owner, term)):
                matches[key] += log(1 + 20_000 / count)
    return matches


def _visible(connection: apsw.Connection, asked: Recall, rows: dict[int, Row]) -> dict[int, Row | None]:
    """Keep what the turn may see, each with the source that was said last."""
    sources: dict[int, list[Row]] = defaultdict(list)
    for source in many(connection, SQL["select_sources"], (json.dumps([*rows]),)):
        sources[source[0]].append(source)
    lines: dict[bytes, Lineage] = {}

    def is_seen(source: Row) -> bool:
        line = pack(asked.branch_id) if source[4] == pack(asked.session_id) else source[7]
        if source[5] == line:
            return True
        if line not in lines:
            lines[line] = lineage_of(connection, unpack(line))
        return sees(lines[line], unpack(source[5]), source[6])

    def may_be_seen(row: Row, said: Sequence[Row]) -> bool:
        is_of_user = not row[5]
        if not said or (is_of_user and (asked.other_branches or row[10] != "drawn")):
            return True
        return any(map(is_seen, said))

    return {
        key: next(iter(sources.get(key, ())), None)
        for key, row in rows.items()
        if may_be_seen(row, sources.get(key, ()))
    }


def _candidate(row: Row, visible: dict[int, Row | None], matches: dict[int, float]) -> Candidate:
    memory = to_memory(row, visible[row[2]])
    return Candidate(memory=memory, match=matches.get(row[2], 0.0), vector=to_vector(row))
