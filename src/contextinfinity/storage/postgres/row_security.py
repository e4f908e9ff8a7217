"""The serving role: it reaches the rows of the owner for whom a transaction acts, and no others.

Policies of the database decide which rows (migration 0005); this module checks that they apply to the role, and grants
it the tables it may use.
"""

from __future__ import annotations

from typing import Any

import psycopg

from contextinfinity.errors import SettingsError
from contextinfinity.storage.postgres.connection import SCHEMA, DatabaseUrl, connect

UNSERVED = ("schema_version", "tenant_secret", "token", "word_sample")
"""Tables without a tenant whose rows the serving role has no right to."""

_ROLE = """
SELECT rolsuper, rolbypassrls, pg_has_role(r.oid, n.nspowner, 'MEMBER'),
  EXISTS (SELECT 1 FROM pg_class AS c WHERE c.relnamespace = n.oid AND c.relowner = r.oid)
FROM pg_roles AS r, pg_namespace AS n WHERE r.rolname = %s AND n.nspname = %s
"""
_WITHOUT = """
SELECT c.relname FROM pg_class AS c WHERE c.relnamespace = %s::regnamespace AND c.relkind IN ('r', 'v')
  AND c.relname <> ALL (%s) AND NOT has_table_privilege(%s, c.oid, 'SELECT')
"""


def admit_serving_role(connection: psycopg.Connection[Any], address: DatabaseUrl) -> None:
    """Check the role of ``storage.serving_url`` and grant it what it uses; ``connection`` is that of the owner.

    Raises ``SettingsError`` for a role that policies do not apply to, and for another server.
    """
    where = "SELECT current_user, current_database(), pg_postmaster_start_time()"
    with connect(address) as serving:
        role, *there = serving.execute(where).fetchall()[0]
    if there != list(connection.execute(where).fetchall()[0][1:]):
        raise SettingsError("storage.url and storage.serving_url name different databases.")
    is_superuser, bypasses, is_member, owns = connection.execute(_ROLE, (role, SCHEMA)).fetchall()[0]
    if is_superuser or bypasses or is_member or owns:
        why = (
            ("is a superuser", is_superuser),
            ("has BYPASSRLS", bypasses),
            ("owns tables of the ledger", owns),
            ("is a member of the role that owns the ledger", is_member),
        )
        raise SettingsError(
            f"Row-level security would not apply to the role {role} of storage.serving_url: it "
            f"{next(words for words, holds in why if holds)}.",
            hint="Create a role of its own: CREATE ROLE cix_serving LOGIN PASSWORD '...' NOSUPERUSER NOBYPASSRLS.",
        )
    if connection.execute(_WITHOUT, (SCHEMA, list(UNSERVED), role)).fetchone() is not None:
        _grant(connection, role)


def _grant(connection: psycopg.Connection[Any], role: str) -> None:
    name = psycopg.sql.Identifier(role)
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(hashtextextended('contextinfinity.migrate', 0))")
        for statement in (
            f"GRANT USAGE ON SCHEMA {SCHEMA} TO {{}}",
            f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {SCHEMA} TO {{}}",
            f"GRANT USAGE ON ALL SEQUENCES IN SCHEMA {SCHEMA} TO {{}}",
            *(f"REVOKE ALL ON {SCHEMA}.{table} FROM {{}}" for table in UNSERVED),
        ):
            connection.execute(psycopg.sql.SQL(statement).format(name))
