"""Every embedder keeps every promise of the contract."""

from __future__ import annotations

import pytest

from contextinfinity.embedders.cached import CachedEmbedder
from contextinfinity.embedders.contract import Embedder
from contextinfinity.embedders.static import StaticEmbedder, built_in
from contextinfinity.testing.embedders import EmbedderSuite


class TestStatic(EmbedderSuite):
    @pytest.fixture
    def embedder(self) -> Embedder:
        return built_in()


class TestCached(EmbedderSuite):
    @pytest.fixture
    def embedder(self) -> Embedder:
        return CachedEmbedder(StaticEmbedder())


class TestCachedWithoutRoom(EmbedderSuite):
    @pytest.fixture
    def embedder(self) -> Embedder:
        return CachedEmbedder(built_in(), most_bytes=0)
