"""What all tests share: a real ledger in a folder of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from contextinfinity.storage.sqlite.store import SqliteStore
from contextinfinity.text import tokens


@pytest.fixture(autouse=True)
def nothing_learned() -> None:
    """Counters are shared by all engines of a process, and learn; tests must not."""
    tokens.forget()


@pytest.fixture
def ledger_path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.db"


@pytest.fixture
async def ledger(ledger_path: Path) -> AsyncIterator[SqliteStore]:
    store = SqliteStore(ledger_path)
    yield store
    await store.close()
