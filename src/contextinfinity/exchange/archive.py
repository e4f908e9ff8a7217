"""Zip archives of exports: find the files that contain conversations, and the images that belong to them.

Nothing is unpacked to disk. An archive is rejected before any member is read if it is encrypted, uses an unusual
compression method, has a member whose path leads outside the archive, or if a member or the whole archive would expand
more than conversations do (``MOST_EXPANSION``). Sizes in its directory never determine how much memory is used.
"""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from contextinfinity.errors import InvalidInput
from contextinfinity.exchange.conversation_builder import LARGEST_IMAGE

SMALL_ENOUGH = 64 << 20
MOST_EXPANSION = 200
MOST_MEMBERS = 200_000
LARGEST_READ = 32 << 20
"""The maximum number of bytes read at once: the directory, or an image."""
_FIRST = ("projects*.json", "projects*.jsonl", "projects/*.json", "memories.json", "memories/*.json")
_CONVERSATIONS = ("conversations*.json", "conversations*.jsonl")
_ANY = ("*.json", "*.jsonl")
BOMB_HINT = "This looks like a decompression bomb; if it is a real export, unpack it first."
_ENCRYPTED = 0x1
_DAMAGE = (zipfile.BadZipFile, NotImplementedError, OSError, EOFError, ValueError, struct.error, zlib.error)
"""The exceptions that ``zipfile`` raises for damaged archives."""

_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


def is_bomb(packed: int, unpacked: int) -> bool:
    """Return whether data expands more than conversations do."""
    return unpacked > SMALL_ENOUGH and unpacked > MOST_EXPANSION * max(packed, 1)


class _BoundedReader(io.BufferedReader):
    """A file whose reads are limited to ``LARGEST_READ`` bytes; a larger read means a damaged or malicious archive."""

    def read(self, size: int | None = -1, /) -> bytes:
        """Read up to ``size`` bytes."""
        if size is not None and size > LARGEST_READ:
            raise zipfile.BadZipFile(f"a part of it has {size:,} bytes")
        return super().read(size)


class Archive:
    """An open zip archive; ``members`` are the files with conversations, files of projects first."""

    def __init__(self, path: Path, file: zipfile.ZipFile) -> None:
        self._path = path
        self._file = file
        self._check()
        self._assets: dict[str, zipfile.ZipInfo] | None = None
        names = [name for name in file.namelist() if not name.endswith("/")]
        found = _matching(names, _FIRST) + _matching(names, _CONVERSATIONS)
        self.members = found or _matching(names, _ANY)
        if not self.members:
            raise InvalidInput(
                f"{path} contains no conversations.", hint="An export contains conversations.json or other JSON files."
            )

    def _check(self) -> None:
        infos = self._file.infolist()
        if len(infos) > MOST_MEMBERS:
            raise InvalidInput(f"{self._path} holds {len(infos):,} files; at most {MOST_MEMBERS:,} are read.")
        for info in infos:
            name = info.filename
            if name.startswith(("/", "\\")) or ".." in PurePosixPath(name.replace("\\", "/")).parts or ":" in name[:3]:
                raise InvalidInput(
                    f"{self._path} holds a file named {name[:200]!r}, which is outside of the archive.",
                    hint="The archive is not read: no known program exports such paths.",
                )
            if info.flag_bits & _ENCRYPTED:
                raise InvalidInput(f"{self._path} is encrypted.", hint="Unpack it and import the files.")
            if info.compress_type not in _METHODS:
                raise InvalidInput(
                    f"{name[:150]!r} in {self._path} is packed with a method that exports do not use.",
                    hint="Unpack it and import the files.",
                )
            if is_bomb(info.compress_size, info.file_size):
                raise InvalidInput(
                    f"{name[:150]!r} in {self._path} would unpack to "
                    f"{info.file_size / max(info.compress_size, 1):,.0f} times its size, {info.file_size:,} bytes.",
                    hint=BOMB_HINT,
                )
        unpacked = sum(info.file_size for info in infos)
        if is_bomb(self._path.stat().st_size, unpacked):
            raise InvalidInput(
                f"The files in {self._path} would unpack to {unpacked:,} bytes together.", hint=BOMB_HINT
            )

    @contextmanager
    def opened(self, name: str) -> Iterator[BinaryIO]:
        """Open a member."""
        try:
            stream = self._file.open(name)
        except _DAMAGE as error:
            raise zipfile.BadZipFile(str(error)) from error
        with stream:
            yield stream  # type: ignore[misc]

    def size(self, name: str) -> tuple[int, int]:
        """Return the packed and the unpacked size of a member."""
        info = self._file.getinfo(name)
        return info.compress_size, info.file_size

    def find(self, name: str) -> bytes | None:
        """Return the image whose file name begins with that id."""
        if self._assets is None:
            self._assets = {}
            for info in self._file.infolist():
                stem = PurePosixPath(info.filename).name
                self._assets.setdefault(_asset_id(stem), info)
        found = self._assets.get(_asset_id(name))
        if found is None or found.file_size > LARGEST_IMAGE:
            return None
        try:
            return self._file.read(found)
        except _DAMAGE:
            return None


class Folder:
    """The files beside an unpacked conversations.json."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files: dict[str, Path] | None = None

    def find(self, name: str) -> bytes | None:
        """Return the image whose file name begins with that id."""
        if self._files is None:
            self._files = {_asset_id(path.name): path for path in _files_near(self._folder)}
        path = self._files.get(_asset_id(name))
        try:
            return path.read_bytes() if path is not None and path.stat().st_size <= LARGEST_IMAGE else None
        except OSError:
            return None


class NoAssets:
    """No files, for piped input."""

    def find(self, name: str) -> None:
        """Return None."""
        return


def _files_near(folder: Path) -> Iterator[Path]:
    for pattern in ("file[-_]*", "*/file[-_]*"):
        yield from (path for path in folder.glob(pattern) if path.is_file() and not path.is_symlink())


def _asset_id(name: str) -> str:
    """Return the id in a file name: ``file-A1b2`` for ``file-A1b2-photo.png``, ``file_00a1`` for ``file_00a1.webp``."""
    head = name[:5]
    return head + name[5:].split("-")[0].split(".")[0].split("_")[0]


def _matching(names: list[str], patterns: tuple[str, ...]) -> list[str]:
    def fits(name: str) -> bool:
        return any(PurePosixPath(name.lower()).match(pattern) for pattern in patterns)

    return sorted(filter(fits, names))


@contextmanager
def open_archive(path: Path) -> Iterator[Archive]:
    """Open a zip archive; raise ``InvalidInput`` if it is damaged or dangerous."""
    with ExitStack() as stack:
        try:
            raw = stack.enter_context(_BoundedReader(io.FileIO(path)))
            file = stack.enter_context(zipfile.ZipFile(raw))
        except _DAMAGE as error:
            raise InvalidInput(f"{path} cannot be read: it is a damaged zip archive ({error}).") from error
        yield Archive(path, file)
