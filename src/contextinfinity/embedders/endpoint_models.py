"""Known embedding models of ``/v1/embeddings`` endpoints, by name.

A row gives the dimension, the token limit, and the prefixes for queries and passages. For other models the dimension
comes from the settings.
"""

from __future__ import annotations

import re

from msgspec import Struct

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
