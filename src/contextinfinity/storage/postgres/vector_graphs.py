"""HNSW indexes of pgvector, for owners with very many vectors.

Each such owner has an index for each namespace: a partial one, so that a search finds nothing of others and misses
nothing among them. The database keeps it up to date. Without the extension all vectors of the owner are compared.
"""

from __future__ import annotations

import logging
import time
from typing import Any, NamedTuple

import numpy as np
import psycopg

from contextinfinity.domain.search import HEAD
from contextinfinity.domain.session import Owner
from contextinfinity.storage.ledger.matrices import Bodies, Floats, Keys, Rows, Source, lengths
from contextinfinity.storage.ledger.namespaces import Space
from contextinfinity.storage.postgres.connection import connect, translated
from contextinfinity.storage.postgres.database import PostgresDatabase
from contextinfinity.storage.postgres.named_sql import PostgresConnection

log = logging.getLogger(__name__)

EFFORT, MOST_EFFORT = 200, 1000
"""Candidates of a search (``hnsw.ef_search``)."""
LOOK_SECONDS = 60.0
"""How long a process believes what it knows of the indexes."""

_EXTENSION = "SELECT nspname FROM pg_extension JOIN pg_namespace AS n ON n.oid = extnamespace WHERE extname = 'vector'"
_GRAPHS = """SELECT relname, indisvalid FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid
WHERE indrelid = 'contextinfinity.vector'::regclass AND relname LIKE 'vector\\_graph\\_%'"""
_NAMESPACES = "SELECT key, dim FROM namespace WHERE state <> 'old'"
_WIDE = "SELECT tenant::text FROM vector WHERE namespace_key = %s GROUP BY tenant HAVING count(*) >= %s"
_CREATE = """CREATE INDEX CONCURRENTLY {name} ON vector
USING hnsw ((vector_numbers(body)::{schema}.halfvec({dim})) {schema}.halfvec_cosine_ops)
WHERE namespace_key = {namespace} AND tenant = '{tenant}'"""
_NEAREST = """SELECT key, body FROM vector WHERE namespace_key = {namespace} AND tenant = '{tenant}'
ORDER BY (vector_numbers(body)::{schema}.halfvec({dim})) OPERATOR({schema}.<=>) '{query}'::{schema}.halfvec({dim})
LIMIT {most}"""


class _Graph(NamedTuple):
    """An index: the schema of the extension, and the values of its condition."""

    schema: str
    namespace: int
    dim: int
    tenant: str

    @property
    def name(self) -> str:
        return f"vector_graph_{self.namespace}_{self.tenant.replace('-', '')}"


class VectorGraphs:
    """The indexes of one ledger; ``least``: how many vectors an owner has to have."""

    def __init__(self, database: PostgresDatabase, least: int) -> None:
        self._database = database
        self._least = least
        self._looked = 0.0
        self._schema = ""
        self._names: frozenset[str] = frozenset()
        self._tenants: dict[Owner, str] = {}
        self._warned = False

    def source(self, connection: PostgresConnection, space: Space, owner: Owner, query: Bodies) -> Source | None:
        """Return the nearest vectors of an owner by their index; None if there is no index."""
        if space.placed < self._least or not self._known(connection):
            return None
        tenant = self._tenants.get(owner)
        if tenant is None:
            row = connection.one("select_tenant_of_owner", (owner.org_id, owner.user_id))
            if row is None:
                return None
            tenant = self._tenants[owner] = row[0]
        graph = _Graph(self._schema, space.key, space.dim, tenant)
        return None if graph.name not in self._names else lambda most: _nearest(connection, graph, query, most)

    def build(self) -> bool:
        """Make the indexes that are missing, and return whether any was made. Blocks, perhaps for minutes.

        Nothing waits for it; one process does it at a time.
        """
        with translated(self._database.address.name), connect(self._database.address) as connection:
            spaces = connection.execute(_NAMESPACES).fetchall()
            spaces = [space for space in spaces if self._is_large(connection, space[0])]
            if not spaces or not (schema := self._extension(connection)):
                return False
            connection.execute("SET statement_timeout = 0; SET lock_timeout = 0; SET maintenance_work_mem = '512MB'")
            alone = connection.execute("SELECT pg_try_advisory_lock(hashtextextended('contextinfinity.graphs', 0))")
            return alone.fetchall()[0][0] and self._build(connection, schema, spaces)

    def _is_large(self, connection: psycopg.Connection[Any], namespace: int) -> bool:
        counted = "SELECT coalesce(sum(placed), 0) FROM vector_count WHERE namespace_key = %s"
        return int(connection.execute(counted, (namespace,)).fetchall()[0][0]) >= self._least

    def _build(self, connection: psycopg.Connection[Any], schema: str, spaces: list[Any]) -> bool:
        valid = dict(connection.execute(_GRAPHS).fetchall())
        graphs = [
            _Graph(schema, namespace, dim, tenant)
            for namespace, dim in spaces
            for (tenant,) in connection.execute(_WIDE, (namespace, self._least))
        ]
        missing = [graph for graph in graphs if not valid.get(graph.name)]
        for graph in missing:
            if graph.name in valid:  # its making was interrupted
                connection.execute(f"DROP INDEX {graph.name}".encode())
            log.info("making an index of the vectors of a large owner: %s", graph.name)
            connection.execute(_CREATE.format(name=graph.name, **graph._asdict()).encode())
        self._looked = 0.0
        return bool(missing)

    def _extension(self, connection: psycopg.Connection[Any]) -> str:
        """Return the schema of the extension, which is installed if that is allowed; empty without one."""
        try:
            connection.execute("CREATE EXTENSION IF NOT EXISTS vector SCHEMA public")
        except psycopg.Error as error:
            if not self._warned:
                log.warning("pgvector is not installed, so all vectors of large owners are compared: %s", error)
                self._warned = True
        found = connection.execute(_EXTENSION).fetchall()
        return str(found[0][0]) if found else ""

    def _known(self, connection: PostgresConnection) -> bool:
        """Return whether there are indexes; they are looked up now and then."""
        if time.monotonic() - self._looked > LOOK_SECONDS or not self._looked:
            self._names = frozenset(name for name, is_valid in connection.run(_GRAPHS) if is_valid)
            self._schema = next((schema for (schema,) in connection.run(_EXTENSION)), "")
            self._looked = time.monotonic()
        return bool(self._names and self._schema)


def _nearest(connection: PostgresConnection, graph: _Graph, query: Bodies, most: int) -> tuple[Keys, Floats]:
    """Return keys and cosines of the nearest vectors, nearest first."""
    effort = min(max(most, EFFORT), MOST_EFFORT)
    words = f"[{','.join(map(str, query.tolist()))}]"
    found = connection.run(
        f"SET LOCAL hnsw.ef_search = {effort}",
        "SET LOCAL hnsw.iterative_scan = 'strict_order'",
        "SET LOCAL enable_sort = off",
        _NEAREST.format(query=words, most=most, **graph._asdict()),
    )
    keys = np.array([key for key, _ in found], np.int64)
    bodies = np.frombuffer(b"".join(body for _, body in found), np.int8).reshape(len(found), HEAD + graph.dim)[:, HEAD:]
    scores = Rows(keys, bodies, lengths(bodies)).near(query)
    order = np.argsort(-scores, kind="stable")
    return keys[order], scores[order]
