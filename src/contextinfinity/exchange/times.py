"""Parse times of other programs: ISO 8601, or a number since 1970 in seconds or smaller units."""

from __future__ import annotations

from datetime import UTC, datetime

from contextinfinity.domain.ids import from_millis, to_millis
from contextinfinity.domain.message import Json

_EARLIEST, _LATEST = datetime(1, 1, 2, tzinfo=UTC), datetime(9999, 12, 30, tzinfo=UTC)
_UNITS = ((1e11, 1e3), (1e14, 1.0), (1e17, 1e-3), (1e20, 1e-6))
"""(maximum, units per millisecond): how a number is interpreted, as seconds, milli-, micro- or nanoseconds."""

_DAY_DIGITS = 8
"""A text with this number of digits is a day: 20230508."""


def moment_of(value: Json) -> datetime | None:
    """Parse a time; None if it is invalid. Without a time zone it is UTC."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    try:
        return _of_text(value.strip()) if isinstance(value, str) else _of_number(value)
    except (ValueError, OverflowError, OSError):
        return None


def _of_text(text: str) -> datetime | None:
    if len(text) == _DAY_DIGITS and text.isdecimal():
        moment = datetime.fromisoformat(text)
    else:
        try:
            return _of_number(float(text))
        except ValueError:
            moment = datetime.fromisoformat(text)
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return from_millis(to_millis(moment)) if _EARLIEST <= moment <= _LATEST else None


def _of_number(number: float) -> datetime | None:
    for most, factor in _UNITS:
        if abs(number) < most:
            return from_millis(round(number * factor))
    return None
