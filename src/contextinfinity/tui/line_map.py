"""Which line of a long list belongs to which item, when most items were never drawn.

Only the heights of items that were drawn are kept; every other item is taken to have their mean height. Items are
numbered from 1.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import accumulate

GUESS = 8
"""The height of an item as long as none was measured."""


class LineMap:
    """The heights of ``count`` items, and the line each of them begins at."""

    def __init__(self, count: int) -> None:
        self.count = count
        """The number of items."""
        self._heights: dict[int, int] = {}
        self._index: tuple[list[int], list[int], int] | None = None

    @property
    def total(self) -> int:
        """The number of lines."""
        return self.top(self.count + 1)

    def measure(self, item: int, height: int) -> None:
        """Set the height of an item."""
        if self._heights.get(item) != height:
            self._heights[item] = height
            self._index = None

    def resize(self, count: int) -> None:
        """Change the number of items; those that stay keep their heights."""
        if count < self.count:
            self._heights = {item: height for item, height in self._heights.items() if item <= count}
        self.count, self._index = count, None

    def forget(self) -> None:
        """Forget all heights: the width has changed."""
        self._heights.clear()
        self._index = None

    def top(self, item: int) -> int:
        """Return the first line of an item."""
        measured, sums, guess = self._sums()
        before = bisect_left(measured, item)
        return sums[before] + (item - 1 - before) * guess

    def item_at(self, line: int) -> int:
        """Return the item that holds a line, or the nearest one; 0 where there are none."""
        return max(bisect_right(range(1, self.count + 1), line, key=self.top), min(self.count, 1))

    def _sums(self) -> tuple[list[int], list[int], int]:
        """Return the measured items in order, the sums of the heights before each, and the height of the others."""
        if self._index is None:
            items = sorted(self._heights)
            sums = [*accumulate((self._heights[item] for item in items), initial=0)]
            self._index = items, sums, max(round(sums[-1] / len(items)), 1) if items else GUESS
        return self._index
