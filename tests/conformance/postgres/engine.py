"""PostgreSQL behind the storage seam, as small as it can be: it shows what a second database has to bring.

That is a ``Database``, a ``Connection`` that knows its dialect (``sql/queries.sql``), and a search; no verb.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar, cast

import psycopg

from contextinfinity.storage import sql_files
from contextinfinity.storage.database import Connection, Row, Search, Values

T = TypeVar("T")

QUERIES = sql_files.load_folder("tests.conformance.postgres", "sql")
SCHEMA = (Path(__file__).parent / "schema.sql").read_text("utf-8")


class PostgresSearch:
    """Words as ``tsvector``; vectors are left out."""

    def index_messages(self, connection: Connection, session_id: bytes, said: Sequence[tuple[int, str]]) -> None:
        connection.execute_many("insert_words", said)


class PostgresConnection:
    """A ``Connection`` on a psycopg cursor."""

    search: Search = cast("Search", PostgresSearch())

    def __init__(self, cursor: psycopg.Cursor[Row]) -> None:
        self._cursor = cursor
        self.unindexed: dict[int, tuple[bytes, str, bool]] = {}

    def one(self, name: str, values: Values = ()) -> Row | None:
        rows = self.many(name, values)
        return rows[0] if rows else None

    def many(self, name: str, values: Values = ()) -> list[Row]:
        return self._cursor.execute(QUERIES[name].encode(), values).fetchall()

    def each(self, name: str, values: Values = ()) -> Iterator[Row]:
        return iter(self.many(name, values))

    def execute(self, name: str, values: Values = ()) -> None:
        self._cursor.execute(QUERIES[name].encode(), values)

    def execute_many(self, name: str, rows: Iterable[Values]) -> None:
        self._cursor.executemany(QUERIES[name].encode(), rows)

    def changes(self) -> int:
        return self._cursor.rowcount


class PostgresDatabase:
    """A ``Database`` with one connection; the transaction of a write is durable when it returns."""

    def __init__(self, uri: str) -> None:
        self._connection = psycopg.connect(uri)
        self._lock = threading.Lock()

    async def read(self, work: Callable[[Connection], T]) -> T:
        return await asyncio.to_thread(self._run, work)

    async def look(self, work: Callable[[Connection], T]) -> T:
        return await self.read(work)

    async def write(self, work: Callable[[Connection], T], *, bulk: bool = False, wipe: bool = False) -> T:
        return await asyncio.to_thread(self._run, work)

    async def sweep(self, steps: int) -> bool:
        return False

    async def is_wiped(self) -> bool:
        return True

    def close(self) -> None:
        self._connection.close()

    def _run(self, work: Callable[[Connection], T]) -> T:
        with self._lock, self._connection.transaction(), self._connection.cursor() as cursor:
            return work(PostgresConnection(cursor))
