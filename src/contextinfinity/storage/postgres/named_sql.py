"""PostgreSQL's dialect of the named statements, and the connection that runs them.

A statement is the one of ``ledger/sql`` unless ``sql/*.sql`` here has one of the same name. Those that are shared are
translated where both databases differ in syntax only: placeholders, index hints, joins with a fixed order. A read that
locks rows when it is part of a write has the clause for that in ``locks.sql``, under its name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import psycopg

from contextinfinity.storage import sql_files
from contextinfinity.storage.database import Row, Search, Values
from contextinfinity.storage.ledger.keyword_index import write_words
from contextinfinity.storage.postgres import postgres_search
from contextinfinity.storage.postgres.silence import ServerSilence

_SYNTAX: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile("%"), "%%"),
    (re.compile(r"\s(?:INDEXED BY \w+|NOT INDEXED)\b"), ""),
    (re.compile(r"\bCROSS JOIN (\w+(?:\([^()]*\))? AS \w+ ON)\b"), r"JOIN \1"),
    (re.compile(r"\bx''"), "''::bytea"),
    (re.compile(r"\(:(\w+) IS NULL OR ([\w.]+) = :\1\)"), r"coalesce(\2 = :\1, true)"),
    (re.compile(r"\?"), "%s"),
    (re.compile(r"(?<![:\w]):([a-z_][a-z_0-9]*)"), r"%(\1)s"),
)


def translate(sql: str) -> str:
    """Rewrite a statement of SQLite's into PostgreSQL's syntax."""
    for pattern, replacement in _SYNTAX:
        sql = pattern.sub(replacement, sql)
    return sql


def _load() -> tuple[Mapping[str, bytes], Mapping[str, bytes]]:
    """Return the statements by name as they are run in a read, and in a write."""
    statements = {name: translate(sql).encode() for name, sql in sql_files.load_dialect(__package__).items()}
    locks = sql_files.load(__package__, "locks.sql")
    return statements, statements | {name: statements[name] + b" " + clause.encode() for name, clause in locks.items()}


READS, WRITES = _load()
"""Every statement by its name, for reads and for writes."""


SERIALIZED: Mapping[str, Callable[[Any], bytes]] = {
    "take_turn_seq": lambda values: values["branch_id"],
    "select_head": lambda values: values[0],
}
"""Statements that set the order of turns or states on a branch: how to find the branch in their values."""


class PostgresConnection:
    """A ``Connection`` on a psycopg cursor, inside a transaction.

    In a write, ``enter`` is called with the branch before a statement that sets an order on it.
    """

    __slots__ = ("_cursor", "_enter", "_queries", "_silence", "unindexed")

    search: Search = postgres_search

    def __init__(
        self, cursor: psycopg.Cursor[Row], silence: ServerSilence, enter: Callable[[bytes], None] | None = None
    ) -> None:
        self._cursor = cursor
        self._silence = silence
        self._enter = enter
        self._queries = READS if enter is None else WRITES
        self.unindexed: dict[int, tuple[bytes, str, bool]] = {}

    def one(self, name: str, values: Values = ()) -> Row | None:
        """Run a statement to its end; return its first row, or None."""
        if self._enter is not None and name in SERIALIZED:
            self._enter(SERIALIZED[name](values))
        with self._silence.timed():
            cursor = self._cursor.execute(self._queries[name], values)
        return cursor.fetchone() if cursor.description is not None else None

    def many(self, name: str, values: Values = ()) -> list[Row]:
        """Return all rows."""
        with self._silence.timed():
            cursor = self._cursor.execute(self._queries[name], values)
        return cursor.fetchall() if cursor.description is not None else []

    def each(self, name: str, values: Values = ()) -> Iterator[Row]:
        """Iterate over the rows."""
        return iter(self.many(name, values))

    def execute(self, name: str, values: Values = ()) -> None:
        """Run a statement that returns no rows."""
        with self._silence.timed():
            self._cursor.execute(self._queries[name], values)

    def execute_many(self, name: str, rows: Iterable[Values]) -> None:
        """Run a statement once for each of the value sets, in one round trip."""
        with self._silence.timed():
            self._cursor.executemany(self._queries[name], rows)

    def changes(self) -> int:
        """Return how many rows the last statement inserted, updated or deleted."""
        return self._cursor.rowcount

    def finish(self) -> None:
        """Write what waits for the end of the transaction."""
        write_words(self)
