"""The shape of a ledger as text, made from the migrations: what the files in `schema/` show a reader.

`python -m contextinfinity.storage.sqlite.schema` writes them; a test says that they are up to date.
"""

from __future__ import annotations

from pathlib import Path

import apsw

from contextinfinity.storage.sqlite.migrate import migrate

FOLDER = Path(__file__).parent / "schema"

_KINDS = {"tables": "'table', 'index'", "views": "'view'", "triggers": "'trigger'"}


def schema(connection: apsw.Connection) -> dict[str, str]:
    """Write the shape of an open ledger: its tables with their indexes, its views, its triggers."""
    return {name: _statements(connection, kinds) for name, kinds in _KINDS.items()}


def schema_of_migrations() -> dict[str, str]:
    """Write the shape all migrations together give an empty file."""
    connection = apsw.Connection(":memory:")
    migrate(connection, ":memory:")
    return schema(connection)


def _statements(connection: apsw.Connection, kinds: str) -> str:
    rows = connection.execute(
        f"SELECT type, sql FROM sqlite_schema WHERE sql IS NOT NULL AND type IN ({kinds}) "
        "ORDER BY tbl_name, type = 'index', name"
    )
    body = "".join(("" if kind == "index" else "\n") + f"{sql};\n" for kind, sql in rows)
    return "-- Made from the migrations: read this, but change those.\n" + body


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, text in schema_of_migrations().items():
        (FOLDER / f"{name}.sql").write_text(text, "utf-8")
