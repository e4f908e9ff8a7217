"""Repairs of a ledger that cannot lose data.

All repairs run in one transaction and check their conditions again, because a running engine may have resolved them
in the meantime. A repair that fails (such as a unique index over contradicting rows) is skipped. Answers, states and
chains of states are never changed.
"""

from __future__ import annotations

import json
from pathlib import Path

import apsw

from contextinfinity.domain.ids import WorkerId, now, to_millis
from contextinfinity.storage import sql_files
from contextinfinity.storage.sqlite.connection import connect, translated
from contextinfinity.storage.sqlite.migrate import (
    DERIVED,
    migrate,
    migrations,
    objects,
    objects_of_migrations,
    version_of,
)
from contextinfinity.storage.sqlite.named_sql import QUERIES
from contextinfinity.storage.worker_locks import WorkerLocks

SQL = sql_files.load(__package__, "repair.sql")


def repair(path: Path, locks: WorkerLocks) -> dict[str, int]:
    """Repair what is possible; return the number of repairs by finding code."""
    name = str(path)
    with translated(name):
        connection = connect(name)
        try:
            done = {"schema_older": _bring_up_to_date(connection, name)}
            connection.execute("BEGIN IMMEDIATE")
            dead = _dead(connection, locks)
            done |= _repair_all(connection, dead)
            connection.execute("COMMIT")
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            connection.close()
    for worker in dead:
        locks.release(worker)
    return {code: count for code, count in done.items() if count}


def _bring_up_to_date(connection: apsw.Connection, name: str) -> int:
    if version_of(connection, name) == migrations()[-1].version:
        return 0
    migrate(connection, name)
    return 1


def _dead(connection: apsw.Connection, locks: WorkerLocks) -> list[WorkerId]:
    """Return the dead workers; the caller holds the write lock, so that none can unregister meanwhile."""
    known = {row[0] for row in connection.execute(QUERIES["select_workers"])}
    running = {owner for (owner,) in connection.execute("SELECT owner FROM job WHERE state = 'running'") if owner}
    return sorted(worker for worker in known | running if locks.is_free(worker))


def _repair_all(connection: apsw.Connection, dead: list[WorkerId]) -> dict[str, int]:
    """Restore derived objects first, because other repairs rely on them. Does nothing if there are unknown tables."""
    ours, wanted = objects(connection), objects_of_migrations()
    if any(ours.get(key) != sql for key, sql in wanted.items() if key[0] not in DERIVED):
        return {}
    restored = 0
    for (kind, name), sql in wanted.items():
        if ours.get((kind, name)) != sql:
            restored += _attempt(connection, f'DROP {kind} IF EXISTS "{name}"; {sql}; SELECT 1')
    values: dict[str, str | int] = {"dead": json.dumps(dead), "now": to_millis(now())}
    return {"schema_derived": restored} | {code: _attempt(connection, sql, values) for code, sql in SQL.items()}


def _attempt(connection: apsw.Connection, sql: str, values: dict[str, str | int] | None = None) -> int:
    """Run one repair in a savepoint and return the number of rows."""
    connection.execute("SAVEPOINT attempt")
    try:
        count = len(connection.execute(sql, values).fetchall())
    except (apsw.ConstraintError, apsw.SQLError):
        connection.execute("ROLLBACK TO attempt")
        count = 0
    connection.execute("RELEASE attempt")
    return count
