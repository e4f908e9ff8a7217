from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from contextinfinity.storage.sqlite.store import SqliteStore
from contextinfinity_testing.stores import StoreSuite
from tests.ledgers import open_store


class TestSqlite(StoreSuite):
    @pytest.fixture
    async def store(self, tmp_path: Path) -> AsyncIterator[SqliteStore]:
        store = open_store(tmp_path / "ledger.db")
        yield store
        await store.close()


def test_no_promise_of_the_suite_hides_another() -> None:
    names = Counter(name for part in StoreSuite.__mro__ for name in vars(part) if name.startswith("test_"))
    assert [name for name, times in names.items() if times > 1] == []
