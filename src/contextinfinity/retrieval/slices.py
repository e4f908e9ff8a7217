"""The part of a long text that answers a question best: neighbouring sentences or lines that hold most of its words."""

from __future__ import annotations

import re
from collections.abc import Sequence

from contextinfinity.retrieval.spans import Count
from contextinfinity.text import cues

_SENTENCE = re.compile(r"[.!?…][\"'”’»)\]]{0,3}\s+|[。！？]|[\r\n]+")
_SHORTEST = 40
_LONGEST = 400
"""Characters of what is taken as one sentence."""


def best_slice(text: str, terms: frozenset[str], most: int, count: Count) -> tuple[int, int] | None:
    """Find the neighbouring sentences within so many tokens that hold most of the terms; None where none does.

    ``terms`` are as ``text.cues.content`` gives them. A term counts once, and the earlier of two equal slices is taken.
    """
    bounds = _sentences(text)
    held = [cues.content(cues.words(text[start:end])) & terms for start, end in bounds]
    sizes = [count(text[start:end]) for start, end in bounds]
    best, found = (0, 0.0), None
    for first in range(len(bounds)):
        if held[first] and (reached := _reach(held, sizes, first, most)):
            last, worth = reached
            if worth > best:
                best, found = worth, (bounds[first][0], bounds[last][1])
    return found


def _reach(
    held: Sequence[frozenset[str]], sizes: Sequence[int], first: int, most: int
) -> tuple[int, tuple[int, float]] | None:
    """Go on from a sentence as far as the tokens go; give the last one, and how much is held."""
    seen: frozenset[str] = frozenset()
    used, last, weight = 0, -1, 0
    for place in range(first, len(held)):
        used += sizes[place]
        if used > most:
            break
        last, seen, weight = place, seen | held[place], weight + len(held[place])
    return None if last < 0 else (last, (len(seen), float(weight)))


def _sentences(text: str) -> list[tuple[int, int]]:
    places = [0]
    for match in _SENTENCE.finditer(text):
        if match.end() - places[-1] >= _SHORTEST:
            places += range(places[-1] + _LONGEST, match.end() - _SHORTEST, _LONGEST)
            places.append(match.end())
    places += range(places[-1] + _LONGEST, len(text), _LONGEST)
    return [(start, end) for start, end in zip(places, [*places[1:], len(text)], strict=True) if end > start]
