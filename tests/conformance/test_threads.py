"""Every backend of the small log keeps every promise of the contract."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import get_args, get_type_hints

import pytest

from contextinfinity.compat.ledger_threads import LedgerThreads, RedisThreads
from contextinfinity.compat.threads import IN_PROCESS
from contextinfinity.settings import Storage
from contextinfinity.storage.sqlite.store import SqliteStore
from contextinfinity.threads import ThreadLog
from contextinfinity_testing.threads import BACKENDS, ThreadLogSuite, valkey_url
from tests.ledgers import open_store


class TestInProcess(ThreadLogSuite):
    @pytest.fixture
    def log(self) -> ThreadLog:
        return IN_PROCESS


class TestSqliteLedger(ThreadLogSuite):
    @pytest.fixture
    def log(self, tmp_path: Path) -> Iterator[ThreadLog]:
        log = LedgerThreads(open_store(tmp_path / "ledger.db"))
        yield log
        log.close()


class TestRedis(ThreadLogSuite):
    @pytest.fixture
    def log(self) -> Iterator[ThreadLog]:
        log = RedisThreads(valkey_url())
        yield log
        log.close()


class TestInMemoryLedger(ThreadLogSuite):
    @pytest.fixture
    def log(self) -> Iterator[ThreadLog]:
        log = LedgerThreads(SqliteStore(None))
        yield log
        log.close()


def test_no_promise_of_the_suite_hides_another() -> None:
    names = Counter(name for part in ThreadLogSuite.__mro__ for name in vars(part) if name.startswith("test_"))
    assert [name for name, times in names.items() if times > 1] == []


@pytest.mark.req("THREAD-11")
def test_the_suite_runs_on_every_backend_that_can_be_set() -> None:
    assert set(BACKENDS) == set(get_args(get_type_hints(Storage)["threads"]))
