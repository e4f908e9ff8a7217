"""What differs between operating systems is handled, or refused when the package is imported."""

from __future__ import annotations

import fcntl
import os
import runpy
import sys
from pathlib import Path

import pytest

import contextinfinity
from contextinfinity.storage.folders import sync_file
from contextinfinity.storage.sqlite.connection import connect


def test_windows_is_refused_in_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(ImportError, match=r"runs on Linux and macOS\. On Windows, install it inside WSL 2\.$"):
        runpy.run_path(contextinfinity.__file__)


@pytest.mark.parametrize(
    ("request_of_macos", "syncs"),
    [(fcntl.F_GETFD, 0), (99_999, 1), (None, 1)],
    ids=["it is known", "the file system does not know it", "another system"],
)
def test_macos_is_asked_to_empty_the_cache_of_the_drive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request_of_macos: int | None, syncs: int
) -> None:
    made: list[int] = []
    monkeypatch.setattr(os, "fsync", made.append)
    with (tmp_path / "file").open("wb") as file:
        sync_file(file.fileno(), request_of_macos)
    assert len(made) == syncs


def test_so_is_sqlite(tmp_path: Path) -> None:
    connection = connect(str(tmp_path / "ledger.db"))
    assert connection.execute("PRAGMA fullfsync").get == 1
    connection.close()
