"""An embedder for any OpenAI-compatible ``/v1/embeddings`` endpoint: OpenAI, Ollama, vLLM, llama.cpp and others.

Texts are sent in batches and vectors are returned in order. A reply is accepted only if it has one valid vector of the
right dimension for each text, so that vectors of a wrong model are never stored. The connection, with its keys and
retries, is passed in.

A table has the known models of such endpoints. A row gives the dimension, the token limit, and the prefixes for queries
and passages. For other models the dimension comes from the settings.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

import msgspec
from msgspec import Struct

from contextinfinity.domain.message import Json
from contextinfinity.embedders.contract import Kind, valid_unicode
from contextinfinity.errors import ProviderError
from contextinfinity.text.tokens import counter_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from contextinfinity.embedders.contract import Vectors

BGE_QUERY = "Represent this sentence for searching relevant passages: "
QWEN_QUERY = "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery:"


class EndpointModel(Struct, frozen=True, kw_only=True):
    """The properties of an embedding model."""

    dim: int
    tokens: int = 512
    """The number of tokens it reads; context_limit in the settings takes precedence."""
    query: str = ""
    passage: str = ""
    shortens: bool = False
    """Whether it supports fewer dimensions."""
    encoding: str | None = None
    """Its tokenizer, if that is public."""


def _openai(dim: int, *, shortens: bool = True) -> EndpointModel:
    return EndpointModel(dim=dim, tokens=8191, shortens=shortens, encoding="cl100k_base")


def _e5(dim: int) -> EndpointModel:
    return EndpointModel(dim=dim, query="query: ", passage="passage: ")


def _nomic(tokens: int) -> EndpointModel:
    return EndpointModel(dim=768, tokens=tokens, query="search_query: ", passage="search_document: ")


def _qwen(dim: int) -> EndpointModel:
    return EndpointModel(dim=dim, tokens=8192, query=QWEN_QUERY)


MODELS: dict[str, EndpointModel] = {
    r"text-embedding-3-small": _openai(1536),
    r"text-embedding-3-large": _openai(3072),
    r"text-embedding-ada-002": _openai(1536, shortens=False),
    r"nomic-embed-text(-v1|-v1\.5|:v1\.5)?": _nomic(2048),
    r"nomic-embed-text-v2-moe": _nomic(512),
    r"mxbai-embed-large(-v1|:335m|:v1)?": EndpointModel(dim=1024, query=BGE_QUERY),
    r"bge-large-en-v1\.5": EndpointModel(dim=1024, query=BGE_QUERY),
    r"bge-base-en-v1\.5": EndpointModel(dim=768, query=BGE_QUERY),
    r"bge-small-en-v1\.5": EndpointModel(dim=384, query=BGE_QUERY),
    r"bge-m3(:567m)?": EndpointModel(dim=1024, tokens=8192),
    r"all-minilm(-l6-v2|:22m|:l6-v2)?": EndpointModel(dim=384, tokens=256),
    r"(multilingual-)?e5-large(-v2)?": _e5(1024),
    r"(multilingual-)?e5-base(-v2)?": _e5(768),
    r"(multilingual-)?e5-small(-v2)?": _e5(384),
    r"qwen3-embedding[-:]0\.6b": _qwen(1024),
    r"qwen3-embedding[-:]4b": _qwen(2560),
    r"qwen3-embedding([-:]8b)?": _qwen(4096),
    r"embeddinggemma(-300m|:300m)?": EndpointModel(
        dim=768, tokens=2048, query="task: search result | query: ", passage="title: none | text: "
    ),
    r"mistral-embed": EndpointModel(dim=1024, tokens=8192),
}


def known_model(model_id: str) -> EndpointModel | None:
    """Look up a model, ignoring its publisher ("BAAI/bge-m3") and the tag ":latest"."""
    name = model_id.lower().rpartition("/")[2].removesuffix(":latest")
    return next((model for pattern, model in MODELS.items() if re.fullmatch(pattern, name)), None)


PATH = "/embeddings"
VERSION = 1
"""Increased whenever the same text would be sent in another form."""

CHARACTERS_A_TOKEN = 8
"""A text is first cut to this many characters per allowed token, before tokens are counted."""
SHORTEST = 100
"""Shorter texts are not cut further: if the endpoint rejects them, length is not the reason."""


class EndpointConnection(Protocol):
    """The connection to an endpoint."""

    async def post(self, path: str, body: bytes) -> bytes:
        """Send a request with retries; raise ``ProviderError`` if it fails."""
        ...

    async def close(self) -> None:
        """Close connections."""
        ...


class Endpoint(Struct, frozen=True, kw_only=True):
    """A model at an endpoint, and its request options."""

    provider: str
    model_id: str
    model: EndpointModel
    dim: int
    """The dimension of the vectors: that of the model, or fewer if it supports shortening."""
    most_texts: int = 32
    """The maximum number of texts per request, which every server accepts."""
    most_tokens: int = 16_000
    """The maximum number of tokens per request."""
    as_base64: bool = False
    """Request vectors in base64, a third of the bytes; both forms are accepted."""
    options: Json = None
    """Parameters of every request."""

    @property
    def name(self) -> str:
        """The provider, model and dimension; different options give a different name."""
        name = f"{self.provider}/{self.model_id}/{self.dim}/{VERSION}"
        if not self.options:
            return name
        said = msgspec.json.encode(self.options, order="sorted")
        return f"{name}-{hashlib.sha256(said).hexdigest()[:8]}"


class _Row(Struct, frozen=True):
    embedding: list[float] | str
    index: int | None = None


class _EmbeddingReply(Struct, frozen=True):
    data: list[_Row]


class EndpointEmbedder:
    """An embedder that calls an endpoint."""

    is_remote = True

    def __init__(self, endpoint: Endpoint, line: EndpointConnection) -> None:
        self.name = endpoint.name
        self.dim = endpoint.dim
        self._endpoint = endpoint
        self._line = line
        self._counter = counter_of(endpoint.provider, endpoint.model_id, endpoint.model.encoding)

    async def embed(self, texts: Sequence[str], *, kind: Kind = "passage") -> Vectors:
        """Return the vectors of texts; blank texts are not sent. Raises ``ProviderError``."""
        import numpy as np

        rows = np.zeros((len(texts), self.dim), dtype=np.float32)
        prefix = self._endpoint.model.query if kind == "query" else self._endpoint.model.passage
        said = [place for place, text in enumerate(texts) if text[: self._most_characters].strip()]
        # Counting many tokens is slow, so it runs in a thread.
        fitting = await asyncio.to_thread(lambda: [self._fitted(prefix + texts[place]) for place in said])
        done = 0
        for batch in self._batches(fitting):
            rows[said[done : done + len(batch)]] = await self._asked(batch)
            done += len(batch)
        return rows

    async def close(self) -> None:
        """Close connections."""
        await self._line.close()

    @property
    def _most_characters(self) -> int:
        return CHARACTERS_A_TOKEN * self._endpoint.model.tokens

    def _fitted(self, text: str) -> tuple[str, int]:
        """Cut a text to the model's limit; return it with its token count."""
        text = valid_unicode(text[: self._most_characters])
        most = self._endpoint.model.tokens
        while (tokens := self._counter.count(text)) > most:
            text = text[: min(len(text) * most // tokens, len(text) - 1)]
        return text, tokens

    def _batches(self, fitting: Sequence[tuple[str, int]]) -> Iterator[list[str]]:
        batch: list[str] = []
        together = 0
        for text, tokens in fitting:
            full = len(batch) == self._endpoint.most_texts or together + tokens > self._endpoint.most_tokens
            if batch and full:
                yield batch
                batch, together = [], 0
            batch.append(text)
            together += tokens
        if batch:
            yield batch

    async def _asked(self, texts: Sequence[str]) -> Vectors:
        """Request a batch. If it is too long for the endpoint, split the batch, or halve a single text."""
        import numpy as np

        try:
            return self._read(await self._line.post(PATH, self._body(texts)), len(texts))
        except ProviderError as error:
            if error.kind != "size" or (len(texts) == 1 and len(texts[0]) <= SHORTEST):
                raise
        if len(texts) == 1:
            return await self._asked([texts[0][: len(texts[0]) // 2]])
        half = len(texts) // 2
        return np.concatenate([await self._asked(texts[:half]), await self._asked(texts[half:])])

    def _body(self, texts: Sequence[str]) -> bytes:
        endpoint = self._endpoint
        body = {"encoding_format": "base64" if endpoint.as_base64 else "float", **(endpoint.options or {})}
        if endpoint.dim != endpoint.model.dim:
            body["dimensions"] = endpoint.dim
        return msgspec.json.encode({**body, "model": endpoint.model_id, "input": texts})

    def _read(self, answer: bytes, count: int) -> Vectors:
        import numpy as np

        try:
            found = msgspec.json.decode(answer, type=_EmbeddingReply).data
            vectors = [_numbers(row.embedding) for row in found]
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            raise self._garbled(f"the response does not contain vectors: {error}") from None
        if len(vectors) != count:
            raise self._garbled(f"it returned {len(vectors)} vectors for {count} texts")
        for vector in vectors:
            if len(vector) != self.dim:
                raise self._garbled(f"its vectors have {len(vector)} numbers, and {self.dim} were expected", _DIMENSION)
        rows = np.stack(vectors)
        longest = np.abs(rows).max(axis=1, keepdims=True)
        if not (np.isfinite(longest).all() and longest.all()):
            raise self._garbled("a vector is zero or contains values that are not finite numbers")
        rows /= longest  # prevents overflow and underflow of the squares
        placed = np.empty(rows.shape, dtype=np.float32)
        placed[self._order(found)] = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        return placed

    def _order(self, found: Sequence[_Row]) -> list[int]:
        """Return the index of each vector; servers that give none keep the order."""
        order = [place if row.index is None else row.index for place, row in enumerate(found)]
        if sorted(order) != list(range(len(found))):
            raise self._garbled("it does not say which vector belongs to which text")
        return order

    def _garbled(self, why: str, hint: str = "") -> ProviderError:
        return ProviderError(
            f"{self._endpoint.provider} {self._endpoint.model_id}: the vectors cannot be used: {why}.",
            kind="garbled",
            hint=hint or "Check that base_url is an embeddings endpoint and the model is an embedding model.",
        )


_DIMENSION = "Set dimensions under [models] to what the model gives; if the model was replaced, give it another name."


def _numbers(embedding: list[float] | str) -> NDArray[np.float64]:
    import numpy as np

    if isinstance(embedding, str):
        return np.frombuffer(base64.b64decode(embedding, validate=True), dtype="<f4").astype(np.float64)
    return np.array(embedding, dtype=np.float64)
