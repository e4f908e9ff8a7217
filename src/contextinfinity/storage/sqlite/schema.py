"""The shape of a ledger as text: what `schema.sql` shows a reader, made from the migrations.

`python -m contextinfinity.storage.sqlite.schema` prints it; a test says that the file equals it.
"""

from __future__ import annotations

import sys

import apsw

from contextinfinity.storage.sqlite.migrate import migrate

_ORDER = "CASE type WHEN 'table' THEN 0 WHEN 'index' THEN 1 WHEN 'view' THEN 2 ELSE 3 END"


def schema(connection: apsw.Connection) -> str:
    """Write the shape of an open ledger: each table with its indexes, then the views, then the triggers."""
    rows = connection.execute(
        f"SELECT type, sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY type IN ('view', 'trigger'), "
        f"CASE WHEN type IN ('view', 'trigger') THEN {_ORDER} END, tbl_name, {_ORDER}, name"
    )
    return "".join(("" if kind == "index" else "\n") + f"{sql};\n" for kind, sql in rows)


def schema_of_migrations() -> str:
    """Write the shape all migrations together give an empty file."""
    connection = apsw.Connection(":memory:")
    migrate(connection, ":memory:")
    return "-- Made from the migrations; read it, but change the migrations.\n" + schema(connection)


if __name__ == "__main__":
    sys.stdout.write(schema_of_migrations())
