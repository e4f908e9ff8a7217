"""Find the part of a passage that answers a question best, if the whole does not fit."""

from __future__ import annotations

import re

from contextinfinity.retrieval.spans import Count
from contextinfinity.text.keywords import among

_SENTENCE = re.compile(r"[.!?…][\"'”’»)\]]{0,3}\s+|[。！？]|[\r\n]+")
_SHORTEST = 40
_LONGEST = 400
"""The maximum number of characters of a sentence."""


def best_slice(text: str, words: frozenset[str], most: int, count: Count) -> tuple[int, int] | None:
    """Return the bounds of consecutive sentences within ``most`` tokens with the most words; None if there are
    none.

    ``words`` are terms of ``text.keywords``. Of two equal slices the earlier one is returned.
    """
    bounds = _sentences(text)
    held = [among(text[start:end], words) for start, end in bounds]
    sizes = [count(text[start:end]) for start, end in bounds]
    best, found = (0, 0), None
    for first in range(len(bounds)):
        seen, used, all_held = set[str](), 0, 0
        for last in range(first, len(bounds) if held[first] else first):
            used += sizes[last]
            if used > most:
                break
            seen, all_held = seen | held[last], all_held + len(held[last])
            if (len(seen), all_held) > best:
                best, found = (len(seen), all_held), (bounds[first][0], bounds[last][1])
    return found


def _sentences(text: str) -> list[tuple[int, int]]:
    places = [0]
    for match in _SENTENCE.finditer(text):
        if match.end() - places[-1] >= _SHORTEST:
            places += range(places[-1] + _LONGEST, match.end() - _SHORTEST, _LONGEST)
            places.append(match.end())
    places += range(places[-1] + _LONGEST, len(text), _LONGEST)
    return [(start, end) for start, end in zip(places, [*places[1:], len(text)], strict=True) if end > start]
