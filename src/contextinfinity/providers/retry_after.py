"""Read from response headers how long to wait before a retry."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime

_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def retry_after(headers: Mapping[str, str], *, now: float | None = None) -> float | None:
    """Return the seconds to wait from headers (names in lower case), or None.

    The most precise header wins: milliseconds, then seconds or an HTTP date, then the reset time of an exhausted rate
    limit.
    """
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    header = headers.get("retry-after")
    if header is not None:
        number = _number(header)
        return number if number is not None else _until(header, time.time() if now is None else now)
    waits = [
        seconds(headers.get(f"x-ratelimit-reset-{what}", ""))
        for what in ("requests", "tokens")
        if headers.get(f"x-ratelimit-remaining-{what}", "").strip() == "0"
    ]
    return max((wait for wait in waits if wait is not None), default=None)


def _number(text: str | None) -> float | None:
    try:
        number = float(text or "")
    except ValueError:
        return None
    return max(0.0, number) if math.isfinite(number) else None


def _until(date: str, now: float) -> float | None:
    try:
        return max(0.0, parsedate_to_datetime(date).timestamp() - now)
    except (ValueError, OverflowError):
        return None


def seconds(text: str) -> float | None:
    """Parse ``6m0s``, ``120ms`` or plain seconds."""
    parts = _DURATION.findall(text)
    if not parts:
        return _number(text)
    return sum(float(number) * _SECONDS[unit] for number, unit in parts)
