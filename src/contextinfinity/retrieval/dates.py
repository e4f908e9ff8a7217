"""Find the times that a text mentions, to search for messages from or about them.

    spans_in    in a question: "What did we decide in May?" asked in June 2023 means May 2023
    dates_mentioned  in a message: written on 8 May, "yesterday" is 7 May
    nearness    how well a moment fits a span

Words that only look like a time (a version, a price, "may" as a verb) are ignored. No input raises an error, and of a
very long text only the ends are read.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from math import exp, sqrt

from msgspec import Struct
from msgspec.structs import replace

from contextinfinity.retrieval import time_words as say
from contextinfinity.retrieval.periods import DAY, Period, midnight
from contextinfinity.retrieval.relative_dates import phrase_at, thirds_of_told
from contextinfinity.retrieval.time_words import Words, may_name_a_time

MOST = 64
"""The maximum number of spans of one text; a text with more is a list of dates."""
LONGEST = 20_000
"""The number of characters that are read, half of them from the end."""
_STARTS = (
    say.WAKING | say.LAST | say.THIS | say.NEXT | frozenset(say.THIRDS) | frozenset(say.NUMBERS) | say.VAGUE
    | frozenset(say.ORDINALS) | frozenset(("vor", "hace", "il", "new", "black", "boxing", "independence", "first"))
)  # fmt: skip
_TO = frozenset(("to", "until", "till", "through", "bis", "hasta", "and"))


class TimeSpan(Struct, frozen=True):
    """A mentioned time span: from ``start`` until just before ``end``, and the words that mention it."""

    start: datetime
    end: datetime
    certainty: float
    words: str


class _Found(Struct, frozen=True):
    periods: tuple[Period, ...]
    first: int
    behind: int


def spans_in(text: str, asked_at: datetime) -> tuple[TimeSpan, ...]:
    """Return the times mentioned in a question, in order; of two interpretations the likelier comes first."""
    text = _shortened(text)
    now = asked_at.replace(tzinfo=None, fold=0)
    words = Words(text)
    spans: dict[tuple[datetime, datetime], TimeSpan] = {}
    for found in _merged(words, _phrases(words, now)):
        said = text[words.places[found.first][0] : words.places[found.behind - 1][1]]
        for period in found.periods:
            if period.start < period.end:
                span = _span(period, asked_at, said)
                spans.setdefault((span.start, span.end), span)
    return tuple(spans.values())


def dates_mentioned(text: str, said_at: datetime) -> tuple[TimeSpan, ...]:
    """Return the times mentioned in a message, relative to when it was written."""
    text = _shortened(text)
    return spans_in(text, said_at) if may_name_a_time(text) else ()


def nearness(span: TimeSpan, moment: datetime) -> float:
    """Return how well a moment fits: 1 inside; outside it decays, within days for a day and weeks for a month."""
    away = max(span.start - moment, moment - span.end, timedelta(0)) / DAY
    return exp(-away / sqrt((span.end - span.start) / DAY))


def _shortened(text: str) -> str:
    half = LONGEST // 2
    return text if len(text) <= LONGEST + 2 else f"{text[:half]}\n\n{text[-half:]}"


def _span(period: Period, asked_at: datetime, said: str) -> TimeSpan:
    zone = asked_at.tzinfo
    start, end = period.start.replace(tzinfo=zone), period.end.replace(tzinfo=zone)
    return TimeSpan(start=start, end=end, certainty=round(min(1.0, period.certainty), 3), words=said)


def _phrases(words: Words, now: datetime) -> list[_Found]:
    found: list[_Found] = []
    at = 0
    while at < len(words.low) and len(found) < MOST:
        hit = _phrase(words, at, now)
        if hit is None:
            at += 1
            continue
        found.append(hit)
        at = hit.behind
    return found


def _phrase(words: Words, at: int, now: datetime) -> _Found | None:
    word = words.low[at]
    if not (word in _STARTS or word[0].isdigit()):
        return None
    try:
        hit = phrase_at(words, at, now)
        if hit is None and word in say.THIRDS:
            hit = thirds_of_told(words, at, now)
        if hit is None:
            return None
        periods, first = hit[0], at
        if words.before(at) in say.SINCE:
            periods, first = tuple(_since(period, now) for period in periods), at - 1
    except (ValueError, OverflowError):
        return None
    return _Found(periods, first, hit[1])


def _since(period: Period, now: datetime) -> Period:
    return replace(period, end=max(period.end, midnight(now) + DAY))


def _merged(words: Words, found: list[_Found]) -> list[_Found]:
    """Merge two times that bound a range: from May 3 to May 8, between June and August 2023."""
    merged: list[_Found] = []
    for one in found:
        before = merged[-1] if merged else None
        both = _bounds(words, before, one) if before else None
        if both:
            merged[-1] = both
        else:
            merged.append(one)
    return merged


def _bounds(words: Words, one: _Found, other: _Found) -> _Found | None:
    if other.first != one.behind + 1 or words.at(one.behind) not in _TO or not words.joined(other.first):
        return None
    opened = words.before(one.first)
    if words.at(one.behind) == "and" and opened != "between":
        return None
    start, end = one.periods[0], other.periods[0]
    if start.floating and (not end.floating or start.start >= end.end):
        start = _in_year(start, end)
    if not start.start < end.end:
        return None
    sure = min(start.certainty, end.certainty)
    return _Found((Period(start.start, end.end, sure, end.floating),), one.first, other.behind)


def _in_year(period: Period, other: Period) -> Period:
    """Move a period without a year into the year of the other one, or into the year before if it would be later."""
    try:
        moved = period.start.replace(year=other.start.year)
        return replace(period, start=moved if moved < other.end else moved.replace(year=other.start.year - 1))
    except ValueError:
        return period
