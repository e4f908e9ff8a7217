"""Shorten sentences: drop openers, fillers and closing requests; replace relative days by dates."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

from contextinfinity.librarian.summary_vocabulary import PHRASES

LONGEST = 200
"""The maximum number of characters of a sentence; a longer one loses clauses without numbers, the last first."""
_CLAUSE = re.compile(
    r"(?<=[,;:，；、])(?=\s|[^\x00-\x7f])(?<!\d,)|(?=\s[–—-]\s)"
    r"|(?=\s(?:because|which|so that|while|weil|damit|parce que|porque)\b)"
)
_SPECIFIC = re.compile(r"\d")
_LEAST = 15
_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_NUMBERS = {"a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "couple of": 2}
_DAYS = {
    "yesterday": -1, "last night": -1, "tomorrow": 1, "the day before yesterday": -2, "gestern": -1, "morgen früh": 1,
    "hier soir": -1, "ayer": -1, "昨天": -1, "明天": 1,
}  # fmt: skip
_WHEN = re.compile(
    rf"\b(?P<day>{'|'.join(sorted(_DAYS, key=len, reverse=True))})\b"
    rf"|\b(?P<side>last|next|this past) (?P<unit>week(?:end)?|month|year|{'|'.join(_WEEKDAYS)})\b"
    rf"|\b(?P<many>\d{{1,2}}|{'|'.join(_NUMBERS)}) (?P<units>day|week|month|year)s? ago\b",
    re.IGNORECASE,
)
_WHEN_WORDS = ("last ", "next ", " ago", "this past", *_DAYS)


def shortened(sentence: str, at: datetime | None = None) -> str:
    """Return the sentence without openers and without clauses that only ask for help; empty if nothing is left."""
    text = sentence.strip(" *_#>")
    filler = PHRASES["fillers"].match(text)
    if filler and len(text) - filler.end() >= _LEAST:
        text = text[filler.end() :]
    clauses = _without_requests([each for each in _CLAUSE.split(text) if each])
    while len(clauses) > 1 and sum(map(len, clauses)) > LONGEST:
        del clauses[max(range(len(clauses)), key=lambda place: (_SPECIFIC.search(clauses[place]) is None, place))]
    text = "".join(clauses).strip(" ,;–-").replace("**", "")
    if len(text) > LONGEST:
        return ""
    text = text[:1].upper() + text[1:]
    return text if at is None else dated(text, at)


def _without_requests(clauses: list[str]) -> list[str]:
    """Drop clauses after the first that only ask for help; one with a number says something."""
    return clauses[:1] + [each for each in clauses[1:] if _SPECIFIC.search(each) or not PHRASES["request"].match(each)]


def dated(text: str, at: datetime) -> str:
    """Add the date after the first relative day, week, month or year."""
    low = text.lower()
    found = _WHEN.search(text) if any(word in low for word in _WHEN_WORDS) else None
    if found is None or text[found.end() : found.end() + 2] == " (":
        return text
    return f"{text[: found.end()]} ({_date(found, at)}){text[found.end() :]}"


def _date(found: re.Match[str], at: datetime) -> str:
    if found["day"]:
        return _near(at + timedelta(days=_DAYS[found["day"].lower()]), at)
    unit = (found["unit"] or found["units"]).lower()
    if found["many"]:
        many = -int(_NUMBERS.get(found["many"].lower(), 0) or found["many"])
    else:
        many = 1 if found["side"].lower() == "next" else -1
    if unit in _WEEKDAYS:
        days = (_WEEKDAYS.index(unit) - at.weekday()) % 7 or 7
        return _near(at + timedelta(days=days if many > 0 else days - 7 if days < 7 else -7), at)
    if unit == "year":
        return str(at.year + many)
    if unit == "month":
        month = at.year * 12 + at.month - 1 + many
        return datetime(month // 12, month % 12 + 1, 1).strftime("%B %Y")
    then = at + timedelta(days=many * (1 if unit == "day" else 7))
    return _near(then, at) if unit == "day" else f"~{_near(then, at)}"


def _near(then: datetime, at: datetime) -> str:
    """Format a date; the topic line has the year in which something was said."""
    return f"{then.day} {then:%B}" if then.year == at.year else day(then)


def day(at: datetime) -> str:
    """Format a date for people."""
    return f"{at.day} {at:%B %Y}"
