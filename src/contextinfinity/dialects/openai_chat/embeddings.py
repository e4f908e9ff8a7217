"""Embeddings: requests and responses of POST /v1/embeddings."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

from msgspec import Struct

from contextinfinity.dialects.openai_chat.value_checks import (
    InvalidValue,
    a_name,
    body_object,
    each,
    expected,
    field,
    optional,
    whole_number,
    word_of,
)
from contextinfinity.domain.message import Json
from contextinfinity.errors import InvalidInput

if TYPE_CHECKING:
    from contextinfinity.domain.search import Row, Rows

MOST_TEXTS = 2048
MOST_DIMENSIONS = 65_536
_FORMATS = word_of("float", "base64")


class EmbeddingsRequest(Struct, frozen=True, kw_only=True):
    """Texts to embed; ``packed``: return the vectors as base64 of 32-bit floats."""

    model: str
    texts: tuple[str, ...]
    packed: bool = False
    dimensions: int | None = None
    """The length of the vectors; None: that of the model."""


def read_embeddings(body: bytes) -> EmbeddingsRequest:
    """Parse a request; raise ``InvalidInput`` with the location, the problem and the fix."""
    asked = body_object(body)
    try:
        dimensions = optional(asked, "dimensions", whole_number(1, MOST_DIMENSIONS))
        packed = optional(asked, "encoding_format", _FORMATS) == "base64"
        model, texts = field(asked, "model", a_name), field(asked, "input", _texts)
        return EmbeddingsRequest(model=model, texts=texts, packed=packed, dimensions=dimensions)
    except InvalidValue as wrong:
        raise wrong.error() from None


def write_embeddings(asked: EmbeddingsRequest, rows: Rows, tokens: int) -> Json:
    """Write the vectors in the order of the texts, and the number of tokens.

    Raises ``InvalidInput`` if more dimensions are requested than there are.
    """
    shown = (_shortened(row, asked.dimensions) for row in rows)
    data = [
        {"object": "embedding", "index": place, "embedding": _packed(row) if asked.packed else row.tolist()}
        for place, row in enumerate(shown)
    ]
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return {"object": "list", "data": data, "model": asked.model, "usage": usage}


def _shortened(row: Row, dimensions: int | None) -> Row:
    """Keep the first dimensions of a vector and normalise it, as OpenAI does."""
    if dimensions is None or dimensions == len(row):
        return row
    if dimensions > len(row):
        raise InvalidInput(f"dimensions: vectors have {len(row)} here.", hint=f"Ask for {len(row)} or fewer.")
    cut = row[:dimensions]
    length = float((cut * cut).sum()) ** 0.5
    return cut / length if length else cut


def _texts(value: Json) -> tuple[str, ...]:
    if isinstance(value, str):
        return (_text(value),)
    if not isinstance(value, list) or not 0 < len(value) <= MOST_TEXTS:
        raise InvalidValue(f"expected a string or a list of 1 to {MOST_TEXTS} strings")
    return tuple(each(value, _text))


def _text(value: Json) -> str:
    if isinstance(value, int | list):
        raise InvalidValue(
            "expected a string, got token ids, which are valid for one vendor's model only",
            "Send strings; LangChain's OpenAIEmbeddings does with check_embedding_ctx_length=False.",
        )
    if not isinstance(value, str) or not value:
        raise expected("a string that is not empty", value)
    return value


def _packed(row: Row) -> str:
    return base64.b64encode(row.astype("<f4").tobytes()).decode()
