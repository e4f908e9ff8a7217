"""Create the embedder that the settings name, and the search that uses its vectors."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from contextinfinity.errors import SettingsError

if TYPE_CHECKING:
    from contextinfinity.embedders.contract import Embedder
    from contextinfinity.embedders.endpoint import Endpoint
    from contextinfinity.engine.engine_setup import RetrievalParts
    from contextinfinity.settings import ModelSettings, Settings

OPENAI_EMBEDDERS = "text-embedding-"
"""How OpenAI's own names of such models begin."""


def retrieval_of(settings: Settings) -> RetrievalParts:
    """Return how the past is found and brought back."""
    from contextinfinity.embedders.choice import Embedders, Make
    from contextinfinity.embedders.minilm.embedder import NAME as MINILM_VECTORS
    from contextinfinity.embedders.static import NAME as STATIC_VECTORS
    from contextinfinity.embedders.static import built_in
    from contextinfinity.engine.engine_setup import RetrievalParts

    said = settings.retrieval
    others: dict[str, Make] = {STATIC_VECTORS: built_in, MINILM_VECTORS: partial(_minilm, settings)}
    return RetrievalParts(
        embedders=Embedders(partial(embedder_of, settings), others),
        top_k=said.top_k,
        overfetch_k=said.overfetch_k,
        threshold=said.similarity_threshold,
        recency_boost=said.recency_boost,
        mmr=said.enable_mmr,
        target=None if said.packing_target_tokens == "auto" else said.packing_target_tokens,
    )


def embedder_of(settings: Settings) -> Embedder:
    """Return the embedder that the settings name, with a memory; nothing is opened or asked yet."""
    from contextinfinity.embedders.choice import CachedEmbedder
    from contextinfinity.settings import BUILT_IN, MINILM, STATIC, ModelSettings

    name = settings.retrieval.embedding_model
    if name not in settings.models:
        if name == BUILT_IN:
            name = MINILM if has_minilm(settings) else STATIC
        if name == MINILM:
            return CachedEmbedder(_minilm(settings))
        if name == STATIC:
            from contextinfinity.embedders.static import built_in

            return CachedEmbedder(built_in())
    model = settings.models.get(name)
    if model is None and name.startswith(OPENAI_EMBEDDERS):
        model = ModelSettings(provider="openai", model_id=name)
    if model is None:
        raise SettingsError(
            f"retrieval.embedding_model: there is no model {name!r}.",
            hint=f'Say "{BUILT_IN}", "{MINILM}", "{STATIC}", the NAME of a [models.NAME], or an OpenAI name such as '
            f'"{OPENAI_EMBEDDERS}3-small".',
        )
    return CachedEmbedder(_endpoint_embedder(name, model, settings))


def has_minilm(settings: Settings) -> bool:
    """Return whether MiniLM can be used without fetching anything: its weights and what runs them are here."""
    from importlib.util import find_spec

    from contextinfinity.providers.local.weights_file import MINILM

    files = [(settings.models_dir / file.file, file.size) for file in MINILM.files]
    return all(path.is_file() and path.stat().st_size == size for path, size in files) and (
        find_spec("onnxruntime") is not None
    )


def _minilm(settings: Settings) -> Embedder:
    from contextinfinity.embedders.minilm.embedder import MiniLMEmbedder
    from contextinfinity.providers.local.weights_file import MINILM

    weights, tokenizer = MINILM, MINILM.beside[0]
    folder = settings.models_dir
    return MiniLMEmbedder(folder / weights.file, folder / tokenizer.file, threads=settings.local.threads)


def _endpoint_embedder(name: str, model: ModelSettings, settings: Settings) -> Embedder:
    from contextinfinity.embedders.endpoint import EndpointEmbedder
    from contextinfinity.providers.remote import ProviderFactory
    from contextinfinity.vendors import VENDORS

    if model.provider not in VENDORS or not VENDORS[model.provider].embeddings:
        raise SettingsError(
            f'retrieval.embedding_model: models.{name} is one of provider "{model.provider}", which has no '
            "embedding models.",
            hint='Name a model whose provider is "openai", or "openai_chat" for Ollama, vLLM and the like.',
        )
    endpoint = _endpoint(name, model)
    return EndpointEmbedder(endpoint, ProviderFactory(settings).line(replace(model, model_id=endpoint.model_id)))


def _endpoint(name: str, model: ModelSettings) -> Endpoint:
    """Describe how a model is asked for vectors, from what is known of it and what the settings say."""
    from contextinfinity.embedders.endpoint import Endpoint, EndpointModel, known_model

    model_id = model.model_id or name
    known = known_model(model_id)
    dim = model.dimensions or (known.dim if known else None)
    if dim is None:
        raise SettingsError(
            f"How many numbers the vectors of {model_id} have is not known.",
            hint=f"Set dimensions under [models.{name}]; the model's documentation states it.",
        )
    if known is None or (dim != known.dim and not known.shortens):
        known = replace(known, dim=dim) if known else EndpointModel(dim=dim)
    if model.context_limit is not None:
        known = replace(known, tokens=model.context_limit)
    amounts = {"most_texts": 256, "most_tokens": 100_000} if model.provider == "openai" else {}
    return Endpoint(
        provider=model.provider,
        model_id=model_id,
        model=known,
        dim=dim,
        as_base64=model.provider == "openai",
        options=model.options,
        **amounts,
    )
