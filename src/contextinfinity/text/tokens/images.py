"""Count the tokens of an image by the vendors' own formulas.

If the size is unknown, a large image is assumed, so that a budget is never exceeded.
"""

from __future__ import annotations

import binascii
import re

from msgspec import Struct

from contextinfinity.domain.message import Json
from contextinfinity.text.image_size import Size, size_of
from contextinfinity.vendors import VENDORS
from contextinfinity.vendors.record import ANY_PICTURE, PictureRule

UNKNOWN_SIZE: Size = (2048, 2048)

_FIRST_CHARACTERS = (4_096, 1_048_576)
"""How many base64 characters are read: nearly always the first; the second for images with long metadata."""


class Picture(Struct, frozen=True):
    """An image to count: its source, and whether low detail was requested."""

    source: Json
    low_detail: bool = False


_RULES = tuple(rule for each in VENDORS.values() for rule in each.picture_rules)


def rule_of(provider: str, model_id: str) -> PictureRule:
    """Return the formula of a model."""
    model = model_id.lower()
    for pattern, rule in _RULES:
        if re.search(pattern, model):
            return rule
    return VENDORS[provider].picture_rule if provider in VENDORS else ANY_PICTURE


def picture_tokens(rule: PictureRule, picture: Picture) -> int:
    """Count the tokens of an image."""
    return rule.tokens(_size_of_source(picture.source) or UNKNOWN_SIZE, picture.low_detail)


def _size_of_source(source: Json) -> Size | None:
    """Return a declared size, or read it from the bytes."""
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
