"""One example ledger for all tests of the workbench."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.doors.cix import Cix

TURNS = 120
"""Turns of the logbook in the example."""


@pytest.fixture(scope="session")
def example(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data_dir that `cix demo` filled; tests that write take a copy (``own_example``)."""
    folder = tmp_path_factory.mktemp("example") / "data"
    done = Cix(folder)("demo", "--turns", str(TURNS))
    assert done.exit_code == 0, done.stderr
    return folder


@pytest.fixture
def own_example(example: Path, tmp_path: Path) -> Path:
    """A copy of the example."""
    folder = tmp_path / "data"
    shutil.copytree(example, folder)
    return folder
