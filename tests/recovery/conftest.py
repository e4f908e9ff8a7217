"""What the tests of recovery share."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

IN_MEMORY = Path("/dev/shm")  # noqa: S108 - only a folder of our own inside it is used


@pytest.fixture
def quick_folder(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory, if the machine has such a place: the sweeps open a thousand ledgers."""
    if not IN_MEMORY.is_dir():
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(prefix="contextinfinity-", dir=IN_MEMORY) as folder:
        yield Path(folder)
