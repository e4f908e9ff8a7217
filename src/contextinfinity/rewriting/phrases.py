"""Words taken from what was said: the gist of an answer, a plural, the items of a list.

Nothing is put together anew: each phrase stands in the text as it is given back, without the marks around it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

_ENTRIES = 6
"""Entries of a list that are repeated."""
GIST = 24
"""Words of an answer that are repeated."""

_JOINING = frozenset(("of", "and", "the", "a", "in", "by", "de", "von", "for", "on"))
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z\"“(])|\n")
_ITEM = re.compile(r"^\s{0,8}(?:[-*•]|\d{1,2}[.)])\s+(?:\*\*)?([^\n:*–—]{2,300})", re.M)
_PLURAL = re.compile(
    r"\b(?:[Tt]he|[Ss]ome|[Mm]any|[Ss]everal|[Hh]is|[Hh]er|[Tt]heir|other|\d[\d,]{0,12})\s"
    r"((?:[a-z-]{1,30}\s){0,2}?(?:[a-z-]{3,30}[^su\W]s|people|men|women|children))\b"
    r"|\b([a-z-]{3,30}s and [a-z-]{3,30}s)\b"
)


_ARTICLE = r"([Tt]he|[Aa]n?|[Mm]y|[Oo]ur|[Yy]our|[Tt]his|[Tt]hat)"
_BOTH = re.compile(
    rf"\b{_ARTICLE} ((?:[a-z-]{{2,30}} )?[a-z-]{{3,30}}),? (?:and|or|vs|versus) {_ARTICLE.lower()} "
    r"([a-z-]{3,30}(?: [a-z-]{3,30})?(?=[.,;:?!]|\s*$)|[a-z-]{3,30})"
)
_EITHER = re.compile(r"()\b([a-z-]{3,30}) (?:or|vs|versus) ()([a-z-]{3,30})\b")
"""Two things named by common words, each with its article; without articles only a choice is known for one."""
_LATEST = 2
"""Turns in which the two are looked for."""
_LAST_PLURAL = re.compile(
    r"\b(?:make|made|bake|cook|buy|get|grow|clean|write|wear|eat|sell|find|use|about) ([a-z]{3,30}[^su\W]s)$"
)


def gist(text: str, most: int = GIST) -> str:
    """Give the first sentence, or as much of it as may be repeated."""
    if 1 < len(entries := items(text)) <= _ENTRIES:
        return together(entries)
    sentences = _SENTENCE_END.split(text.strip(), maxsplit=3)
    words = next((part for part in sentences if " " in part.strip()), sentences[0]).split()
    return _cut(words, most)


def _cut(words: list[str], most: int) -> str:
    if len(words) > most:
        ends = [place for place in range(most // 2, most) if words[place].endswith((",", ";", ":"))]
        words = words[: (ends[-1] if ends else most - 1) + 1]
    return tidy(" ".join(words))


def gists(texts: Iterable[str], most: int) -> str:
    """Give the gist of several texts, of the first in full and of the others what is left of the room."""
    told: list[str] = []
    for text in texts:
        for entry in items(text) or [_quoted(gist(text, min(most, GIST)))]:
            if most > 3 and entry and entry not in told:
                told.append(entry)
                most -= len(entry.split())
    return ", ".join(told)


def _quoted(said: str) -> str:
    """Put a sentence in quotation marks; a name needs none."""
    is_name = all(not word[0].islower() or word in _JOINING for word in said.split())
    return said if not said or is_name else f'"{said.replace(chr(34), "")}"'


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
    return [_cut(entry.split(), 12) for entry in _ITEM.findall(text)][:20]


def plural(text: str) -> str:
    """Give the last phrase that stands for several."""
    found = [match[1] or match[2] for match in _PLURAL.finditer(text)]
    return found[-1] if found else ""


def objects(text: str) -> str:
    """Give what a question or an order is about when it is several: "the contract and the slides", "pancakes"."""
    found = [*_BOTH.finditer(text)]
    if found:
        return f"{found[-1][1]} {found[-1][2]} and {found[-1][3]} {found[-1][4]}"
    said = plural(text)
    if said:
        return f"the {said}"
    last = _LAST_PLURAL.search(text.rstrip(" ?.!"))
    return last[1] if last else ""


def pair(texts: Sequence[str]) -> list[str]:
    """Give the two that were named beside each other last by common words: "the train or the bus"."""
    for text in reversed(texts[-_LATEST:]):
        found = [*_BOTH.finditer(text)] or [*_EITHER.finditer(text)]
        if found:
            *_, last = found
            return [f"{last[1] or ''} {last[2]}".lstrip(), f"{last[3] or ''} {last[4]}".lstrip()]
    return []


def together(names: Sequence[str]) -> str:
    """Give names as a row of words."""
    *names, last = names
    return f"{', '.join(names)} and {last}" if names else last
