"""The time words of ``times.toml``, and the tokenisation of a text into words."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from importlib.resources import files

_TOKEN = re.compile(r"[qQ][1-4](?![\w])|[^\W\d_]+|\d\w*(?:[.,:/–-]\d\w*)*+")
_SOFT = frozenset(("", ",", "-", "–", "'", "’", "/"))
_BEFORE = frozenset("$€£¥#@=_/\\.:&?+~*^<>")
_BEHIND = frozenset("%€$£¥_°\\=")


def listed(words: str) -> frozenset[str]:
    """Return the words of a list as a set."""
    return frozenset(words.split())


_SAID = tomllib.loads((files(__package__) / "times.toml").read_text(encoding="utf-8"))


def _numbered(name: str) -> dict[str, int]:
    return {word: place for place, row in enumerate(_SAID["numbered"][name], 1) for word in row.split()}


def _named(name: str) -> dict[str, str]:
    return {word: meant for meant, row in _SAID["named"][name].items() for word in row.split()}


def _amounts(name: str) -> dict[str, float]:
    return {word: float(amount) for amount, row in _SAID["amounts"][name].items() for word in row.split()}


def _whole(name: str) -> dict[str, int]:
    return {word: int(amount) for word, amount in _amounts(name).items()}


def _set(name: str) -> frozenset[str]:
    return listed(_SAID["sets"][name])


MONTHS, SHORT_MONTHS = _numbered("months"), _numbered("short_months")
"""A short name means a month only next to a day or a year."""
WEEKDAYS, SHORT_WEEKDAYS = _numbered("weekdays"), _numbered("short_weekdays")
UNITS, SEASONS, PARTS = _named("units"), _named("seasons"), _named("parts")
THIRDS, HOLIDAYS = _named("thirds"), _named("holidays")
ONLY_AFTER_AGO = {"an": "year", "ans": "year"}
"""French words for years; elsewhere they are other words."""
DAYS_OFF, ORDINALS, NUMBERS = _whole("days_off"), _whole("ordinals"), _amounts("numbers")
NAMES_TOO, VAGUE, IN, SINCE = _set("names_too"), _set("vague"), _set("in"), _set("since")
LAST, LAST_BEHIND, THIS = _set("last"), _set("last_behind"), _set("this")
NEXT, NEXT_BEHIND = _set("next"), _set("next_behind")
COUNTED, NUMBERED = _set("counted"), _set("numbered")


class Words:
    """A text as lower-case words; the characters between two words decide whether they belong together."""

    __slots__ = ("low", "places", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self.places = [found.span() for found in _TOKEN.finditer(text)]
        self.low = [text[start:end].lower() for start, end in self.places]

    def at(self, index: int) -> str:
        """Return the word at an index, or an empty string."""
        return self.low[index] if 0 <= index < len(self.low) else ""

    def joined(self, index: int) -> bool:
        """Return whether the word belongs to the previous one."""
        if not 0 < index < len(self.low):
            return False
        between = self.text[self.places[index - 1][1] : self.places[index][0]]
        if between == " ":
            return True
        if len(between) > 4 or "\n\n" in between:
            return False
        mark = between.strip()
        return mark in _SOFT or (mark == "." and self._shortened(index - 1))

    def _shortened(self, index: int) -> bool:
        word = self.low[index]
        return word in SHORT_MONTHS or word in SHORT_WEEKDAYS or (word.isdigit() and len(word) <= 2)

    def after(self, index: int) -> str:
        """Return the next word if it belongs to this one."""
        return self.low[index + 1] if self.joined(index + 1) else ""

    def before(self, index: int) -> str:
        """Return the previous word if this one belongs to it."""
        return self.low[index - 1] if self.joined(index) else ""

    def capital(self, index: int) -> bool:
        """Return whether the word is capitalised."""
        return self.text[self.places[index][0]].isupper()

    def comma(self, index: int) -> bool:
        """Return whether a comma precedes the word."""
        return "," in self.text[self.places[index - 1][1] : self.places[index][0]]

    def bare(self, index: int) -> bool:
        """Return whether a number is separate: not part of a price, a version or a path."""
        start, end = self.places[index]
        if start and (self.text[start - 1] in _BEFORE or self.text[start - 1].isalnum()):
            return False
        if start > 1 and self.text[start - 1] == "-" and self.text[start - 2].isdigit():
            return False
        return not (end < len(self.text) and self.text[end] in _BEHIND)

    def skip(self, index: int, words: Iterable[str]) -> int:
        """Skip one word if it is in ``words`` and the next one belongs to it."""
        return index + 1 if self.at(index) in words and self.joined(index + 1) else index


WAKING = frozenset(("ans", "an", "q1", "q2", "q3", "q4")).union(
    MONTHS, SHORT_MONTHS, WEEKDAYS, SHORT_WEEKDAYS, UNITS, SEASONS, DAYS_OFF, PARTS, HOLIDAYS
)
"""Every phrase that names a time contains one of these, or a number like a year or a day."""
_TIMELY = re.compile(r"(?<!\d)(?:19|20)\d\d(?!\d)|\d[./-]\d\d(?!\d)|\d(?:st|nd|rd|th|er|º|ª)\b", re.I)


def may_name_a_time(text: str) -> bool:
    """Return whether a text may name a time: a fast check that excludes most messages."""
    return not WAKING.isdisjoint(_TOKEN.findall(text.lower())) or _TIMELY.search(text) is not None
