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

import pytest

_PARTS = ("sessions", "branches", "turns", "phases", "endings", "states", "chunks", "concurrency", "content", "closing")
for _part in _PARTS:  # so that a broken promise shows what was compared
    pytest.register_assert_rewrite(f"{__name__}.{_part}")

from contextinfinity.testing.stores.branches import BranchSuite  # noqa: E402
from contextinfinity.testing.stores.chunks import ChunkSuite  # noqa: E402
from contextinfinity.testing.stores.closing import ClosingSuite  # noqa: E402
from contextinfinity.testing.stores.concurrency import ConcurrencySuite  # noqa: E402
from contextinfinity.testing.stores.content import ContentSuite  # noqa: E402
from contextinfinity.testing.stores.endings import EndingSuite  # noqa: E402
from contextinfinity.testing.stores.phases import PhaseSuite  # noqa: E402
from contextinfinity.testing.stores.sessions import SessionSuite  # noqa: E402
from contextinfinity.testing.stores.states import StateSuite  # noqa: E402
from contextinfinity.testing.stores.turns import TurnSuite  # noqa: E402


class StoreSuite(
    SessionSuite,
    BranchSuite,
    TurnSuite,
    PhaseSuite,
    EndingSuite,
    StateSuite,
    ChunkSuite,
    ContentSuite,
    ConcurrencySuite,
    ClosingSuite,
):
    """Every promise of the contract. Give it a ``store`` fixture with an empty store."""


__all__ = [
    "BranchSuite",
    "ChunkSuite",
    "ClosingSuite",
    "ConcurrencySuite",
    "ContentSuite",
    "EndingSuite",
    "PhaseSuite",
    "SessionSuite",
    "StateSuite",
    "StoreSuite",
    "TurnSuite",
]
