"""The embedders in use: the configured one, and those whose vectors are still searched.

They are created on first use; loading one takes a quarter of a second, so a thread does it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from contextinfinity.embedders.contract import Embedder

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
