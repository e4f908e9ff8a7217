"""The fake's vectors, seen through OpenAI's own SDK, and the requests that it refuses as the vendors do."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import openai
import pytest
from openai import AsyncOpenAI

from contextinfinity_testing.vendors import FakeVendors, Trouble

SMALL = "text-embedding-3-small"


@pytest.fixture
async def vendors() -> AsyncIterator[FakeVendors]:
    async with FakeVendors() as running:
        yield running


@pytest.fixture
async def client(vendors: FakeVendors) -> AsyncIterator[AsyncOpenAI]:
    async with AsyncOpenAI(base_url=vendors.openai_url, api_key="k", max_retries=0) as client:
        yield client


@pytest.fixture
async def ollama(vendors: FakeVendors) -> AsyncIterator[AsyncOpenAI]:
    async with AsyncOpenAI(base_url=vendors.compatible_url, api_key="none", max_retries=0) as client:
        yield client


async def test_vectors_come_in_order_and_are_the_same_in_both_forms(client: AsyncOpenAI) -> None:
    plain = await client.embeddings.create(model=SMALL, input=["a cat", "a dog"], encoding_format="float")
    packed = await client.embeddings.create(model=SMALL, input=["a cat", "a dog"])
    assert [row.index for row in plain.data] == [0, 1]
    assert len(plain.data[0].embedding) == 1536
    assert packed.data[1].embedding == pytest.approx(plain.data[1].embedding, abs=1e-6)
    assert (plain.usage.prompt_tokens, plain.usage.total_tokens) == (4, 4)
    short = await client.embeddings.create(model=SMALL, input="a cat", dimensions=16)
    assert len(short.data[0].embedding) == 16


async def test_ollama_needs_no_key_and_passes_over_what_it_does_not_know(ollama: AsyncOpenAI) -> None:
    extra = {"unheard_of": 1}
    told = await ollama.embeddings.create(model="nomic-embed-text", input="a cat", extra_body=extra)
    assert len(told.data[0].embedding) == 768


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"model": "text-embedding-9"}, "does not exist"),
        ({"input": []}, "input' is invalid"),
        ({"input": ["a", ""]}, "input' is invalid"),
        ({"input": ["a"] * 2049}, "array too long"),
        ({"input": ["a" * 20_000] * 61}, "max 300000 tokens per request"),
        ({"dimensions": 2000}, "dimensions"),
        ({"dimensions": 9, "model": "text-embedding-ada-002"}, "does not support specifying dimensions"),
        ({"encoding_format": "hex"}, "Invalid value: 'hex'"),
        ({"extra_body": {"stream": True}}, "Unknown parameter: 'stream'"),
    ],
)
async def test_a_request_that_breaks_a_rule_is_refused(client: AsyncOpenAI, change: dict[str, Any], words: str) -> None:
    with pytest.raises(openai.APIStatusError, match=words):
        await client.embeddings.create(**{"model": SMALL, "input": ["a"], **change})


async def test_a_text_that_is_too_long_is_refused_in_each_ones_words(
    vendors: FakeVendors, client: AsyncOpenAI, ollama: AsyncOpenAI
) -> None:
    vendors.limit = 10
    with pytest.raises(openai.BadRequestError, match="maximum context length is 10 tokens"):
        await client.embeddings.create(model=SMALL, input=["a", "a" * 41])
    with pytest.raises(openai.BadRequestError, match="input length exceeds the context length"):
        await ollama.embeddings.create(model="all-minilm", input="a" * 41)
    with pytest.raises(openai.NotFoundError, match="try pulling it first"):
        await ollama.embeddings.create(model="unheard-of", input="a")


async def test_trouble_with_vectors_leaves_the_script_of_the_chat_alone(
    vendors: FakeVendors, client: AsyncOpenAI
) -> None:
    vendors.say("Hello.")
    vendors.embedding_troubles.append(Trouble.status(429))
    with pytest.raises(openai.RateLimitError):
        await client.embeddings.create(model=SMALL, input="a")
    assert (await client.embeddings.create(model=SMALL, input="a")).data
    assert list(vendors.script) == ["Hello."]
