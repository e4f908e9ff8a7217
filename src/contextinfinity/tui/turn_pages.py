"""The turns of a branch, read page by page as they come into view.

A page holds ``PAGE`` consecutive turn numbers. The most recently used pages are kept; the others are read again when
they are needed.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from contextinfinity.client.results import ShownTurn

PAGE = 50
MOST_PAGES = 24

ReadTurns: TypeAlias = Callable[[int, int], Awaitable[tuple[ShownTurn, ...]]]
"""Reads the newest turns below a turn number: (before, limit)."""


class TurnPages:
    """A cache of turns by their number, from 1 to ``last``."""

    def __init__(self, read: ReadTurns, last: int) -> None:
        self.last = last
        self._read = read
        self._pages: OrderedDict[int, dict[int, ShownTurn]] = OrderedDict()

    def get(self, seq: int) -> ShownTurn | None:
        """Return a turn if its page is loaded and it exists."""
        page = self._pages.get((seq - 1) // PAGE)
        return None if page is None else page.get(seq)

    def is_loaded(self, seq: int) -> bool:
        """Return whether the page of a turn is loaded; a turn that is not in it was deleted."""
        return (seq - 1) // PAGE in self._pages

    def pages_missing(self, first: int, last: int) -> list[int]:
        """Return the pages of these turns that are not loaded, and mark the others as used."""
        wanted = range((max(first, 1) - 1) // PAGE, (min(last, self.last) - 1) // PAGE + 1)
        for page in wanted:
            if page in self._pages:
                self._pages.move_to_end(page)
        return [page for page in wanted if page not in self._pages]

    async def load(self, page: int) -> None:
        """Read a page."""
        first = page * PAGE + 1
        turns = await self._read(first + PAGE, PAGE)
        self._pages[page] = {turn.turn_seq: turn for turn in turns if first <= turn.turn_seq < first + PAGE}
        self._pages.move_to_end(page)
        while len(self._pages) > MOST_PAGES:
            self._pages.popitem(last=False)

    async def newest(self, last: int) -> tuple[ShownTurn, ...]:
        """Read the turns up to ``last`` again, a page of them, and return them, oldest first."""
        if last and not self.is_loaded(last):
            await self.load((last - 1) // PAGE)
        turns = await self._read(last + 1, PAGE)
        for turn in turns:
            if (page := self._pages.get((turn.turn_seq - 1) // PAGE)) is not None:
                page[turn.turn_seq] = turn
        return turns

    async def find(self, seq: int) -> ShownTurn | None:
        """Return a turn, reading its page if necessary."""
        if not 1 <= seq <= self.last:
            return None
        if not self.is_loaded(seq):
            await self.load((seq - 1) // PAGE)
        return self.get(seq)
