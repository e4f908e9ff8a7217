"""What every embedder can do.

- **rows**: one for each text, in the order of the texts, of length 1; equal texts have equal rows.
- **nothing said**: an empty or blank text has a row of zeros; no texts give a matrix without rows.
- **any text**: whatever a ``str`` can hold has a row, however long; what is past an embedder's reach is not read.
- **names**: ``name`` says which model and which version. It is stored with each vector, and vectors of two names are
  never compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vectors: TypeAlias = NDArray[np.float32]

Kind: TypeAlias = Literal["query", "passage"]
"""Some models place a question and what answers it with different prefixes; the others make no difference."""


class Embedder(Protocol):
    """A model that places texts."""

    @property
    def name(self) -> str:
        """The model and its version."""
        ...

    @property
    def dim(self) -> int:
        """How many numbers a row has."""
        ...

    @property
    def is_remote(self) -> bool:
        """Whether it asks another process or machine, which may be slow or away."""
        ...

    async def embed(self, texts: Sequence[str], *, kind: Kind = "passage") -> Vectors:
        """Give the rows of texts; ``ProviderError`` when the model cannot."""
        ...

    async def close(self) -> None:
        """Let go of connections and files. Closing twice does nothing."""
        ...
