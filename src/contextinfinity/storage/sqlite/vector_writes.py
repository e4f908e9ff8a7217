"""Writing vectors in SQLite: loose vectors and packs.

The newest vectors of a session are separate rows; the 256th vector turns them into one pack, in the same transaction.
Everything here runs inside the caller's transaction. Keys are never reused, so a cache of vectors is extended from its
highest key; a cached vector is looked up by its key before it is returned.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import TypeAlias

from contextinfinity.domain.search import HEAD, Embedding
from contextinfinity.storage.database import Connection
from contextinfinity.storage.invariants import check_namespace, check_vector
from contextinfinity.storage.ledger.namespaces import Space, find_space, must_space, note_filled, open_space

PACK = 256
"""Vectors in a pack: about 68 KB, which SQLite reads at once."""


Placed: TypeAlias = tuple[int, Embedding]
"""The key of a chunk and its vector."""

_Body: TypeAlias = tuple[int, bytes]


def put_embeddings(connection: Connection, session_id: bytes, placed: Iterable[Placed]) -> None:
    """Add vectors of chunks, each to the namespace of its model, which is created if needed."""
    spaces: dict[str, Space] = {}
    by_model: dict[str, list[_Body]] = {}
    for chunk_key, embedding in placed:
        model = embedding.model
        if model not in spaces:
            spaces[model] = find_space(connection, model) or open_space(connection, model, embedding.dim)
        check_namespace(model, embedding.dim, spaces[model].dim)
        by_model.setdefault(model, []).append((chunk_key, embedding.values))
    for model, vectors in by_model.items():
        _put(connection, session_id, spaces[model], vectors)


def put_vectors(connection: Connection, session_id: bytes, namespace: str, vectors: Sequence[_Body]) -> None:
    """Add vectors of chunks of one session, by chunk key; existing vectors are kept."""
    _put(connection, session_id, must_space(connection, namespace), vectors)


def _put(connection: Connection, session_id: bytes, space: Space, vectors: Sequence[_Body]) -> None:
    new: list[_Body] = []
    for chunk_key, body in vectors:
        check_vector(space.name, space.dim, body)
        row = connection.one("insert_vector", (space.key, chunk_key))
        if row is not None:
            new.append((row[0], body))
    if new:
        _keep(connection, space.key, session_id, new)
        connection.execute("count_placed", {"key": space.key, "change": len(new)})
        note_filled(connection, space)


def _keep(connection: Connection, space: int, session_id: bytes, new: list[_Body]) -> None:
    """Insert new vectors as rows, or combine them with existing rows into packs."""
    loose: int = connection.one("count_loose", (space, session_id))[0]  # type: ignore[index]
    if loose + len(new) >= PACK:
        new = sorted(connection.many("delete_loose", (space, session_id))) + new
        while len(new) >= PACK:
            full, new = new[:PACK], new[PACK:]
            keys, bodies = json.dumps([key for key, _ in full], separators=(",", ":")), b"".join(b for _, b in full)
            connection.execute("insert_pack", (space, session_id, full[-1][0], keys, bodies))
    connection.execute_many("insert_loose", ((key, space, session_id, body) for key, body in new))


def drop_vectors(connection: Connection, chunk_keys: Iterable[int]) -> None:
    """Delete all vectors of chunks, also from packs; call it before the chunks are deleted."""
    packed: dict[tuple[int, bytes, int], list[int]] = {}
    for chunk_key in chunk_keys:
        for key, space, dim, session_id in connection.many("select_vectors_of_chunk", (chunk_key,)):
            if connection.one("delete_loose_vector", (key,)) is None:
                packed.setdefault((space, session_id, HEAD + dim), []).append(key)
            connection.execute("delete_vector", (key,))
            connection.execute("count_placed", {"key": space, "change": -1})
            connection.execute("lower_filled", {"key": space, "chunk": chunk_key})
    for (space, session_id, size), keys in packed.items():
        _blank(connection, (space, session_id), sorted(keys), size)


def _blank(connection: Connection, place: tuple[int, bytes], gone: list[int], size: int) -> None:
    """Blank vectors of a session in their packs, rewriting each pack once."""
    while gone:
        row = connection.one("select_pack_of", (*place, gone[0]))
        if row is None:
            return  # damaged: the vector is not in the ledger
        keys, bodies = json.loads(row[1]), bytearray(row[2])
        last = max(*keys, gone[0])
        here, gone = {key for key in gone if key <= last}, [key for key in gone if key > last]
        for slot, key in enumerate(keys):
            if key in here:
                keys[slot] = 0
                bodies[slot * size : (slot + 1) * size] = bytes(size)
        if any(keys):
            values = {"key": row[0], "keys": json.dumps(keys, separators=(",", ":")), "bodies": bytes(bodies)}
            connection.execute("update_pack", values)
        else:
            connection.execute("delete_pack", (row[0],))


def drop_old(connection: Connection, limit: int) -> int:
    """Delete vectors of old namespaces, in whole packs, until at least ``limit`` are deleted; return how many."""
    gone = 0
    while gone < limit and (old := connection.one("select_old")) is not None:
        keys = _take_old(connection, old[0], limit - gone)
        connection.execute_many("delete_vector", ((key,) for key in keys))
        connection.execute("count_placed", {"key": old[0], "change": -len(keys)})
        gone += len(keys)
        if not keys:
            connection.execute("delete_namespace", (old[0],))
            if not connection.changes():
                break  # damaged: fewer vectors than counted
    return gone


def _take_old(connection: Connection, space: int, limit: int) -> list[int]:
    row = connection.one("delete_old_pack", (space,))
    if row is not None:
        return [key for key in json.loads(row[0]) if key]
    return [key for (key,) in connection.many("delete_old_loose", (space, limit))]
