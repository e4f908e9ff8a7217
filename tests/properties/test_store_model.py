"""The store agrees with a model of plain dicts, and keeps its invariants, on any walk through its verbs."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import pytest
from hypothesis import settings

from contextinfinity.storage.contract import Store
from contextinfinity.storage.sqlite.store import SqliteStore
from tests.ledgers import open_store
from tests.properties.ledger_machine import LedgerMachine
from tests.properties.model import ModelLedger
from tests.sizes import sized

pytestmark = pytest.mark.req("LEDGER-1", "LEDGER-4", "LEDGER-5", "LEDGER-8", "LEDGER-10", "TURN-1", "TURN-4")


class MemoryWalk(LedgerMachine):
    """A ledger in memory follows the model."""

    checked_every = 5

    async def make_stores(self) -> Sequence[Store]:
        return [cast("Store", ModelLedger()), SqliteStore(None)]


class FileWalk(LedgerMachine):
    """A ledger in a file follows the model."""

    checked_every = 10

    async def make_stores(self) -> Sequence[Store]:
        self.folder = tempfile.TemporaryDirectory()
        return [cast("Store", ModelLedger()), open_store(Path(self.folder.name) / "ledger.db")]

    def teardown(self) -> None:
        try:
            super().teardown()
        finally:
            self.folder.cleanup()


TestMemoryFollowsTheModel = MemoryWalk.TestCase
TestMemoryFollowsTheModel.settings = settings(max_examples=sized(15, 300), stateful_step_count=50)

TestSqliteFollowsTheModel = FileWalk.TestCase
TestSqliteFollowsTheModel.settings = settings(max_examples=sized(4, 60), stateful_step_count=50)
