"""Vectors of texts, as POST /v1/embeddings is asked for them and gives them."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

from msgspec import Struct

from contextinfinity.dialects.openai_chat.checks import (
    Wrong,
    a_name,
    body_object,
    each,
    expected,
    field,
    wanted,
    word_of,
)
from contextinfinity.domain.message import Json

if TYPE_CHECKING:
    from contextinfinity.domain.vectors import Row, Rows

MOST_TEXTS = 2048
_FORMATS = word_of("float", "base64")


class EmbeddingsAsked(Struct, frozen=True, kw_only=True):
    """Texts that are to be placed; ``packed``: their vectors are wanted as base64 of 32-bit floats."""

    model: str
    texts: tuple[str, ...]
    packed: bool = False


def read_embeddings(body: bytes) -> EmbeddingsAsked:
    """Read a request; ``InvalidInput`` names what is wrong with it, where, and what would be right."""
    asked = body_object(body)
    try:
        if asked.get("dimensions") is not None:
            raise Wrong("vectors are as long as the model makes them", "Leave dimensions out.").inside("dimensions")
        packed = wanted(asked, "encoding_format", _FORMATS) == "base64"
        return EmbeddingsAsked(model=field(asked, "model", a_name), texts=field(asked, "input", _texts), packed=packed)
    except Wrong as wrong:
        raise wrong.told() from None


def write_embeddings(asked: EmbeddingsAsked, rows: Rows, tokens: int) -> Json:
    """Write the vectors of texts, in their order, and how many tokens the texts have."""
    data = [
        {"object": "embedding", "index": place, "embedding": _packed(row) if asked.packed else row.tolist()}
        for place, row in enumerate(rows)
    ]
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return {"object": "list", "data": data, "model": asked.model, "usage": usage}


def _texts(value: Json) -> tuple[str, ...]:
    if isinstance(value, str):
        return (_text(value),)
    if not isinstance(value, list) or not 0 < len(value) <= MOST_TEXTS:
        raise Wrong(f"expected a text or a list of 1 to {MOST_TEXTS} texts")
    return tuple(each(value, _text))


def _text(value: Json) -> str:
    if isinstance(value, int | list):
        raise Wrong(
            "expected a text, got numbers of tokens, which mean something to one vendor's model only",
            "Send texts; LangChain's OpenAIEmbeddings does with check_embedding_ctx_length=False.",
        )
    if not isinstance(value, str) or not value:
        raise expected("a text that is not empty", value)
    return value


def _packed(row: Row) -> str:
    return base64.b64encode(row.astype("<f4").tobytes()).decode()
