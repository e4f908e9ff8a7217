"""The embedders in use: the configured one, and those whose vectors are still searched.

They are created on first use; loading one takes a quarter of a second, so a thread does it.

The vectors of recent texts are cached. Texts are keyed by their hash; the least recently used rows are evicted when
they take more than ``most_bytes``. A batch calls the inner embedder once, for the missing texts.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from threading import Lock
from typing import TYPE_CHECKING

from contextinfinity.embedders.contract import Embedder, Kind

Make = Callable[[], Embedder]


class Embedders:
    """The configured embedder, and others by the name of their vectors."""

    def __init__(self, chosen: Make, others: Mapping[str, Make] | None = None) -> None:
        self._chosen = chosen
        self._others = dict(others or {})
        self._made: dict[str | None, Embedder] = {}
        self._making = asyncio.Lock()

    async def chosen(self) -> Embedder:
        """Return the embedder for new vectors."""
        return await self._get(None, self._chosen)

    async def named(self, name: str) -> Embedder | None:
        """Return the embedder with that name, or None if it is no longer available."""
        chosen = await self.chosen()
        if chosen.name == name:
            return chosen
        make = self._others.get(name)
        return None if make is None else await self._get(name, make)

    async def close(self) -> None:
        """Close all embedders."""
        for embedder in self._made.values():
            await embedder.close()
        self._made.clear()

    async def _get(self, name: str | None, make: Make) -> Embedder:
        async with self._making:
            if name not in self._made:
                self._made[name] = await asyncio.to_thread(make)
            return self._made[name]


if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from contextinfinity.embedders.contract import Vectors

    Row = NDArray[np.float32]

MOST_BYTES = 16_000_000

_BESIDE_A_ROW = 300
"""The bytes of an entry besides its numbers: hash, array, position in the order."""


class CachedEmbedder:
    """Another embedder, with a cache."""

    def __init__(self, inner: Embedder, *, most_bytes: int = MOST_BYTES) -> None:
        self._inner = inner
        self._most = most_bytes // (4 * inner.dim + _BESIDE_A_ROW)
        self._rows: OrderedDict[bytes, Row] = OrderedDict()
        self._lock = Lock()

    @property
    def name(self) -> str:
        """The name of the inner embedder, whose vectors these are."""
        return self._inner.name

    @property
    def dim(self) -> int:
        """The dimension of the vectors."""
        return self._inner.dim

    @property
    def is_remote(self) -> bool:
        """Whether the inner embedder is remote."""
        return self._inner.is_remote

    async def embed(self, texts: Sequence[str], *, kind: Kind = "passage") -> Vectors:
        """Return the vectors of texts; missing ones come from the inner embedder."""
        import numpy as np

        keys = [_key(text, kind) for text in texts]
        known = self._known(keys)
        missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in known}
        if missing:
            rows = await self._inner.embed(list(missing.values()), kind=kind)
            placed = {key: row.copy() for key, row in zip(missing, rows, strict=True)}
            self._keep(placed)
            known |= placed
        return np.stack([known[key] for key in keys]) if keys else np.zeros((0, self.dim), dtype=np.float32)

    async def close(self) -> None:
        """Clear the cache and close the inner embedder."""
        with self._lock:
            self._rows.clear()
        await self._inner.close()

    def _known(self, keys: Sequence[bytes]) -> dict[bytes, Row]:
        with self._lock:
            found = {key: row for key in keys if (row := self._rows.get(key)) is not None}
            for key in found:
                self._rows.move_to_end(key)
        return found

    def _keep(self, rows: dict[bytes, Row]) -> None:
        with self._lock:
            self._rows.update(rows)
            while len(self._rows) > self._most:
                self._rows.popitem(last=False)


def _key(text: str, kind: Kind) -> bytes:
    return hashlib.sha256(f"{kind}\n{text}".encode(errors="surrogatepass")).digest()
