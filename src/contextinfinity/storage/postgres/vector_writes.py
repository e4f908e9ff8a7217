"""Writing vectors in PostgreSQL: one row each, in the order of their keys."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from contextinfinity.domain.search import Embedding
from contextinfinity.storage.database import Connection
from contextinfinity.storage.invariants import check_namespace, check_vector
from contextinfinity.storage.ledger.namespaces import Space, find_space, must_space, note_filled, open_space


def put_embeddings(connection: Connection, session_id: bytes, placed: Iterable[tuple[int, Embedding]]) -> None:
    """Add vectors of chunks, each to the namespace of its model, which is made if need be."""
    spaces: dict[str, Space] = {}
    by_model: dict[str, list[tuple[int, bytes]]] = {}
    for chunk_key, embedding in placed:
        model = embedding.model
        if model not in spaces:
            spaces[model] = find_space(connection, model) or open_space(connection, model, embedding.dim)
        check_namespace(model, embedding.dim, spaces[model].dim)
        by_model.setdefault(model, []).append((chunk_key, embedding.values))
    for model, vectors in by_model.items():
        _put(connection, session_id, spaces[model], vectors)


def put_vectors(
    connection: Connection, session_id: bytes, namespace: str, vectors: Sequence[tuple[int, bytes]]
) -> None:
    """Add vectors of chunks of one session, by the chunks' keys; a chunk that has one there keeps it."""
    space = must_space(connection, namespace)
    _put(connection, session_id, space, vectors)
    note_filled(connection, space)


def _put(connection: Connection, session_id: bytes, space: Space, vectors: Sequence[tuple[int, bytes]]) -> None:
    connection.execute("lock_namespace", (space.key,))
    rows = []
    for chunk_key, body in vectors:
        check_vector(space.name, space.dim, body)
        rows.append((space.key, chunk_key, session_id, body))
    connection.prefetch(*(("insert_vector", row) for row in rows))
    added = sum(connection.one("insert_vector", row) is not None for row in rows)
    if added:
        connection.execute("count_placed", {"key": space.key, "change": added})


def drop_vectors(connection: Connection, chunk_keys: Iterable[int]) -> None:
    """Remove all vectors of chunks, before the chunks are deleted."""
    for chunk_key in chunk_keys:
        for (space,) in connection.many("delete_vectors_of_chunk", (chunk_key,)):
            connection.execute("count_placed", {"key": space, "change": -1})
            connection.execute("lower_filled", {"key": space, "chunk": chunk_key})


def drop_old(connection: Connection, limit: int) -> int:
    """Remove vectors of namespaces that are searched no more, at most so many; return how many."""
    gone = 0
    while gone < limit and (old := connection.one("select_old")) is not None:
        keys = connection.many("delete_old_vectors", (old[0], limit - gone))
        connection.execute("count_placed", {"key": old[0], "change": -len(keys)})
        gone += len(keys)
        if not keys:
            connection.execute("delete_namespace", (old[0],))
            if not connection.changes():
                break
    return gone
