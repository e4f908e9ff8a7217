"""The patterns of ``times.toml``, and a reader for each: from a match to the periods that it may mean.

A reader raises ValueError or OverflowError for a date that does not exist, and returns nothing for a match that means
no time after all.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from functools import cache
from importlib.resources import files
from typing import Final, TypeAlias

from msgspec.structs import replace

from contextinfinity.retrieval.periods import (
    DAY,
    Period,
    around,
    by_year,
    calendar,
    date_of,
    day,
    holiday,
    midnight,
    month,
    part_of_day,
    quarter,
    season,
    stepped,
    weekday,
    year,
)

Groups: TypeAlias = Mapping[str, str]
"""The named groups of a match, without those that took no part; ``text`` is the whole text."""
Periods: TypeAlias = tuple[Period, ...]
Reader: TypeAlias = Callable[[Groups, datetime], "Period | Periods | None"]

_SAID: Final = tomllib.loads((files(__package__) / "times.toml").read_text(encoding="utf-8"))
_MOST = 400
"""Larger counts of a unit are not read as times."""


def _words(row: str) -> list[str]:
    return [word.replace("_", " ") for word in row.split()]


def _places(name: str) -> dict[str, int]:
    return {word: place for place, row in enumerate(_SAID["numbered"][name], 1) for word in _words(row)}


def _meanings(kind: str, name: str) -> dict[str, str]:
    return {word: meant for meant, row in _SAID[kind][name].items() for word in _words(row)}


MONTHS: Final = _places("months") | _places("short_months")
WEEKDAYS, SHORT_WEEKDAYS = _places("weekdays"), _places("short_weekdays")
UNITS, SEASONS, PARTS, THIRDS, HOLIDAYS = (_meanings("named", name) for name in _SAID["named"])
DAYS_OFF, NUMBERS, ORDINALS = (_meanings("amounts", name) for name in _SAID["amounts"])
SETS: Final = {name: frozenset(_words(row)) for name, row in _SAID["sets"].items()}
_NEEDS_MORE: Final = SETS["names_too"].union(_places("short_months"))
"""Names of months that mean a month only beside other words of a date."""


def listed(words: Iterable[str]) -> str:
    """Return a regular expression for any of the words."""
    escaped = (re.escape(word).replace("\\ ", r"\s").replace("'", "['’]?") for word in words)
    return "|".join(sorted(escaped, key=lambda word: (-len(word), word)))


_TABLES: Final[Mapping[str, Iterable[str]]] = {
    "months": MONTHS, "weekdays": WEEKDAYS, "short_weekdays": SHORT_WEEKDAYS, "units": UNITS, "parts": PARTS,
    "seasons": SEASONS, "holidays": HOLIDAYS, "days_off": DAYS_OFF, "ordinals": ORDINALS, **SETS,
}  # fmt: skip
_SLOTS: Final = {name: f"(?P<{name}>{listed(words)})" for name, words in _TABLES.items()} | {
    "in": f"(?:{listed(SETS['in'])})",
    "of": f"(?:{listed(SETS['of'])})",
    "day": r"(?P<day>[0-3]?\d)(?:st|nd|rd|th|er|º|ª|\.)?",
    "year": rf"(?P<year>(?:19|20)\d\d)(?!\s(?:{listed(SETS['counted'])})\b)",
    "count": rf"(?:(?:an?|ein|un)\s)?(?P<count>\d{{1,3}}|{listed(NUMBERS)})(?:\s(?:of|an?|de))?",
}
_BEGIN, _END = (
    r"(?<![\w$€£¥#@=\\/.:&?+~*^<>])(?<!\d-)(?<!version\x20)(?<!release\x20)(?:",
    r")(?![\w%€$£¥°\\=]|[.,:/-]\d)",
)


def compiled(pattern: str) -> re.Pattern[str]:
    """Compile a pattern of ``times.toml``, which is explained there."""
    filled = re.sub(r"\{([a-z]\w+)\}", lambda match: _SLOTS[match[1]], pattern.replace(" ", r"\s{1,3}"))
    return re.compile(f"{_BEGIN}{filled}{_END}", re.I)


@cache
def _compiled() -> tuple[tuple[re.Pattern[str], Reader], ...]:
    return tuple((compiled(pattern), _READERS[name]) for name, pattern in _SAID["patterns"].items())


def matches(text: str, now: datetime) -> Iterator[tuple[int, int, Periods]]:
    """Yield what may name a time: where it begins and ends, and the periods that it may mean."""
    for pattern, read in _compiled():
        for match in pattern.finditer(text):
            groups = {name: found for name, found in match.groupdict().items() if found is not None} | {"text": text}
            try:
                periods = read(groups, now)
            except (ValueError, OverflowError):
                continue
            if periods:
                start, end = match.span("said" if "said" in groups else 0)
                yield start, end, periods if isinstance(periods, tuple) else (periods,)


# --- dates ---


def _year_first(said: Groups, _: datetime) -> Period:
    return date_of(int(said["year"]), int(said["number"]), int(said["date"]))


def _year_last(said: Groups, _: datetime) -> Periods:
    """Read 7.5.2023; with another mark than a dot, month and day may come in either order."""
    is_short = len(said["written"]) == 2
    if is_short and "dated" not in said:
        return ()
    full, first, second = int(said["written"]) + 2000 * is_short, int(said["date"]), int(said["number"])
    orders = [(second, first, 1.0)]
    if said["mark"] != ".":
        by_month = 0.6 if said["mark"] == "/" else 0.4
        orders = [(first, second, by_month), (second, first, 1.1 - by_month)]
    real = [(number, date, sure) for number, date, sure in orders if 1 <= number <= 12]
    found = [date_of(full, number, date).doubted(sure if len(real) > 1 else 1) for number, date, sure in real]
    return tuple(sorted(found, key=lambda period: -period.certainty))


def _date(said: Groups, now: datetime) -> Period | None:
    """Read 7 May 2023, May 7, May 3-8; without a year it is the last one that has begun."""
    name, first = said["months"], int(said["day"])
    month_, last = MONTHS[name.lower()], int(said.get("last", first))
    if name in SETS["names_too"] and not {"year", "led", "weekdays"}.intersection(said):
        return None  # may, march: verbs
    return _in_year(said, now, lambda year_: _days(year_, month_, first, last))


def _days(year_: int, month_: int, first: int, last: int) -> Period:
    return Period(date_of(year_, month_, first).start, date_of(year_, month_, last).end)


def _in_year(said: Groups, now: datetime, make: Callable[[int], Period]) -> Period:
    return make(int(said["year"])) if "year" in said else by_year(make, now)


def _maker(said: Groups) -> Callable[[int], Period]:
    if "months" in said:
        return lambda year_: month(year_, MONTHS[said["months"].lower()])
    if "seasons" in said:
        return lambda year_: season(year_, SEASONS[said["seasons"].lower()])
    name = re.sub(r"\s+", " ", said["holidays"].lower().replace("’", "'"))
    dates = HOLIDAYS.get(name) or next(row for word, row in HOLIDAYS.items() if word.replace("'", "") == name)
    return lambda year_: holiday(year_, *map(int, dates.split()))


def _named(said: Groups, now: datetime) -> Period | None:
    """Read a month, a season or a holiday with its year, or where the words before it or its capital show a time."""
    name = said.get("months", "")
    is_certain = "year" in said or "led" in said or "holidays" in said
    if not is_certain and (not name[:1].isupper() or name.lower() in _NEEDS_MORE):
        return None
    return _in_year(said, now, _maker(said))


def _quarter(said: Groups, now: datetime) -> Period | None:
    if "ordinals" in said and "year" not in said:
        return None
    number = int(said["number"] if "number" in said else ORDINALS[said["ordinals"].lower()])
    return _in_year(said, now, lambda year_: quarter(year_, number))


def _week_of_month(said: Groups, now: datetime) -> Period:
    found = _in_year(said, now, _maker(said))
    place = int(ORDINALS[said["ordinals"].lower()]) if "ordinals" in said else 0
    start = found.start + 7 * (place - 1) * DAY if place else found.end - 7 * DAY
    return replace(found, start=start, end=start + 7 * DAY)


def _lone_day(said: Groups, now: datetime) -> Period | None:
    """Read the 12th: of this month, or of the last month that has such a day by now."""
    for back in range(3):
        start = calendar(now, "month", -back).start
        try:
            found = date_of(start.year, start.month, int(said["day"]))
        except ValueError:
            continue
        if found.start <= now:
            return found.doubted(0.6)
    return None


# --- relative to now ---


def _near_day(said: Groups, now: datetime) -> Period:
    word = said["days_off"].lower()
    part = said.get("parts", "evening" if word in ("tonight", "anoche") else "")
    found = day(now + int(DAYS_OFF[word]) * DAY).doubted(0.7 if word in ("morgen", "mañana") else 1)
    return _part(found, part)


def _part(period: Period, name: str) -> Period:
    return part_of_day(period, PARTS.get(name.lower(), name)) if name else period


def _hier(said: Groups, now: datetime) -> Period | None:
    """Read the French "hier" (yesterday); the German one means "here"."""
    words = frozenset(re.findall(r"[^\W_]+", said["text"].lower()))
    is_french = not words.isdisjoint(SETS["french"]) and words.isdisjoint(SETS["german"])
    return day(now - (2 if "avant" in said else 1) * DAY) if is_french or "avant" in said else None


def _night(said: Groups, now: datetime) -> Period:
    evening = midnight(now) + timedelta(hours=18) - ("this" not in said) * DAY
    return Period(evening, evening + timedelta(hours=12))


def _one_of(said: Groups, now: datetime) -> Period | None:
    """Read last week, next Friday, last May, this summer, la semaine dernière."""
    way = said["way"].lower()
    direction = (
        -1 if way in SETS["last"] | SETS["last_behind"] else 1 if way in SETS["next"] | SETS["next_behind"] else 0
    )
    if unit := UNITS.get(said.get("units", "").lower()):
        is_none = (
            unit in ("minute", "day")
            or said["units"].lower() in SETS["plural"]
            or (way == "past" and unit != "weekend")
        )
        return None if is_none else calendar(now, unit, direction).doubted(0.95)
    if "weekdays" in said or said.get("short_weekdays", "")[:1].isupper():
        number = WEEKDAYS.get(said.get("weekdays", "").lower()) or SHORT_WEEKDAYS[said["short_weekdays"].lower()]
        return weekday(now, number, direction).doubted(0.9)
    is_verb = said.get("months") in ("march", "august") or (said.get("months") == "may" and not direction)
    return None if "short_weekdays" in said or is_verb else by_year(_maker(said), now, direction)


def _before_last(said: Groups, now: datetime) -> Period:
    return calendar(now, UNITS[said["units"].lower()], -2).doubted(0.9)


def _stretch(said: Groups, now: datetime) -> Period | None:
    """Read a period until now: the past few days, the last 3 months, the past week."""
    name, amount = said["units"].lower(), said.get("count", "").lower()
    if not amount and name not in SETS["plural"] and (said["last"].lower() != "past" or UNITS[name] == "weekend"):
        return None
    count = _amount(amount) if amount else 4 if name in SETS["plural"] else 1
    return None if count is None else _until_now(now, count, UNITS[name], 0.9 if amount not in SETS["vague"] else 0.6)


def _until_now(now: datetime, count: float, unit: str, sure: float) -> Period:
    start = stepped(now, -count, unit)
    if unit in ("minute", "hour"):
        return Period(start, now + timedelta(minutes=1), sure)
    return Period(midnight(start), midnight(now) + DAY, sure)


def _amount(word: str) -> float | None:
    count = float(word if word.isdigit() else NUMBERS[word.lower()])
    return count if 0 < count <= _MOST else None


def _ago(said: Groups, now: datetime) -> Period | None:
    """Read two weeks ago; a vague count such as "a few" means a wider period."""
    count, unit = _amount(said["count"]), UNITS.get(said.get("units", "").lower(), "year")
    if count is None:
        return None
    is_vague = said["count"].lower() in SETS["vague"]
    near, far = (count - 1, count + 1) if is_vague else (count, count)
    return Period(around(now, -far, unit).start, around(now, -near, unit).end, 0.6 if is_vague else 0.9)


def _weekday(said: Groups, now: datetime) -> Period | None:
    if "short_weekdays" in said:
        name = said["short_weekdays"]
        return weekday(now, SHORT_WEEKDAYS[name.lower()], -1).doubted(0.6) if name[0].isupper() else None
    found = weekday(now, WEEKDAYS[said["weekdays"].lower()], -1).doubted(0.85 if "on" in said else 0.6)
    return _part(found, said.get("parts", ""))


_READERS: Final[Mapping[str, Reader]] = {
    "year_first": _year_first,
    "year_month": lambda said, _: month(int(said["year"]), int(said["number"])).doubted(0.85),
    "year_last": _year_last,
    "month_year": lambda said, _: month(int(said["year"]), int(said["number"])).doubted(0.8),
    "years": lambda said, _: year(int(said["year"]), max(0, int(said["last"]) - int(said["year"]) + 1)).doubted(0.8),
    "decade": lambda said, _: year(int(said["decade"]), 10).doubted(0.8),
    "day_month": _date,
    "month_day": _date,
    "named": _named,
    "season_led": lambda said, now: _named({**said, "led": ""}, now),
    "only_year": lambda said, _: year(int(said["year"])).doubted(0.95),
    "quarter": _quarter,
    "year_quarter": _quarter,
    "week_of_month": _week_of_month,
    "lone_day": _lone_day,
    "near_day": _near_day,
    "hier": _hier,
    "night": _night,
    "part": lambda said, now: _part(day(now), said["parts"]),
    "one_of": _one_of,
    "one_of_behind": _one_of,
    "before_last": _before_last,
    "stretch": _stretch,
    "ago": _ago,
    "ago_led": _ago,
    "weekday": _weekday,
    "short_weekday": _weekday,
    "weekend": lambda _, now: calendar(now, "weekend", 0 if now.weekday() >= 5 else -1).doubted(0.6),
    "other_day": lambda _, now: _until_now(now, 7, "day", 0.4),
}
