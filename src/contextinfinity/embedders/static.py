"""The built-in embedder: each token has a fixed vector, a text is the mean of its tokens, brought to length 1.

It needs no network and no key, is read in a tenth of a second, and places thousands of texts a second on one core.
One instance serves any number of threads.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from contextinfinity.embedders.contract import Kind
from contextinfinity.embedders.texts import valid_unicode
from contextinfinity.embedders.weights import SHAPE, TOKENIZER, WEIGHTS, installed, mapped

if TYPE_CHECKING:
    from contextinfinity.embedders.contract import Vectors

NAME = "wordllama-l2_supercat-256/1"
"""Counted up whenever the same text would get another vector."""

LONGEST = 2_048
"""Tokens of a text that are read. Measured on whole sessions of LoCoMo (670 tokens), of which a question has to find
its own among the first five: 42% when cut at 128 tokens, 58% at 512, 64% at 1,024 and no more in full."""

_CHARACTERS = 8 * LONGEST
"""A longer text is cut before it is split into tokens, so that no text takes longer than 20 ms."""

_AT_ONCE = 4_000
"""Characters that are placed without leaving the event loop: about 2 ms."""


class StaticEmbedder:
    """Places texts by the mean of their tokens."""

    name = NAME
    dim = SHAPE[1]
    is_remote = False

    def __init__(self, folder: Path | None = None) -> None:
        """Read the files from a folder; by default from the installed package."""
        from tokenizers import Tokenizer

        folder = folder or installed()
        self._weights = mapped(folder / WEIGHTS)
        self._tokenizer = Tokenizer.from_file(str(folder / TOKENIZER))

    async def embed(self, texts: Sequence[str], *, kind: Kind = "passage") -> Vectors:
        """Give the rows of texts; much text is placed in a thread of its own."""
        if sum(map(len, texts)) <= _AT_ONCE:
            return self.encode(texts)
        return await asyncio.to_thread(self.encode, texts)

    async def close(self) -> None:
        """Do nothing: the files are mapped, and let go of with the instance."""

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Give the rows of texts, at once."""
        import numpy as np

        rows = np.zeros((len(texts), self.dim), dtype=np.float32)
        for row, text in zip(rows, texts, strict=True):
            if tokens := self._tokens(text):
                self._weights.take(tokens, axis=0).sum(axis=0, dtype=np.float32, out=row)
        rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), np.finfo(np.float32).tiny)
        return rows

    def norm(self, word: str) -> float:
        """Return the length of a word's vector before it is normalised: small for common words, large for rare ones."""
        import numpy as np

        tokens = self._tokens(word)
        return (
            float(np.linalg.norm(self._weights.take(tokens, axis=0).sum(axis=0, dtype=np.float32))) if tokens else 0.0
        )

    def _tokens(self, text: str) -> list[int]:
        cut = text[:_CHARACTERS]
        if not cut.strip():
            return []
        # One text a call: a batch would start threads of the library, which then warns in every process that forks.
        ids: list[int] = self._tokenizer.encode(valid_unicode(cut), add_special_tokens=False).ids
        return ids[:LONGEST]


@cache
def built_in() -> StaticEmbedder:
    """Give the one instance of this process, read when first asked for."""
    return StaticEmbedder()
