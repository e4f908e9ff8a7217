"""While its ledger is there, a standby keeps every promise of the contract, and holds nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from contextinfinity.storage.contract import Store
from contextinfinity.storage.standby.store import StandbyStore
from contextinfinity_testing.stores import StoreSuite
from tests.ledgers import open_store


@pytest.mark.proof  # what it adds to the store behind it is tested in tests/recovery/test_*_away.py
class TestStandby(StoreSuite):
    @pytest.fixture
    async def store(self, tmp_path: Path) -> AsyncIterator[Store]:
        store = StandbyStore(open_store(tmp_path / "ledger.db"), tmp_path / "spool")
        yield store
        assert not (tmp_path / "spool").exists(), "nothing had to be held"
        await store.close()
