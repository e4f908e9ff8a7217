"""Find the times that a text mentions, to search for messages from or about them.

    spans_in    in a question: "What did we decide in May?" asked in June 2023 means May 2023
    dates_mentioned  in a message: written on 8 May, "yesterday" is 7 May
    nearness    how well a moment fits a span

The patterns of ``times.toml`` find dates and times relative to now; the words before one or between two of them move
or extend it ("the week before", "the end of", "since", "from … to"). Words that only look like a time (a version, a
price, "may" as a verb) are ignored. No input raises an error, and of a very long text only the ends are read.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from itertools import pairwise
from math import exp, sqrt
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from contextinfinity.retrieval.date_patterns import (
    DAYS_OFF,
    HOLIDAYS,
    MONTHS,
    NUMBERS,
    PARTS,
    SEASONS,
    SETS,
    SHORT_WEEKDAYS,
    THIRDS,
    UNITS,
    WEEKDAYS,
    listed,
    matches,
)
from contextinfinity.retrieval.periods import DAY, Period, around, calendar, midnight, stepped, third, weekday

MOST = 64
"""The maximum number of spans of one text; a text with more is a list of dates."""
LONGEST = 20_000
"""The number of characters that are read, half of them from the end."""
_TABLES = (MONTHS, WEEKDAYS, SHORT_WEEKDAYS, UNITS, SEASONS, PARTS, DAYS_OFF, HOLIDAYS)
WAKING: Final = frozenset(word for table in _TABLES for phrase in table for word in phrase.split()).union(
    ("an", "ans", "hier", "q1", "q2", "q3", "q4")
)
"""Every phrase that names a time contains one of these, or a number like a year or a day."""
_TIMELY: Final = re.compile(r"(?<!\d)(?:19|20)\d\d(?!\d)|\d[./-]\d\d(?!\d)|\d(?:st|nd|rd|th|er|º|ª)\b", re.I)
_WORD: Final = re.compile(r"[qQ][1-4]|[^\W\d_]+")
_LEADING = 48
"""The number of characters before a time in which words that move it are searched."""
_DEEPEST = 2
"""The maximum nesting: the week before the day before yesterday."""
_MOVING: Final = re.compile(
    rf"\b(?:(?:(?:(?P<count>\d{{1,3}}|{listed(NUMBERS)})|last|first)\s)?"
    rf"(?:(?P<unit>{listed(UNITS)})|(?P<weekday>{listed(WEEKDAYS)}))\s"
    rf"(?:{listed(SETS['before'])}|(?P<after>{listed(SETS['after'])}))"
    r"|(?P<within>week|weekend)\s(?:of|starting|beginning))\s(?:on\s)?(?:(?:the|my|our)\s)?$",
    re.I,
)
_THIRD: Final = re.compile(
    rf"\b(?:(?P<of>{listed(THIRDS)})(?:\s(?:{listed(SETS['of'])}))+\s|(?P<alone>{listed(SETS['third_alone'])})[\s-])$",
    re.I,
)
_SINCE: Final = re.compile(r"\b(?:since|seit|depuis|desde)\s$", re.I)
_TO: Final = re.compile(r"\s(?:to|until|till|through|bis|hasta)\s", re.I)
_BETWEEN: Final = re.compile(r"\bbetween\s$", re.I)


class TimeSpan(Struct, frozen=True):
    """A mentioned time span: from ``start`` until just before ``end``, and the words that mention it."""

    start: datetime
    end: datetime
    certainty: float
    words: str


class _Found(Struct, frozen=True):
    first: int
    behind: int
    periods: tuple[Period, ...]


def spans_in(text: str, asked_at: datetime) -> tuple[TimeSpan, ...]:
    """Return the times mentioned in a text, in order; of two interpretations the likelier comes first."""
    text = _shortened(text)
    if not may_name_a_time(text):
        return ()
    now = asked_at.replace(tzinfo=None, fold=0)
    spans: dict[tuple[datetime, datetime], TimeSpan] = {}
    for found in _joined(text, [_moved(text, each, now) for each in _chosen(text, now)]):
        for period in found.periods:
            if period.start < period.end:
                span = _span(period, asked_at, text[found.first : found.behind])
                spans.setdefault((span.start, span.end), span)
    return tuple(spans.values())


def dates_mentioned(text: str, said_at: datetime) -> tuple[TimeSpan, ...]:
    """Return the times mentioned in a message, relative to when it was written."""
    return spans_in(text, said_at)


def nearness(span: TimeSpan, moment: datetime) -> float:
    """Return how well a moment fits: 1 inside; outside it decays, within days for a day and weeks for a month."""
    away = max(span.start - moment, moment - span.end, timedelta(0)) / DAY
    return exp(-away / sqrt((span.end - span.start) / DAY))


def may_name_a_time(text: str) -> bool:
    """Return whether a text may name a time: a fast check that excludes most messages."""
    return not WAKING.isdisjoint(_WORD.findall(text.lower())) or _TIMELY.search(text) is not None


def _shortened(text: str) -> str:
    half = LONGEST // 2
    return text if len(text) <= LONGEST + 2 else f"{text[:half]}\n\n{text[-half:]}"


def _span(period: Period, asked_at: datetime, said: str) -> TimeSpan:
    zone = asked_at.tzinfo
    start, end = period.start.replace(tzinfo=zone), period.end.replace(tzinfo=zone)
    return TimeSpan(start=start, end=end, certainty=round(min(1.0, period.certainty), 3), words=said)


def _chosen(text: str, now: datetime) -> list[_Found]:
    """Return the matches in order; of those that overlap the first and longest."""
    chosen: list[_Found] = []
    for found in sorted((_Found(*each) for each in matches(text, now)), key=lambda each: (each.first, -each.behind)):
        if (not chosen or found.first >= chosen[-1].behind) and len(chosen) < MOST:
            chosen.append(found)
    return chosen


def _moved(text: str, found: _Found, now: datetime) -> _Found:
    """Apply the words before a time that move, cut or extend it."""
    for _ in range(_DEEPEST):
        leading = text[max(0, found.first - _LEADING) : found.first]
        try:
            if moving := _MOVING.search(leading):
                periods = tuple(_beside(period, moving) for period in found.periods)
            elif cut := _THIRD.search(leading):
                moving, periods = (
                    cut,
                    tuple(third(period, THIRDS[cut[cut.lastgroup or 0].lower()]) for period in found.periods),
                )
            elif since := _SINCE.search(leading):
                end = midnight(now) + DAY
                moving, periods = since, tuple(replace(each, end=max(each.end, end)) for each in found.periods)
            else:
                break
        except (ValueError, OverflowError):
            break
        found = _Found(found.first - len(leading) + moving.start(), found.behind, periods)
    return found


def _beside(period: Period, said: re.Match[str]) -> Period:
    """Return the week before a time, two days after it, the Friday before it, the week that contains it."""
    unit, direction = UNITS.get((said["unit"] or "").lower(), ""), 1 if said["after"] else -1
    edge = period.start if direction < 0 else period.end - DAY
    if said["weekday"]:
        found = weekday(edge, WEEKDAYS[said["weekday"].lower()], direction)
    elif said["within"]:
        if period.end - period.start > 7 * DAY:
            raise ValueError(period)
        found = calendar(period.start, said["within"].lower(), 0)
    elif said["count"]:
        found = around(edge, direction * float(NUMBERS.get(said["count"].lower(), said["count"])), unit)
    elif unit == "weekend":
        found = calendar(period.start if direction < 0 else period.end, unit, 0)
        if direction < 0 and found.end > period.start:
            found = calendar(period.start, unit, -1)
    elif direction < 0:
        found = Period(stepped(period.start, -1, unit), period.start)
    else:
        found = Period(period.end, stepped(period.end, 1, unit))
    return replace(found, certainty=0.95 * period.certainty, floating=period.floating)


def _joined(text: str, found: list[_Found]) -> list[_Found]:
    """Drop what a moved time overlaps, and join two times that bound a range: from May 3 to May 8."""
    left: list[_Found] = []
    for one in found:
        while left and left[-1].behind > one.first:
            left.pop()
        left.append(one)
    joined = left[:1]
    for one, other in pairwise(left):
        between = text[one.behind : other.first]
        is_range = _TO.fullmatch(between) or (
            between.strip().lower() == "and" and _BETWEEN.search(text[max(0, one.first - _LEADING) : one.first])
        )
        both = _range(joined[-1], other) if is_range else None
        joined[-1:] = [both] if both else [joined[-1], other]
    return joined


def _range(one: _Found, other: _Found) -> _Found | None:
    start, end = one.periods[0], other.periods[0]
    if start.floating and (not end.floating or start.start >= end.end):
        try:
            moved = start.start.replace(year=end.start.year)
            start = replace(start, start=moved if moved < end.end else moved.replace(year=end.start.year - 1))
        except ValueError:
            return None
    if not start.start < end.end:
        return None
    sure = min(start.certainty, end.certainty)
    return _Found(one.first, other.behind, (Period(start.start, end.end, sure, end.floating),))
