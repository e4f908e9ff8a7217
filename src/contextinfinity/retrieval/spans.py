"""Split a text optimally into spans of 200 to 800 tokens.

The parts of a text are first divided or joined into units of about 10 to 100 tokens. Dynamic programming then groups
consecutive units so that the splits are strong and the spans have about 300 tokens: long enough to be meaningful, short
enough that several fit into a prompt. A short text stays whole. A span that begins in the middle of a passage repeats
up to 50 tokens before it. Without these repetitions the spans cover the text and do not overlap.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise
from math import inf
from typing import TypeAlias

from msgspec import Struct

from contextinfinity.retrieval.chunk_boundaries import Part

Count: TypeAlias = Callable[[str], int]

LEAST, MOST = 200, 800
OVERLAP = 50
WISHED = 300
"""The target size of a span in tokens."""

_SPARE = 24
"""The tolerance between the sum of the units' tokens and the tokens of the whole."""
_COARSEST = 100
"""The maximum number of tokens of a unit."""
_FINEST = 60
"""The minimum number of characters of a unit, unless the next split is stronger than others."""
_BRIEFEST = 24
"""The minimum number of characters of a unit in any case."""
_BETTER = 4.0
_BEST = 9.0
_WHOLE = MOST - _SPARE
_MISFIT = [9 * ((tokens - WISHED) / (WISHED if tokens < WISHED else MOST - WISHED)) ** 2 for tokens in range(MOST)]
"""The cost of a span for deviating from the target size, by its tokens."""

SENTENCE, WORD, ANYWHERE = 2.0, 0.5, 0.0
_SENTENCE = re.compile(r"[.!?…;:][\"'”’»)\]]{0,3}\s+|[。！？；]|[\r\n]+|[;}](?=[^\s;,)}\]])")
"""The end of a sentence, or of a statement in minified code."""
_BLANK = re.compile(r"\s")
_JOINING = "\u200d\ufe0f\U0001f3fb\U0001f3fc\U0001f3fd\U0001f3fe\U0001f3ff"
"""Characters that belong to the previous one besides combining marks: joiners, emoji variants, skin tones."""


class ChunkSpan(Struct, frozen=True):
    """A span of a text; the part before ``own`` repeats the previous span."""

    start: int
    own: int
    end: int
    tokens: int


class _TextUnit(Struct, frozen=True):
    start: int
    end: int
    strength: float
    tokens: int


def spans_of(text: str, parts: Sequence[Part], count: Count) -> list[ChunkSpan]:
    """Split a text; the result is deterministic."""
    if not text.strip():
        return []
    if len(text) <= 16 * LEAST and (tokens := count(text)) < 2 * LEAST:
        return [ChunkSpan(0, 0, len(text), tokens)]
    units = _units(text, parts, count)
    cuts = [0, *_cuts(units), len(units)]
    bounds = [units[first].start for first in cuts[:-1]]
    whole = _settled(text, [*bounds, len(text)], count)
    weak = {unit.start for unit in units if unit.strength <= SENTENCE}
    spans = []
    for place, end in enumerate(whole[1:]):
        own = whole[place]
        start = _repeated(text, whole[place - 1], own, count) if own in weak and place else own
        tokens = count(text[start:end])
        if tokens > MOST:
            start, tokens = own, count(text[own:end])
        if text[own:end].strip():
            spans.append(ChunkSpan(start, own, end, tokens))
    return spans


# --- units ---


def _units(text: str, parts: Sequence[Part], count: Count) -> list[_TextUnit]:
    units: list[_TextUnit] = []
    for start, end, strength in _joined(parts, len(text)):
        units += _finer(text, start, end, strength, count)
    return units


def _joined(parts: Sequence[Part], length: int) -> list[tuple[int, int, float]]:
    """Join small adjacent parts; a unit has the strength of its first part."""
    found: list[tuple[int, int, float]] = []
    start, strength = 0, ANYWHERE
    for part in parts[1:]:
        size = part.start - start
        if size >= _FINEST or (size >= _BRIEFEST and part.strength >= _BETTER):
            found.append((start, part.start, strength))
            start, strength = part.start, part.strength
        elif part.strength > strength and size < _BRIEFEST and found:
            # Too small for a unit: append it to the previous one and use the stronger split.
            found[-1] = (found[-1][0], part.start, found[-1][2])
            start, strength = part.start, part.strength
    return [*found, (start, length, strength)]


def _finer(text: str, start: int, end: int, strength: float, count: Count) -> list[_TextUnit]:
    """Divide a unit that is too large: at the ends of sentences, then at spaces, then anywhere."""
    if end - start > 16 * _COARSEST or (tokens := count(text[start:end])) > _COARSEST:
        ends = [match.end() for match in _SENTENCE.finditer(text, start, end)]
        places = _spread(start, end, ends)
        if len(places) > 2:
            return _each(text, places, strength, SENTENCE, count)
        return _hard(text, start, end, strength, count)
    return [_TextUnit(start, end, strength, tokens)]


def _spread(start: int, end: int, ends: Sequence[int]) -> list[int]:
    """Choose positions with a minimum distance."""
    places = [start]
    for place in ends:
        if place - places[-1] >= _FINEST and end - place >= _BRIEFEST:
            places.append(place)
    return [*places, end]


def _each(text: str, places: Sequence[int], first: float, others: float, count: Count) -> list[_TextUnit]:
    units = []
    for number, (start, end) in enumerate(pairwise(places)):
        strength = others if number else first
        if (tokens := count(text[start:end])) > _COARSEST:
            units += _hard(text, start, end, strength, count)
        else:
            units.append(_TextUnit(start, end, strength, tokens))
    return units


def _hard(text: str, start: int, end: int, first: float, count: Count) -> list[_TextUnit]:
    """Divide text without sentences: at spaces if possible, never inside a grapheme."""
    units: list[_TextUnit] = []
    step = 4 * _COARSEST
    while start < end:
        place = min(start + step, end)
        if place < end:
            blank = text.rfind(" ", start + step // 2, place) + 1
            place = blank or _whole_sign(text, start, place)
        tokens = count(text[start:place])
        if tokens > _COARSEST and place - start > 1 and step > 8:
            step //= 2
            continue
        between = WORD if _BLANK.match(text[start - 1 : start]) else ANYWHERE
        units.append(_TextUnit(start, place, between if units else first, tokens))
        start = place
        step = min(2 * step, 4 * _COARSEST) if tokens < _COARSEST // 3 else step
    return units


def _whole_sign(text: str, start: int, place: int) -> int:
    """Move back to the start of a grapheme: before combining marks, joiners, and the second half of CR LF."""
    for back in range(place, max(start + 1, place - 16), -1):
        here, last = text[back], text[back - 1]
        joined = unicodedata.combining(here) or here in _JOINING or last == "\u200d"
        if not joined and not (last == "\r" and here == "\n") and not "\ud800" <= last <= "\udbff":
            return back
    return place


# --- cuts ---


def _cuts(units: Sequence[_TextUnit]) -> list[int]:
    """Choose the units to split before, so that all spans have a valid size and the total cost is minimal."""
    sums = [0, *accumulate(unit.tokens for unit in units)]
    most = [_WHOLE if unit.strength > SENTENCE else _WHOLE - OVERLAP for unit in units]
    best = [0.0, *[inf] * len(units)]
    came = [0] * (len(units) + 1)
    first = 0
    for last in range(1, len(units) + 1):
        here = 0.0 if last == len(units) else _BEST - units[last].strength
        end = sums[last]
        while end - sums[first] > _WHOLE:
            first += 1
        for begin in range(first, last):  # hot loop without calls: about thirty iterations per unit
            tokens = end - sums[begin]
            if tokens < LEAST + _SPARE:
                break
            if tokens <= most[begin] and (cost := best[begin] + here + _MISFIT[tokens]) < best[last]:
                best[last], came[last] = cost, begin
    return _way(came, len(units)) if best[-1] < inf else []


def _way(came: Sequence[int], last: int) -> list[int]:
    way = []
    while last := came[last]:
        way.append(last)
    return way[::-1]


def _settled(text: str, bounds: list[int], count: Count) -> list[int]:
    """Correct the sizes by the exact token counts: halve spans that are too large, join those that are too small."""
    settled = [bounds[0]]
    for end in bounds[1:]:
        if len(settled) > 1 and count(text[settled[-1] : end]) < LEAST and count(text[settled[-2] : end]) <= MOST:
            settled.pop()
        settled += _halved(text, settled[-1], end, count)
    if len(settled) == 3 and count(text[: settled[1]]) < LEAST and count(text) <= MOST:
        del settled[1]
    return settled


def _halved(text: str, start: int, end: int, count: Count) -> list[int]:
    if end - start < 2 or count(text[start:end]) <= MOST:
        return [end]
    middle = _whole_sign(text, start, (start + end) // 2)
    return [*_halved(text, start, middle, count), *_halved(text, middle, end, count)]


def _repeated(text: str, before: int, own: int, count: Count) -> int:
    """Return where the repeated sentences before a span begin, up to the overlap limit."""
    first = max(before + 1, own - 4 * OVERLAP)
    for match in _SENTENCE.finditer(text, first, own):
        if match.end() < own and text[match.end() : own].strip() and count(text[match.end() : own]) <= OVERLAP:
            return match.end()
    return own
