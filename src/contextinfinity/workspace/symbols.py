"""A map of a repository: what each file defines, which files use it, and how important each file is.

Files are listed as git would list them (.gitignore is respected), read once and again only if they change: first the
time and size are compared, then the hash of the content. The map can be kept in a file, so that the next process only
reads what changed. A file refers to another one if it uses a name that only few files define.
"""

from __future__ import annotations

import array
import hashlib
import logging
import os
import re
import secrets
import zlib
from collections import defaultdict
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

import msgspec
import numpy as np
from msgspec import Struct

from contextinfinity.errors import FileRefused
from contextinfinity.storage.encryption.cipher import opened, sealed
from contextinfinity.storage.encryption.protection import protection_of
from contextinfinity.workspace.files import MAX_BYTES, normalize_path, read_bytes
from contextinfinity.workspace.languages import Definition, definitions, language_of
from contextinfinity.workspace.listing import list_files

log = logging.getLogger(__name__)

MOST_DEFINITIONS = 60
"""How many lines of one file are shown at most; the deepest ones go first."""
MOST_DEFINERS = 4
"""A name that more files define says nothing about which of them is meant."""
MOST_PLAIN_USERS = 20
"""A plain lower-case word (``run``, ``the``) that more files use is not a reference: it also appears in comments."""
MOST_IDENTIFIERS = 4_000
ROUNDS, DAMPING = 40, 0.85
_IDENTIFIER = re.compile(rb"[A-Za-z_][A-Za-z0-9_]{2,}")
_SPECIFIC = re.compile(r"[A-Z_0-9]|^.{14}")
_VERSION = 2


class FileSymbols(Struct, frozen=True, array_like=True):
    """The symbols of one file. ``uses`` are the hashes of its identifiers, four bytes each."""

    mtime_ns: int
    size: int
    sha256: str
    defines: tuple[Definition, ...] = ()
    uses: bytes = b""

    @property
    def data_hash(self) -> str:
        """The hash of the definitions: it stays the same while only bodies and line numbers change."""
        shown = [(one.depth, one.name, one.signature) for one in self.defines]
        return hashlib.sha256(msgspec.json.encode(shown)).hexdigest()[:16]


class _SymbolCache(Struct, frozen=True, array_like=True):
    version: int
    files: dict[str, FileSymbols]


class SymbolIndex:
    """The symbols of a repository; ``cache`` is the file in which they are kept between processes, if any."""

    def __init__(self, root: str | Path, cache: Path | None = None) -> None:
        self.root = Path(root).resolve()
        self.paths: list[str] = []
        """All files of the repository, sorted; also those without symbols."""
        self.files: dict[str, FileSymbols] = {}
        self._cache = cache
        self._graph: tuple[dict[str, float], list[list[str]]] | None = None
        self._load()

    def refresh(self) -> list[str]:
        """Read what is new or changed since the last time; return the paths whose symbols changed, appeared or went."""
        listed = {path: found for path, *found in list_files(self.root)}
        self.paths = sorted(listed)
        changed, touched = [path for path in self.files if path not in listed], False
        for path in changed:
            del self.files[path]
        for path, (mtime_ns, size) in listed.items():
            known = self.files.get(path)
            if known is not None and (known.mtime_ns, known.size) == (mtime_ns, size):
                continue
            language = language_of(path)
            if language is None or not 0 < size <= MAX_BYTES:
                if self.files.pop(path, None) is not None:
                    changed.append(path)
                continue
            read = self._read(path, language, mtime_ns, known)
            touched = True
            if read is None:
                self.files.pop(path, None)
                changed.append(path)
                continue
            if known is None or (known.data_hash, known.uses) != (read.data_hash, read.uses):
                changed.append(path)
            self.files[path] = read
        if changed or touched:
            self._graph = None if changed else self._graph
            self._save()
        return sorted(changed)

    def importance(self) -> dict[str, float]:
        """Return how important each file is, by what refers to it (PageRank); they add up to 1."""
        return self._linked()[0]

    def clusters(self) -> list[list[str]]:
        """Return the groups of files that refer to each other; a file without such references is its own group."""
        return self._linked()[1]

    def render(self, path: str) -> str:
        """Write what a file defines, below its path; empty if it defines nothing."""
        file = self.files.get(path)
        if file is None or not file.defines:
            return ""
        shown = file.defines
        depth = max(one.depth for one in shown)
        while len(shown) > MOST_DEFINITIONS and depth:
            shown, depth = tuple(one for one in shown if one.depth < depth), depth - 1
        lines = [f"{'  ' * (one.depth + 1)}{one.signature}" for one in shown[:MOST_DEFINITIONS]]
        left = len(file.defines) - len(lines)
        return "\n".join([path, *lines, *([f"  … {left} more"] if left else [])])

    def _read(self, path: str, language: str, mtime_ns: int, known: FileSymbols | None) -> FileSymbols | None:
        try:
            data, _ = read_bytes(self.root, normalize_path(path), MAX_BYTES)
        except (FileNotFoundError, FileRefused) as error:
            log.debug("%s has no symbols: %s", path, error)
            return None
        digest = hashlib.sha256(data).hexdigest()
        if known is not None and known.sha256 == digest:
            return msgspec.structs.replace(known, mtime_ns=mtime_ns, size=len(data))
        defined = definitions(language, data)
        names = {*_IDENTIFIER.findall(data)} if defined or len(data) < 100_000 else set()
        uses = array.array("I", sorted(map(zlib.crc32, sorted(names)[:MOST_IDENTIFIERS]))).tobytes()
        return FileSymbols(mtime_ns, len(data), digest, defined, uses)

    def _linked(self) -> tuple[dict[str, float], list[list[str]]]:
        if self._graph is None:
            self._graph = _rank_and_cluster(self.files)
        return self._graph

    def _load(self) -> None:
        try:
            data = b"" if self._cache is None or self._cache.is_symlink() else self._cache.read_bytes()
            data = opened(protection_of(self._cache), data) if self._cache and data else b""
            kept = msgspec.msgpack.decode(data, type=_SymbolCache) if data else None
        except (OSError, ValueError) as error:
            log.debug("the symbol cache is not used: %s", error)
            return
        if kept is not None and kept.version == _VERSION:
            self.files = kept.files

    def _save(self) -> None:
        """Replace the cache as a whole; it is derived data, so a failure only costs time."""
        if self._cache is None:
            return
        part = self._cache.with_name(f"{self._cache.name}.{os.getpid()}.{secrets.token_hex(3)}")
        try:
            data = msgspec.msgpack.encode(_SymbolCache(_VERSION, self.files))
            part.write_bytes(sealed(protection_of(self._cache), data))
            part.replace(self._cache)
        except OSError as error:
            log.debug("the symbol cache is not saved: %s", error)
            with suppress(OSError):
                part.unlink()


def _rank_and_cluster(files: Mapping[str, FileSymbols]) -> tuple[dict[str, float], list[list[str]]]:
    paths = sorted(files)
    edges = _references(paths, files)
    count = len(paths)
    if not count:
        return {}, []
    sources, targets = edges
    degree = np.bincount(sources, minlength=count)
    rank = np.full(count, 1 / count)
    for _ in range(ROUNDS if len(sources) else 0):
        passed = np.bincount(targets, weights=rank[sources] / degree[sources], minlength=count)
        rank = (1 - DAMPING) / count + DAMPING * passed
    return dict(zip(paths, (rank / rank.sum()).tolist(), strict=True)), _mutual(paths, sources, targets)


def _references(paths: list[str], files: Mapping[str, FileSymbols]) -> tuple[np.ndarray, np.ndarray]:
    """Return the edges (user, definer) between files, each once."""
    definers: dict[str, list[int]] = defaultdict(list)
    for number, path in enumerate(paths):
        for name in {one.name for one in files[path].defines}:
            definers[name].append(number)
    used = np.frombuffer(b"".join(files[path].uses for path in paths), dtype=np.uint32)
    users = np.repeat(np.arange(len(paths)), [len(files[path].uses) // 4 for path in paths])
    named = [
        (zlib.crc32(name.encode()), name, found) for name, found in definers.items() if len(found) <= MOST_DEFINERS
    ]
    known = np.array(sorted({hash_ for hash_, _, _ in named}), dtype=np.uint32)
    places = known.searchsorted(used)
    hits = places < len(known)
    hits[hits] = known[places[hits]] == used[hits]
    users, places = users[hits], places[hits]
    usage = np.bincount(places, minlength=len(known))
    at = {hash_: place for place, hash_ in enumerate(known.tolist())}
    table = np.full((len(known), MOST_DEFINERS), -1)
    for hash_, name, found in named:
        place = at[hash_]
        if _SPECIFIC.search(name) or usage[place] <= MOST_PLAIN_USERS:
            table[place, : len(found)] = found
    sources, targets = np.repeat(users, MOST_DEFINERS), table[places].ravel()
    kept = (targets >= 0) & (sources != targets)
    edges = np.unique(sources[kept] * len(paths) + targets[kept])
    return edges // max(1, len(paths)), edges % max(1, len(paths))


def _mutual(paths: list[str], sources: np.ndarray, targets: np.ndarray) -> list[list[str]]:
    """Group files that refer to each other in both directions."""
    parent = list(range(len(paths)))

    def root(number: int) -> int:
        while parent[number] != number:
            parent[number] = parent[parent[number]]
            number = parent[number]
        return number

    edges = set(zip(sources.tolist(), targets.tolist(), strict=True))
    for source, target in edges:
        if source < target and (target, source) in edges:
            parent[root(source)] = root(target)
    groups: dict[int, list[str]] = defaultdict(list)
    for number, path in enumerate(paths):
        groups[root(number)].append(path)
    return sorted(groups.values())


def select(
    blocks: Mapping[str, int], importance: Mapping[str, float], budget: int, kept: Iterable[str] = ()
) -> set[str]:
    """Return the files (path → tokens) that fit into a budget: those shown before, then the most important ones."""
    chosen = {path for path in kept if path in blocks}
    left = budget - sum(blocks[path] for path in chosen)
    for path in sorted(blocks, key=lambda path: (-importance.get(path, 0.0), path)):
        if path not in chosen and blocks[path] <= left:
            chosen.add(path)
            left -= blocks[path]
    return chosen
