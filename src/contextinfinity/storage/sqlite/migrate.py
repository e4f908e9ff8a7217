"""Schema migrations.

Migrations are numbered `.sql` files. Pending ones are applied in one transaction, so that a crash leaves either the old
or the new schema; if several processes open a file at once, one migrates while the others wait. A file of a newer
release or of another program is not changed.

The schema is defined by the migrations only; `python -m contextinfinity.storage.sqlite.migrate` prints the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import NamedTuple, TypeAlias

import apsw

from contextinfinity.domain.ids import now, to_millis
from contextinfinity.errors import LedgerCorrupt, LedgerForeign, LedgerTooNew
from contextinfinity.storage.sqlite.connection import APPLICATION_ID


class Migration(NamedTuple):
    """One schema migration."""

    version: int
    name: str
    sql: str


@cache
def migrations() -> tuple[Migration, ...]:
    """Return all migrations of this release, in order."""
    folder = files(__package__) / "migrations"
    names = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".sql"))
    return tuple(Migration(int(name[:4]), name[5:-4], (folder / name).read_text("utf-8")) for name in names)


def migrate(connection: apsw.Connection, path: str, steps: Sequence[Migration] | None = None) -> None:
    """Apply pending migrations."""
    steps = migrations() if steps is None else steps
    if version_of(connection, path) == steps[-1].version:
        return  # the common case: one read, no lock
    connection.execute("BEGIN IMMEDIATE")
    try:
        seen = version_of(connection, path)
        for step in (step for step in steps if step.version > seen):
            _run(connection, step.sql)
            connection.execute("INSERT INTO schema_version VALUES (?, ?, ?)", (*step[:2], to_millis(now())))
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def version_of(connection: apsw.Connection, path: str) -> int:
    """Return the schema version of a file; 0 if it is empty. Raises an error for a foreign or newer file."""
    # In this order: a process that creates the file commits tables and application id together.
    tables: int = connection.execute("SELECT count(*) FROM sqlite_schema").get
    owner: int = connection.execute("PRAGMA application_id").get
    if not owner and not tables:
        return 0
    if owner != APPLICATION_ID:
        raise LedgerForeign(f"{path} is a database of another program.")
    version: int | None = connection.execute("SELECT max(version) FROM schema_version").get
    if version is None:
        raise LedgerCorrupt(f"The ledger {path} does not say which schema it has.")
    if version > migrations()[-1].version:
        raise LedgerTooNew(
            f"The ledger {path} has schema {version}; this release knows schemas up to {migrations()[-1].version}."
        )
    return version


def _run(connection: apsw.Connection, script: str) -> None:
    """Run all statements of a script; apsw would stop at the first returned row."""
    for _ in connection.execute(script):
        pass


DERIVED = frozenset({"index", "view", "trigger"})
"""Types of schema objects that can be dropped and recreated without losing data."""

Objects: TypeAlias = dict[tuple[str, str], str]
"""The objects of a schema: {(type, name): CREATE statement}."""


def objects(connection: apsw.Connection) -> Objects:
    """Return the schema objects of an open ledger, without SQLite's internal ones."""
    rows = connection.execute(
        "SELECT type, name, sql FROM sqlite_schema WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' "
        "ORDER BY name"
    )
    return {(kind, name): sql for kind, name, sql in rows}


@cache
def objects_of_migrations() -> Objects:
    """Return the schema objects that the migrations create in an empty file."""
    connection = apsw.Connection(":memory:")
    migrate(connection, ":memory:")
    return objects(connection)


if __name__ == "__main__":
    for statement in objects_of_migrations().values():
        print(f"{statement};\n")  # noqa: T201 - this is what the command is for
