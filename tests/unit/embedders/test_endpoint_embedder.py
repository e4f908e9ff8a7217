"""An endpoint for vectors: what is asked of it, and that nothing wrong is taken from it."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from contextinfinity.embedders.endpoint import Endpoint, EndpointEmbedder, EndpointModel, known_model
from contextinfinity.errors import ProviderError

PLAIN = EndpointModel(dim=3, tokens=50)


class Told:
    """A line that answers as scripted, and keeps what it was asked; a vector begins with its text's length."""

    def __init__(self, *answers: object, limit: int = 10**6) -> None:
        self.answers = list(answers)
        self.limit = limit
        self.asked: list[dict[str, Any]] = []
        self.closed = 0

    async def post(self, path: str, body: bytes) -> bytes:
        assert path == "/embeddings"
        self.asked.append(json.loads(body))
        texts = self.asked[-1]["input"]
        if max(map(len, texts)) > self.limit:
            raise ProviderError("Too long.", kind="size")
        answer = self.answers.pop(0) if self.answers else rows([[len(text), 1.0, 2.0] for text in texts])
        return answer if isinstance(answer, bytes) else json.dumps(answer).encode()

    async def close(self) -> None:
        self.closed += 1

    @property
    def batches(self) -> list[list[str]]:
        return [body["input"] for body in self.asked]

    @property
    def texts(self) -> list[str]:
        return [text for batch in self.batches for text in batch]


def rows(vectors: Sequence[Any]) -> dict[str, Any]:
    return {"object": "list", "data": [{"index": place, "embedding": row} for place, row in enumerate(vectors)]}


def embedder(line: Told, model: EndpointModel = PLAIN, **more: Any) -> EndpointEmbedder:
    said = {"provider": "openai_chat", "model_id": "mine", "dim": model.dim, **more}
    return EndpointEmbedder(Endpoint(model=model, **said), line)


def lengths(placed: Any) -> list[int]:
    """Read the texts' lengths back from their vectors."""
    return [round(row[0] / row[1]) if row.any() else 0 for row in placed]


async def test_batches_are_bounded_by_texts_and_by_tokens_and_keep_the_order() -> None:
    line = Told()
    texts = ["a", "bb bb", "", "ccc", "d" * 9, "one two three four five six seven", "e"]
    placed = await embedder(line, most_texts=3, most_tokens=10).embed(texts)
    assert lengths(placed) == [len(text) for text in texts]
    assert line.texts == [text for text in texts if text]
    assert line.batches[0] == ["a", "bb bb", "ccc"], "no more than three texts"
    assert [len(batch) for batch in line.batches[1:]] == [1, 2], "and no more than ten tokens"


async def test_nobody_is_asked_where_nothing_was_said() -> None:
    line = Told()
    assert not (await embedder(line).embed(["", " \n"])).any()
    assert line.asked == []


async def test_a_request_says_the_model_the_form_and_what_the_settings_add() -> None:
    line = Told()
    await embedder(line, options={"user": "me", "model": "other", "input": "x"}).embed(["a"])
    assert line.asked == [{"encoding_format": "float", "user": "me", "model": "mine", "input": ["a"]}]


async def test_fewer_numbers_are_asked_for_where_fewer_are_wanted() -> None:
    line = Told(rows([[1.0, 2.0]]))
    model = EndpointModel(dim=3, shortens=True)
    placed = await embedder(line, model, dim=2, as_base64=True).embed(["a"])
    assert (line.asked[0]["dimensions"], line.asked[0]["encoding_format"]) == (2, "base64")
    assert placed.shape == (1, 2)


async def test_a_question_and_a_passage_get_the_words_that_the_model_wants() -> None:
    line = Told()
    asking = embedder(line, EndpointModel(dim=3, query="query: ", passage="passage: "))
    await asking.embed(["a"], kind="query")
    await asking.embed(["a"])
    assert line.texts == ["query: a", "passage: a"]


async def test_a_text_that_is_too_long_is_cut_before_it_is_sent() -> None:
    line = Told()
    await embedder(line).embed(["word " * 10_000, "日本語" * 1_000, "x" * 1_000_000])
    long, foreign, odd = line.texts
    assert 35 <= len(long.split()) <= 50
    assert 10 <= len(foreign) <= 100
    assert 10 <= len(odd) <= 400


async def test_what_the_endpoint_finds_too_long_is_sent_in_halves() -> None:
    line = Told(limit=120)
    placed = await embedder(line, EndpointModel(dim=3, tokens=500)).embed(["a" * 50, "word " * 80, "b" * 60])
    assert lengths(placed) == [50, 100, 60]
    line = Told(limit=10)
    with pytest.raises(ProviderError, match="Too long"):
        await embedder(line).embed(["a" * 90])
    assert len(line.asked) == 1, "a short text is not cut: something else is wrong"


async def test_vectors_are_put_where_they_belong_and_brought_to_length_one() -> None:
    packed = base64.b64encode(np.array([0, 3e30, 4e30], dtype="<f4").tobytes()).decode()
    line = Told({"data": [{"index": 1, "embedding": [1e-30, 0, 0]}, {"index": 0, "embedding": packed}]})
    placed = await embedder(line).embed(["a", "b"])
    assert placed.dtype == np.float32
    assert placed == pytest.approx(np.array([[0, 0.6, 0.8], [1, 0, 0]]), abs=1e-6)
    line = Told({"data": [{"embedding": [1, 0, 0]}, {"embedding": [0, 1, 0]}]})
    assert (await embedder(line).embed(["a", "b"])).tolist() == [[1, 0, 0], [0, 1, 0]], "unnumbered, in order"


def nan() -> str:
    return base64.b64encode(np.array([1, np.nan, 0], dtype="<f4").tobytes()).decode()


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (rows([[1.0, 0.0, 0.0]]), "returned 1 vectors for 2 texts"),
        (rows([[1.0, 0.0], [1.0, 0.0]]), "have 2 numbers, and 3 were expected"),
        (rows([[1.0, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0]]), "have 4 numbers, and 3 were expected"),
        (rows([[1.0, 0.0, 0.0], nan()]), "values that are not finite numbers"),
        (rows([[1.0, 0.0, 0.0], [0, 0, 0]]), "values that are not finite numbers"),
        (b'{"data": [{"embedding": [1e999, 0, 0]}, {"embedding": [1, 0, 0]}]}', "Number out of range"),
        (b'{"data": [{"embedding": [NaN, 0, 0]}, {"embedding": [1, 0, 0]}]}', "does not contain vectors"),
        (b'{"data": [{"embedding": [1' + b"0" * 400 + b", 0, 0]}, {}]}", "does not contain vectors"),
        (rows([[1.0, None, 0.0], [1.0, 0.0, 0.0]]), "does not contain vectors"),
        (rows([[[1.0, 0.0, 0.0]], [[1.0, 0.0, 0.0]]]), "does not contain vectors"),
        (rows(["AAAA", "AAAAA="]), "does not contain vectors"),
        (rows(["é", "é"]), "does not contain vectors"),
        ({"data": [{"index": 1, "embedding": [1, 0, 0]}, {"index": 1, "embedding": [1, 0, 0]}]}, "belongs to which"),
        ({"data": [{"index": -1, "embedding": [1, 0, 0]}, {"index": 0, "embedding": [1, 0, 0]}]}, "belongs to which"),
        ({"error": "no such model"}, "does not contain vectors"),
        (b"%PDF \x00", "does not contain vectors"),
        (b"[" * 100_000, "does not contain vectors"),
    ],
)
async def test_a_wrong_answer_is_refused_in_words(answer: object, words: str) -> None:
    with pytest.raises(ProviderError, match=words) as caught:
        await embedder(Told(answer)).embed(["a", "b"])
    assert str(caught.value).startswith("openai_chat mine: the vectors cannot be used")
    assert (caught.value.kind, caught.value.retryable) == ("garbled", False)


async def test_a_failed_batch_fails_the_whole() -> None:
    line = Told(rows([[1.0, 0.0, 0.0]]), b"")
    with pytest.raises(ProviderError):
        await embedder(line, most_texts=1).embed(["a", "b", "c"])
    assert len(line.asked) == 2


async def test_closing_closes_the_line() -> None:
    line = Told()
    await embedder(line).close()
    assert line.closed == 1


@pytest.mark.req("RETRIEVE-3")
@pytest.mark.parametrize(
    "change",
    [
        lambda said: {**said, "provider": "openai"},
        lambda said: {**said, "model_id": "other"},
        lambda said: {**said, "dim": 2},
        lambda said: {**said, "options": {"task": "search"}},
    ],
)
def test_whatever_changes_the_vectors_changes_the_name(change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    said: dict[str, Any] = {"provider": "openai_chat", "model_id": "org/mine", "dim": 3, "model": PLAIN}
    assert Endpoint(**said).name == "openai_chat/org/mine/3/1"
    assert Endpoint(**change(said)).name != Endpoint(**said).name
    assert Endpoint(**change(said)).name == Endpoint(**change(said)).name


@pytest.mark.parametrize(
    ("model_id", "dim"),
    [
        ("text-embedding-3-small", 1536),
        ("text-embedding-3-large", 3072),
        ("nomic-embed-text:latest", 768),
        ("BAAI/bge-m3", 1024),
        ("Qwen/Qwen3-Embedding-0.6B", 1024),
        ("qwen3-embedding", 4096),
        ("sentence-transformers/all-MiniLM-L6-v2", 384),
        ("intfloat/multilingual-e5-base", 768),
    ],
)
def test_models_that_many_use_are_known_by_their_names(model_id: str, dim: int) -> None:
    known = known_model(model_id)
    assert known is not None
    assert known.dim == dim


@pytest.mark.parametrize("model_id", ["mine", "", "text-embedding-3", "nomic-embed-text-v9", "all-minilm:33m"])
def test_no_model_is_taken_for_another(model_id: str) -> None:
    assert known_model(model_id) is None
