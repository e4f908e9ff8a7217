"""Durable files and private folders: present after a power cut. Files that a process has locked.

Syncing a file makes its content durable; syncing its folder makes its name durable.
"""

from __future__ import annotations

import errno
import fcntl
import os
import threading
from pathlib import Path


def make_private(folder: Path) -> None:
    """Create a folder and its missing parents durably."""
    missing = [place for place in (folder, *folder.parents) if not place.exists()]
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for made in reversed(missing):
        sync_folder(made.parent)


FULL_SYNC: int | None = getattr(fcntl, "F_FULLFSYNC", None)
"""The request of macOS that empties the cache of the drive too, which ``fsync`` does not do there."""


def sync_file(descriptor: int, full_sync: int | None = FULL_SYNC) -> None:
    """Make the content of a file durable."""
    if full_sync is not None:
        try:
            fcntl.fcntl(descriptor, full_sync)
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.ENOTTY):  # file systems that do not know it
                raise
        else:
            return
    os.fsync(descriptor)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        sync_file(descriptor)
    finally:
        os.close(descriptor)


class NewNames:
    """Makes the names of new files in a folder durable; one sync serves all files created before it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._counting = threading.Lock()
        self._created = self._durable = 0

    def add(self) -> int:
        """Count a file that was created; return its number."""
        with self._counting:
            self._created += 1
            return self._created

    def is_durable(self, number: int) -> bool:
        """Return whether the name of a file is durable."""
        return number <= self._durable

    def sync(self, number: int) -> None:
        """Make the name of a file durable, with those of all files created before."""
        if number > self._durable:
            created = self._created
            sync_folder(self._folder)
            self._durable = max(self._durable, created)


def is_locked(path: Path) -> bool:
    """Return whether a process has locked a file, to write it. The check may briefly block one that opens it."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # a file system without locks
        return False
    finally:
        os.close(descriptor)
    return False
