"""What a picture costs, by the vendors' own formulas.

A picture is laid out in square cells. Older OpenAI models count large tiles on top of a base; newer ones and
Claude count small patches, up to a budget into which larger pictures are shrunk. Where the size is not known, a
large picture is assumed, so that a budget is rather too small than broken.
"""

from __future__ import annotations

import binascii
import math
import re
from typing import TypeAlias

from msgspec import Struct

from contextinfinity.domain.message import Json
from contextinfinity.text.pictures import Size, size_of

UNKNOWN_SIZE: Size = (2048, 2048)

_FIRST_CHARACTERS = (4_096, 1_048_576)
"""How much of a picture in base64 is looked at: nearly always the little, seldom (long metadata) the much."""


class Picture(Struct, frozen=True):
    """A picture to be counted: where it is, and whether the vendor may coarsen it."""

    source: Json
    low_detail: bool = False


class Tiles(Struct, frozen=True):
    """A base, and so much for each tile of 512 pixels."""

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
    """So much for each small patch, and no more patches than the budget."""

    patch: int
    budget: int
    factor: float = 1.0
    longest: int = 1_000_000
    extra: int = 0

    def tokens(self, size: Size, low_detail: bool) -> int:
        """Count patches; a picture of more is shrunk to just below the budget, and counted as all of it."""
        width, height = _fit(size, self.longest / max(size))
        # Rounded first: 92.0000001 patches are 92.
        count = math.ceil(round(width / self.patch, 6)) * math.ceil(round(height / self.patch, 6))
        return math.ceil(min(count, self.budget) * self.factor) + self.extra


Rule: TypeAlias = Tiles | Patches

_CLAUDE_LARGE = Patches(28, 4784, longest=2576, extra=4)

RULES: tuple[tuple[str, Rule], ...] = (
    (r"gpt-4o-mini", Tiles(2833, 5667)),
    (r"gpt-(4\.1|5(\.\d)?)-mini", Patches(32, 1536, 1.62)),
    (r"gpt-(4\.1|5(\.\d)?)-nano", Patches(32, 1536, 2.46)),
    (r"o4-mini|codex-mini", Patches(32, 1536, 1.72)),
    (r"gpt-5\.[23]", Patches(32, 1536, 1.2)),
    (r"gpt-5\.4", Patches(32, 2500, 1.2)),
    (r"gpt-5\.[5-9]", Patches(32, 10_000, 1.2)),
    (r"gpt-([6-9]|\d\d)", Patches(32, 16_384, 1.2)),
    (r"gpt-5", Tiles(70, 140)),
    (r"(^|[/:.])o[13]", Tiles(75, 150)),
    (r"gpt-|chatgpt", Tiles(85, 170)),
    (r"claude-([123]|(opus|sonnet|haiku)-4(-[0-6])?(-?\d{8}.*|[@:].*)?$)", Patches(28, 1568, longest=1568, extra=4)),
    (r"claude", _CLAUDE_LARGE),
)
"""The first whose expression is found in a model's id is taken."""

OTHERS = Patches(28, 4096)


def rule_of(provider: str, model_id: str) -> Rule:
    """Find the formula of a model."""
    model = model_id.lower()
    for pattern, rule in RULES:
        if re.search(pattern, model):
            return rule
    return _CLAUDE_LARGE if provider == "anthropic" else OTHERS


def picture_tokens(rule: Rule, picture: Picture) -> int:
    """Count the tokens of a picture."""
    return rule.tokens(_size_of_source(picture.source) or UNKNOWN_SIZE, picture.low_detail)


def _fit(size: tuple[float, float], ratio: float) -> tuple[float, float]:
    """Shrink by the ratio; never enlarge, never below a pixel."""
    ratio = min(1.0, ratio)
    return max(1.0, size[0] * ratio), max(1.0, size[1] * ratio)


def _size_of_source(source: Json) -> Size | None:
    """Read a size that stands there, or find it in the bytes."""
    if isinstance(source, str):
        return _size_of_base64(source.partition(",")[2]) if source.startswith("data:") else None
    if not isinstance(source, dict):
        return None
    width, height = source.get("width"), source.get("height")
    if type(width) is int and type(height) is int and min(width, height) > 0:
        return width, height
    data = source.get("data")
    if isinstance(data, bytes):
        return size_of(data)
    return _size_of_base64(data) if isinstance(data, str) else _size_of_source(source.get("url"))


def _size_of_base64(data: str) -> Size | None:
    for length in _FIRST_CHARACTERS:
        characters = "".join(data[:length].split())
        try:
            size = size_of(binascii.a2b_base64(characters[: len(characters) // 4 * 4]))
        except ValueError:
            return None
        if size or len(data) <= length:
            return size
    return None
