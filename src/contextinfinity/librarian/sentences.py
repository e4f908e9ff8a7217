"""What somebody said in their own words, sentence by sentence, and what they pasted.

Fenced blocks and quoted lines are pasted: they may name things, but nobody has said what they say. Lists give a
sentence an item. A full stop ends no sentence after an abbreviation, inside a number or before a small letter.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct

_END = re.compile(r"(?<![.!?…])[.!?…]++[\"'”’»)\]*_]{0,4}(?=\s)|(?<![。！？])[。！？]++[”’」』）]?|[;；](?=\s)")
_BULLET = re.compile(r"\s*(?:[-*+•–]|\d{1,3}[.)]|\[[ xX]\])\s+")
_FENCE = re.compile(r"\s{0,3}(`{3,}|~{3,})")
_BEFORE = re.compile(r"\S{1,20}\Z")
_ABBREVIATIONS = """
e.g. i.e. vs. cf. approx. ca. dept. est. incl. excl. dr. mr. mrs. prof. st. jr. sr. inc. ltd. co. corp. a.m. p.m. u.s.
z.b. d.h. bzw. usw. evtl. ggf. vgl. bspw. inkl. ex. env. sra. ud. jan. feb. mar. apr. jun. jul. aug. sep. sept. oct.
nov. dec.
"""
_KNOWN = frozenset(_ABBREVIATIONS.split())
_TITLES = frozenset({"Ms.", "No.", "Nr."})
"""Known with a capital only: 5 ms. and "I said no." end a sentence."""
_NUMBERING = frozenset({"no.", "nr.", "fig.", "sec.", "art.", "abs.", "núm.", "pág.", "max.", "min."})
"""Known before a number only."""


class Spoken(Struct):
    """A message, taken apart."""

    sentences: list[str]
    pasted: list[str]


def spoken(text: str) -> Spoken:
    """Take a message apart."""
    own: list[str] = []
    pasted: list[str] = []
    fence = ""
    for line in text.splitlines():
        opened = _FENCE.match(line)
        if fence:
            pasted.append(line)
            if opened and opened[1].startswith(fence) and not line.strip(" `~"):
                fence = ""
        elif opened:
            fence = opened[1]
        elif line.lstrip().startswith((">", "＞")):
            pasted.append(line)
        else:
            own.append(line)
    return Spoken([*_sentences(own)], pasted)


def _sentences(lines: list[str]) -> Iterator[str]:
    """Put wrapped lines together, and part what is not one sentence."""
    for paragraph in _paragraphs(lines):
        start = 0
        for end in _END.finditer(paragraph):
            if _ends(paragraph, end):
                if sentence := paragraph[start : end.end()].strip():
                    yield sentence
                start = end.end()
        if sentence := paragraph[start:].strip():
            yield sentence


def _paragraphs(lines: list[str]) -> Iterator[str]:
    current: list[str] = []
    for line in lines:
        bullet = _BULLET.match(line)
        apart = bullet is not None or not line.strip() or line.lstrip().startswith(("#", "|"))
        if current and (apart or not _wraps(current[-1])):
            yield " ".join(current)
            current = []
        if stripped := (line[bullet.end() :] if bullet else line).strip():
            current.append(stripped)
    if current:
        yield " ".join(current)


def _wraps(line: str) -> bool:
    """Tell whether the next line goes on with this one: it is long, and does not end like a sentence or a title."""
    return len(line) > 60 and line[-1] not in ".!?:…。！？"


def _ends(text: str, end: re.Match[str]) -> bool:
    if end[0][0] != ".":
        return True
    following = text[end.end() : end.end() + 3].lstrip()
    if following[:1].islower():
        return False
    before = _BEFORE.search(text, max(0, end.start() - 20), end.start() + 1)
    word = before[0].lstrip("([\"'") if before else ""
    if word.lower() in _NUMBERING:
        return not following[:1].isdigit()
    if word in _TITLES or word.lower() in _KNOWN or (len(word) == 2 and word[0].isalpha() and word != "I."):
        return False
    return not (word[:-1].isdigit() and len(word) < 4)
