"""Find the places where a text can be split, and rate them.

A text is divided into consecutive parts; each has the strength of a split before it. Headings, code and its functions,
changes of topic, paragraphs, tables, lists and lines are distinguished. A heading, a line that ends in a colon and the
head of a table stay with what they introduce.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct

from contextinfinity.retrieval.code import BLANK, GLUE, LINE, looks_like_code, strengths

HEADING = 9.0
TOPIC = 8.5
SECTION = 8.2
EDGE = 8.0
"""The strength between prose and code, or prose and a table."""
PARAGRAPH = 6.0
ITEM = 4.5

_HEADING = re.compile(r" {0,3}(#{1,6})\s+\S|\*\*[^*\n]{1,120}\*\*:?\s*$")
_UNDERLINE = re.compile(r"\s{0,3}(?:={3,}|-{3,})\s*$")
_RULE = re.compile(r" {0,3}(?:(?:-\s?){3,}|(?:\*\s?){3,}|(?:_\s?){3,})\s*$")
_FENCE = re.compile(r"\s{0,12}(`{3,}|~{3,})\s*([\w+#.-]{0,40})")
_ITEM = re.compile(r"(\s*)(?:[-*+•–]|\d{1,3}[.)])\s+\S")
_LONGEST = 500
_TOPICS_FROM = 2_000
"""The number of bytes from which topics are compared, about 400 tokens in any script; a shorter text is not split."""
_MOST_PARAGRAPHS = 400
"""The maximum number of paragraphs that are compared; a longer text is split by its format only."""
_FEWEST_WORDS = 8
_BLOCK, _SAME_TOPIC = 3, 0.25
"""The number of paragraphs on each side that are compared, and the cosine below which their topics differ.

Of 363 pairs of answers from different chats of BEAM, each joined into one text, 70% are split at the joint, and 73% of
all splits are there.
"""


class Part(Struct, frozen=True):
    """A part of a text; it ends where the next one begins."""

    start: int
    strength: float
    """The strength of a split before it."""
    code: bool = False


def may_change_topic(text: str) -> bool:
    """Return whether a text is so long that its topics are compared, which takes milliseconds."""
    return len(text) >= _TOPICS_FROM or len(text.encode(errors="replace")) >= _TOPICS_FROM


def parts_of(text: str, *, topics: bool = True) -> list[Part]:
    """Divide a text into parts; ``topics`` says whether it is prose whose changes of topic are looked for."""
    lines = text.splitlines(keepends=True)
    if looks_like_code(lines) and not any(map(_FENCE.match, lines)):
        return _code_parts(lines, 0, "")
    parts = _Scan(lines).parts()
    return _with_topics(text, parts) if topics and may_change_topic(text) else parts


def _code_parts(lines: Sequence[str], start: int, language: str) -> list[Part]:
    parts = []
    for line, strength in zip(lines, strengths(lines, language), strict=True):
        parts.append(Part(start, strength, True))
        start += len(line)
    return parts


class _Scan:
    """A single pass over the lines of a text."""

    def __init__(self, lines: list[str]) -> None:
        self.lines = lines
        self.found: list[Part] = []
        self.before = ""
        """The kind of the last non-empty line."""
        self.blank = True
        self.introduces = False
        self.rows = 0

    def parts(self) -> list[Part]:
        number = place = 0
        while number < len(self.lines):
            line = self.lines[number]
            fence = _FENCE.match(line)
            if fence:
                end = self._end_of(fence[1], number)
                self._code(self.lines[number:end], place, fence[2].lower())
                place += sum(map(len, self.lines[number:end]))
                number = end
                continue
            self._line(line, place)
            place += len(line)
            number += 1
        return self.found

    def _end_of(self, fence: str, number: int) -> int:
        """Return the index of the line after a fenced block; an unclosed block ends with the text."""
        for place in range(number + 1, len(self.lines)):
            inner = self.lines[place].strip()
            if inner.startswith(fence) and not inner.strip("`~"):
                return place + 1
        return len(self.lines)

    def _code(self, lines: list[str], place: int, language: str) -> None:
        inner = _code_parts(lines[1:], place + len(lines[0]), language)
        glued = {0, len(inner) - 1}
        self._add(place, GLUE if self.before == "heading" else self._opening(EDGE), code=True)
        self.found += [Part(p.start, GLUE if n in glued else p.strength, True) for n, p in enumerate(inner)]
        self.before, self.blank, self.introduces = "code", True, False

    def _line(self, line: str, place: int) -> None:
        inner = line.strip()
        if not inner:
            self.blank = True
            if not self.found:
                self._add(place, 0.0)
            return
        head = line[:_LONGEST]
        if not self.blank and self.before == "text" and _UNDERLINE.match(head):
            last = self.found[-1]
            self.found[-1] = Part(last.start, HEADING, False)
            kind, strength = "heading", GLUE
        else:
            kind, strength = self._kind(head)
        self._add(place, GLUE if self.before == "heading" else strength)
        self.before, self.blank = kind, False
        self.introduces = kind == "text" and inner.endswith((":", "："))

    def _kind(self, line: str) -> tuple[str, float]:
        """Return the kind of a line, and the strength of a split before it."""
        if heading := _HEADING.match(line):
            return "heading", HEADING - len(heading[1] or "####") / 4
        if _RULE.match(line):
            return "heading", SECTION
        if line.lstrip().startswith("|"):
            self.rows = self.rows + 1 if self.before == "table" and not self.blank else 1
            return "table", self._opening(EDGE) if self.rows == 1 else GLUE if self.rows <= 3 else LINE
        if item := _ITEM.match(line):
            if self.before == "item":
                return "item", LINE if item[1].expandtabs() else ITEM
            return "item", self._opening(PARAGRAPH)
        if not self.blank and self.before in ("text", "item", "quote"):
            return self.before, LINE
        if self.before == "item" and line[0] in " \t":
            return "item", LINE
        return "text", EDGE if self.before in ("code", "table") else self._opening(PARAGRAPH)

    def _opening(self, strength: float) -> float:
        return LINE if self.introduces else strength if self.blank else min(strength, BLANK)

    def _add(self, place: int, strength: float, *, code: bool = False) -> None:
        self.found.append(Part(place, strength, code))


def _with_topics(text: str, parts: list[Part]) -> list[Part]:
    """Strengthen the splits where the topic changes: the paragraphs before and after have little in common.

    The built-in vectors are used whatever the configured embedder is: chunks must not change with it.
    """
    import numpy as np

    from contextinfinity.embedders.static import built_in

    opening = [n for n, part in enumerate(parts) if part.strength == PARAGRAPH or n == 0]
    if not 2 < len(opening) <= _MOST_PARAGRAPHS:
        return parts
    last = [*(parts[n].start for n in opening[1:]), len(text)]
    texts = [text[parts[n].start : end] for n, end in zip(opening, last, strict=True)]
    rows = built_in().encode(texts)
    sums = np.cumsum(np.vstack((np.zeros_like(rows[:1]), rows)), axis=0)
    here = np.arange(1, len(rows))
    before = sums[here] - sums[np.maximum(0, here - _BLOCK)]
    after = sums[np.minimum(len(rows), here + _BLOCK)] - sums[here]
    sizes = np.linalg.norm(before, axis=1) * np.linalg.norm(after, axis=1)
    near = (before * after).sum(axis=1) / np.maximum(sizes, np.finfo(np.float32).tiny)
    padded = np.pad(near, 1, constant_values=1)
    lowest = near <= np.minimum(padded[:-2], padded[2:])
    changed = list(parts)
    for place in np.flatnonzero(lowest & (near < _SAME_TOPIC)).tolist():
        number = opening[place + 1]
        if len(texts[place + 1].split()) >= _FEWEST_WORDS:
            changed[number] = Part(parts[number].start, TOPIC, parts[number].code)
    return changed
