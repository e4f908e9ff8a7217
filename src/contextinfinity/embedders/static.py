"""The built-in embedder: the normalised mean of fixed token vectors.

It needs no network and no key, loads in a tenth of a second, and computes thousands of vectors per second on one core.
One instance is safe for any number of threads.

Its files are part of the package ``wordllama``, whose code is not imported: it would load its network parts and look
for the tokenizer in another folder. The weights are one safetensors file, which is mapped into memory.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from contextinfinity.embedders.contract import Kind, valid_unicode
from contextinfinity.errors import ProviderError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from contextinfinity.embedders.contract import Vectors

_LONGEST_HEADER = 1_000_000
_BYTES = {"F16": 2, "F32": 4, "I64": 8}


class Tensor(Struct, frozen=True, kw_only=True):
    """A tensor in a file: ``length`` bytes from ``start``."""

    dtype: str
    shape: tuple[int, ...]
    start: int
    length: int


class _TensorInfo(Struct, frozen=True):
    dtype: str
    shape: tuple[int, ...]
    data_offsets: tuple[int, int]


def tensors(path: Path) -> dict[str, Tensor]:
    """Return the tensors of a file; raise ``ValueError`` if it is invalid or truncated."""
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        header = file.read(min(length, _LONGEST_HEADER))
    try:
        info = msgspec.json.decode(header, type=dict[str, msgspec.Raw])
        info.pop("__metadata__", None)
        found = {name: _tensor(msgspec.json.decode(raw, type=_TensorInfo), 8 + length) for name, raw in info.items()}
    except msgspec.DecodeError as error:
        raise ValueError(f"{path} has no header: {error}") from error
    if path.stat().st_size < max((tensor.start + tensor.length for tensor in found.values()), default=0):
        raise ValueError(f"{path} is cut off")
    return found


def _tensor(info: _TensorInfo, numbers: int) -> Tensor:
    begin, end = info.data_offsets
    if begin < 0 or end - begin != prod(info.shape) * _BYTES.get(info.dtype, 0):
        raise ValueError(f"{info.shape} numbers of {info.dtype} do not take {end - begin} bytes")
    return Tensor(dtype=info.dtype, shape=info.shape, start=numbers + begin, length=end - begin)


WEIGHTS = "weights/l2_supercat_256.safetensors"
TOKENIZER = "tokenizers/l2_supercat_tokenizer_config.json"
TENSOR = "embedding.weight"
SHAPE = [32_000, 256]


def installed() -> Path:
    """Return the folder with the files; raise ``ProviderError`` if they are not installed."""
    found = find_spec("wordllama")
    folders = found.submodule_search_locations if found else None
    for folder in map(Path, folders or ()):
        if all((folder / name).is_file() for name in (WEIGHTS, TOKENIZER)):
            return folder
    raise ProviderError(
        "The files of the built-in embedder are not installed.",
        kind="missing",
        hint="Install them with `pip install 'wordllama>=0.4,<0.5'`.",
    )


def mapped(path: Path) -> NDArray[np.float16]:
    """Map the weights: one row per token."""
    import numpy as np

    start = _start_of_numbers(path)
    return np.asarray(np.memmap(path, dtype="<f2", mode="r", offset=start, shape=(SHAPE[0], SHAPE[1])))


def _start_of_numbers(path: Path) -> int:
    """Return the offset of the weights; raise ``ProviderError`` if they are not the expected ones."""
    try:
        found = tensors(path).get(TENSOR)
    except ValueError:
        found = None
    if found is None or found.dtype != "F16" or list(found.shape) != SHAPE:
        raise ProviderError(
            f"{path} does not hold the weights of the built-in embedder.",
            kind="missing",
            hint="Reinstall them with `pip install --force-reinstall --no-deps 'wordllama>=0.4,<0.5'`.",
        )
    return found.start


NAME = "wordllama-l2_supercat-256/1"
"""The version is increased whenever the same text would get another vector."""

LONGEST = 2_048
"""The number of tokens of a text that are read.

Measured on whole LoCoMo sessions (670 tokens), with a question's own session among the first five results: 42% when cut
at 128 tokens, 58% at 512, 64% at 1,024 and no more in full.
"""

_CHARACTERS = 8 * LONGEST
"""A longer text is cut before tokenization, so that no text takes longer than 20 ms."""

_AT_ONCE = 4_000
"""Up to this many characters are processed in the event loop: about 2 ms."""

_WORD = re.compile(r" *[^ \n]+|\n| +")
"""A word with the spaces before it, or a line break.

No token of the vocabulary goes beyond one, so tokenizing word by word gives the same tokens as tokenizing the text.
"""
_WHOLE = re.compile("<s>|</s>|<unk>|\u2581")
"""Special tokens, and the character that replaces a space: a text with one is tokenized as a whole."""
_LONGEST_WORD = 40
_KNOWN_WORDS = 30_000
"""The number of words whose tokens are cached: about 8 MB."""


class StaticEmbedder:
    """An embedder that averages token vectors."""

    name = NAME
    dim = SHAPE[1]
    is_remote = False

    def __init__(self, folder: Path | None = None) -> None:
        """Load the files from a folder; by default from the installed package. Raises ``ProviderError``."""
        from tokenizers import Tokenizer

        folder = folder or installed()
        self._weights = mapped(folder / WEIGHTS)
        self._tokenizer = Tokenizer.from_file(str(folder / TOKENIZER))
        self._known: dict[str, tuple[int, ...]] = {}

    async def embed(self, texts: Sequence[str], *, kind: Kind = "passage") -> Vectors:
        """Return the vectors of texts; long input is processed in a thread."""
        if sum(map(len, texts)) <= _AT_ONCE:
            return self.encode(texts)
        return await asyncio.to_thread(self.encode, texts)

    async def close(self) -> None:
        """Do nothing: the mapped files are released with the instance."""

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Return the vectors of texts, synchronously."""
        import numpy as np

        rows = np.zeros((len(texts), self.dim), dtype=np.float32)
        for row, text in zip(rows, texts, strict=True):
            if tokens := self._tokens(text):
                self._weights.take(tokens, axis=0).sum(axis=0, dtype=np.float32, out=row)
        rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), np.finfo(np.float32).tiny)
        return rows

    def norm(self, word: str) -> float:
        """Return the norm of a word's vector before normalisation: small for common words, large for rare ones."""
        import numpy as np

        tokens = self._tokens(word)
        return (
            float(np.linalg.norm(self._weights.take(tokens, axis=0).sum(axis=0, dtype=np.float32))) if tokens else 0.0
        )

    def _tokens(self, text: str) -> list[int]:
        cut = valid_unicode(text[:_CHARACTERS])
        if not cut.strip():
            return []
        if _WHOLE.search(cut):
            return self._tokenized(cut)[:LONGEST]
        known, ids = self._known, list[int]()
        for word in _WORD.findall(f" {cut}"):
            tokens = known.get(word)
            ids += self._tokens_of_word(word) if tokens is None else tokens
        return ids[:LONGEST]

    def _tokens_of_word(self, word: str) -> tuple[int, ...]:
        # The tokenizer puts a space before a text: behind a line break, two tokens, it does not touch the word.
        tokens = tuple(self._tokenized(f"\n{word}")[2:])
        if len(word) <= _LONGEST_WORD:
            if len(self._known) >= _KNOWN_WORDS:
                self._known.clear()
            self._known[word] = tokens
        return tokens

    def _tokenized(self, text: str) -> list[int]:
        # One text per call: a batch starts threads of the library, which then warns in every forked process.
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False).ids
        return ids


@cache
def built_in() -> StaticEmbedder:
    """Return the shared instance of this process, loaded on first use."""
    return StaticEmbedder()
