"""Vectors of chunks, in every store: one a chunk and namespace, and the nearest of them.

A namespace holds the vectors of one embedder. The current one is searched; a changed embedder fills another one beside
it, and only when that is complete is it switched to: a search never goes empty, and never compares vectors of two
embedders. What all verbs of a store share, these share. Vectors are bytes, as ``domain.vectors`` packs them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from contextinfinity.domain.chunk import Chunk
from contextinfinity.domain.ids import ChunkId
from contextinfinity.domain.search import Namespace, NearHit, Scope


class Vectors(Protocol):
    """Where chunks stand in the space of an embedder."""

    async def near(self, vector: bytes, namespace: str, scope: Scope, *, most: int = 128) -> tuple[NearHit, ...]:
        """Find the chunks whose vectors are nearest, the nearest first. ``InvalidInput`` for another dimension."""
        ...

    async def bodies(self, namespace: str, chunk_ids: Sequence[ChunkId]) -> tuple[bytes | None, ...]:
        """Read the vectors of chunks; None for one that has none there."""
        ...

    async def namespaces(self) -> tuple[Namespace, ...]:
        """Tell which namespaces there are, the current one first."""
        ...

    async def open(self, name: str, dim: int) -> Namespace:
        """Make sure there is one of that name: the first is current at once, any other has to be filled.

        One that was current before and is old by now is filled anew. ``InvalidInput`` for another dimension.
        """
        ...

    async def unplaced(self, namespace: str, *, limit: int = 256) -> tuple[Chunk, ...]:
        """Read chunks that have no vector there, the oldest first."""
        ...

    async def place(self, namespace: str, vectors: Sequence[tuple[ChunkId, bytes]]) -> None:
        """Add vectors; a chunk that has one there keeps it, one that is gone is passed over."""
        ...

    async def switch(self, namespace: str) -> bool:
        """Make it the current one, unless chunks are unplaced there; the one before is old from then on."""
        ...

    async def drop_old(self, *, limit: int = 1000) -> int:
        """Remove vectors of old namespaces, some at a time; tell how many."""
        ...

    async def build(self) -> bool:
        """Make what a search in very many vectors is quicker by, where it is due; tell whether anything was made.

        It may take minutes, beside everything else; a search never waits for it and never needs it.
        """
        ...
