"""The telling part of a sentence: short, with its numbers, names and paths as they were.

First the words go that say nothing beside a heading ("we decided to", "ok, so"), then clauses without anything telling;
only at last are words left out, those first that stand far from anything named.
"""

from __future__ import annotations

import re

from contextinfinity.librarian.words import named
from contextinfinity.text.entities import HARD
from contextinfinity.text.orders import neutral

TELLING = 120
"""Characters of an entry; letters that stand for a word count twice."""
_READ = 1000
"""Characters of a sentence that are looked at; a longer one is no sentence."""

_FILLERS = re.compile(
    r"(?:(?:ok(?:ay)?|so|well|right|yes|yeah|yep|great|thanks|thank you|alright|hmm+|oh|also|and|but|by the way|btw"
    r"|noted|understood|got it|fyi|sure|perfect|good|fine|cool|hi|hello|hey|then|now|anyway|gut|ja|und|alors"
    r"|bon|oui|et|bueno|vale|sí|y)"
    r"\s?[,:!.–-]+\s+|(?:please note(?: that)?|note(?: that)?|remember(?: that)?|keep in mind(?: that)?"
    r"|for the record"
    r"|just so you know|as (?:i|we) said|and|but|so|also)\b[,:]?\s+)",
    re.IGNORECASE,
)
_LEAD_INS = re.compile(
    r"(?:(?:we|i|the team|they|you and i)(?:['’]ve| have)? (?:now |finally |just |all )?"
    r"(?:decided|agreed|settled|chosen|concluded|opted)(?: to| that| on| for)?\s+"
    r"|let['’]?s (?=\w+ \w)|we(?:['’]ll| will| are going to|['’]re going to) (?=\w+ \w)"
    r"|(?:i|we)(?:['’]d)? (?:really |generally |much |usually |always )?prefer (?:to |that )?|please (?=\w+ \w)"
    r"|(?:the |our |my )?(?:final )?decision(?: is|:)(?: to| that)?\s+"
    r"|wir haben (?:uns )?(?:entschieden|beschlossen|vereinbart|geeinigt)[,:]?\s+(?:dass\s+)?|ich bevorzuge "
    r"|nous avons (?:décidé|convenu) (?:de |d['’]|que )?|je préfère |hemos (?:decidido|acordado) (?:que )?|prefiero "
    r"|我们决定|我更?喜欢)",
    re.IGNORECASE,
)
_ARTICLE = re.compile(r"(?:the|our|a|an|that|der|die|das|le|la|el) (?=\w+ \w)", re.IGNORECASE)
_ARTICLES = re.compile(r"(?<![\w'’-])the (?=[a-z0-9])")
_CLAUSE = re.compile(
    r"(?<=[,;])\s+|\s+[–—-]\s+|\s+(?=\()|(?<=\))\s+|(?<=[，；])|"
    r"\s+(?=(?:because|since|so that|which|while|although|though|weil|damit|obwohl|parce que|afin|porque|aunque)\b)",
    re.IGNORECASE,
)


def bare(sentence: str) -> str:
    """Take away what says nothing beside a heading; a sentence that is nothing else stays as it is."""
    text = neutral(sentence).strip(" *_")
    for _ in range(3):
        rest = _FILLERS.sub("", text, count=1) if _FILLERS.match(text) else text
        if rest == text or len(rest) < 4:
            break
        text = rest
    for opening in (_LEAD_INS, _ARTICLE):
        found = opening.match(text)
        if found and len(text) - found.end() >= 4:
            text = text[found.end() :]
    return text.rstrip(" .。;；,")


def shortened(sentence: str, most: int = TELLING, *, terse: bool = False) -> str:
    """Say it in few characters; ``terse`` also leaves out articles, as notes do."""
    text = bare(sentence[:_READ])
    if terse:
        text = _ARTICLES.sub("", text)
    if width(text) <= most:
        return text
    clauses = [clause for clause in _CLAUSE.split(text) if clause]
    kept = _chosen(clauses, most)
    if kept and all(place in kept for place, clause in enumerate(clauses) if _names(clause)):
        return _put_together(clauses, kept)
    return cut(text, most)


def cut(text: str, most: int) -> str:
    """Cut a text down to the words it begins with and those around what it names."""
    if width(text) <= most:
        return text
    words = text[:_READ].split()
    if len(words) < 4:
        return text[: _place(text, most)] + "…"
    kept: set[int] = set()
    room = most
    for place in _by_weight(words):
        if place not in kept and width(words[place]) + 1 <= room:
            kept.add(place)
            room -= width(words[place]) + 1
    return _put_together(words, kept) + ("" if len(words) - 1 in kept else "…")


def width(text: str) -> int:
    """Tell how much room a text takes: a character that stands for a word counts twice."""
    return len(text) if text.isascii() else len(text) + sum(char >= "\u2e80" for char in text)


def _place(text: str, room: int) -> int:
    """Find how many characters fit a width."""
    place = min(len(text), room)
    while place > 1 and width(text[:place]) > room:
        place -= max(1, (width(text[:place]) - room) // 2)
    return place


def _names(text: str) -> bool:
    return any(found.kind in HARD for found in named(text))


def _chosen(clauses: list[str], most: int) -> set[int]:
    """Choose the clauses that fit: the first, then those that name something, then from the front."""
    kept: set[int] = set()
    room = most
    order = sorted(range(len(clauses)), key=lambda place: (place > 0 and not _names(clauses[place]), place))
    for place in order:
        if width(clauses[place]) + 2 <= room:
            kept.add(place)
            room -= width(clauses[place]) + 2
        elif place == 0:
            return set()
    return kept


def _by_weight(words: list[str]) -> list[int]:
    """Order words by what they tell: what is named, the first ones, what stands beside the named, then the rest."""
    text = " ".join(words)
    starts: dict[int, int] = {}
    place = 0
    for number, word in enumerate(words):
        starts.update(dict.fromkeys(range(place, place + len(word) + 1), number))
        place += len(word) + 1
    found = [(starts[e.start], starts[e.end - 1]) for e in named(text) if e.kind in HARD]
    inside = [number for first, last in found for number in range(first, last + 1)]
    beside = [near for reach in (1, 2, 3, 4) for first, _ in found if (near := first - reach) >= 0]
    return [*inside, *range(min(6, len(words))), *beside, *range(len(words))]


def _put_together(parts: list[str], kept: set[int]) -> str:
    made: list[str] = []
    for place in sorted(kept):
        if made:
            made.append(" " if place - 1 in kept else " … ")
        made.append(parts[place])
    return "".join(made).rstrip(" ,;")
