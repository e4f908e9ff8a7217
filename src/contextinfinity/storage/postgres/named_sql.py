"""PostgreSQL's dialect of the named statements, and the connection that runs them.

A statement is the one of ``ledger/sql`` unless ``sql/*.sql`` here has one of the same name. Those that are shared are
translated where both databases differ in syntax only: placeholders, index hints, joins with a fixed order. A read that
locks rows when it is part of a write has the clause for that in ``locks.sql``, under its name. ``writing.sql`` has what
a write runs in other words, ``serving.sql`` what the serving role does.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from contextinfinity.storage import sql_files
from contextinfinity.storage.database import Row, Values, VectorWrites
from contextinfinity.storage.ledger.keyword_index import write_words
from contextinfinity.storage.postgres import vector_writes
from contextinfinity.storage.postgres.pipeline import Pipeline, SentStatement, numbered

_SYNTAX: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile("%"), "%%"),
    (re.compile(r"\s(?:INDEXED BY \w+|NOT INDEXED)\b"), ""),
    (re.compile(r"\bCROSS JOIN (\w+(?:\([^()]*\))? AS \w+ ON)\b"), r"JOIN \1"),
    (re.compile(r"\bx''"), "''::bytea"),
    (re.compile(r"\(:(\w+) IS NULL OR ([\w.]+) = :\1\)"), r"coalesce(\2 = :\1, true)"),
    (re.compile(r"\?"), "%s"),
    (re.compile(r"(?<![:\w]):([a-z_][a-z_0-9]*)"), r"%(\1)s"),
)


_LISTS: tuple[tuple[str, str, str], ...] = (("bytes_each", "unhex({})", "{}"), ("ints_each", "{}::bigint", "{}"))
"""Functions that read lists of ids and of keys, and what is converted without them."""


def _convert_lists(sql: str) -> str:
    """Convert lists of ids and keys when they are read: under row security a conversion in a join excludes indexes."""
    for function, converted, plain in _LISTS:
        for argument, alias in re.findall(r"json_each\(([^()]*)\) AS (\w+)", sql):
            value = f"{alias}.value"
            if converted.format(value) in sql:
                sql = sql.replace(f"json_each({argument}) AS {alias}", f"{function}({argument}) AS {alias}")
                sql = sql.replace(converted.format(value), plain.format(value))
        select = "SELECT " + re.escape(converted.format("value"))
        sql = re.sub(select + r" FROM json_each\(", f"SELECT value FROM {function}(", sql)
    return sql


def translate(sql: str) -> str:
    """Rewrite a statement of SQLite's into PostgreSQL's syntax."""
    sql = _convert_lists(sql)
    for pattern, replacement in _SYNTAX:
        sql = pattern.sub(replacement, sql)
    return sql


def _load() -> tuple[Mapping[str, bytes], Mapping[str, bytes], Mapping[str, bytes]]:
    """Return the statements by name as they are run in a read, and in a write, and those of the serving role."""
    statements = {name: translate(sql).encode() for name, sql in sql_files.load_dialect(__package__).items()}
    locks = sql_files.load(__package__, "locks.sql")
    serving = {name: translate(sql).encode() for name, sql in sql_files.load(__package__, "serving.sql").items()}
    locking = {name: statements[name] + b" " + clause.encode() for name, clause in locks.items()}
    writing = {name: translate(sql).encode() for name, sql in sql_files.load(__package__, "writing.sql").items()}
    return statements, statements | locking | writing, serving


READS, WRITES, _SERVING = _load()
"""Every statement by its name, for reads and for writes."""
SERVING_READS, SERVING_WRITES = {**READS, **_SERVING}, {**WRITES, **_SERVING}
"""The same as the serving role runs them, under row-level security."""


SERIALIZED: Mapping[str, int] = {
    name: numbered(WRITES[name])[1].index("branch_id") if b"%(" in WRITES[name] else 0
    for name in ("take_turn_seq", "select_head")
}
"""Statements that set the order of turns or states on a branch: where the branch is among their values."""


LOCK_BRANCH = b"SELECT pg_advisory_xact_lock(%s)"


def lock_key(branch_id: bytes) -> int:
    """Return the key of a branch's advisory lock."""
    return int.from_bytes(branch_id[-8:], "big", signed=True)


class PostgresConnection:
    """A ``Connection`` inside a transaction. Statements that return no rows are not waited for.

    In a write, ``enter`` is called with the branch before a statement that sets an order on it; it returns whether the
    branch has to be locked. ``serving``: under row-level security.
    """

    __slots__ = ("_ahead", "_enter", "_pipeline", "_queries", "unindexed")

    vectors: VectorWrites = vector_writes

    def __init__(
        self, pipeline: Pipeline, enter: Callable[[bytes], bool] | None = None, *, serving: bool = False
    ) -> None:
        self._pipeline = pipeline
        self._enter = enter
        reads, writes = (SERVING_READS, SERVING_WRITES) if serving else (READS, WRITES)
        self._queries = reads if enter is None else writes
        self._ahead: dict[tuple[Any, ...], deque[SentStatement]] = {}
        self.unindexed: dict[int, tuple[bytes, str, bool]] = {}

    def one(self, name: str, values: Values = ()) -> Row | None:
        """Run a statement to its end; return its first row, or None."""
        rows = self.many(name, values)
        return rows[0] if rows else None

    def many(self, name: str, values: Values = ()) -> list[Row]:
        """Return all rows."""
        given = self._given(name, values)
        announced = self._ahead.get((name, *given)) if self._ahead else None
        return self._pipeline.rows(announced.popleft() if announced else self._send(name, given))

    def each(self, name: str, values: Values = ()) -> Iterator[Row]:
        """Iterate over the rows."""
        return iter(self.many(name, values))

    def execute(self, name: str, values: Values = ()) -> None:
        """Run a statement that returns no rows; its error is raised by a later statement or by the commit."""
        self._pipeline.send(self._queries[name], self._given(name, values))

    def execute_many(self, name: str, rows: Iterable[Values]) -> None:
        """Run a statement once for each of the value sets."""
        for values in rows:
            self.execute(name, values)

    def prefetch(self, *asked: tuple[str, Values]) -> None:
        """Send statements whose results are asked for later, so that one round trip brings all of them."""
        for name, values in asked:
            given = self._given(name, values)
            self._ahead.setdefault((name, *given), deque()).append(self._send(name, given))

    def run(self, *statements: str) -> list[Row]:
        """Run statements that have no names and no values; return the rows of the last one."""
        return self._pipeline.rows([self._pipeline.send_once(sql.encode()) for sql in statements][-1])

    def changes(self) -> int:
        """Return how many rows the last statement inserted, updated or deleted."""
        return self._pipeline.wait().command_tuples or 0

    def _given(self, name: str, values: Values) -> Sequence[Any]:
        """Return the values of a statement in the order of its placeholders."""
        names = numbered(self._queries[name])[1]
        return [values[each] for each in names] if names else values  # type: ignore[call-overload, return-value]

    def _send(self, name: str, given: Sequence[Any]) -> SentStatement:
        if self._enter is not None and name in SERIALIZED:
            branch_id = given[SERIALIZED[name]]
            if self._enter(branch_id):
                self._pipeline.send(LOCK_BRANCH, (lock_key(branch_id),))
        return self._pipeline.send(self._queries[name], given)

    def finish(self) -> None:
        """Write what waits for the end of the transaction."""
        write_words(self)
