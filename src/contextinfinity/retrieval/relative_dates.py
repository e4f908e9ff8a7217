"""Parse relative dates: yesterday, last Tuesday, two weeks ago, the week before 9 June 2023.

As in ``absolute_dates``, each function reads a few words from one index on and returns periods and the index after
them.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from msgspec.structs import replace

from contextinfinity.retrieval import time_words as say
from contextinfinity.retrieval.absolute_dates import Hit, date_at, day_number, holiday_named, lone_day, week_at
from contextinfinity.retrieval.periods import (
    DAY,
    Period,
    around,
    by_year,
    calendar,
    date_of,
    day,
    midnight,
    month,
    part_of_day,
    season,
    stepped,
    third,
    weekday,
)
from contextinfinity.retrieval.time_words import Words

_MOST = 400
"""Larger counts of a unit are not read as times."""
_DEEPEST = 2
"""The maximum nesting: the week before the day before yesterday."""
_BEFORE, _AFTER = frozenset(("before", "preceding")), frozenset(("after", "following"))
_ARTICLES = frozenset(("the", "a", "on", "my", "our", "le", "la", "el", "den", "dem", "der"))
_FRENCH = say.listed("le la les de des je j tu il elle nous vous est et que qu ai avons soir matin ce c a on était")
_GERMAN = say.listed("der die das den dem ist ich und wir nicht ein eine im zu mit bin sind war wie was es")
_PLURAL = say.listed(
    "days weeks months years tage tagen wochen monate monaten jahre jahren jours semaines días semanas meses"
)
_GREETED = say.listed("guten jeden am good every each")


def phrase_at(words: Words, at: int, now: datetime, depth: int = 0) -> Hit | None:
    """Parse an absolute or relative time that begins at ``at``; relative times may be nested."""
    moved = moved_at(words, at, now, depth) if depth < _DEEPEST else None
    return moved or week_at(words, at, now) or told_at(words, at, now) or date_at(words, at, now)


def told_at(words: Words, at: int, now: datetime) -> Hit | None:
    """Parse a time relative to now."""
    word = words.low[at]
    if word in say.DAYS_OFF:
        hit = _near_day(words, at, now)
    elif word in say.LAST or word in say.THIS or word in say.NEXT:
        hit = _next_to_now(words, at, now)
    elif word in say.WEEKDAYS or word in say.SHORT_WEEKDAYS:
        hit = _weekday(words, at, now)
    elif word in say.UNITS or word in say.SEASONS:
        hit = _unit(words, at, now)
    elif day_number(word) and lone_day(words, at):
        hit = _day_of_month(words, at, now)
    else:
        hit = _ago(words, at, now)
    return _narrowed(words, hit) if hit else None


def _narrowed(words: Words, hit: Hit) -> Hit:
    """Narrow a day to the part of the day that follows."""
    periods, behind = hit
    part = say.PARTS.get(words.at(behind)) if words.joined(behind) and not words.comma(behind) else None
    if part is None:
        return hit
    return tuple(part_of_day(period, part) for period in periods), behind + 1


def _near_day(words: Words, at: int, now: datetime) -> Hit | None:
    word, off = words.low[at], say.DAYS_OFF[words.low[at]]
    sure = 1.0
    if word == "hier":
        if words.before(at) == "avant":
            off = -2
        elif not _is_french(words, at):
            return None
    if word in ("morgen", "mañana"):
        if words.before(at) in _GREETED or words.before(at) in ("la", "buena"):
            return None
        sure = 0.7
    found = day(now + off * DAY)
    if word in ("tonight", "anoche"):
        found = part_of_day(found, "evening")
    return (found.doubted(sure),), at + 1 + (words.after(at) == "hui")


def _is_french(words: Words, at: int) -> bool:
    """Return whether "hier" is French (yesterday) and not German (here)."""
    beside = words.low[max(0, at - 6) : at + 7]
    return not _FRENCH.isdisjoint(beside) and _GERMAN.isdisjoint(beside)


def _next_to_now(words: Words, at: int, now: datetime) -> Hit | None:
    """Parse last week, this morning, next Friday, the past few days, last May, last summer."""
    word, next_ = words.low[at], at + 1
    if not words.joined(next_):
        return None
    direction = -1 if word in say.LAST else 1 if word in say.NEXT else 0
    name = words.at(next_)
    if word in ("this", "current") and name in say.LAST | say.NEXT and words.joined(next_ + 1):
        return _next_to_now(words, next_, now)
    if direction < 0 and (stretch := _stretch(words, next_, now)):
        return stretch
    if name in ("night", "nacht", "noche") and direction <= 0:
        return _night(now, direction), next_ + 1
    if word in say.THIS and name in say.PARTS and name not in ("night", "morgen", "early"):
        return (part_of_day(day(now), say.PARTS[name]),), next_ + 1
    if (word == "past" and name not in say.UNITS) or (name == "day" and word != "last"):
        return None
    return _one_of(words, next_, now, direction)


def _night(now: datetime, direction: int) -> tuple[Period, ...]:
    evening = midnight(now) + direction * DAY + timedelta(hours=18)
    return (Period(evening, evening + timedelta(hours=12)),)


def _one_of(words: Words, at: int, now: datetime, direction: int) -> Hit | None:
    """Parse what follows last, this or next: a calendar unit, a weekday, a month, a season, a holiday."""
    name = words.at(at)
    if unit := say.UNITS.get(name):
        if unit == "minute" or (direction >= 0 and name in _PLURAL):
            return None
        return (calendar(now, unit, direction).doubted(0.95),), at + 1
    if number := say.WEEKDAYS.get(name) or (say.SHORT_WEEKDAYS.get(name) if words.capital(at) else None):
        return (weekday(now, number, direction).doubted(0.9),), at + 1
    if (number := say.MONTHS.get(name)) and _is_month(words, at, direction):
        if not words.after(at)[:1].isdigit():
            return (by_year(lambda year_: month(year_, number), now, direction),), at + 1
        return date_at(words, at, now)
    if name in say.SEASONS and not (words.after(at)[:1].isdigit()):
        return (by_year(lambda year_: season(year_, say.SEASONS[name]), now, direction),), at + 1
    make, behind = holiday_named(words, at)
    return ((by_year(make, now, direction),), behind) if make else None


def _is_month(words: Words, at: int, direction: int) -> bool:
    return (
        words.capital(at)
        or words.low[at] not in ("may", "march", "august")
        or (direction != 0 and words.low[at] == "may" and words.before(at - 1) != "the")
    )


def _stretch(words: Words, at: int, now: datetime) -> Hit | None:
    """Parse a period until now: the past few days, the last 3 weeks."""
    amount = _amount(words, at)
    if amount is None:
        name = words.at(at)
        if words.before(at) == "past" and name in say.UNITS and name != "weekend":
            return _until_now(now, 1, say.UNITS[name], 0.9), at + 1
        if name in _PLURAL:
            return _until_now(now, 4, say.UNITS[name], 0.6), at + 1
        return None
    count, behind, sure = amount
    unit = say.UNITS.get(words.at(behind))
    if unit is None or count > _MOST:
        return None
    return _until_now(now, count, unit, sure), behind + 1


def _until_now(now: datetime, count: float, unit: str, sure: float) -> tuple[Period, ...]:
    start = stepped(now, -count, unit)
    if unit in ("minute", "hour"):
        return (Period(start, now + timedelta(minutes=1), sure),)
    return (Period(midnight(start), midnight(now) + DAY, sure),)


def _amount(words: Words, at: int) -> tuple[float, int, float] | None:
    """Parse a count; return it, the index of the counted word, and its certainty."""
    word = words.at(at)
    if word.isascii() and word.isdigit() and len(word) <= 3 and words.bare(at):
        count = float(word)
    elif word in say.NUMBERS:
        count = say.NUMBERS[word]
    elif word in say.VAGUE:
        count = 4
    else:
        return None
    sure, next_ = (0.6 if word in say.VAGUE else 0.9), at + 1
    if word in ("a", "ein", "einem", "einer", "un") and words.after(at) in say.VAGUE:
        return _amount(words, next_)
    if word in ("half", "couple", "pair"):
        next_ = words.skip(next_, ("of", "a", "an"))
    return (count, next_, sure) if words.joined(next_) and count > 0 else None


def _ago(words: Words, at: int, now: datetime) -> Hit | None:
    """Parse two weeks ago, vor zwei Wochen, il y a deux semaines, hace dos semanas."""
    word, start = words.low[at], at
    leads = 1 if word in ("vor", "hace") else 3 if word == "il" and words.low[at + 1 : at + 3] == ["y", "a"] else 0
    start += leads
    if leads and not words.joined(start):
        return None
    if word in ("a", "an") and words.before(at) == "half":
        return None
    amount = _amount(words, start)
    if amount is None or amount[0] > _MOST:
        return None
    count, behind, sure = amount
    name = words.at(behind)
    unit = say.UNITS.get(name) or (say.ONLY_AFTER_AGO.get(name) if leads == 3 else None)
    if unit is None:
        return None
    if leads == 0:
        behind += 1
        if words.at(behind) not in ("ago", "back") or not words.joined(behind):
            return None
    return (_some_ago(now, count, unit, sure),), behind + 1


def _some_ago(now: datetime, count: float, unit: str, sure: float) -> Period:
    """Return the time ``count`` units ago; vague counts such as "a few" get a wider period."""
    near, far = (count - 1, count + 1) if sure < 0.9 and count > 2 else (count, count)
    return Period(around(now, -far, unit).start, around(now, -near, unit).end, sure)


def _weekday(words: Words, at: int, now: datetime) -> Hit | None:
    """Parse on Friday, mardi dernier, Friday 12 May."""
    word, before, after = words.low[at], words.before(at), words.after(at)
    next_ = words.skip(at + 1, ("the", "den", "dem")) if after else at + 1
    if (
        after
        and (words.at(next_)[0].isdigit() or words.at(next_) in say.MONTHS)
        and (dated := date_at(words, next_, now))
    ):
        return dated
    if day_number(words.at(next_)) and words.at(next_)[-1] in "hdt" and words.joined(next_):
        return _day_of_month(words, next_, now)
    if word in say.WEEKDAYS and (after in say.LAST_BEHIND or after in say.NEXT_BEHIND):
        direction = 1 if after in say.NEXT_BEHIND else -1
        return (weekday(now, say.WEEKDAYS[word], direction).doubted(0.9),), at + 2
    if word in say.SHORT_WEEKDAYS:
        if before != "on" or not words.capital(at):
            return None
        return (weekday(now, say.SHORT_WEEKDAYS[word], -1).doubted(0.6),), at + 1
    if before in ("every", "each", "jeden", "chaque", "cada", "black", "good", "casual"):
        return None
    sure = 0.85 if before in ("on", "am", "le", "el", "since", "seit", "until") else 0.6
    return (weekday(now, say.WEEKDAYS[word], -1).doubted(sure),), at + 1


def _day_of_month(words: Words, at: int, now: datetime) -> Hit | None:
    """Parse the 12th: of this month, or of the last month that has such a day by now."""
    number = day_number(words.at(at))
    for back in range(3):
        start = calendar(now, "month", -back).start
        try:
            found = date_of(start.year, start.month, number)
        except ValueError:
            continue
        if found.start <= now:
            return (found.doubted(0.6),), at + 1
    return None


def _unit(words: Words, at: int, now: datetime) -> Hit | None:
    """Parse la semaine dernière, el mes pasado, the week of May 8, over the weekend."""
    word, after, unit = words.low[at], words.after(at), say.UNITS.get(words.low[at])
    if after in say.LAST_BEHIND or after in say.NEXT_BEHIND:
        hit = _one_of(words, at, now, -1 if after in say.LAST_BEHIND else 1)
        return (hit[0], at + 2) if hit else None
    if unit in ("week", "weekend") and after in ("of", "starting", "beginning"):
        return _week_of(words, at, now, unit)
    if word == "day" and words.before(at) == "other" and words.before(at - 1) == "the":
        return _until_now(now, 7, "day", 0.4), at + 1
    if unit == "weekend" and words.before(at) in ("the", "am") and _over(words, at):
        return (calendar(now, unit, 0 if now.weekday() >= 5 else -1).doubted(0.6),), at + 1
    return None


def _over(words: Words, at: int) -> bool:
    return words.low[at - 1] == "am" or words.before(at - 1) in ("over", "on", "at", "during")


def _week_of(words: Words, at: int, now: datetime, unit: str) -> Hit | None:
    anchor = _anchor(words, at + 2, now)
    if anchor is None or anchor[0][0].end - anchor[0][0].start > 7 * DAY:
        return None
    return tuple(_like(calendar(period.start, unit, 0), period) for period in anchor[0]), anchor[1]


def _like(period: Period, other: Period, factor: float = 1.0) -> Period:
    return replace(period, certainty=other.certainty * factor, floating=other.floating)


def _anchor(words: Words, at: int, now: datetime, depth: int = 1) -> Hit | None:
    """Parse the time that another one is relative to."""
    at = words.skip(words.skip(at, ("to", "the", "on")), _ARTICLES)
    if not words.joined(at):
        return None
    return phrase_at(words, at, now, depth)


# Relative to another time ---------------------------------------------------------------------------------------------


def moved_at(words: Words, at: int, now: datetime, depth: int = 0) -> Hit | None:
    """Parse the week before 9 June 2023, two days after May 8, the Friday before last, last weekend before 10 April."""
    amount = _amount(words, at)
    place = amount[1] if amount else words.skip(at, ("last", "first"))
    name = words.at(place)
    unit, number = say.UNITS.get(name), say.WEEKDAYS.get(name)
    if (unit is None and number is None) or not words.joined(place + 1):
        return None
    side = words.at(place + 1)
    if side not in _BEFORE and side not in _AFTER and side != "prior":
        return None
    direction = 1 if side in _AFTER else -1
    if unit and words.at(place + 2) == "last" and words.at(place + 3) not in say.UNITS and direction < 0:
        return (calendar(now, unit, -2).doubted(0.9),), place + 3
    anchor = _anchor(words, place + 2, now, depth + 1)
    if anchor is None:
        return None
    counted = amount[0] if amount else None
    moved = tuple(_moved(period, unit, number, counted, direction) for period in anchor[0])
    return moved, anchor[1]


def _moved(period: Period, unit: str | None, number: int | None, count: float | None, direction: int) -> Period:
    edge = period.start if direction < 0 else period.end - DAY
    if unit is None:
        return _like(weekday(edge, number or 1, direction), period, 0.95)
    if count is not None:
        return _like(around(edge, direction * count, unit), period, 0.9)
    if unit == "weekend":
        found = calendar(period.start if direction < 0 else period.end, unit, 0)
        while direction < 0 and found.end > period.start:
            found = Period(found.start - 7 * DAY, found.end - 7 * DAY)
        return _like(found, period, 0.95)
    if direction < 0:
        return _like(Period(stepped(period.start, -1, unit), period.start), period, 0.95)
    return _like(Period(period.end, stepped(period.end, 1, unit)), period, 0.95)


def thirds_of_told(words: Words, at: int, now: datetime) -> Hit | None:
    """Parse the end of last month, early this year."""
    next_ = at + 1
    for _ in range(2):
        next_ = words.skip(next_, ("of", "the"))
    if not words.joined(next_) or words.at(next_) not in say.LAST | say.THIS | say.NEXT:
        return None
    hit = told_at(words, next_, now)
    return (tuple(third(period, say.THIRDS[words.low[at]]) for period in hit[0]), hit[1]) if hit else None
