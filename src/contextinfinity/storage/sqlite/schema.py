"""The schema of a ledger as a mapping, read from an open file or made by running the migrations.

The migrations are the only place where the schema is written down. `python -m contextinfinity.storage.sqlite.schema`
prints what they amount to, for a reader.
"""

from __future__ import annotations

from functools import cache
from typing import TypeAlias

import apsw

from contextinfinity.storage.sqlite.migrate import migrate

DERIVED = frozenset({"index", "view", "trigger"})
"""Kinds of objects that can be dropped and made again without losing a row."""

Objects: TypeAlias = dict[tuple[str, str], str]
"""The objects of a schema: by kind and name, the statement that makes each."""


def objects(connection: apsw.Connection) -> Objects:
    """Read the objects of an open ledger; SQLite's own are left out."""
    rows = connection.execute(
        "SELECT type, name, sql FROM sqlite_schema WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' "
        "ORDER BY name"
    )
    return {(kind, name): sql for kind, name, sql in rows}


@cache
def objects_of_migrations() -> Objects:
    """Return the objects that all migrations together make in an empty file."""
    connection = apsw.Connection(":memory:")
    migrate(connection, ":memory:")
    return objects(connection)


if __name__ == "__main__":
    for statement in objects_of_migrations().values():
        print(f"{statement};\n")  # noqa: T201 - this is what the command is for
