"""MiniLM: its graph makes of any numbers what BERT's formulas make of them, and what is missing is said in words."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np
import pytest

from contextinfinity.embedders.minilm.embedder import LONGEST, MiniLMEmbedder
from contextinfinity.errors import ProviderError
from tests.unit.embedders.small_bert import SMALL, SmallBert, write

TEXTS = ["the cat sleeps on the sofa.", "rates rose", "dogs", "[SEP] [PAD]", "日本語 the cat", "the the the the"]


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> SmallBert:
    return SmallBert(tmp_path_factory.mktemp("bert"))


@pytest.fixture
async def embedder(small: SmallBert) -> AsyncIterator[MiniLMEmbedder]:
    embedder = MiniLMEmbedder(small.weights, small.tokenizer, shape=SMALL)
    yield embedder
    await embedder.close()


def ids(text: str) -> list[int]:
    """Split the texts above as WordPiece does."""
    cls, sep, unknown = 2, 3, 1
    known = {
        TEXTS[0]: [9, 4, 7, 8, 9, 6, 13],
        TEXTS[1]: [10, 11],
        TEXTS[2]: [5, 12],
        TEXTS[3]: [unknown] * 6,
        TEXTS[4]: [unknown] * 3 + [9, 4],
        TEXTS[5]: [9] * 4,
    }
    return [cls, *known[text], sep]


async def test_a_row_is_what_the_formulas_of_bert_say(small: SmallBert, embedder: MiniLMEmbedder) -> None:
    rows = await embedder.embed(TEXTS)
    assert np.allclose(rows, [small.reference(ids(text)) for text in TEXTS], atol=2e-5)


async def test_the_model_reads_as_many_tokens_as_it_was_taught(small: SmallBert, embedder: MiniLMEmbedder) -> None:
    (row, longer) = await embedder.embed(["cat " * LONGEST, "cat " * LONGEST + "rates " * 100])
    assert np.allclose(row, small.reference([2, *[4] * (LONGEST - 2), 3]), atol=2e-5)
    assert np.array_equal(row, longer)


async def test_many_texts_of_all_lengths_come_back_in_their_order(embedder: MiniLMEmbedder) -> None:
    texts = ["cat dog sofa rates"[: 4 + place % 15] + " the" * (place * 37 % 200) for place in range(60)]
    together = await embedder.embed(texts)
    alone = np.concatenate([await embedder.embed([text]) for text in texts])
    assert np.allclose(together, alone, atol=1e-5)


async def test_it_works_in_one_thread_of_its_own_and_leaves_none_behind(embedder: MiniLMEmbedder) -> None:
    await asyncio.gather(*[embedder.embed(["cat " * size]) for size in range(1, 20)])
    mine = [thread for thread in threading.enumerate() if thread.name.startswith("minilm")]
    assert len(mine) == 1
    await embedder.close()
    mine[0].join(10)
    assert not mine[0].is_alive()
    assert (await embedder.embed(["cat"])).any(), "and it opens again"


async def test_weights_may_be_a_link_to_another_folder(small: SmallBert, tmp_path: Path) -> None:
    (tmp_path / "linked").symlink_to(small.weights)
    embedder = MiniLMEmbedder(tmp_path / "linked", small.tokenizer, shape=SMALL)
    assert (await embedder.embed(["cat"])).any()
    await embedder.close()


@pytest.mark.parametrize("which", ["weights", "tokenizer"])
async def test_weights_that_are_not_there_are_named_with_the_command_that_fetches_them(
    small: SmallBert, tmp_path: Path, which: str
) -> None:
    paths = {"weights": small.weights, "tokenizer": small.tokenizer, which: tmp_path / "gone"}
    embedder = MiniLMEmbedder(paths["weights"], paths["tokenizer"], shape=SMALL)
    with pytest.raises(ProviderError, match=r"weights of the embedder minilm are missing: .*gone") as caught:
        await embedder.embed(["cat"])
    assert "cix model get minilm" in caught.value.hint
    assert not (await embedder.embed([" "])).any(), "nothing said needs no weights"
    await embedder.close()


async def test_another_models_weights_are_refused(small: SmallBert, tmp_path: Path) -> None:
    path = tmp_path / "other.safetensors"
    damaged = {
        "cut off": small.weights.read_bytes()[:-1],
        "no header": b"\xff" * 100,
        "encoder.layer.1.output.dense.bias": None,
    }
    for words, content in damaged.items():
        if content is None:
            write(path, {name: tensor for name, tensor in small.tensors.items() if name != words})
        else:
            path.write_bytes(content)
        embedder = MiniLMEmbedder(path, small.tokenizer, shape=SMALL)
        with pytest.raises(ProviderError, match=words) as caught:
            await embedder.embed(["cat"])
        assert "cix model get minilm" in caught.value.hint
        await embedder.close()


async def test_without_onnxruntime_it_says_what_to_install(
    embedder: MiniLMEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(ProviderError, match="onnxruntime") as caught:
        await embedder.embed(["cat"])
    assert "contextinfinity[minilm]" in caught.value.hint


@pytest.mark.xdist_group("minilm")
async def test_the_numbers_of_minilm_are_those_that_were_stored_under_this_name(
    minilm_files: tuple[Path, Path],
) -> None:
    # If this changes, NAME has to: vectors already stored could no longer be compared.
    embedder = MiniLMEmbedder(*minilm_files)
    (row,) = await embedder.embed(["The cat sleeps on the sofa."])
    await embedder.close()
    assert embedder.name == "local/all-MiniLM-L6-v2/384/1"
    assert row[:4] == pytest.approx([0.16257, -0.07380, -0.02986, 0.04016], abs=1e-4)
