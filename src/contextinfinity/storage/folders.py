"""Private, durable folders: mode 0700, and present after a power cut.

``fsync`` of a file makes its content durable; ``fsync`` of its folder makes its name durable.
"""

from __future__ import annotations

import os
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
