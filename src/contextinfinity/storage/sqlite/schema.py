"""The shape of a ledger as text, made from the migrations: what the files in `schema/` show a reader.

`python -m contextinfinity.storage.sqlite.schema` writes them; a test says that they are up to date.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TypeAlias

import apsw

from contextinfinity.storage.sqlite.migrate import migrate

FOLDER = Path(__file__).parent / "schema"

DERIVED = frozenset({"index", "view", "trigger"})
"""Kinds of objects that can be dropped and made again without losing a row."""

Objects: TypeAlias = dict[tuple[str, str], str]
"""The objects of a schema: by kind and name, the statement that makes each."""

_FOR_SEARCH = """
chunk keyword loose_vector memory_word namespace recut retrieval uncut vector vector_pack
word_sample word_scope word_state
"""
_IS_FOR_SEARCH = f"tbl_name IN ({', '.join(map(repr, _FOR_SEARCH.split()))})"
_FILES = {
    "tables": f"type = 'table' AND NOT {_IS_FOR_SEARCH}",
    "search": f"type = 'table' AND {_IS_FOR_SEARCH}",
    "indexes": "type = 'index'",
    "views": "type = 'view'",
    "triggers": "type = 'trigger'",
}
"""What is shown where: tables that hold what was said, and those by which it is found."""


def schema(connection: apsw.Connection) -> dict[str, str]:
    """Write the shape of an open ledger: its tables, its indexes, its views, its triggers."""
    return {name: _statements(connection, which) for name, which in _FILES.items()}


def schema_of_migrations() -> dict[str, str]:
    """Write the shape all migrations together give an empty file."""
    connection = apsw.Connection(":memory:")
    migrate(connection, ":memory:")
    return schema(connection)


def objects(connection: apsw.Connection) -> Objects:
    """Read the objects of an open ledger; SQLite's own are left out."""
    rows = connection.execute(
        "SELECT type, name, sql FROM sqlite_schema WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' "
        "ORDER BY name"
    )
    return {(kind, name): sql for kind, name, sql in rows}


@cache
def objects_of_migrations() -> Objects:
    """Give the objects that all migrations together make in an empty file."""
    connection = apsw.Connection(":memory:")
    migrate(connection, ":memory:")
    return objects(connection)


def _statements(connection: apsw.Connection, which: str) -> str:
    rows = connection.execute(
        f"SELECT type, sql FROM sqlite_schema WHERE {which} "
        "AND sql IS NOT NULL AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' "
        "AND sql NOT LIKE 'CREATE TABLE ''%' "  # what fts5 makes for itself
        "ORDER BY tbl_name, type = 'index', name"
    )
    body = "".join(("" if kind == "index" else "\n") + f"{sql};\n" for kind, sql in rows)
    return "-- Made from the migrations: read this, but change those.\n" + body


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, text in schema_of_migrations().items():
        (FOLDER / f"{name}.sql").write_text(text, "utf-8")
