"""Parse absolute dates: 7 May 2023, 2023-05-07, in May, early June, the summer of 2022, Q3 2024, Christmas.

Each function reads words from one index on and returns the periods meant and the index after them, or None. It reads a
few words only, so that the time is linear in the length of the text.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from typing import TypeAlias

from msgspec.structs import replace

from contextinfinity.retrieval import time_words as say
from contextinfinity.retrieval.periods import (
    DAY,
    Period,
    by_year,
    date_of,
    holiday,
    month,
    quarter,
    season,
    third,
    year,
)
from contextinfinity.retrieval.time_words import Words

Hit: TypeAlias = tuple[tuple[Period, ...], int]

_DAY = re.compile(r"(\d{1,2})(?:st|nd|rd|th|er|º|ª)?")
_DAYS = re.compile(r"(\d{1,2})[-–](\d{1,2})")
_DAY_YEAR = re.compile(r"(\d{1,2}),(\d{4})")
_YEAR_FIRST = re.compile(r"(\d{4})([-/.])(\d{1,2})(?:\2(\d{1,2})(?:[tT]\d.*)?)?", re.S)
_YEAR_LAST = re.compile(r"(\d{1,2})([-/.])(\d{1,2})\2(\d{4}|\d{2})")
_MONTH_YEAR = re.compile(r"(\d{1,2})[/.](\d{4})")
_YEARS = re.compile(r"((?:19|20)\d\d)[-–]((?:19|20)\d\d)")
_DECADE = re.compile(r"((?:19|20)\d0)s")
_OF = frozenset(("of", "de", "del", "the", "den", "des", "du"))
_DATED = say.listed("on am vom since until till by before after from dated le el der dem den the")
_SOLID = say.IN | say.listed("year years jahr jahre année año before after by from between class throughout")
_CLOSE = say.listed("the our my your this that")
_DOERS = say.listed("i we you he she it they this that which there who")
_STREET = ("street", "st", "road", "avenue", "lane", "drive")
_OFTEN = say.listed(
    "and or to with at for was were did had have has the a i we you he she it they my our is are im in about when "
    "because that this last of on by regarding from so but as after before if there wir und what who how do does"
)


def date_at(words: Words, at: int, now: datetime) -> Hit | None:
    """Parse a date that begins at ``at``."""
    word = words.low[at]
    if word[0].isdigit():
        return _number(words, at, now)
    if word in say.MONTHS or word in say.SHORT_MONTHS:
        return _month(words, at, now)
    if word in say.THIRDS:
        return _third(words, at, now)
    if word in say.SEASONS:
        return _season(words, at, now)
    if word in say.HOLIDAYS or word in ("new", "boxing", "black", "independence"):
        return _holiday(words, at, now)
    if word in ("q1", "q2", "q3", "q4") or word in say.ORDINALS:
        return _quarter(words, at, now)
    return None


def year_at(words: Words, at: int) -> tuple[int, int] | None:
    """Parse the year that belongs to the words before ``at``; return it and the index after it."""
    if words.joined(at) and words.at(at) in _OF and words.joined(at + 1):
        at += 1
    word = words.at(at)
    if not words.joined(at) or not _plausible(word) or not words.bare(at) or words.after(at) in say.COUNTED:
        return None
    return int(word), at + 1


def _plausible(word: str) -> bool:
    return len(word) == 4 and word.isascii() and word.isdigit() and word[:2] in ("19", "20")


def day_number(word: str) -> int:
    """Return the day of the month that a word names, or 0."""
    found = _DAY.fullmatch(word)
    number = int(found[1]) if found else 0
    return number if number <= 31 else 0


def _placed(words: Words, behind: int, now: datetime, make: Callable[[int], Period]) -> Hit:
    """Return the period in the year that follows, otherwise in the last year in which it has begun."""
    named = year_at(words, behind)
    if named:
        return (make(named[0]),), named[1]
    return (by_year(make, now),), behind


# Numbers ------------------------------------------------------------------------------------------------------------


def _number(words: Words, at: int, now: datetime) -> Hit | None:
    if not words.bare(at) or words.before(at) in ("version", "ver", "v", "release", "build"):
        return None
    word = words.low[at]
    if day_number(word):
        return _day_month(words, at, now)
    if _plausible(word):
        return _year(words, at, now)
    return _written(words, at)


def _day_month(words: Words, at: int, now: datetime) -> Hit | None:
    next_ = at + 1
    if words.after(at) in _OF and words.at(next_) != "the":
        next_ += 1
    name = words.at(next_)
    number = say.MONTHS.get(name) or say.SHORT_MONTHS.get(name)
    if not number or not words.joined(next_) or words.comma(next_) or _is_verb(words, next_):
        return None
    if words.after(next_) in _STREET:
        return None
    day = day_number(words.low[at])
    return _placed(words, next_ + 1, now, lambda year_: date_of(year_, number, day))


def _is_verb(words: Words, at: int) -> bool:
    """Return whether "may" or "march" after a number is a verb: 5 may come."""
    if words.low[at] not in ("may", "march") or words.capital(at):
        return False
    return bool(words.after(at)) and not words.after(at)[0].isdigit() and words.after(at) not in _OFTEN


def _written(words: Words, at: int) -> Hit | None:
    word = words.low[at]
    if found := _YEAR_FIRST.fullmatch(word):
        return _year_first(found, at)
    if found := _YEAR_LAST.fullmatch(word):
        return _year_last(words, found, at)
    if (found := _MONTH_YEAR.fullmatch(word)) and _plausible(found[2]) and int(found[1]) <= 12:
        return (month(int(found[2]), int(found[1])).doubted(0.8),), at + 1
    if (found := _YEARS.fullmatch(word)) and found[1] < found[2]:
        return (year(int(found[1]), int(found[2]) - int(found[1]) + 1).doubted(0.8),), at + 1
    if found := _DECADE.fullmatch(word):
        return (year(int(found[1]), 10).doubted(0.8),), at + 1
    return None


def _year_first(found: re.Match[str], at: int) -> Hit | None:
    year_, mark, month_, day = found.groups()
    if not _plausible(year_) or (mark == "." and (len(month_) < 2 or day is None or len(day) < 2)):
        return None
    if day is None:
        return ((month(int(year_), int(month_)).doubted(0.85),), at + 1) if len(month_) == 2 else None
    return (date_of(int(year_), int(month_), int(day)).doubted(0.7 if mark == "." else 1.0),), at + 1


def _year_last(words: Words, found: re.Match[str], at: int) -> Hit | None:
    first, mark, second, year_ = found.groups()
    short = len(year_) == 2
    if (not short and not _plausible(year_)) or (short and words.before(at) not in _DATED):
        return None
    number = int(year_) + (2000 if short else 0)
    orders = [(int(second), int(first), 1.0)]
    if mark != ".":
        by_month = 0.6 if mark == "/" else 0.4
        orders = [(int(first), int(second), by_month), (int(second), int(first), 1.1 - by_month)]
    real = [(month_, day, sure) for month_, day, sure in orders if 1 <= month_ <= 12]
    found_ = []
    for month_, day, sure in real:
        sure = 1.0 if len(real) == 1 or first == second else sure
        found_.append(date_of(number, month_, day).doubted(sure * (0.8 if short else 1.0)))
    found_.sort(key=lambda period: -period.certainty)
    return (tuple(dict.fromkeys(found_)), at + 1) if found_ else None


def _year(words: Words, at: int, now: datetime) -> Hit | None:
    number, before, after = int(words.low[at]), words.before(at), words.after(at)
    if after in ("q1", "q2", "q3", "q4"):
        return (quarter(number, int(after[1])),), at + 2
    if after in say.COUNTED or before in say.NUMBERED:
        return None
    if before in _SOLID:
        below = words.after(at + 1) if after in ("to", "and", "or") else ""
        if below[:1].isdigit() and not _plausible(below):
            return None
        return (year(number).doubted(0.95 if before in say.IN else 0.7),), at + 1
    if not now.year - 40 <= number <= now.year + 5 or before in say.NUMBERS or not _stands_free(words, at):
        return None
    if before in _CLOSE:
        return ((year(number).doubted(0.6),), at + 1) if after else None
    return ((year(number).doubted(0.4),), at + 1) if not after or after in _OFTEN else None


def _stands_free(words: Words, at: int) -> bool:
    """Return whether a number without a leading preposition may be a year, and not an amount."""
    before, above = words.before(at), words.before(at - 1)
    if before and words.text[words.places[at][0] - 1] in "-–":
        return False
    if before in ("to", "and", "or"):
        return _plausible(above)
    return before != "of" and (before != "about" or above in ("what", "how"))


# Names --------------------------------------------------------------------------------------------------------------


def _month(words: Words, at: int, now: datetime) -> Hit | None:
    word = words.low[at]
    number = say.MONTHS.get(word) or say.SHORT_MONTHS[word]
    if day := _month_day(words, at, now, number):
        return day
    named = year_at(words, at + 1)
    if named and not (word in ("may", "march") and words.before(at) in _DOERS):
        return (month(named[0], number),), named[1]
    if word in say.SHORT_MONTHS or not _month_is_meant(words, at):
        return None
    return (by_year(lambda year_: month(year_, number), now),), at + 1


def _month_day(words: Words, at: int, now: datetime, number: int) -> Hit | None:
    """Parse a day after a month: May 7, May 7th, 2023, May the 7th, May 3-8."""
    next_ = words.skip(at + 1, ("the",)) if words.joined(at + 1) else at + 1
    word = words.at(next_)
    if not word[:1].isdigit() or not words.joined(next_) or words.comma(next_) or not words.bare(next_):
        return None
    if both := _DAY_YEAR.fullmatch(word):
        return (date_of(int(both[2]), number, int(both[1])),), next_ + 1
    if words.after(next_) in say.COUNTED or _doubtful(words, at, next_):
        return None
    first = last = day_number(word)
    if days := _DAYS.fullmatch(word):
        first, last = int(days[1]), int(days[2])
    if not 0 < first <= last:
        return None
    return _placed(words, next_ + 1, now, lambda year_: _days(year_, number, first, last))


def _days(year_: int, number: int, first: int, last: int) -> Period:
    return Period(date_of(year_, number, first).start, date_of(year_, number, last).end)


def _doubtful(words: Words, at: int, number_at: int) -> bool:
    """Return whether a lower-case "may 5" or "march 10" is not a date."""
    if words.low[at] not in ("may", "march", "mar", "dec", "mars") or words.capital(at):
        return False
    after = words.after(number_at)
    is_dated = not after or after in _OFTEN or year_at(words, number_at + 1) is not None
    return not (words.before(at) in _DATED | say.IN or (is_dated and not words.before(at)))


def _month_is_meant(words: Words, at: int) -> bool:
    """Return whether a month name without day and year means the month, judging by the words around it."""
    word, before = words.low[at], words.before(at)
    if before in say.IN:
        small = word in ("may", "march") and not words.capital(at)
        return not small or not words.after(at) or words.after(at) in _OFTEN
    if before in _OF and words.before(at - 1) in ("month", "end", "beginning", "start", "middle", "rest", "all", "mes"):
        return True
    if before in ("to", "and", "through", "bis", "à", "a", "until") and words.before(at - 1) in say.MONTHS:
        return True
    if before in ("from", "between") and words.after(at) in ("to", "and", "through", "until", "till"):
        return words.at(at + 2) in say.MONTHS
    return word not in say.NAMES_TOO and words.capital(at)


def _third(words: Words, at: int, now: datetime) -> Hit | None:
    """Parse early June, mid-October, the end of 2022, Anfang Mai."""
    next_ = at + 1
    for _ in range(2):
        next_ = words.skip(next_, _OF)
    if not words.joined(next_):
        return None
    name = words.at(next_)
    month_ = say.MONTHS.get(name)
    if month_ and not (name in ("may", "march") and not words.capital(next_)):
        hit = _placed(words, next_ + 1, now, lambda year_: month(year_, month_))
    elif name in say.SEASONS:
        hit = _placed(words, next_ + 1, now, lambda year_: season(year_, say.SEASONS[name]))
    elif _plausible(name) and words.bare(next_) and words.after(next_) not in say.COUNTED:
        hit = (year(int(name)),), next_ + 1
    else:
        return None
    return tuple(third(period, say.THIRDS[words.low[at]]) for period in hit[0]), hit[1]


def week_at(words: Words, at: int, now: datetime) -> Hit | None:
    """Parse the first week of June, the last week of May 2023."""
    word = words.low[at]
    if (word != "last" and word not in say.ORDINALS) or words.low[at + 1 : at + 3] != ["week", "of"]:
        return None
    number = say.MONTHS.get(words.at(at + 3))
    if not number or not words.joined(at + 3):
        return None
    (found,), behind = _placed(words, at + 4, now, lambda year_: month(year_, number))
    start = found.end - 7 * DAY if word == "last" else found.start + 7 * (say.ORDINALS[word] - 1) * DAY
    return (replace(found, start=start, end=start + 7 * DAY),), behind


def lone_day(words: Words, at: int) -> bool:
    """Return whether a number is a day without a month: on the 15th."""
    led = words.before(at) == "the" and words.before(at - 1) in ("on", "since", "until", "by")
    return led and not words.low[at].isdigit() and (not words.after(at) or words.after(at) in _OFTEN - _OF)


def _season(words: Words, at: int, now: datetime) -> Hit | None:
    name, before = say.SEASONS[words.low[at]], words.before(at)
    named = year_at(words, at + 1)
    if named:
        return (season(named[0], name),), named[1]
    meant = before in say.IN or before == "l"
    if before in ("the", "der", "la", "el"):
        meant = words.before(at - 1) in say.IN | {"over", "for", "of"}
    return ((by_year(lambda year_: season(year_, name), now).doubted(0.9),), at + 1) if meant else None


def _holiday(words: Words, at: int, now: datetime) -> Hit | None:
    make, behind = holiday_named(words, at)
    return _placed(words, behind, now, make) if make else None


def holiday_named(words: Words, at: int) -> tuple[Callable[[int], Period] | None, int]:
    """Parse the name of a holiday; return a function that dates it in a year, and the index after it."""
    word, rest = words.at(at), tuple(words.low[at + 1 : at + 4])
    if word in say.HOLIDAYS:
        name = say.HOLIDAYS[word]
        behind = at + 1 + (rest[:1] == ("s",)) + ("day" in rest[:2] and name == "valentine")
        if rest[:1] == ("eve",):
            return lambda year_: date_of(year_, 12, 24) if name == "christmas" else holiday(year_, name), at + 2
        return lambda year_: holiday(year_, name), behind + (rest[:1] == ("day",) and name != "valentine")
    if word == "new" and rest[:3] in (("year", "s", "eve"), ("year", "s", "day")):
        eve = rest[2] == "eve"
        return lambda year_: date_of(year_, 12, 31) if eve else date_of(year_, 1, 1), at + 4
    if word == "black" and rest[:1] == ("friday",):
        return lambda year_: _day_behind(holiday(year_, "thanksgiving")), at + 2
    if word == "boxing" and rest[:1] == ("day",):
        return lambda year_: date_of(year_, 12, 26), at + 2
    if word == "independence" and rest[:1] == ("day",):
        return lambda year_: date_of(year_, 7, 4), at + 2
    return None, at


def _day_behind(period: Period) -> Period:
    return Period(period.end, period.end + (period.end - period.start))


def _quarter(words: Words, at: int, now: datetime) -> Hit | None:
    word, next_ = words.low[at], at + 1
    if word in say.ORDINALS:
        if words.after(at) not in ("quarter", "quartal", "trimestre"):
            return None
        which, next_ = say.ORDINALS[word], at + 2
        if year_at(words, next_) is None:
            return None
    else:
        which = int(word[1])
    return _placed(words, next_, now, lambda year_: quarter(year_, which))
