"""Every embedder keeps every promise of the contract."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from contextinfinity.embedders.choice import CachedEmbedder
from contextinfinity.embedders.contract import Embedder
from contextinfinity.embedders.minilm.embedder import MiniLMEmbedder
from contextinfinity.embedders.static import StaticEmbedder, built_in
from contextinfinity.settings import ModelSettings, RetrievalSettings, Settings
from contextinfinity.wiring.embedding import embedder_of
from contextinfinity_testing.embedders import EmbedderSuite
from contextinfinity_testing.vendors import FakeVendors


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


@pytest.mark.xdist_group("minilm")
class TestMiniLM(EmbedderSuite):
    @pytest.fixture
    async def embedder(self, minilm_files: tuple[Path, Path]) -> AsyncIterator[Embedder]:
        embedder = MiniLMEmbedder(*minilm_files)
        yield embedder
        await embedder.close()


async def at(model: ModelSettings) -> AsyncIterator[Embedder]:
    embedder = embedder_of(Settings(retrieval=RetrievalSettings(embedding_model="mine"), models={"mine": model}))
    yield embedder
    await embedder.close()


class TestOpenAI(EmbedderSuite):
    @pytest.fixture
    async def embedder(self, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Embedder]:
        monkeypatch.setenv("OPENAI_API_KEY", "k")
        async with FakeVendors(limit=8191) as vendors:
            model = ModelSettings(provider="openai", model_id="text-embedding-3-small", base_url=vendors.openai_url)
            async for embedder in at(model):
                yield embedder


class TestShortened(EmbedderSuite):
    @pytest.fixture
    async def embedder(self, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Embedder]:
        monkeypatch.setenv("OPENAI_API_KEY", "k")
        async with FakeVendors(limit=8191) as vendors:
            url, model_id = vendors.openai_url, "text-embedding-3-large"
            model = ModelSettings(provider="openai", base_url=url, model_id=model_id, dimensions=256)
            async for embedder in at(model):
                yield embedder


class TestOllama(EmbedderSuite):
    @pytest.fixture
    async def embedder(self) -> AsyncIterator[Embedder]:
        async with FakeVendors(limit=300) as vendors:
            url, model_id = vendors.compatible_url, "nomic-embed-text"
            async for embedder in at(ModelSettings(provider="openai_chat", base_url=url, model_id=model_id)):
                yield embedder
