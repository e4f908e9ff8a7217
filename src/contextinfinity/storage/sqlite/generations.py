"""Generations: HNSW index files next to the ledger, for approximate nearest-neighbour search in large namespaces.

A generation holds the vectors of a namespace up to a key and never changes; newer vectors are compared one by one. The
ledger stores the name, size and hash of the valid file. A missing, damaged or foreign file is not used: searches work
without it, and the next build replaces it. A superseded file is unlinked; processes that have it mapped keep using it.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import numpy as np
from msgspec import Struct

from contextinfinity.domain.ids import new_id
from contextinfinity.storage.database import Connection, Row
from contextinfinity.storage.encryption.cipher import opened, sealed
from contextinfinity.storage.encryption.protection import protection_of
from contextinfinity.storage.folders import make_private, sync_file, sync_folder
from contextinfinity.storage.ledger.matrices import Bodies, Floats, Keys, together
from contextinfinity.storage.ledger.namespaces import Space, spaces
from contextinfinity.storage.sqlite.database import SqliteDatabase

T = TypeVar("T")

SHARE = 0.2
"""Share of newer vectors that triggers a rebuild; a scope with a smaller share of a namespace is compared in full."""

OLD_SECONDS = 86_400.0
"""A file that contains deleted vectors is rebuilt after a day at the latest."""

WIDTH, CARE, EFFORT = 16, 128, 256
"""HNSW parameters: neighbours per vector (M), candidates when adding (ef_construction) and searching (ef)."""

_LOOSE, _PACKS = 4096, 16  # batch sizes, so that the reader thread is free for others in between
_PARTIAL = ".partial"


class BuiltGeneration(Struct, frozen=True, kw_only=True):
    """The ledger's record of a generation, which holds all vectors with keys up to ``last``."""

    file: str
    last: int
    count: int
    size: int
    sha256: str


class Generation:
    """An open index file. Searches run one at a time; each takes about a millisecond."""

    def __init__(self, index: Any, last: int) -> None:
        self.last = last
        self._index = index
        self._lock = threading.Lock()

    def near(self, query: Bodies, most: int) -> tuple[Keys, Floats]:
        """Return the keys and cosines of the nearest vectors, nearest first."""
        with self._lock:
            found = self._index.search(query, max(most, EFFORT), threads=1)
        return found.keys.astype(np.int64), 1 - found.distances


class Generations:
    """The index files of one ledger; ``least``: namespace size from which a file is built, and most newer vectors."""

    def __init__(self, database: SqliteDatabase, folder: Path, least: int) -> None:
        self.least = least
        self._database = database
        self._folder = folder
        self._ledger = database.path.name
        self._lock = threading.Lock()
        self._open: dict[int, tuple[str, Generation | None]] = {}

    def of(self, space: Space) -> Generation | None:
        """Return the usable generation of a namespace, or None."""
        made = None if space.generation is None else msgspec.json.decode(space.generation, type=BuiltGeneration)
        if made is None or space.placed <= self.least:
            return None
        with self._lock:
            if self._open.get(space.key, ("",))[0] != made.file:
                self._open[space.key] = made.file, _opened(self._folder / made.file, made, space.dim)
            return self._open[space.key][1]

    def build(self) -> bool:
        """Build the files that are due, for the current and the next namespace; return whether any was built.

        This takes minutes for a million vectors and blocks the calling thread only. A lock ensures that one process
        builds at a time.
        """
        if not self._read(self._due):
            return False
        with _alone(self._folder, self._ledger) as alone:
            due = self._read(self._due) if alone else []  # check again: another process may just have finished
            for space in due:
                self._make(space)
            if due:
                self._clear()
        return bool(due)

    def _read(self, work: Callable[[Connection], T]) -> T:
        return self._database.reading(work).result()

    def _due(self, connection: Connection) -> list[Space]:
        return [space for space in spaces(connection) if self._is_due(connection, space)]

    def _is_due(self, connection: Connection, space: Space) -> bool:
        if space.placed <= self.least or space.state == "old":
            return False
        wanting = {"namespace": space.key, "filled": space.filled, "limit": 1}
        if space.state == "filling" and connection.one("select_unplaced", wanting):
            return False
        if self.of(space) is None:
            return True
        made = msgspec.json.decode(space.generation or "", type=BuiltGeneration)
        newer = int(connection.one("count_newer", {"namespace": space.key, "after": made.last})[0])  # type: ignore[index]
        gone, enough = made.count - (space.placed - newer), min(SHARE * made.count, self.least)
        return max(newer, gone) > enough or (gone > 0 and self._age(made) > OLD_SECONDS)

    def _age(self, made: BuiltGeneration) -> float:
        """Return the age of a file in seconds."""
        return time.time() - (self._folder / made.file).stat().st_mtime

    def _make(self, space: Space) -> None:
        """Build a file, make it durable, and only then record it in the ledger."""
        unfinished = self._folder / f"{self._ledger}.{new_id()}{_PARTIAL}"
        final = unfinished.with_suffix(".usearch")
        try:
            last, count = self._write(space, unfinished)
            size, digest = _made_durable(unfinished, final)
            made = BuiltGeneration(file=final.name, last=last, count=count, size=size, sha256=digest)
            values = {"key": space.key, "generation": msgspec.json.encode(made).decode()}
            self._database.writing(lambda connection: connection.execute("set_generation", values)).result()
        finally:
            unfinished.unlink(missing_ok=True)

    def _write(self, space: Space, path: Path) -> tuple[int, int]:
        from usearch.index import Index

        index = Index(ndim=space.dim, metric="cos", dtype="i8", connectivity=WIDTH, expansion_add=CARE)
        last = self._read(_newest)
        for keys, bodies in self._blocks(space, last):
            fresh = ~np.asarray(index.contains(keys.astype(np.uint64)), bool)
            if fresh.any():
                index.add(keys[fresh].astype(np.uint64), np.ascontiguousarray(bodies[fresh]), threads=1)
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        protection = protection_of(path)
        if protection.is_on:
            path.write_bytes(sealed(protection, bytes(index.save() or b"")))
        else:
            index.save(str(path))
        return last, len(index)

    def _blocks(self, space: Space, last: int) -> Iterator[tuple[Keys, Bodies]]:
        """Yield all vectors up to a key in batches; loose ones first, because they may be packed in the meantime."""
        for statement, most in (("select_loose_block", _LOOSE), ("select_pack_block", _PACKS)):
            after = 0
            while True:
                values = {"namespace": space.key, "after": after, "last": last, "limit": most}
                rows = self._read(partial(_many, statement, values))
                if not rows:
                    break
                after = rows[-1][0]
                numbers = [key for row in rows for key in msgspec.json.decode(row[1], type=list[int])]
                keys, bodies = together(numbers, (row[2] for row in rows), space.dim, 0)
                known = keys <= last
                yield keys[known], bodies[known]

    def _clear(self) -> None:
        """Delete files that no namespace refers to, and unfinished ones."""
        named = (space.generation for space in self._read(spaces) if space.generation)
        wanted = {msgspec.json.decode(text, type=BuiltGeneration).file for text in named}
        for path in self._folder.glob(f"{self._ledger}.*"):
            if path.suffix in (".usearch", _PARTIAL) and path.name not in wanted:
                path.unlink(missing_ok=True)


def _many(statement: str, values: dict[str, int], connection: Connection) -> list[Row]:
    return connection.many(statement, values)


def _newest(connection: Connection) -> int:
    return int(connection.one("select_newest_vector")[0])  # type: ignore[index]


def _opened(path: Path, made: BuiltGeneration, dim: int) -> Generation | None:
    """Open a file if its size and hash match the ledger's record; None otherwise."""
    try:
        content = _content(path)
        if _measured(content) != (made.size, made.sha256):
            return None
        from usearch.index import Index

        index = Index(ndim=dim, metric="cos", dtype="i8", expansion_search=EFFORT)
        if isinstance(content, Path):
            index.view(str(path))
        else:
            index.load(content)
    except (OSError, ImportError, RuntimeError, ValueError):
        return None
    if (index.ndim, len(index)) != (dim, made.count):
        return None
    return Generation(index, made.last)


def _made_durable(unfinished: Path, final: Path) -> tuple[int, str]:
    """Flush a finished file, rename it, and return its size and hash."""
    with unfinished.open("rb") as file:
        sync_file(file.fileno())
    measured = _measured(_content(unfinished))
    unfinished.rename(final)
    sync_folder(final.parent)
    return measured


def _content(path: Path) -> Path | bytes:
    """Return the path of a file that can be mapped, or the decrypted bytes of an encrypted one."""
    protection = protection_of(path)
    return opened(protection, path.read_bytes()) if protection.is_on else path


def _measured(content: Path | bytes) -> tuple[int, str]:
    """Return the size and hash of the decrypted content, so that encryption changes neither."""
    if isinstance(content, bytes):
        return len(content), hashlib.sha256(content).hexdigest()
    with content.open("rb") as file:
        return os.fstat(file.fileno()).st_size, hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def _alone(folder: Path, ledger: str) -> Iterator[bool]:
    """Take the build lock; yield False if another process holds it."""
    make_private(folder)
    descriptor = os.open(folder / f"{ledger}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        alone = False
        with suppress(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            alone = True
        yield alone
    finally:
        os.close(descriptor)
