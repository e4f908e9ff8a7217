"""The vendors' formulas for the tokens of a picture.

A picture is laid out in square cells. Older OpenAI models count large tiles on top of a base; newer ones and Claude
count small patches, up to a budget into which larger pictures are scaled down. Gemini counts tiles at a fixed price.
"""

from __future__ import annotations

import math
from typing import TypeAlias

from msgspec import Struct

Size: TypeAlias = tuple[int, int]


class Tiles(Struct, frozen=True):
    """A base, and a price for each tile of 512 pixels."""

    base: int
    tile: int

    def tokens(self, size: Size, low_detail: bool) -> int:
        """Fit into 2048 by 2048, then the short side into 768, and count tiles."""
        if low_detail:
            return self.base
        width, height = _fit(size, 2048 / max(size))
        width, height = _fit((width, height), 768 / min(width, height))
        return self.base + self.tile * math.ceil(width / 512) * math.ceil(height / 512)


class Patches(Struct, frozen=True):
    """A price for each small patch, and at most ``budget`` patches."""

    patch: int
    budget: int
    factor: float = 1.0
    longest: int = 1_000_000
    extra: int = 0

    def tokens(self, size: Size, low_detail: bool) -> int:
        """Count patches; a picture of more is scaled down to just below the budget, and counted as all of it."""
        width, height = _fit(size, self.longest / max(size))
        # Rounded first: 92.0000001 patches are 92.
        count = math.ceil(round(width / self.patch, 6)) * math.ceil(round(height / self.patch, 6))
        return math.ceil(min(count, self.budget) * self.factor) + self.extra


class Crops(Struct, frozen=True):
    """One price for a small picture; a larger one is cropped into tiles of that price each."""

    price: int
    small: int
    tile: int

    def tokens(self, size: Size, low_detail: bool) -> int:
        """Count tiles, unless both sides are small or the vendor may use less detail."""
        if low_detail or max(size) <= self.small:
            return self.price
        return self.price * math.ceil(size[0] / self.tile) * math.ceil(size[1] / self.tile)


PictureRule: TypeAlias = Tiles | Patches | Crops

ANY_PICTURE = Patches(28, 4096)
"""For models of which nothing is known."""


def _fit(size: tuple[float, float], ratio: float) -> tuple[float, float]:
    """Scale down by the ratio; never up, never below a pixel."""
    ratio = min(1.0, ratio)
    return max(1.0, size[0] * ratio), max(1.0, size[1] * ratio)
