"""Texts kept once under their hash: fronts, forms, spans. What was kept a moment ago need not be kept again."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict

from contextinfinity.domain.wire import text_hash
from contextinfinity.storage.contract import Contents

MOST = 256
FRESH_SECONDS = 1800.0
"""How long a text counts as kept: what nothing refers to may be removed an hour later."""


class Texts:
    """The texts of a ledger, the latest at hand."""

    def __init__(self, contents: Contents) -> None:
        self._contents = contents
        self._known: OrderedDict[str, tuple[str, float]] = OrderedDict()
        self._writing: dict[str, asyncio.Task[None]] = {}

    def keep(self, text: str) -> str:
        """Have a text kept, and give its hash; it is there for certain once ``settled`` has returned."""
        sha256 = text_hash(text).hex()
        known = self._known.get(sha256)
        if known is None or time.monotonic() - known[1] > FRESH_SECONDS:
            self._note(sha256, text)
            writing = self._writing[sha256] = asyncio.create_task(self._keep(sha256, text))
            writing.add_done_callback(lambda done: done.cancelled() or done.exception())  # ``settled`` tells of it
        return sha256

    async def settled(self) -> None:
        """Wait until all that was to be kept is durable."""
        for writing in list(self._writing.values()):
            await asyncio.shield(writing)

    async def _keep(self, sha256: str, text: str) -> None:
        try:
            await self._contents.keep_text(text)
        except BaseException:
            self._known.pop(sha256, None)  # the next to want it tries again
            raise
        finally:
            self._writing.pop(sha256, None)

    async def read(self, sha256: str) -> str | None:
        """Read a text; None when it is gone."""
        if (known := self._known.get(sha256)) is not None:
            self._known.move_to_end(sha256)
            return known[0]
        return await self._contents.text(sha256)

    def forget(self) -> None:
        """Have nothing at hand any more: something was deleted."""
        self._known.clear()

    def _note(self, sha256: str, text: str) -> None:
        self._known[sha256] = text, time.monotonic()
        self._known.move_to_end(sha256)
        while len(self._known) > MOST:
            self._known.popitem(last=False)
