"""Stores agree with each other, and keep their invariants, on any walk through their verbs."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import settings

from contextinfinity.storage.contract import Store
from contextinfinity.storage.in_memory import InMemoryStore
from tests.ledgers import open_store
from tests.properties.ledger_machine import LedgerMachine

pytestmark = pytest.mark.req("LEDGER-1", "LEDGER-4", "LEDGER-5", "LEDGER-8", "TURN-1", "TURN-4")


class InMemoryWalk(LedgerMachine):
    async def make_stores(self) -> Sequence[Store]:
        return [InMemoryStore()]


class LockstepWalk(LedgerMachine):
    """The in-memory store is the model that SQLite has to follow."""

    checked_every = 10

    async def make_stores(self) -> Sequence[Store]:
        self.folder = tempfile.TemporaryDirectory()
        return [InMemoryStore(), open_store(Path(self.folder.name) / "ledger.db")]

    def teardown(self) -> None:
        try:
            super().teardown()
        finally:
            self.folder.cleanup()


TestInMemoryWalk = InMemoryWalk.TestCase
TestInMemoryWalk.settings = settings(max_examples=30, stateful_step_count=50)

TestSqliteFollowsTheModel = LockstepWalk.TestCase
TestSqliteFollowsTheModel.settings = settings(max_examples=15, stateful_step_count=50)
