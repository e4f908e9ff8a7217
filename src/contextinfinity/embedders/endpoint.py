"""Any ``/v1/embeddings`` endpoint: OpenAI, Ollama, vLLM, llama.cpp and whatever else speaks as OpenAI does.

Texts go out in batches and their vectors come back in order. An answer is taken only if it holds one vector for each
text, each of the right length and of numbers; a server that mixes up its models is found out before its vectors are
stored. What the endpoint is reached through, with its keys and its patience, is given from outside.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

import msgspec
from msgspec import Struct

from contextinfinity.domain.message import Json
from contextinfinity.embedders.contract import Kind
from contextinfinity.embedders.endpoint_models import EndpointModel
from contextinfinity.embedders.texts import valid_unicode
from contextinfinity.errors import ProviderError
from contextinfinity.text.tokens import counter_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from contextinfinity.embedders.contract import Vectors

PATH = "/embeddings"
VERSION = 1
"""Counted up whenever the same text would be sent in another form."""

CHARACTERS_A_TOKEN = 8
"""A text is cut at so many for each token it may have, before its tokens are counted."""
SHORTEST = 100
"""Characters below which a text is not cut further: whatever the endpoint says, its length is not the trouble."""


class EndpointConnection(Protocol):
    """The way to an endpoint."""

    async def post(self, path: str, body: bytes) -> bytes:
        """Ask, again if need be; ``ProviderError`` where no answer comes."""
        ...

    async def close(self) -> None:
        """Let go of connections."""
        ...


class Endpoint(Struct, frozen=True, kw_only=True):
    """A model at an endpoint, and how it is asked."""

    provider: str
    model_id: str
    model: EndpointModel
    dim: int
    """How many numbers are wanted: those of the model, or fewer where it shortens."""
    most_texts: int = 32
    """Texts of one request: as many as every server takes."""
    most_tokens: int = 16_000
    """Tokens of one request."""
    as_base64: bool = False
    """Ask for vectors in base64, a third of the bytes; both forms are read."""
    options: Json = None
    """What is sent along with every request."""

    @property
    def name(self) -> str:
        """Who places, with which model, in how many numbers; other options are another name."""
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
    """Asks an endpoint for vectors."""

    is_remote = True

    def __init__(self, endpoint: Endpoint, line: EndpointConnection) -> None:
        self.name = endpoint.name
        self.dim = endpoint.dim
        self._endpoint = endpoint
        self._line = line
        self._counter = counter_of(endpoint.provider, endpoint.model_id, endpoint.model.encoding)

    async def embed(self, texts: Sequence[str], *, kind: Kind = "passage") -> Vectors:
        """Give the rows of texts; nobody is asked for a text that says nothing."""
        import numpy as np

        rows = np.zeros((len(texts), self.dim), dtype=np.float32)
        prefix = self._endpoint.model.query if kind == "query" else self._endpoint.model.passage
        said = [place for place, text in enumerate(texts) if text[: self._most_characters].strip()]
        # Counting takes a while where there is much to count; others go on meanwhile.
        fitting = await asyncio.to_thread(lambda: [self._fitted(prefix + texts[place]) for place in said])
        done = 0
        for batch in self._batches(fitting):
            rows[said[done : done + len(batch)]] = await self._asked(batch)
            done += len(batch)
        return rows

    async def close(self) -> None:
        """Let go of connections."""
        await self._line.close()

    @property
    def _most_characters(self) -> int:
        return CHARACTERS_A_TOKEN * self._endpoint.model.tokens

    def _fitted(self, text: str) -> tuple[str, int]:
        """Cut a text to what the model reads; give its tokens with it."""
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
        """Ask for a batch. What the endpoint finds too long is sent in halves: half of the texts, or half of a text."""
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
            raise self._garbled(f"what came has not the form of vectors: {error}") from None
        if len(vectors) != count:
            raise self._garbled(f"it was sent {count} texts and gave {len(vectors)} vectors")
        for vector in vectors:
            if len(vector) != self.dim:
                raise self._garbled(f"its vectors have {len(vector)} numbers, and {self.dim} were expected", _DIMENSION)
        rows = np.stack(vectors)
        longest = np.abs(rows).max(axis=1, keepdims=True)
        if not (np.isfinite(longest).all() and longest.all()):
            raise self._garbled("there is a vector of zeros, or one that is not made of numbers")
        rows /= longest  # so that no square is too large to be told, or too small
        placed = np.empty(rows.shape, dtype=np.float32)
        placed[self._order(found)] = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        return placed

    def _order(self, found: Sequence[_Row]) -> list[int]:
        """Tell where each vector belongs; servers that do not say keep the order."""
        order = [place if row.index is None else row.index for place, row in enumerate(found)]
        if sorted(order) != list(range(len(found))):
            raise self._garbled("it does not say which vector belongs to which text")
        return order

    def _garbled(self, why: str, hint: str = "") -> ProviderError:
        return ProviderError(
            f"{self._endpoint.provider} {self._endpoint.model_id}: the vectors cannot be used: {why}.",
            kind="garbled",
            hint=hint or "Check that base_url is an endpoint for embeddings, and the model one that makes them.",
        )


_DIMENSION = (
    "Set dimensions under [models] to what the model gives; if the model itself was changed, name it as another."
)


def _numbers(embedding: list[float] | str) -> NDArray[np.float64]:
    import numpy as np

    if isinstance(embedding, str):
        return np.frombuffer(base64.b64decode(embedding, validate=True), dtype="<f4").astype(np.float64)
    return np.array(embedding, dtype=np.float64)
