"""Location of temporary files: in the data_dir, or in memory if it is encrypted."""

from __future__ import annotations

from pathlib import Path

from contextinfinity.errors import Refused
from contextinfinity.storage.encryption.header import HEADER
from contextinfinity.storage.encryption.protection import protection_of

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
