"""Messages that are a title rather than a sentence: "Frank Zappa, Disbandment".

People open with them, forms and imported conversations too. The first part is what the conversation is about, the rest
says what of it is meant.
"""

from __future__ import annotations

import re

from msgspec import Struct

from contextinfinity.rewriting.lexicon import NOUNS, listed

_LONGEST = 25
"""Words of a title."""
_SENTENCE_WORDS = listed(
    """
    is are was were am be do does did can could should would will i you my me please need want have has had who
    what when where why how which he she it they we yes no hello hi hey thanks thank good great ok okay
    """
)
"""Words of which one makes a text a sentence."""
_ORDERS = listed(
    """
    tell give explain compare recommend find write make create fix add help suggest summarize summarise
    translate delete remove describe
    """
)
_TITLES_TOO = listed("let show open close list run plan build check use set update change read draft")
"""Words that make it an order; of these a title of two lines may have some: "Lineup change", "Let Love In"."""
_QUALIFIER = re.compile(r"\s?\(([^()]{1,60})\)")
_LINES, _SEPARATOR = re.compile(r"\n+"), re.compile(r"\s[-–—|/]\s|:\s|;\s|\.\s")


class Heading(Struct, frozen=True):
    """A title in its parts."""

    topic: str
    noun: str
    """What the topic is, where the title says so: "band" for "Travis (band)"."""
    aspect: str


def heading(text: str) -> Heading | None:
    """Read a title; None when the text is something else."""
    text = text.strip()
    words = text.split(maxsplit=_LONGEST + 1)
    if not words or len(words) > _LONGEST or text.endswith(("?", ".")) or words[0][0].islower():
        return None
    bare = {word.strip(".,:;\"'") for word in words}
    if not bare.isdisjoint(_SENTENCE_WORDS) or _opens_sentence(text, bare):
        return None
    topic, aspect = _parts(text)
    if not aspect and any(word.islower() and len(word) > 3 for word in words):
        return None  # without a second part only capitals tell a title from a sentence
    qualifiers = " ".join(_QUALIFIER.findall(topic)).lower().split()
    noun = next((word for word in reversed(qualifiers) if word in NOUNS), "")
    name = " ".join(_QUALIFIER.sub(" ", topic).split()).strip(" \"'.,:")
    return Heading(name, noun, aspect.strip(" .")) if any(map(str.isalnum, name)) else None


def _opens_sentence(text: str, words: set[str]) -> bool:
    """Tell whether a word makes it a question or an order."""
    first, *others = (line.split(maxsplit=1)[0].lower() for line in text.splitlines() if line.strip())
    if not others:
        return first in _SENTENCE_WORDS or not (words | {first}).isdisjoint(_ORDERS | _TITLES_TOO)
    return not _ORDERS.isdisjoint((*words, *others))


def _parts(text: str) -> tuple[str, str]:
    split = _LINES.search(text) or _SEPARATOR.search(text)
    if split:
        return text[: split.start()], text[split.end() :]
    topic, _, aspect = text.partition(", ")
    return topic, aspect
