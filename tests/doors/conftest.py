"""What the tests of the doors share."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.doors.cix import Cix
from tests.doors.server import Server


@pytest.fixture
def cix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cix:
    """The command line on a folder with an echo model, without the user's own settings."""
    for name in [name for name in os.environ if name.startswith("CONTEXTINFINITY_")]:
        monkeypatch.delenv(name)
    made = Cix(tmp_path)
    made.echo()
    return made


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that all tests of a run share, without tokens."""
    made = Server(tmp_path_factory.mktemp("server"))
    yield made
    made.stop()
