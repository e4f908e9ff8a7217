"""SQLite's dialect of the named statements, and the connection that runs them.

Statements are loaded once per process. apsw caches prepared statements by text, so a call costs one lookup by name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import apsw

from contextinfinity.storage import sql_files
from contextinfinity.storage.database import Row, Values, VectorWrites
from contextinfinity.storage.ledger.keyword_index import write_words
from contextinfinity.storage.sqlite import vector_writes

QUERIES = sql_files.load_dialect(__package__)
"""Every statement by its name: those of ``ledger/sql/*.sql``, and SQLite's own of ``sql/*.sql``."""


class SqliteConnection:
    """A ``Connection`` on an apsw connection, which the engine's own modules reach as ``raw``."""

    __slots__ = ("_execute", "changes", "raw", "unindexed")

    vectors: VectorWrites = vector_writes

    def __init__(self, raw: apsw.Connection) -> None:
        self.raw = raw
        self._execute: Any = raw.execute
        self.changes = raw.changes
        self.unindexed: dict[int, tuple[bytes, str, bool]] = {}

    def one(self, name: str, values: Values = ()) -> Row | None:
        """Run a statement to its end; return its first row, or None."""
        rows = self._execute(QUERIES[name], values).fetchall()
        return rows[0] if rows else None

    def many(self, name: str, values: Values = ()) -> list[Row]:
        """Return all rows."""
        return self._execute(QUERIES[name], values).fetchall()  # type: ignore[no-any-return]

    def each(self, name: str, values: Values = ()) -> Iterator[Row]:
        """Iterate over the rows without reading them all first."""
        return self._execute(QUERIES[name], values)  # type: ignore[no-any-return]

    def execute(self, name: str, values: Values = ()) -> None:
        """Run a statement that returns no rows."""
        self._execute(QUERIES[name], values)

    def execute_many(self, name: str, rows: Iterable[Values]) -> None:
        """Run a statement once for each of the value sets."""
        self.raw.executemany(QUERIES[name], rows)

    def prefetch(self, *asked: tuple[str, Values]) -> None:
        """Do nothing: each statement runs when it is asked for."""

    def finish(self) -> None:
        """Write pending index rows before the commit."""
        write_words(self)
