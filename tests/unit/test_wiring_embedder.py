"""Which embedder the settings mean, and the name under which its vectors are stored."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from contextinfinity.errors import ProviderError, SettingsError
from contextinfinity.settings import General, Local, ModelSettings, RetrievalSettings, Settings
from contextinfinity.wiring.embedding import embedder_of
from contextinfinity_testing.vendors import FakeVendors

OWN = "http://localhost:11434/v1"


def settings(name: str, **model: Any) -> Settings:
    models = {name: ModelSettings(**model)} if model else {}
    return Settings(retrieval=RetrievalSettings(embedding_model=name), models=models)


@pytest.mark.req("RETRIEVE-3", "CONFIG-1")
@pytest.mark.parametrize(
    ("named", "name", "dim"),
    [
        (settings("static"), "wordllama-l2_supercat-256/1", 256),
        (settings("minilm"), "local/all-MiniLM-L6-v2/384/1", 384),
        (settings("text-embedding-3-small"), "openai/text-embedding-3-small/1536/1", 1536),
        (
            settings("mine", provider="openai", model_id="text-embedding-3-large", dimensions=256),
            "openai/text-embedding-3-large/256/1",
            256,
        ),
        (
            settings("nomic-embed-text", provider="openai_chat", base_url=OWN),
            "openai_chat/nomic-embed-text/768/1",
            768,
        ),
        (
            settings("own", provider="openai_chat", base_url=OWN, model_id="org/own", dimensions=100),
            "openai_chat/org/own/100/1",
            100,
        ),
    ],
)
async def test_the_name_of_vectors_says_provider_model_and_dimension(named: Settings, name: str, dim: int) -> None:
    embedder = embedder_of(named)
    assert (embedder.name, embedder.dim) == (name, dim)
    await embedder.close()


@pytest.mark.req("RETRIEVE-3")
def test_the_built_in_embedder_is_minilm_where_its_weights_are_and_nothing_is_fetched(
    tmp_path: Path, minilm_files: tuple[Path, Path]
) -> None:
    built_in = replace(settings("built-in"), local=Local(models_dir=str(tmp_path)))
    assert embedder_of(built_in).name == "wordllama-l2_supercat-256/1"
    assert not [*tmp_path.iterdir()]
    for path in minilm_files:
        (tmp_path / path.name).symlink_to(path)
    assert embedder_of(built_in).name == "local/all-MiniLM-L6-v2/384/1"
    assert embedder_of(replace(built_in, retrieval=RetrievalSettings(embedding_model="static"))).dim == 256


@pytest.mark.req("CONFIG-1")
@pytest.mark.parametrize(
    ("named", "words", "hint"),
    [
        (settings("no-such-model"), "there is no model 'no-such-model'", "text-embedding-3-small"),
        (
            settings("claude", provider="anthropic"),
            'provider "anthropic", which has no embedding models',
            "openai_chat",
        ),
        (settings("own", provider="openai_chat", base_url=OWN), "vectors of own have is not known", "[models.own]"),
        (settings("text-embedding-9"), "vectors of text-embedding-9 have", "[models.text-embedding-9]"),
    ],
)
def test_what_makes_no_vectors_is_refused_with_what_to_do(named: Settings, words: str, hint: str) -> None:
    with pytest.raises(SettingsError) as caught:
        embedder_of(named)
    assert words in str(caught.value)
    assert hint in caught.value.hint


async def test_an_openai_name_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    async with FakeVendors(key="sk-open-0123456789") as vendors:
        monkeypatch.setenv("OPENAI_BASE_URL", vendors.openai_url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-open-0123456789")
        embedder = embedder_of(settings("text-embedding-3-small"))
        assert (await embedder.embed(["cat", "dog", "cat"])).shape == (3, 1536)
        await embedder.embed(["cat"])
        await embedder.close()
        (request,) = vendors.requests
    assert request.body == {
        "encoding_format": "base64",
        "model": "text-embedding-3-small",
        "input": ["cat", "dog"],
    }, "what is known is not asked again"


async def test_a_dimension_that_the_model_cannot_give_is_never_asked_for() -> None:
    async with FakeVendors() as vendors:
        said = {"provider": "openai_chat", "model_id": "all-minilm", "dimensions": 100}
        embedder = embedder_of(settings("mine", base_url=vendors.compatible_url, **said))
        with pytest.raises(ProviderError, match="vectors have 384 numbers, and 100 were expected"):
            await embedder.embed(["cat"])
        await embedder.close()
        assert "dimensions" not in vendors.requests[0].body


@pytest.mark.xdist_group("minilm")
async def test_minilm_is_found_in_the_models_folder(minilm_files: tuple[Path, Path], tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    for path in minilm_files:
        (tmp_path / "models" / path.name).symlink_to(path)
    embedder = embedder_of(
        Settings(general=General(data_dir=str(tmp_path)), retrieval=RetrievalSettings(embedding_model="minilm"))
    )
    row, same = await embedder.embed(["The cat sleeps.", "The cat sleeps."])
    assert np.array_equal(row, same)
    assert row.shape == (384,)
    await embedder.close()
