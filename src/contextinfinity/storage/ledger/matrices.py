"""In-memory caches of vectors of a session, an owner or all owners, extended with new vectors on demand.

A matrix only grows: new vectors have higher keys. Deleted vectors stay in it; a search looks up every hit in the ledger
before it returns it. This module needs numpy and is imported by the first search.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from contextinfinity.domain.search import HEAD
from contextinfinity.domain.session import Owner
from contextinfinity.storage.database import Connection

Keys: TypeAlias = NDArray[np.int64]
Bodies: TypeAlias = NDArray[np.int8]
Floats: TypeAlias = NDArray[np.float32]

MEMORY = 192 << 20
"""Bytes for all matrices of a process; the least recently used are dropped first."""

MOST = 4096
"""The most matrices that are kept."""

_GROWTH = 256  # least number of rows that a matrix grows by
_AT_ONCE = 512  # rows converted to floats at a time, so that they fit into the CPU cache


class MatrixOwner(NamedTuple):
    """Selects the vectors of a session, of an owner, or with neither of all owners; only those with a higher key."""

    space: int
    dim: int
    session_id: bytes | None = None
    owner: Owner | None = None
    above: int = 0


class Rows(NamedTuple):
    """Vectors with their keys; ``shrink`` holds the factors that normalise them to length 1."""

    keys: Keys
    bodies: Bodies
    shrink: Floats

    def first(self, size: int) -> Rows:
        """Return the first ``size`` rows."""
        return Rows(self.keys[:size], self.bodies[:size], self.shrink[:size])

    def near(self, query: Bodies) -> Floats:
        """Return the cosine similarity of each row with a vector."""
        wanted = query.astype(np.float32)
        found = np.empty(len(self.keys), np.float32)
        for start in range(0, len(found), _AT_ONCE):
            end = start + _AT_ONCE
            # Not a matrix product: BLAS would start threads and wait for them on a busy machine.
            np.vecdot(self.bodies[start:end].astype(np.float32), wanted, out=found[start:end])
        found *= self.shrink
        found *= lengths(query[None])[0]
        return found


def lengths(bodies: Bodies) -> Floats:
    """Return the factors that normalise rows to length 1; 0 for a row of zeros."""
    squares = np.empty(len(bodies), np.float32)
    for start in range(0, len(bodies), _AT_ONCE):
        part = bodies[start : start + _AT_ONCE].astype(np.float32)
        np.vecdot(part, part, out=squares[start : start + _AT_ONCE])
    return np.where(squares > 0, 1 / np.sqrt(np.maximum(squares, 1)), 0).astype(np.float32)


def best(scores: Floats, most: int) -> NDArray[np.intp]:
    """Return the indexes of the highest scores, highest first."""
    if most < len(scores):
        top = np.argpartition(scores, len(scores) - most)[len(scores) - most :]
        return top[np.argsort(-scores[top], kind="stable")]
    return np.argsort(-scores, kind="stable")


Read: TypeAlias = Callable[[Connection, MatrixOwner, int], Iterator[tuple[Keys, Bodies]]]
"""Reads vectors with a key above the given one, in batches."""


class _Matrix:
    """Rows that grow in place; earlier, shorter views of them stay valid."""

    def __init__(self, dim: int, above: int) -> None:
        self.lock = threading.Lock()
        self.last = above
        self.rows = Rows(np.empty(0, np.int64), np.empty((0, dim), np.int8), np.empty(0, np.float32))
        self._room = self.rows

    def extend(self, keys: Keys, bodies: Bodies) -> None:
        """Append new rows."""
        size, end = len(self.rows.keys), len(self.rows.keys) + len(keys)
        if end > len(self._room.keys):
            self._room = self._larger(end + max(_GROWTH, end // 8))
        room = self._room
        room.keys[size:end], room.bodies[size:end] = keys, bodies
        room.shrink[size:end] = lengths(room.bodies[size:end])
        self.rows = room.first(end)
        self.last = max(self.last, int(keys.max(initial=0)))

    def _larger(self, size: int) -> Rows:
        keys, bodies, shrink = self.rows
        room = Rows(np.empty(size, np.int64), np.empty((size, bodies.shape[1]), np.int8), np.empty(size, np.float32))
        room.keys[: len(keys)], room.bodies[: len(keys)], room.shrink[: len(keys)] = keys, bodies, shrink
        return room

    def size(self) -> int:
        return sum(room.nbytes for room in self._room)


class Matrices:
    """The matrices of a process. Thread-safe."""

    def __init__(self, read: Read, memory: int = MEMORY) -> None:
        self.memory = memory
        self._read = read
        self._kept: OrderedDict[MatrixOwner, _Matrix] = OrderedDict()
        self._lock = threading.Lock()

    def rows(self, connection: Connection, whose: MatrixOwner) -> Rows:
        """Return all current rows of the ledger, and possibly some deleted or newer ones."""
        with self._lock:
            matrix = self._kept.setdefault(whose, _Matrix(whose.dim, whose.above))
            self._kept.move_to_end(whose)
            if len(self._kept) > MOST:
                self._kept.popitem(last=False)
        with matrix.lock:
            before = matrix.rows
            try:
                for keys, bodies in self._read(connection, whose, matrix.last):
                    matrix.extend(keys, bodies)
            except BaseException:
                self.forget(whose)  # it may lack rows in the middle
                raise
            rows = matrix.rows
        if rows is not before:
            self._make_room()
        return rows

    def forget(self, whose: MatrixOwner) -> None:
        """Drop a matrix; it is read again when it is needed."""
        with self._lock:
            self._kept.pop(whose, None)

    def size(self) -> int:
        """Return the size of all matrices in bytes."""
        return sum(matrix.size() for matrix in self._kept.values())

    def _make_room(self) -> None:
        with self._lock:
            total = self.size()
            while total > self.memory and self._kept:
                total -= self._kept.popitem(last=False)[1].size()


def together(numbers: list[int], parts: Iterable[bytes], dim: int, after: int) -> tuple[Keys, Bodies]:
    """Concatenate packs and single vectors, without known and deleted ones."""
    keys = np.array(numbers, np.int64)
    bodies = np.frombuffer(b"".join(parts), np.int8).reshape(len(keys), HEAD + dim)[:, HEAD:]
    wanted = keys > after
    return (keys, bodies) if wanted.all() else (keys[wanted], bodies[wanted])


Source: TypeAlias = Callable[[int], tuple[Keys, Floats]]
"""Returns the keys and cosines of the nearest n vectors, nearest first."""


def scanned(rows: Rows, query: Bodies) -> Source:
    """Return a source that compares every row."""
    return _listed(rows.keys, rows.near(query))


def _listed(keys: Keys, scores: Floats) -> Source:
    def nearest(most: int) -> tuple[Keys, Floats]:
        places = best(scores, most)
        return keys[places], scores[places]

    return nearest


def merged(first: Source, second: Source) -> Source:
    """Return a source that merges two sources."""

    def nearest(most: int) -> tuple[Keys, Floats]:
        pairs = (first(most), second(most))
        keys, scores = np.concatenate([keys for keys, _ in pairs]), np.concatenate([scores for _, scores in pairs])
        places = best(scores, most)
        return keys[places], scores[places]

    return nearest


def streamed(read: Read, connection: Connection, whose: MatrixOwner, query: Bodies) -> Source:
    """Return a source that compares every row without caching it; for very many rows."""
    keys, scores = [np.empty(0, np.int64)], [np.empty(0, np.float32)]
    for some, bodies in read(connection, whose, whose.above):
        keys.append(some)
        scores.append(Rows(some, bodies, lengths(bodies)).near(query))
    return _listed(np.concatenate(keys), np.concatenate(scores))
