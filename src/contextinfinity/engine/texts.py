"""A cache of texts that are stored once under their hash: fronts, forms, spans.

A text is stored by the transaction of the step whose plan refers to it (TX-P). One that was stored lately is not
stored again.
"""

from __future__ import annotations

import time
from collections import OrderedDict

from contextinfinity.domain.wire import text_hash
from contextinfinity.storage.contract import Contents

MOST = 256
MOST_UNSAVED = 4096
"""Texts of steps that are about to be opened; those of turns that failed before are dropped, the oldest first."""
FRESH_SECONDS = 1800.0
"""How long a text is taken to be stored: one that nothing refers to may be removed an hour later."""


class Texts:
    """The texts of a ledger; the latest are cached."""

    def __init__(self, contents: Contents) -> None:
        self._contents = contents
        self._known: OrderedDict[str, str] = OrderedDict()
        self._saved_at: dict[str, float] = {}
        self._unsaved: dict[str, str] = {}

    def keep(self, text: str) -> str:
        """Return the hash of a text; the step whose plan refers to it stores what ``unsaved`` returns."""
        sha256 = text_hash(text).hex()
        if time.monotonic() - self._saved_at.get(sha256, -FRESH_SECONDS) >= FRESH_SECONDS:
            self._unsaved[sha256] = text
            if len(self._unsaved) > MOST_UNSAVED:
                del self._unsaved[next(iter(self._unsaved))]
        self._known[sha256] = text
        self._known.move_to_end(sha256)
        while len(self._known) > MOST:
            self._saved_at.pop(self._known.popitem(last=False)[0], None)
        return sha256

    def unsaved(self, *hashes: str | None) -> tuple[str, ...]:
        """Return those of some texts that have to be stored."""
        return tuple(self._unsaved[sha256] for sha256 in hashes if sha256 in self._unsaved)

    def saved(self, texts: tuple[str, ...]) -> None:
        """Note that texts are stored."""
        for sha256 in (text_hash(text).hex() for text in texts):
            self._unsaved.pop(sha256, None)
            if sha256 in self._known:
                self._saved_at[sha256] = time.monotonic()

    async def read(self, sha256: str) -> str | None:
        """Read a text; None when it is gone."""
        if (known := self._known.get(sha256)) is not None:
            self._known.move_to_end(sha256)
            return known
        return await self._contents.text(sha256)

    def forget(self) -> None:
        """Empty the cache: something was deleted."""
        self._known.clear()
        self._saved_at.clear()
