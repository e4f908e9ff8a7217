"""Generations: a file beside the ledger in which the nearest of very many vectors are found without looking at all.

A generation holds the vectors of a namespace up to a key, and never changes; what is newer is looked at one by one. The
ledger says which file is the right one, how long it is and what its bytes hash to: a file that is lost, damaged or of
another ledger is not used, the search goes on without and the next build makes another. A superseded file loses its
name; whoever still has it mapped goes on reading it.
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
from contextinfinity.storage.folders import make_private, sync_folder
from contextinfinity.storage.ledger.matrices import Bodies, Floats, Keys, together
from contextinfinity.storage.ledger.namespaces import Space, spaces
from contextinfinity.storage.sqlite.database import SqliteDatabase

T = TypeVar("T")

SHARE = 0.2
"""The part of a generation that may be newer than it; a scope that admits less of a namespace is looked at whole."""

OLD_SECONDS = 86_400.0
"""A file that holds something that was deleted is made again after a day at the latest."""

WIDTH, CARE, EFFORT = 16, 128, 256
"""Neighbours of a vector in the graph; candidates looked at when one is added, and when one is searched for."""

_LOOSE, _PACKS = 4096, 16  # read at a time: the reader is free for others in between
_PARTIAL = ".partial"


class BuiltGeneration(Struct, frozen=True, kw_only=True):
    """What the ledger says of a generation; it holds all vectors with keys up to ``last``."""

    file: str
    last: int
    count: int
    size: int
    sha256: str


class Generation:
    """An open file. One search at a time goes through it: each takes about a millisecond."""

    def __init__(self, index: Any, last: int) -> None:
        self.last = last
        self._index = index
        self._lock = threading.Lock()

    def near(self, query: Bodies, most: int) -> tuple[Keys, Floats]:
        """Return the nearest and their cosines, the nearest first."""
        with self._lock:
            found = self._index.search(query, max(most, EFFORT), threads=1)
        return found.keys.astype(np.int64), 1 - found.distances


class Generations:
    """The files of one ledger; ``least``: vectors from which on a namespace has one, and the most newer than it."""

    def __init__(self, database: SqliteDatabase, folder: Path, least: int) -> None:
        self.least = least
        self._database = database
        self._folder = folder
        self._ledger = database.path.name
        self._lock = threading.Lock()
        self._open: dict[int, tuple[str, Generation | None]] = {}

    def of(self, space: Space) -> Generation | None:
        """Return the generation of a namespace; None where there is none that can be used."""
        made = None if space.generation is None else msgspec.json.decode(space.generation, type=BuiltGeneration)
        if made is None or space.placed <= self.least:
            return None
        with self._lock:
            if self._open.get(space.key, ("",))[0] != made.file:
                self._open[space.key] = made.file, _opened(self._folder / made.file, made, space.dim)
            return self._open[space.key][1]

    def build(self) -> bool:
        """Make what is due, for the current namespace and one that could be switched to; return whether anything was.

        It takes minutes for a million, in the thread that calls it, and goes on beside everything else. Of several
        processes one builds.
        """
        if not self._read(self._due):
            return False
        with _alone(self._folder, self._ledger) as alone:
            due = self._read(self._due) if alone else []  # once more: another process may just have finished
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
        """Return how many seconds ago a file was made."""
        return time.time() - (self._folder / made.file).stat().st_mtime

    def _make(self, space: Space) -> None:
        """Build a file, make it durable, and only then tell the ledger."""
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
        """Read all up to a key, some at a time. Loose ones first: what is packed meanwhile is met again in its pack."""
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
        """Take away what no namespace refers to, and what somebody left unfinished."""
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
    """Open a file that is what the ledger says, byte for byte: a damaged graph would lead a search astray."""
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
    """Flush a finished file, return it its name, and return its size and hash."""
    with unfinished.open("rb") as file:
        os.fsync(file.fileno())
    measured = _measured(_content(unfinished))
    unfinished.rename(final)
    sync_folder(final.parent)
    return measured


def _content(path: Path) -> Path | bytes:
    """Return a file that can be mapped, or the bytes of one that has to be decrypted first."""
    protection = protection_of(path)
    return opened(protection, path.read_bytes()) if protection.is_on else path


def _measured(content: Path | bytes) -> tuple[int, str]:
    """Return the size and the hash of a graph: of its content, so that sealing it changes neither."""
    if isinstance(content, bytes):
        return len(content), hashlib.sha256(content).hexdigest()
    with content.open("rb") as file:
        return os.fstat(file.fileno()).st_size, hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def _alone(folder: Path, ledger: str) -> Iterator[bool]:
    """Hold the lock of those who build; False when another process has it."""
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
