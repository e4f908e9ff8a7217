"""Private, durable folders: mode 0700, and present after a power cut.

``fsync`` of a file makes its content durable; ``fsync`` of its folder makes its name durable.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path


def make_private(folder: Path) -> None:
    """Create a folder and its missing parents durably."""
    missing = [place for place in (folder, *folder.parents) if not place.exists()]
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for made in reversed(missing):
        sync_folder(made.parent)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
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
