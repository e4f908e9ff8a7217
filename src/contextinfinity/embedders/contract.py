"""The contract of embedders.

- **rows**: one for each text, in the order of the texts, of length 1; equal texts have equal rows.
- **empty**: an empty or blank text has a row of zeros; no texts give a matrix without rows.
- **any text**: every ``str`` of any length has a row; text beyond an embedder's limit is ignored.
- **names**: ``name`` identifies the model and its version. It is stored with each vector, and vectors of different
  names are never compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vectors: TypeAlias = NDArray[np.float32]

Kind: TypeAlias = Literal["query", "passage"]
"""Some models use different prefixes for queries and passages; the others ignore it."""


class Embedder(Protocol):
    """A model that computes vectors of texts."""

    @property
    def name(self) -> str:
        """The model and its version."""
        ...

    @property
    def dim(self) -> int:
        """The dimension of the vectors."""
        ...

    @property
    def is_remote(self) -> bool:
        """Whether it calls another process or machine, which may be slow or unavailable."""
        ...

    async def embed(self, texts: Sequence[str], *, kind: Kind = "passage") -> Vectors:
        """Return the vectors of texts; raise ``ProviderError`` if the model fails."""
        ...

    async def close(self) -> None:
        """Close connections and files. Closing twice does nothing."""
        ...


def valid_unicode(text: str) -> str:
    """Return a text as valid Unicode; lone surrogates become question marks."""
    return text if text.isascii() else text.encode(errors="replace").decode()
