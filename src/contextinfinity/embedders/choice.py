"""Which embedder places texts: the one that is chosen, and those whose vectors are still searched.

Nothing is read or asked before it is needed; reading one takes a quarter of a second, so a thread does it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from contextinfinity.embedders.contract import Embedder

Make = Callable[[], Embedder]


class Embedders:
    """The chosen embedder, and others by the name of their vectors."""

    def __init__(self, chosen: Make, others: Mapping[str, Make] | None = None) -> None:
        self._chosen = chosen
        self._others = dict(others or {})
        self._made: dict[str | None, Embedder] = {}
        self._making = asyncio.Lock()

    async def chosen(self) -> Embedder:
        """Give the one that new vectors come from."""
        return await self._get(None, self._chosen)

    async def named(self, name: str) -> Embedder | None:
        """Give the one that vectors of that name come from; None where nobody can make such vectors any more."""
        chosen = await self.chosen()
        if chosen.name == name:
            return chosen
        make = self._others.get(name)
        return None if make is None else await self._get(name, make)

    async def close(self) -> None:
        """Let go of what they hold."""
        for embedder in self._made.values():
            await embedder.close()
        self._made.clear()

    async def _get(self, name: str | None, make: Make) -> Embedder:
        async with self._making:
            if name not in self._made:
                self._made[name] = await asyncio.to_thread(make)
            return self._made[name]
