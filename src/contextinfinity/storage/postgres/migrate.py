"""Bringing a database to the schema of this release.

Migrations are numbered `.sql` files, applied in one transaction under an advisory lock: of several workers that
start at once one migrates while the others wait. A database of a newer release is left untouched.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

import psycopg

from contextinfinity.errors import LedgerReadOnly, LedgerTooNew
from contextinfinity.storage.postgres.connection import SCHEMA


class PostgresMigration(NamedTuple):
    """One step from a schema to the next."""

    version: int
    name: str
    sql: str


@cache
def migrations() -> tuple[PostgresMigration, ...]:
    """Read all migrations this release has, in order."""
    folder = files(__package__) / "migrations"
    names = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".sql"))
    return tuple(PostgresMigration(int(name[:4]), name[5:-4], (folder / name).read_text("utf-8")) for name in names)


def migrate(connection: psycopg.Connection[Any], name: str) -> None:
    """Apply what the database has not seen."""
    if version_of(connection, name) == migrations()[-1].version:
        return
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(hashtextextended('contextinfinity.migrate', 0))")
        try:
            connection.execute(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}")
        except psycopg.errors.InsufficientPrivilege as error:
            raise LedgerReadOnly(
                f"The role of storage.url may not create the schema {SCHEMA} in {name}.",
                hint=f"Run once as the owner of the database: CREATE SCHEMA {SCHEMA} AUTHORIZATION the_role.",
            ) from error
        connection.execute(f"SET LOCAL search_path = {SCHEMA}, public")
        connection.execute(
            "CREATE TABLE IF NOT EXISTS schema_version "
            "(version bigint PRIMARY KEY, name text NOT NULL, applied_at timestamptz NOT NULL DEFAULT now())"
        )
        seen = version_of(connection, name)
        for step in (step for step in migrations() if step.version > seen):
            connection.execute(step.sql.encode(), prepare=False)
            connection.execute("INSERT INTO schema_version (version, name) VALUES (%s, %s)", step[:2])


def version_of(connection: psycopg.Connection[Any], name: str) -> int:
    """Return which migration a database has seen last; 0 for one without a ledger. Refuse one that is too new."""
    table = f"{SCHEMA}.schema_version"
    if connection.execute("SELECT to_regclass(%s)", (table,)).fetchone() == (None,):
        return 0
    row = connection.execute(f"SELECT max(version) FROM {table}").fetchone()
    version: int = 0 if row is None or row[0] is None else row[0]
    known = migrations()[-1].version
    if version > known:
        raise LedgerTooNew(f"The ledger {name} has schema {version}; this release knows schemas up to {known}.")
    return version
