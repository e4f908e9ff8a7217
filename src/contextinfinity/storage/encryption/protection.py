"""Which protection applies to a path: that of the nearest folder above it with a header file.

The data key of a folder is read once per process. A folder that was encrypted when this process first looked stays so:
if its header file vanishes, nothing is written in plain text.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import NamedTuple

from contextinfinity.errors import LedgerLost, Refused
from contextinfinity.storage.encryption import folder_swap
from contextinfinity.storage.encryption.cipher import PLAIN, Cipher, Protection
from contextinfinity.storage.encryption.header import HEADER, Header, read_header, unwrap, write_header
from contextinfinity.storage.encryption.key_sources import read_key, source_in_force

BESIDE = "-encryption"
"""What follows the name of a file that has its own header beside it: a backup outside of its data_dir."""


class Unlocked(NamedTuple):
    """A header file, as it was when it was read, with its opened data key."""

    stamp: tuple[int, int]
    header: Header
    data_key: bytes
    cipher: Cipher


_unlocked: dict[str, Unlocked] = {}
_lock = threading.Lock()


def protection_of(path: Path | str) -> Protection:
    """Return how a file is sealed and opened; it need not exist.

    ``EncryptionKeyMissing`` or ``EncryptionKeyWrong`` when its folder is encrypted and cannot be opened.
    """
    found = unlocked_header(path)
    return PLAIN if found is None else found.cipher


def unlocked_header(path: Path | str) -> Unlocked | None:
    """Return the header that applies to a file with its opened data key; None when it is not encrypted."""
    name = _absolute(path)
    header = f"{name}{BESIDE}"
    if (stamp := _stamp(header)) is not None:
        return _open(header, stamp)
    folder = name.rpartition("/")[0]
    while True:
        folder_swap.finish_pending(folder)
        header = f"{folder}/{HEADER}"
        if (stamp := _stamp(header)) is not None:
            return _open(header, stamp)
        if header in _unlocked:
            raise LedgerLost(
                f"The file {header} is missing, and {folder} is encrypted.",
                hint="Put it back; backups have a copy of it beside them. Nothing is written meanwhile.",
            )
        if not folder:
            return None
        folder = folder.rpartition("/")[0]


def carry_header(source: Path, copy: Path) -> None:
    """Write the header of an encrypted file beside a copy of it, unless the copy is in the same encrypted folder."""
    original, there = unlocked_header(source), unlocked_header(copy)
    if original is not None and (there is None or there.header.id != original.header.id):
        write_header(copy.with_name(f"{copy.name}{BESIDE}"), original.header)


def forget(folder: Path) -> None:
    """Forget the key of a folder: its protection was changed."""
    with _lock:
        _unlocked.pop(f"{_absolute(folder)}/{HEADER}", None)


def _absolute(path: Path | str) -> str:
    return os.path.abspath(path)  # noqa: PTH100 - for every file that is opened


def _stamp(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)  # noqa: PTH116 - for every file that is opened: a Path would cost more than the call
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns


def _open(path: str, stamp: tuple[int, int]) -> Unlocked:
    known = _unlocked.get(path)
    if known is not None and known.stamp == stamp:
        return known
    with _lock:
        header = read_header(Path(path))
        if header is None:  # it was removed just now
            raise LedgerLost(f"The file {path} is missing.", hint="Try again.")
        same = next((other for other in _unlocked.values() if other.header.id == header.id), None)
        if same is not None:  # only the user's key was changed, or this is a copy
            made = same._replace(stamp=stamp, header=header)
        else:
            source = source_in_force(header.source)
            data_key = unwrap(header, read_key(source), Path(path), source)
            made = Unlocked(stamp, header, data_key, Cipher(data_key, header.database_cipher))
        _unlocked[path] = made
    return made


MEMORY = Path("/dev/shm")  # noqa: S108 - a file system in memory; files there are created with mode 0600
"""The file system in memory of this machine."""


def scratch_folder(data_dir: Path) -> Path:
    """Return the folder for temporary files with conversations.

    ``Refused`` when the data_dir is encrypted and this machine has no file system in memory.
    """
    if not protection_of(data_dir / HEADER).is_on:
        return data_dir
    if not MEMORY.is_dir():
        raise Refused(
            f"{data_dir} is encrypted, and without {MEMORY} this would be written to a disk in plain text.",
            hint="`cix import FILE` on this machine reads a file where it is.",
        )
    return MEMORY
