"""all-MiniLM-L6-v2: the normalised mean of a small BERT's token vectors.

It needs no network and no key once its weights are downloaded. Of 480 LoCoMo questions it finds an answering turn among
the six nearest for 53%, the built-in embedder for 45%; it is almost a hundred times slower. One instance serves a
process; it is loaded on first use and runs in its own thread, one batch at a time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from contextinfinity.embedders.contract import Kind, valid_unicode
from contextinfinity.embedders.minilm.graph import Shape, bert
from contextinfinity.errors import ProviderError

if TYPE_CHECKING:
    from contextinfinity.embedders.contract import Vectors

ALL_MINILM_L6 = Shape(words=30_522, positions=512, width=384, inner=1536, heads=12, layers=6)
NAME = "local/all-MiniLM-L6-v2/384/1"
"""The last number is increased whenever the same text would get another vector."""

LONGEST = 256
"""The number of tokens of a text that are read: the model was trained on no more."""

_CHARACTERS = 16 * LONGEST
"""A longer text is cut before tokenization."""

_BATCH = 1_024
"""Tokens per batch, including padding: about a third of a second on one core."""

_MASKED = -1e9


class MiniLMEmbedder:
    """An embedder with a local BERT model."""

    name = NAME
    is_remote = False

    def __init__(self, weights: Path, tokenizer: Path, *, threads: int = 1, shape: Shape = ALL_MINILM_L6) -> None:
        """Keep the paths; the files are loaded with the first text."""
        self.dim = shape.width
        self._weights, self._tokens_file = weights, tokenizer
        self._threads, self._shape = threads, shape
        self._open: tuple[Any, Any] | None = None
        self._worker: ThreadPoolExecutor | None = None

    async def embed(self, texts: Sequence[str], *, kind: Kind = "passage") -> Vectors:
        """Return the vectors of texts; queries and passages are treated alike. Raises ``ProviderError``."""
        import numpy as np

        rows = np.zeros((len(texts), self.dim), dtype=np.float32)
        said = [place for place, text in enumerate(texts) if text[:_CHARACTERS].strip()]
        if said:
            loop, worker = asyncio.get_running_loop(), self._thread()
            split = await loop.run_in_executor(worker, self._split, [texts[place] for place in said])
            for batch in _batches(split):
                placed = await loop.run_in_executor(worker, self._placed, [split[one] for one in batch])
                rows[[said[one] for one in batch]] = placed
        return rows

    async def close(self) -> None:
        """Release the weights; the next call loads them again."""
        worker, self._worker, self._open = self._worker, None, None
        if worker is not None:
            worker.shutdown(wait=False)

    def _thread(self) -> ThreadPoolExecutor:
        if self._worker is None:
            self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="minilm")
        return self._worker

    def _opened(self) -> tuple[Any, Any]:
        if self._open is None:
            self._open = _tokenizer(self._tokens_file), _session(self._weights, self._shape, self._threads)
        return self._open

    def _split(self, texts: Sequence[str]) -> list[list[int]]:
        tokenizer, _ = self._opened()
        # One text per call: a batch starts threads of the library, which then warns in every forked process.
        return [tokenizer.encode(valid_unicode(text[:_CHARACTERS])).ids for text in texts]

    def _placed(self, split: Sequence[Sequence[int]]) -> Vectors:
        import numpy as np

        _, session = self._opened()
        lengths = np.array([len(ids) for ids in split])
        positions = np.arange(lengths.max())
        ids = np.zeros((len(split), len(positions)), dtype=np.int64)
        for row, one in zip(ids, split, strict=True):
            row[: len(one)] = one
        there = positions < lengths[:, None]
        mask = np.where(there, 0.0, _MASKED).astype(np.float32)[:, None, None, :]
        (hidden,) = session.run(None, {"ids": ids, "positions": positions, "mask": mask})
        rows: Vectors = np.einsum("btw,bt->bw", hidden, there.astype(np.float32))
        rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), np.finfo(np.float32).tiny)
        return rows


def _batches(split: Sequence[Sequence[int]]) -> Iterator[list[int]]:
    """Batch texts of similar length, to minimise padding."""
    batch: list[int] = []
    for place in sorted(range(len(split)), key=lambda one: len(split[one])):
        if batch and (len(batch) + 1) * len(split[place]) > _BATCH:
            yield batch
            batch = []
        batch.append(place)
    yield batch


def _tokenizer(path: Path) -> Any:
    from tokenizers import Tokenizer

    if not path.is_file():
        raise _missing(path)
    tokenizer = Tokenizer.from_file(str(path))
    tokenizer.no_padding()
    tokenizer.enable_truncation(LONGEST)
    tokenizer.encode_special_tokens = True  # "[SEP]" in a text is plain text
    return tokenizer


def _session(path: Path, shape: Shape, threads: int) -> Any:
    try:
        import onnxruntime  # type: ignore[import-untyped]
    except ImportError as error:
        raise ProviderError(
            f"onnxruntime, which runs the embedder minilm, cannot be loaded: {error}.",
            kind="missing",
            hint="Install it with `pip install 'contextinfinity[minilm]'`, or name another retrieval.embedding_model.",
        ) from error
    path = path.resolve()  # onnxruntime accepts no file outside the given folder
    if not path.is_file():
        raise _missing(path)
    try:
        graph = bert(path, shape)
    except ValueError as error:
        raise ProviderError(
            f"{path} does not hold the weights of the embedder minilm: {error}.",
            kind="missing",
            hint="`cix model remove minilm` and `cix model get minilm` download them again.",
        ) from error
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.log_severity_level = 3
    options.add_session_config_entry("session.model_external_initializers_file_folder_path", str(path.parent))
    return onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])


def _missing(path: Path) -> ProviderError:
    return ProviderError(
        f"The weights of the embedder minilm are missing: {path}.",
        kind="missing",
        hint="`cix model get minilm` fetches them.",
    )
