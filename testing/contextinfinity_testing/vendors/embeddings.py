"""Embeddings, as OpenAI gives them, and as Ollama does at its address of the same form.

A vector is made of the words of a text, so that texts which share words are near to each other.
"""

from __future__ import annotations

import base64
import hashlib
import math
import re
import struct
from collections.abc import Iterator

from contextinfinity.domain.message import Json
from contextinfinity_testing.vendors.answers import Answer, Trouble
from contextinfinity_testing.vendors.counting import tokens
from contextinfinity_testing.vendors.openai_rules import invalid, known, need, one_of, typed
from contextinfinity_testing.vendors.troubles import openai_error
from contextinfinity_testing.vendors.wire import Asked, Frame, Part, Refused, Vendor, names, part

OPENAI = {"text-embedding-3-small": 1536, "text-embedding-3-large": 3072, "text-embedding-ada-002": 1536}
OLLAMA = {"nomic-embed-text": 768, "all-minilm": 384, "mxbai-embed-large": 1024}
KEYS = names("model input encoding_format dimensions user")
MOST_TEXTS = 2048
MOST_TOKENS = 300_000
SHORTENS = "text-embedding-3-"


class Embeddings:
    """``Wire`` of POST /v1/embeddings."""

    vendor: Vendor = "openai"
    late = False

    def check(self, body: Json) -> None:
        """Raise ``Refused`` where a request breaks a rule."""
        known(body, KEYS, "")
        for key in ("model", "input"):
            need(body, key, "")
        one_of(body.get("encoding_format", "float"), ("float", "base64"), "encoding_format")
        if body["model"] not in OPENAI:
            said = f"The model `{body['model']}` does not exist or you do not have access to it."
            raise Refused(404, openai_error(said, code="model_not_found"))
        _check_texts(_texts(body))
        dimensions = body.get("dimensions")
        if dimensions is not None:
            typed(dimensions, int, "dimensions", "an integer")
            if not body["model"].startswith(SHORTENS):
                raise invalid("This model does not support specifying dimensions.", None)
            if not 0 < dimensions <= OPENAI[body["model"]]:
                raise invalid("Invalid value for 'dimensions'.", "dimensions")

    def parts(self, body: Json) -> list[Part]:
        """Return the longest text: each is embedded on its own."""
        return [part("user", max(_texts(body), key=len), None)]

    def room(self, body: Json) -> int | None:
        """Embeddings have no output tokens."""
        return None

    def whole(self, asked: Asked, answer: Answer) -> Json:
        """Return a vector for each text."""
        body = asked.body
        texts, dim = _texts(body), body.get("dimensions") or self.dims()[body["model"]]
        rows = [self.written(_vector(text, dim), body) for text in texts]
        data = [{"object": "embedding", "index": place, "embedding": row} for place, row in enumerate(rows)]
        count = sum(tokens(text) for text in texts)
        usage = {"prompt_tokens": count, "total_tokens": count}
        return {"object": "list", "data": data, "model": body["model"], "usage": usage}

    def frames(self, asked: Asked, answer: Answer) -> Iterator[Frame]:
        """Vectors are never streamed."""
        yield from ()

    def size(self, trouble: Trouble) -> Refused:
        """Return the error for a text that is too long."""
        said = (
            f"This model's maximum context length is {trouble.limit} tokens, however you requested {trouble.tokens}"
            f" tokens ({trouble.tokens} in your prompt; 0 for the completion). Please reduce your prompt; or"
            " completion length."
        )
        return Refused(400, openai_error(said))

    def dims(self) -> dict[str, int]:
        """Return the models and the dimensions of their vectors."""
        return OPENAI

    def written(self, vector: list[float], body: Json) -> Json:
        """Write a vector as it was asked for."""
        if body.get("encoding_format") != "base64":
            return vector
        return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()


class OllamaEmbeddings(Embeddings):
    """``Wire`` of Ollama's: no key, parameters it does not know passed over, numbers always written out."""

    vendor: Vendor = "compatible"

    def check(self, body: Json) -> None:
        """Raise ``Refused`` where a request breaks a rule."""
        if body.get("model") not in OLLAMA:
            said = f'model "{body.get("model")}" not found, try pulling it first'
            raise Refused(404, openai_error(said, kind="api_error"))
        if not _texts(body):
            raise Refused(400, openai_error("invalid input", kind="api_error"))

    def size(self, trouble: Trouble) -> Refused:
        """Return the error for a text that is too long."""
        return Refused(400, openai_error("the input length exceeds the context length", kind="api_error"))

    def dims(self) -> dict[str, int]:
        """Return the models and the dimensions of their vectors."""
        return OLLAMA

    def written(self, vector: list[float], body: Json) -> Json:
        """Write a vector out, whatever was asked for."""
        return vector


def _texts(body: Json) -> list[str]:
    sent = body.get("input")
    return [sent] if isinstance(sent, str) else sent or []


def _check_texts(texts: list[str]) -> None:
    if not texts or not all(isinstance(text, str) and text for text in texts):
        raise invalid("'$.input' is invalid. Please check the API reference.", None)
    if len(texts) > MOST_TEXTS:
        said = f"Invalid 'input': array too long. Expected an array with maximum length {MOST_TEXTS}, but got"
        raise invalid(f"{said} an array with length {len(texts)} instead.", "input", "array_above_max_length")
    together = sum(tokens(text) for text in texts)
    if together > MOST_TOKENS:
        said = f"Requested {together} tokens, max {MOST_TOKENS} tokens per request"
        raise Refused(400, openai_error(said, kind="max_tokens_per_request", code="max_tokens_per_request"))


def _vector(text: str, dim: int) -> list[float]:
    """Return a vector with a dimension for each word; a text without words has one too."""
    vector = [0.0] * dim
    for word in re.findall(r"\w+", text.lower()) or [text]:
        vector[int.from_bytes(hashlib.sha256(word.encode()).digest()[:8], "big") % dim] += 1.0
    length = math.hypot(*vector)
    return [number / length for number in vector]
