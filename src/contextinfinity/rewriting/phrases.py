"""Words taken from what was said: the gist of an answer, a plural, the items of a list.

Nothing is put together anew: each phrase stands in the text as it is given back, without the marks around it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

GIST = 24
"""Words of an answer that are repeated."""

_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z\"“(])|\n")
_ITEM = re.compile(r"^\s{0,8}(?:[-*•]|\d{1,2}[.)])\s+(?:\*\*)?([^\n:*–—]{2,300})", re.M)
_PLURAL = re.compile(
    r"\b(?:[Tt]he|[Ss]ome|[Mm]any|[Ss]everal|[Hh]is|[Hh]er|[Tt]heir|other|\d[\d,]{0,12})\s"
    r"((?:[a-z-]{1,30}\s){0,2}(?:[a-z-]{3,30}[^su\W]s|people|men|women|children))\b"
    r"|\b([a-z-]{3,30}s and [a-z-]{3,30}s)\b"
)


def gist(text: str, most: int = GIST) -> str:
    """Give the first sentence, or as much of it as may be repeated."""
    sentences = _SENTENCE_END.split(text.strip(), maxsplit=3)
    words = next((part for part in sentences if " " in part.strip()), sentences[0]).split()
    if len(words) > most:
        ends = [place for place in range(most // 2, most) if words[place].endswith((",", ";", ":"))]
        words = words[: (ends[-1] if ends else most - 1) + 1]
    return tidy(" ".join(words))


def gists(texts: Iterable[str], most: int) -> str:
    """Give the gist of several texts, of the first in full and of the others what is left of the room."""
    told: list[str] = []
    for text in texts:
        if most > 3 and (said := gist(text, min(most, GIST))) and said not in told:
            told.append(said)
            most -= len(said.split())
    return ", ".join(told)


def tidy(phrase: str) -> str:
    """Drop the marks at both ends, and brackets and quotation marks that have no partner."""
    phrase = phrase.strip(" .,;:?!-–—*#>`")
    if phrase.count("(") != phrase.count(")"):
        phrase = phrase.replace("(", " ").replace(")", " ")
    if phrase.count('"') % 2:
        phrase = phrase.replace('"', " ")
    return " ".join(phrase.split()).strip(" .,;:?!")


def items(text: str) -> list[str]:
    """Give the entries of a list that stands in a text."""
    return [gist(entry, 12) for entry in _ITEM.findall(text)][:20]


def plural(text: str) -> str:
    """Give the last phrase that stands for several."""
    found = [match[1] or match[2] for match in _PLURAL.finditer(text)]
    return found[-1] if found else ""
