from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from contextinfinity.storage.sqlite.store import SqliteStore
from contextinfinity.testing.stores import StoreSuite
from tests.ledgers import open_store


class TestSqlite(StoreSuite):
    @pytest.fixture
    async def store(self, tmp_path: Path) -> AsyncIterator[SqliteStore]:
        store = open_store(tmp_path / "ledger.db")
        yield store
        await store.close()
