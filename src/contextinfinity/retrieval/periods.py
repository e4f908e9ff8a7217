"""Calendar periods: a day, a week from Monday, a month, a season, and date arithmetic.

All datetimes here are naive; the caller adds the time zone. Dates outside the calendar raise ValueError or
OverflowError.
"""

from __future__ import annotations

from calendar import monthrange
from collections.abc import Callable
from datetime import datetime, timedelta

from msgspec import Struct
from msgspec.structs import replace

DAY = timedelta(days=1)
_SEASON_BEGINS = {"spring": 3, "summer": 6, "autumn": 9, "winter": 12}
_HOURS = {"morning": (5, 12), "afternoon": (12, 18), "evening": (17, 24)}
_YEARS_BACK = 9
"""Within this many years there is always a leap day."""


class Period(Struct, frozen=True):
    """A half-open interval of time; ``floating`` means that the year was not given."""

    start: datetime
    end: datetime
    certainty: float = 1.0
    floating: bool = False

    def doubted(self, factor: float) -> Period:
        """Return the period with its certainty multiplied by ``factor``."""
        return replace(self, certainty=self.certainty * factor)


def midnight(moment: datetime) -> datetime:
    """Return the beginning of the day."""
    return moment.replace(hour=0, minute=0, second=0, microsecond=0)


def day(moment: datetime) -> Period:
    """Return the day of a moment."""
    return Period(midnight(moment), midnight(moment) + DAY)


def date_of(year: int, month: int, number: int) -> Period:
    """Return the day with that date."""
    return day(datetime(year, month, number))


def month(year: int, number: int) -> Period:
    """Return a month."""
    start = datetime(year, number, 1)
    return Period(start, months_on(start, 1))


def year(number: int, count: int = 1) -> Period:
    """Return a year, or ``count`` consecutive years."""
    return Period(datetime(number, 1, 1), datetime(number + count, 1, 1))


def quarter(number: int, which: int) -> Period:
    """Return a quarter of a year."""
    start = datetime(number, 3 * which - 2, 1)
    return Period(start, months_on(start, 3))


def season(number: int, name: str) -> Period:
    """Return the (northern) season that begins in the year; winter extends into the next year."""
    start = datetime(number, _SEASON_BEGINS[name], 1)
    return Period(start, months_on(start, 3), 0.8)


def holiday(number: int, month_: int, first: int, days: int) -> Period:
    """Return a holiday of the year; without days it is the Thursday of the week that begins with the date."""
    start = datetime(number, month_, first)
    return Period(start, start + days * DAY) if days else day(start + DAY * ((3 - start.weekday()) % 7))


def months_on(moment: datetime, count: int) -> datetime:
    """Add months; the 31st becomes the last day of a shorter month."""
    years, index = divmod(moment.month - 1 + count, 12)
    number = moment.year + years
    if not 1 <= number <= 9999:
        raise OverflowError(number)
    return moment.replace(year=number, month=index + 1, day=min(moment.day, monthrange(number, index + 1)[1]))


_STEPS: dict[str, tuple[timedelta, int]] = {
    "minute": (timedelta(minutes=1), 0), "hour": (timedelta(hours=1), 0), "day": (DAY, 0), "week": (7 * DAY, 0),
    "weekend": (7 * DAY, 0), "fortnight": (14 * DAY, 0), "month": (30 * DAY, 1), "quarter": (91 * DAY, 3),
    "year": (365 * DAY, 12), "decade": (3652 * DAY, 120),
}  # fmt: skip


def stepped(moment: datetime, count: float, unit: str) -> datetime:
    """Add ``count`` units, which may be negative."""
    length, months = _STEPS[unit]
    if months and count == int(count):
        return months_on(moment, int(count) * months)
    return moment + length * count


def around(moment: datetime, count: float, unit: str) -> Period:
    """Return the period of "two weeks ago": half a unit to each side, or the day if days are counted."""
    if abs(count) == 0.5 and unit == "year":
        count, unit = 12 * count, "month"
    middle = stepped(moment, count, unit)
    if unit == "day":
        return day(middle)
    if unit == "weekend":
        return calendar(middle, unit, 0)
    length = _STEPS[unit][0]
    if unit in ("minute", "hour"):
        return Period(middle - length / 2, middle + length / 2)
    half = length // (2 * DAY) * DAY
    return Period(midnight(middle) - half, midnight(middle) + half + DAY)


def calendar(moment: datetime, unit: str, offset: int) -> Period:
    """Return the calendar unit that contains the moment, shifted by ``offset``; a week begins on Monday."""
    start = midnight(moment)
    monday = start - start.weekday() * DAY
    if unit == "weekend":
        saturday = monday + (5 + 7 * offset) * DAY
        return Period(saturday, saturday + 2 * DAY)
    if unit in ("week", "fortnight"):
        days = 7 if unit == "week" else 14
        return Period(monday + offset * days * DAY, monday + offset * days * DAY + days * DAY)
    if unit in ("minute", "hour"):
        return around(moment, offset, unit)
    begins = {
        "day": start,
        "month": start.replace(day=1),
        "quarter": start.replace(month=(start.month - 1) // 3 * 3 + 1, day=1),
        "year": start.replace(month=1, day=1),
        "decade": start.replace(year=max(1, start.year // 10 * 10), month=1, day=1),
    }[unit]
    return Period(stepped(begins, offset, unit), stepped(begins, offset + 1, unit))


def weekday(moment: datetime, number: int, direction: int) -> Period:
    """Return the nearest such weekday before (-1) or after (1) the day, or the one of the same week (0)."""
    start = midnight(moment)
    if direction == 0:
        return day(start + (number - 1 - start.weekday()) * DAY)
    if direction < 0:
        return day(start - ((start.weekday() - number) % 7 + 1) * DAY)
    return day(start + ((number - 2 - start.weekday()) % 7 + 1) * DAY)


def by_year(make: Callable[[int], Period], now: datetime, direction: int = 0) -> Period:
    """Choose the year if none was given: the last one that has begun (0) or ended (-1), or the next one (1)."""
    years = range(now.year, max(0, now.year - _YEARS_BACK), -1) if direction <= 0 else range(now.year, now.year + 9)
    for number in years:
        try:
            found = make(number)
        except ValueError:
            continue
        if (found.start <= now, found.start > now, found.end <= now)[direction]:
            return replace(found, certainty=found.certainty * 0.85, floating=True)
    raise ValueError(now)


def third(period: Period, which: str) -> Period:
    """Return the first, middle or last third of a period."""
    days = (period.end - period.start) // DAY
    cuts = {"early": (0, days // 3), "mid": (days // 3, 2 * days // 3), "late": (2 * days // 3, days)}[which]
    start, end = period.start + cuts[0] * DAY, period.start + cuts[1] * DAY
    if start >= end:
        return period
    return replace(period, start=start, end=end, certainty=period.certainty * 0.9)


def part_of_day(period: Period, which: str) -> Period:
    """Return the morning, afternoon or evening of a day."""
    if period.end - period.start != DAY:
        return period
    first, behind = _HOURS[which]
    return replace(period, start=period.start + timedelta(hours=first), end=period.start + timedelta(hours=behind))
