"""Conformance tests for clients.

To test a client, subclass the suite::

    class TestMyClient(ClientSuite):
        @pytest.fixture
        async def client(self, tmp_path):
            async with my_client(suite_settings(tmp_path)) as client:
                yield client

``suite_settings`` are the settings of the engine behind it: an empty ledger in that folder, and the models the
promises need. They need pytest with pytest-asyncio in auto mode, and use the client through its contract only.
"""

from __future__ import annotations

from contextinfinity_testing.clients.branches import BranchPromises
from contextinfinity_testing.clients.folds import FoldPromises
from contextinfinity_testing.clients.imports import ImportPromises
from contextinfinity_testing.clients.memories import MemoryPromises
from contextinfinity_testing.clients.models import suite_settings
from contextinfinity_testing.clients.pins import PinPromises
from contextinfinity_testing.clients.requests import RequestPromises
from contextinfinity_testing.clients.talking import TalkPromises
from contextinfinity_testing.clients.threads import ThreadPromises, UpkeepPromises
from contextinfinity_testing.clients.tokens import TokenPromises


class ClientSuite(
    TalkPromises, RequestPromises, ThreadPromises, BranchPromises, PinPromises, FoldPromises, MemoryPromises
):
    """Tests for every client, local or remote.

    ``ImportPromises``, ``TokenPromises`` and ``UpkeepPromises`` are for clients of an engine of their own. Give it a
    ``client`` fixture on an empty ledger with ``suite_settings``.
    """


__all__ = [
    "BranchPromises",
    "ClientSuite",
    "FoldPromises",
    "ImportPromises",
    "MemoryPromises",
    "PinPromises",
    "RequestPromises",
    "TalkPromises",
    "ThreadPromises",
    "TokenPromises",
    "UpkeepPromises",
    "suite_settings",
]
