"""What every store promises, as tests.

A backend proves itself with a few lines::

    class TestMyStore(StoreSuite):
        @pytest.fixture
        async def store(self):
            store = MyStore()
            yield store
            await store.close()

Each class holds the promises about one noun; ``StoreSuite`` is all of them. They need pytest with
pytest-asyncio in auto mode, and see the store through its contract only.
"""

from __future__ import annotations

from contextinfinity.testing.stores.arrivals import ArrivalSuite
from contextinfinity.testing.stores.branches import BranchSuite
from contextinfinity.testing.stores.broken_requests import BrokenRequestSuite
from contextinfinity.testing.stores.chunks import ChunkSuite
from contextinfinity.testing.stores.closing import ClosingSuite
from contextinfinity.testing.stores.concurrency import ConcurrencySuite
from contextinfinity.testing.stores.content import ContentSuite
from contextinfinity.testing.stores.corrections import CorrectionSuite
from contextinfinity.testing.stores.deletions import DeletionSuite, ExpirySuite
from contextinfinity.testing.stores.endings import EndingSuite
from contextinfinity.testing.stores.filling import FillingSuite
from contextinfinity.testing.stores.folds import FoldSuite
from contextinfinity.testing.stores.index import IndexSuite
from contextinfinity.testing.stores.landings import LandingSuite
from contextinfinity.testing.stores.lanes import LaneSuite
from contextinfinity.testing.stores.logs import LogSuite
from contextinfinity.testing.stores.memories import MemorySuite
from contextinfinity.testing.stores.phases import PhaseSuite
from contextinfinity.testing.stores.pins import PinSuite
from contextinfinity.testing.stores.records import RecordSuite
from contextinfinity.testing.stores.refusals import RefusalSuite
from contextinfinity.testing.stores.rollbacks import RollbackSuite
from contextinfinity.testing.stores.sessions import SessionSuite
from contextinfinity.testing.stores.states import StateSuite
from contextinfinity.testing.stores.tokens import RequestSuite, TokenSuite
from contextinfinity.testing.stores.trails import TrailSuite
from contextinfinity.testing.stores.turns import TurnSuite
from contextinfinity.testing.stores.vectors import NamespaceSuite, VectorSuite
from contextinfinity.testing.stores.work import WorkSuite


class StoreSuite(
    SessionSuite,
    BranchSuite,
    RollbackSuite,
    TurnSuite,
    RecordSuite,
    LogSuite,
    ArrivalSuite,
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
    LandingSuite,
    ContentSuite,
    ExpirySuite,
    DeletionSuite,
    TokenSuite,
    TrailSuite,
    BrokenRequestSuite,
    RequestSuite,
    RefusalSuite,
    ConcurrencySuite,
    ClosingSuite,
):
    """Every promise of the contract. Give it a ``store`` fixture with an empty store."""


__all__ = [
    "ArrivalSuite",
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
    "IndexSuite",
    "LandingSuite",
    "LaneSuite",
    "LogSuite",
    "MemorySuite",
    "NamespaceSuite",
    "PhaseSuite",
    "PinSuite",
    "RecordSuite",
    "RefusalSuite",
    "RequestSuite",
    "RollbackSuite",
    "SessionSuite",
    "StateSuite",
    "StoreSuite",
    "TokenSuite",
    "TrailSuite",
    "TurnSuite",
    "VectorSuite",
    "WorkSuite",
]
