"""What the tests of the doors share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.doors.cix import Cix


@pytest.fixture
def cix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cix:
    """The command line on a folder where an echo answers, without the settings of whoever runs the tests."""
    for name in [name for name in os.environ if name.startswith("CONTEXTINFINITY_")]:
        monkeypatch.delenv(name)
    made = Cix(tmp_path)
    made.echo()
    return made
