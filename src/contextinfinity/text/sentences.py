"""Split a message into its author's own sentences and the material it shows.

``own_words`` decides which is which. Each list item is a sentence. A full stop does not end a sentence after an
abbreviation, inside a number or before a lower-case letter.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct

from contextinfinity.text.entities import MONTHS
from contextinfinity.text.material_layout import blanked, delimited
from contextinfinity.text.own_words import READ, split

_END = re.compile(r"(?<![.!?…])[.!?…]++[\"'”’»)\]*_]{0,4}(?=\s)|(?<![。！？])[。！？]++[”’」』）]?|[;；](?=\s)")
_BULLET = re.compile(r"\s*(?:[-*+•–]|\d{1,3}[.)]|\[[ xX]\])\s+")
_EMPTY = re.compile(r"\s*(?:(?:`{3,}|~{3,})[^\s`~]*\s*)?$")
"""A blank line, or one that opens or closes a fence."""
_BEFORE = re.compile(r"\S{1,20}\Z")
_NEXT = re.compile(r"\s+([^\W\d_]+)")
_ARTICLE = re.compile(r"\b(?:am|der|die|das|den|dem|des|zum|zur|vom|beim|im|bis|ab|seit) \d+\.\Z", re.IGNORECASE)
_ABBREVIATIONS = """
e.g. i.e. vs. cf. approx. ca. dept. est. incl. excl. dr. mr. mrs. prof. st. jr. sr. inc. ltd. co. corp. a.m. p.m. u.s.
z.b. d.h. bzw. usw. evtl. ggf. vgl. bspw. inkl. ex. env. sra. ud. jan. feb. mar. apr. jun. jul. aug. sep. sept. oct.
nov. dec.
"""
_KNOWN = frozenset(_ABBREVIATIONS.split())
_TITLES = frozenset({"Ms.", "No.", "Nr."})
"""Abbreviations only with a capital: "5 ms." and "I said no." end a sentence."""
_NUMBERING = frozenset({"no.", "nr.", "fig.", "sec.", "art.", "abs.", "núm.", "pág.", "max.", "min."})
"""Abbreviations only before a number."""


_LONGEST_QUESTION = 300
_INLINE = 120
"""The maximum length of a quotation that is part of a sentence."""
_INTRODUCTION = re.compile(r".{3,160}?(?:[:：]|\s[-–—](?=\s))")
_WIDEST = 200
"""The maximum length of a line that an editor may have wrapped."""


class OwnSentences(Struct):
    """The author's own sentences, and the lines of the material."""

    sentences: list[str]
    pasted: list[str]


def asks(sentence: str) -> bool:
    """Return whether a sentence is a question."""
    return sentence.rstrip("\"'”’)*_ ").endswith(("?", "？"))


_QUESTION = re.compile(
    r"(?:[,;–-]|,? (?:and|but|so)),? (?=(?:what|how|which|where|when|who|why|can|could|would|should|do|does"
    r"|is|are|any|shall|will"
    r"|wie|was|wo|welche|kann|kannst|ist|sind|gibt|darf|soll|warum|wann|quel|quelle|comment|où|qué|cómo|dónde|puedes)\b)"
    r"|,\s*(?=¿)|，(?=[^，]*(?:什么|怎么|能不能|可以|吗|哪|多少)[^，]*$)",
    re.IGNORECASE,
)
_LEAST = 12


def before_question(sentence: str) -> str:
    """Return what a question states before it asks ("I'm allergic to nuts, what can I bake?"), else all of it."""
    if not asks(sentence) or len(sentence) > _LONGEST_QUESTION:
        return sentence
    parts = [found.start() for found in _QUESTION.finditer(sentence)]
    least = _LEAST // 4 if sentence[0] > "\u3000" else _LEAST  # scripts without spaces need fewer characters
    return sentence[: parts[0]] if parts and parts[0] >= least else sentence


_BLANKED = re.compile(r"(?<=[^\s.!?…。！？:]) {4,}")
_SENTENCE_END = re.compile(r"[.!?…。！？:\n]")


def _without_cut_off(own: str) -> str:
    """Remove the start of a sentence whose rest is blanked material: "She is tired, she says …"."""
    kept, start = [], 0
    for blank in _BLANKED.finditer(own):
        before = own[max(start, blank.start() - _LONGEST_QUESTION) : blank.start()]
        ends = [end.end() for end in _SENTENCE_END.finditer(before)]
        kept.append(own[start : blank.start() - len(before) + (ends[-1] if ends else 0)])
        start = blank.end()
    return "\n".join((*kept, own[start:]))


def author_sentences(text: str) -> OwnSentences:
    """Split a message into the sentences of its author and the lines of material."""
    parts = split(text)
    pasted = [line for material in parts.material for line in material.splitlines() if not _EMPTY.match(line)]
    own = _without_cut_off(parts.own) if parts.material else parts.own
    return OwnSentences([*_sentences(own.splitlines())], pasted)


def reported(text: str, *, everything: bool) -> list[str]:
    """Split a message into the sentences that can be reported.

    Blocks of material (code, quoted lines, long quotations) are left out. Of material that the author introduces, the
    sentence with the introduction is included, because it says whose words they are ("The leaflet says: …"); the
    sentences after it only if ``everything`` is set.
    """
    parts = None if everything else author_sentences(text)
    if parts is not None and not parts.pasted:
        return parts.sentences
    text = text if len(text) <= 2 * READ else f"{text[:READ]}\n\n{text[-READ:]}"
    blocks = [(start, end) for start, end in delimited(text)[0] if end - start > _INLINE or "\n" in text[start:end]]
    sentences = [*_sentences((blanked(text, blocks) if blocks else text).splitlines())]
    if parts is None:
        return sentences
    known = frozenset(parts.sentences)

    def is_introduced(sentence: str) -> bool:
        head = _INTRODUCTION.match(sentence)
        return head is not None and any(each.startswith(head[0].strip()) for each in known)

    return [sentence for sentence in sentences if sentence in known or is_introduced(sentence)]


def _sentences(lines: list[str]) -> Iterator[str]:
    """Join wrapped lines and split them into sentences."""
    for paragraph in _paragraphs(lines):
        start = 0
        for end in _END.finditer(paragraph):
            if _ends_sentence(paragraph, end):
                if sentence := " ".join(paragraph[start : end.end()].split()):
                    yield sentence
                start = end.end()
        if sentence := " ".join(paragraph[start:].split()):
            yield sentence


def _paragraphs(lines: list[str]) -> Iterator[str]:
    current: list[str] = []
    for line in lines:
        bullet = _BULLET.match(line)
        apart = bullet is not None or not line.strip() or line.lstrip().startswith(("#", "|"))
        if current and (apart or not _continues_on_next_line(current[-1])):
            yield " ".join(current)
            current = []
        if stripped := (line[bullet.end() :] if bullet else line).strip():
            current.append(stripped)
    if current:
        yield " ".join(current)


def _continues_on_next_line(line: str) -> bool:
    """Return whether the next line continues this one: it is long, and does not end like a sentence or a title."""
    return 60 < len(line) <= _WIDEST and line[-1] not in ".!?:…。！？"


def _ends_sentence(text: str, end: re.Match[str]) -> bool:
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
    return not (word[:-1].isdigit() and len(word) < 4) or not _is_ordinal(text, end)


def _is_ordinal(text: str, end: re.Match[str]) -> bool:
    """Return whether a number with a full stop is an ordinal, as in "am 3. Mai" and "der 2. Versuch"."""
    following = _NEXT.match(text, end.end())
    before = _ARTICLE.search(text, max(0, end.start() - 20), end.start() + 1)
    return before is not None or (following is not None and following[1].lower() in MONTHS)
