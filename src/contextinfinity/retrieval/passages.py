"""Split texts into passages of about 120 tokens, which are ranked and packed into a prompt.

A passage consists of whole sentences or lines. A short text is one passage. Sizes are estimated from the bytes of the
text (four bytes per token), so that all scripts are treated alike and no tokenizer is needed.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import TypeAlias

Bounds: TypeAlias = tuple[int, int]

TOKENS = 120
_BYTES = 4 * TOKENS
_LONGEST = _BYTES * 5 // 4
"""The maximum number of bytes of a passage: 25% above the target, so that no last sentence is left alone."""
_END = re.compile(r"[.!?…。！？\n](?:(?<=[.!?…])[\"'”’»)\]*]{0,3}\s+|(?<=[。！？])|(?<=\n)\n*)")
"""It begins with a set of characters, so that the regular expression engine skips all others quickly."""


@lru_cache(maxsize=1 << 14)
def passages_of(text: str) -> tuple[tuple[int, int, str], ...]:
    """Return the passages of a text in order, each with its bounds; together they cover the whole text."""
    return tuple((start, end, text[start:end]) for start, end in _bounds(text))


def _bounds(text: str) -> tuple[Bounds, ...]:
    whole = _size(text)
    if whole <= _LONGEST:
        return ((0, len(text)),)
    goal = 0.9 * whole / max(1, round(whole / _BYTES + 0.35))
    ends = [*dict.fromkeys(_ends(text))]
    sizes = ends if text.isascii() else [*accumulate(_size(text[start:end]) for start, end in pairwise((0, *ends)))]
    found: list[Bounds] = []
    unit, start, size = 0, 0, 0
    while unit < len(ends):
        last = min(bisect_left(sizes, size + goal, unit), len(ends) - 1)
        if last > unit and sizes[last] - size > _LONGEST:
            last -= 1
        found.append((start, ends[last]))
        unit, start, size = last + 1, ends[last], sizes[last]
    return tuple(found)


def _ends(text: str) -> Iterator[int]:
    """Yield the ends of sentences and lines; a longer one is split at spaces, or anywhere if it has none."""
    start = 0
    for end in (*[match.end() for match in _END.finditer(text)], len(text)):
        while end - start > _BYTES // 4 and (size := _size(text[start:end])) > _BYTES:
            step = max(1, (end - start) * _BYTES // size * 9 // 10)
            start = text.rfind(" ", start + step // 2, start + step) + 1 or start + step
            yield start
        yield end
        start = end


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
