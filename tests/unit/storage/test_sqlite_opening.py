"""Several processes open a new ledger at the same moment."""

from __future__ import annotations

import shutil
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import pytest

from contextinfinity.storage.sqlite.connection import open_as_it_is, set_up
from contextinfinity.storage.sqlite.store import SqliteStore


def switching_beside_another(path: Path, released_at: int, patience: float) -> int:
    """Set up a file on which another connection holds a lock until an attempt to switch to WAL; return the attempts.

    SQLite does not call the busy handler here: both hold a shared lock, so that waiting would be a deadlock.
    """
    attempts = 0
    with closing(apsw.Connection(str(path))) as other, closing(open_as_it_is(str(path))) as connection:
        other.execute("CREATE TABLE made (x); BEGIN IMMEDIATE")

        def trace(_: Any, sql: str, __: Any) -> bool:
            nonlocal attempts
            attempts += sql == "PRAGMA journal_mode = WAL"
            if attempts == released_at and other.in_transaction:
                other.execute("ROLLBACK")
            return True

        connection.exec_trace = trace
        set_up(connection, patience=patience)
        assert connection.execute("PRAGMA journal_mode").get == "wal"
    return attempts


def test_a_new_ledger_opens_while_another_process_sets_it_up(tmp_path: Path) -> None:
    assert switching_beside_another(tmp_path / "ledger.db", released_at=3, patience=10) == 3


def test_a_lock_that_stays_is_told_after_the_patience(tmp_path: Path) -> None:
    with pytest.raises(apsw.BusyError):
        switching_beside_another(tmp_path / "ledger.db", released_at=-1, patience=0)


@pytest.mark.req("METRICS-3")
async def test_a_full_disk_is_reported_before_a_write_is_refused(
    ledger: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ledger.health().status == "ready"
    full = shutil.disk_usage("/")._replace(free=0)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: full)
    assert (ledger.health().status, "is full" in ledger.health().reason) == ("degraded", True)
    monkeypatch.undo()
    assert ledger.health().status == "ready"
