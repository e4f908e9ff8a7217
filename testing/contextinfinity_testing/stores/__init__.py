"""Conformance tests for stores.

To test a backend, subclass the suite::

    class TestMyStore(StoreSuite):
        @pytest.fixture
        async def store(self):
            store = MyStore()
            yield store
            await store.close()

Each class tests one part of the contract; ``StoreSuite`` combines them. They need pytest with
pytest-asyncio in auto mode, and use the store through its contract only.
"""

from __future__ import annotations

from contextinfinity_testing.stores.branches import BranchSuite
from contextinfinity_testing.stores.broken_requests import BrokenRequestSuite
from contextinfinity_testing.stores.chunks import ChunkSuite
from contextinfinity_testing.stores.closing import ClosingSuite
from contextinfinity_testing.stores.concurrency import ConcurrencySuite
from contextinfinity_testing.stores.content import ContentSuite
from contextinfinity_testing.stores.corrections import CorrectionSuite
from contextinfinity_testing.stores.deletions import DeletionSuite, ExpirySuite, TurnDeletionSuite
from contextinfinity_testing.stores.endings import EndingSuite
from contextinfinity_testing.stores.filling import FillingSuite
from contextinfinity_testing.stores.folds import FoldSuite
from contextinfinity_testing.stores.imports import ImportSuite
from contextinfinity_testing.stores.index import IndexSuite
from contextinfinity_testing.stores.lanes import LaneSuite
from contextinfinity_testing.stores.logs import LogSuite
from contextinfinity_testing.stores.memories import MemorySuite
from contextinfinity_testing.stores.owners import OwnerSuite
from contextinfinity_testing.stores.phases import PhaseSuite
from contextinfinity_testing.stores.pins import PinSuite
from contextinfinity_testing.stores.prefix_hashes import PrefixHashSuite
from contextinfinity_testing.stores.records import RecordSuite
from contextinfinity_testing.stores.refusals import RefusalSuite
from contextinfinity_testing.stores.replays import ReplaySuite
from contextinfinity_testing.stores.rollbacks import RollbackSuite
from contextinfinity_testing.stores.sessions import SessionSuite
from contextinfinity_testing.stores.states import StateSuite
from contextinfinity_testing.stores.tokens import RequestSuite, TokenSuite
from contextinfinity_testing.stores.turns import TurnSuite
from contextinfinity_testing.stores.vectors import NamespaceSuite, VectorSuite
from contextinfinity_testing.stores.work import WorkSuite


class StoreSuite(
    SessionSuite,
    BranchSuite,
    RollbackSuite,
    TurnSuite,
    RecordSuite,
    LogSuite,
    ImportSuite,
    PhaseSuite,
    EndingSuite,
    StateSuite,
    FoldSuite,
    PinSuite,
    ChunkSuite,
    IndexSuite,
    VectorSuite,
    NamespaceSuite,
    FillingSuite,
    MemorySuite,
    CorrectionSuite,
    WorkSuite,
    LaneSuite,
    ReplaySuite,
    ContentSuite,
    ExpirySuite,
    TurnDeletionSuite,
    DeletionSuite,
    TokenSuite,
    PrefixHashSuite,
    BrokenRequestSuite,
    RequestSuite,
    OwnerSuite,
    RefusalSuite,
    ConcurrencySuite,
    ClosingSuite,
):
    """All tests of the contract. A subclass defines the fixture ``store``, an empty store."""


__all__ = [
    "BranchSuite",
    "BrokenRequestSuite",
    "ChunkSuite",
    "ClosingSuite",
    "ConcurrencySuite",
    "ContentSuite",
    "CorrectionSuite",
    "DeletionSuite",
    "EndingSuite",
    "ExpirySuite",
    "FillingSuite",
    "FoldSuite",
    "ImportSuite",
    "IndexSuite",
    "LaneSuite",
    "LogSuite",
    "MemorySuite",
    "NamespaceSuite",
    "OwnerSuite",
    "PhaseSuite",
    "PinSuite",
    "PrefixHashSuite",
    "RecordSuite",
    "RefusalSuite",
    "ReplaySuite",
    "RequestSuite",
    "RollbackSuite",
    "SessionSuite",
    "StateSuite",
    "StoreSuite",
    "TokenSuite",
    "TurnDeletionSuite",
    "TurnSuite",
    "VectorSuite",
    "WorkSuite",
]
