"""Vectors of chunks, in memory: every search looks at all of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from contextinfinity.domain.chunk import Chunk, Embedding
from contextinfinity.domain.ids import BranchId, ChunkId
from contextinfinity.domain.search import Namespace, NearHit, Scope, place_of
from contextinfinity.errors import NotFound
from contextinfinity.storage.in_memory.tables import Tables
from contextinfinity.storage.rules import check_namespace, check_vector, end_place, row_limit


class Space:
    """A namespace with its vectors."""

    def __init__(self, name: str, dim: int, state: Literal["current", "filling", "old"]) -> None:
        self.name, self.dim, self.state = name, dim, state
        self.vectors: dict[ChunkId, bytes] = {}

    def shown(self) -> Namespace:
        """Give it as others know it."""
        return Namespace(name=self.name, dim=self.dim, state=self.state, placed=len(self.vectors))


class InMemoryVectors:
    """The ``Vectors`` of an ``InMemoryStore``."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    async def near(self, vector: bytes, namespace: str, scope: Scope, *, most: int = 128) -> tuple[NearHit, ...]:
        """Find the chunks whose vectors are nearest."""
        with self._tables.transaction() as tables:
            space = tables.spaces.get(namespace)
            if space is None:
                return ()
            check_vector(namespace, space.dim, vector)
            bodies = {chunk.id: space.vectors[chunk.id] for chunk in _admitted(tables, space, scope)}
            nearest = _ranked(vector, bodies)[: row_limit(most)]
            return tuple(_hit(tables.chunks[chunk_id], cosine) for chunk_id, cosine in nearest)

    async def bodies(self, namespace: str, chunk_ids: Sequence[ChunkId]) -> tuple[bytes | None, ...]:
        """Read the vectors of chunks."""
        with self._tables.transaction() as tables:
            vectors = tables.spaces[namespace].vectors if namespace in tables.spaces else {}
            return tuple(vectors.get(chunk_id) for chunk_id in chunk_ids)

    async def namespaces(self) -> tuple[Namespace, ...]:
        """Tell which there are, the current one first."""
        with self._tables.transaction() as tables:
            return tuple(space.shown() for space in sorted(tables.spaces.values(), key=lambda s: s.state != "current"))

    async def open(self, name: str, dim: int) -> Namespace:
        """Make sure there is one of that name."""
        with self._tables.transaction() as tables:
            known = tables.spaces.get(name)
            check_namespace(name, dim, None if known is None else known.dim)
            space = opened(tables, name, dim)
            if space.state == "old":
                space.state = "filling"
            return space.shown()

    async def unplaced(self, namespace: str, *, limit: int = 256) -> tuple[Chunk, ...]:
        """Read chunks that have no vector there, the oldest first."""
        with self._tables.transaction() as tables:
            return tuple(_unplaced(tables, _space(tables, namespace)))[: row_limit(limit)]

    async def place(self, namespace: str, vectors: Sequence[tuple[ChunkId, bytes]]) -> None:
        """Add vectors; a chunk that has one there keeps it, one that is gone is passed over."""
        with self._tables.transaction() as tables:
            space = _space(tables, namespace)
            for _, body in vectors:
                check_vector(namespace, space.dim, body)
            for chunk_id, body in vectors:
                if chunk_id in tables.chunks:
                    space.vectors.setdefault(chunk_id, body)

    async def switch(self, namespace: str) -> bool:
        """Make it the current one, unless chunks are unplaced there."""
        with self._tables.transaction() as tables:
            space = _space(tables, namespace)
            if next(_unplaced(tables, space), None) is not None:
                return False
            for each in tables.spaces.values():
                each.state = "current" if each is space else "old"
            return True

    async def drop_old(self, *, limit: int = 1000) -> int:
        """Remove vectors of old namespaces, some at a time."""
        gone = 0
        with self._tables.transaction() as tables:
            for space in [each for each in tables.spaces.values() if each.state == "old"]:
                while space.vectors and gone < row_limit(limit):
                    space.vectors.popitem()
                    gone += 1
                if not space.vectors and gone < row_limit(limit):
                    del tables.spaces[space.name]
        return gone

    async def build(self) -> bool:
        """Do nothing: every search looks at everything."""
        return False


def check_embeddings(tables: Tables, embeddings: Sequence[Embedding]) -> None:
    """Refuse vectors of other sizes than their namespaces have, or than the first of a new one."""
    sizes = {space.name: space.dim for space in tables.spaces.values()}
    for embedding in embeddings:
        check_namespace(embedding.model, embedding.dim, sizes.setdefault(embedding.model, embedding.dim))
        check_vector(embedding.model, embedding.dim, embedding.values)


def opened(tables: Tables, name: str, dim: int) -> Space:
    """Give a namespace, which is made if need be: current if it is the first."""
    if name not in tables.spaces:
        taken = any(space.state == "current" for space in tables.spaces.values())
        tables.spaces[name] = Space(name, dim, "filling" if taken else "current")
    return tables.spaces[name]


def _space(tables: Tables, name: str) -> Space:
    if name not in tables.spaces:
        raise NotFound(f"There is no namespace {name}.")
    return tables.spaces[name]


def _unplaced(tables: Tables, space: Space) -> Iterator[Chunk]:
    return (chunk for chunk in tables.chunks.values() if chunk.id not in space.vectors)


def _ranked(vector: bytes, bodies: dict[ChunkId, bytes]) -> list[tuple[ChunkId, float]]:
    """Give the cosines, the highest first."""
    import numpy as np

    from contextinfinity.domain.vectors import unpacked

    if not bodies:
        return []
    query, rows = unpacked(vector), np.stack([unpacked(body) for body in bodies.values()])
    longest = np.linalg.norm(rows, axis=1) * np.linalg.norm(query)
    cosines = np.where(longest > 0, rows @ query / np.maximum(longest, np.finfo(np.float32).tiny), 0)
    return sorted(zip(bodies, cosines.tolist(), strict=True), key=lambda pair: -pair[1])


def _hit(chunk: Chunk, cosine: float) -> NearHit:
    return NearHit(place=place_of(chunk), chunk_id=chunk.id, similarity=cosine)


def _admitted(tables: Tables, space: Space, scope: Scope) -> Iterator[Chunk]:
    """Walk the chunks of a namespace that a scope admits."""
    stretches = None if scope.branch_id is None else _stretches(tables, scope.branch_id, scope.before)
    for chunk_id in space.vectors:
        chunk = tables.chunks[chunk_id]
        turn = tables.turns[chunk.source_turn]
        if not tables.is_living(turn):
            continue
        if stretches is not None:
            first, last = stretches.get(turn.branch_id, (0, -1))
            if not first <= turn.turn_seq <= last:
                continue
        if _is_within(tables, chunk, scope):
            yield chunk


def _stretches(tables: Tables, branch_id: BranchId, before: int | None) -> dict[BranchId, tuple[int, int]]:
    """Tell which turns of which branches one sees; an unknown one sees nothing."""
    if branch_id not in tables.branches:
        return {}
    lineage = tables.lineage(tables.branches[branch_id])
    return {branch: (first, last) for branch, first, last in lineage.backwards(end_place(before))}


def _is_within(tables: Tables, chunk: Chunk, scope: Scope) -> bool:
    return (
        scope.session_id in (None, chunk.session_id)
        and (scope.owner is None or tables.sessions[chunk.session_id].owner == scope.owner)
        and scope.admits(chunk.side, tables.said_at(place_of(chunk)))
        and (not scope.types or chunk.chunk_type in scope.types)
    )
