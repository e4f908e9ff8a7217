"""How work behind the answers keeps out of their way: it goes on in moments, and rests in between."""

from __future__ import annotations

import asyncio
import time

from contextinfinity.engine.parts import Parts

MOMENT, RESTS, LONGEST_REST = 0.001, 9, 0.05
"""After how many seconds of work it rests, how many times as long, and for how long at most."""


class Breath:
    """Taken between pieces of work; it costs nothing while nobody is answered."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._began = time.perf_counter()

    async def take(self) -> None:
        """Rest, if the work went on for a moment; longer than it went on."""
        worked = time.perf_counter() - self._began
        if worked >= MOMENT:
            await asyncio.sleep(min(RESTS * worked, LONGEST_REST) if self._parts.running else 0)
            self._began = time.perf_counter()
