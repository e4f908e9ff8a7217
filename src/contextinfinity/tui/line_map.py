"""Which line of a long list belongs to which item, when most items were never drawn.

An item that was not measured yet has the mean height of those that were. Items are numbered from 1.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

GUESS = 8
"""The height of an item as long as none was measured."""


class LineMap:
    """The heights of ``count`` items, and the line each of them begins at."""

    def __init__(self, count: int) -> None:
        self._heights = np.full(count, GUESS, dtype=np.int64)
        self._measured = np.zeros(count, dtype=bool)
        self._ends: NDArray[np.int64] | None = None

    @property
    def count(self) -> int:
        """The number of items."""
        return len(self._heights)

    @property
    def total(self) -> int:
        """The number of lines."""
        return int(self._sums()[-1]) if self.count else 0

    def is_measured(self, item: int) -> bool:
        """Return whether the height of an item is known."""
        return bool(self._measured[item - 1])

    def measure(self, item: int, height: int) -> None:
        """Set the height of an item."""
        if self._heights[item - 1] != height or not self._measured[item - 1]:
            self._heights[item - 1], self._measured[item - 1] = height, True
            self._ends = None

    def resize(self, count: int) -> None:
        """Change the number of items; those that stay keep their heights."""
        kept = min(count, self.count)
        heights, measured = self._heights, self._measured
        self._heights = np.full(count, GUESS, dtype=np.int64)
        self._measured = np.zeros(count, dtype=bool)
        self._heights[:kept], self._measured[:kept] = heights[:kept], measured[:kept]
        self._ends = None

    def forget(self) -> None:
        """Treat all heights as guesses: the width has changed."""
        self._measured[:] = False

    def top(self, item: int) -> int:
        """Return the first line of an item."""
        return int(self._sums()[item - 2]) if item > 1 and self.count else 0

    def height(self, item: int) -> int:
        """Return the number of lines of an item."""
        return int(self._sums()[item - 1]) - self.top(item)

    def item_at(self, line: int) -> int:
        """Return the item that holds a line, or the nearest one; 0 where there are none."""
        if not self.count:
            return 0
        return min(int(np.searchsorted(self._sums(), line, side="right")) + 1, self.count)

    def _sums(self) -> NDArray[np.int64]:
        if self._ends is None:
            guess = GUESS if not self._measured.any() else max(round(float(self._heights[self._measured].mean())), 1)
            self._ends = np.cumsum(np.where(self._measured, self._heights, guess)).astype(np.int64)
        return self._ends
