"""Identify speakers: by a stored name, by a name at the start of the text, or by how the other side addresses them.

Only the first is certain. A prefix is a name if several texts begin with it. A name in the question that one side uses
as an address ("Thanks, Ann!") is that of the other side.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache

from msgspec.structs import replace

from contextinfinity.domain.search import ChunkSide, IndexedMessage
from contextinfinity.retrieval.vocabulary import pattern

OFTEN = 3
"""How often a prefix or an address must occur to be accepted as a name."""
_MOSTLY = 0.8
"""The minimum share of the addresses that must come from one side."""
_OTHER: dict[ChunkSide, ChunkSide] = {"user": "assistant", "assistant": "user"}
_LOOKED_AT = 400
"""The number of characters of a text in which an address is searched."""

_FRONT = re.compile(r"\s{0,9}([^\W\d_][\w.'’ -]{0,39}?)\s?")
"""A name, if it is all that precedes the first colon of a text."""
_FRONT_WITHIN = 60
"""The number of characters of a text in which that colon is searched."""
_CAPITAL = re.compile(r"\b[^\W\d_]{3,40}\b")
_CALLED = re.compile(
    r"(?:^|[,!.?…]\s|\b(?:hey|hi|hello|dear|thanks|wow|yeah|yep|sure|hallo|danke|merci|salut|hola|gracias)\s)"
    r"([^\W\d_]{3,40})(?=\s?[,!.?…])",
    re.I,
)


def with_speakers(entries: Iterable[IndexedMessage], question: str) -> tuple[IndexedMessage, ...]:
    """Return the entries with the names of their speakers, as far as they can be identified."""
    entries = tuple(entries)
    if all(entry.speaker for entry in entries):
        return entries
    fronts = {entry.place: name for entry in entries if (name := _front(entry.text))}
    often = {name for name, times in Counter(fronts.values()).items() if times >= OFTEN}
    called = {} if often else _called([entry for entry in entries if not entry.speaker], question)
    if not often and not called:
        return entries
    return tuple(
        entry if entry.speaker else replace(entry, speaker=name)
        for entry in entries
        for front in (fronts.get(entry.place, ""),)
        for name in (front if front in often else called.get(entry.place.side, ""),)
    )


def possible_names(question: str) -> list[str]:
    """Return the capitalised words of a question after its opening ("What did")."""
    opening = pattern("asks").match(question)
    return [word for word in _CAPITAL.findall(question, opening.end() if opening else 0) if word[0].isupper()]


@lru_cache(maxsize=1 << 13)
def _front(text: str) -> str:
    colon = text.find(":", 0, _FRONT_WITHIN)
    found = _FRONT.fullmatch(text, 0, colon) if colon > 0 and text[colon + 1 : colon + 2].isspace() else None
    return found[1] if found else ""


def speakers_of(entries: Iterable[IndexedMessage]) -> frozenset[str]:
    """Return the known names of the speakers."""
    return frozenset(entry.speaker for entry in entries if entry.speaker)


@lru_cache(maxsize=1 << 12)
def _calls(text: str) -> frozenset[str]:
    return frozenset(found.lower() for found in _CALLED.findall(text))


def _holds_any(text: str, names: Iterable[str]) -> bool:
    """Return whether a text contains one of the names: a fast check before parsing."""
    return any(name in text for name in names)


def _called(entries: Sequence[IndexedMessage], question: str) -> dict[ChunkSide, str]:
    """Return for each side the name from the question by which the other side addresses it."""
    names = {word.lower(): word for word in possible_names(question)}
    if not names:
        return {}
    heard = Counter(
        (name, entry.place.side)
        for entry in entries
        if entry.place.side in _OTHER and _holds_any(entry.text[:_LOOKED_AT].lower(), names)
        for name in _calls(entry.text[:_LOOKED_AT]) & names.keys()
    )
    called: dict[ChunkSide, str] = {}
    for (name, side), times in heard.items():
        if times >= OFTEN and times >= _MOSTLY * (times + heard[name, _OTHER[side]]):
            called.setdefault(_OTHER[side], names[name])
    return called
