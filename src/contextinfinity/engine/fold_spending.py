"""Limit the tokens that models use for summaries: a limit per day, rejected accounts, and one-time notices.

The tokens of the day and whether model summaries were announced are stored in a small file in the data folder, so that
they survive a restart. A file that cannot be read or written is treated as empty: folding must not depend on it.
"""

from __future__ import annotations

import logging
import os
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic

import msgspec

log = logging.getLogger(__name__)

REJECTED_SECONDS = 3600.0
"""How long no model is called after the provider rejected the account (401, 402, 429)."""


class _SpendingRecord(msgspec.Struct):
    day: str = ""
    tokens: int = 0
    announced: bool = False
    told_limit: str = ""
    """The day on which the limit was reported."""


class Spending:
    """Decides whether a model may be called, and which notice a fold shows."""

    def __init__(self, path: Path | None, limit: int) -> None:
        self._path = path
        self._limit = limit
        self._kept = _SpendingRecord()
        self._rejected_until = 0.0
        self._told: set[str] = set()

    def allows(self) -> bool:
        """Return whether a model may be called for a summary now."""
        self._read()
        return monotonic() >= self._rejected_until and self._kept.tokens < self._limit

    def note(self, tokens: int, model: str, rejected: str) -> str:
        """Record what a fold used; return the notice to show, empty for none.

        ``model`` wrote the summary (empty: it was made by rule); ``rejected`` is the failure of a rejected call.
        """
        self._read()
        self._kept.tokens += tokens
        notice = ""
        if rejected:
            self._rejected_until = monotonic() + REJECTED_SECONDS
            if rejected not in self._told:
                self._told.add(rejected)
                notice = (
                    f"The model rejected a summary ({rejected}); summaries are made by rule for the next hour. "
                    "Check the account, or set librarian.model to another model or to offline."
                )
        elif model and not self._kept.announced:
            self._kept.announced = True
            notice = (
                f"Summaries are now written by {model} in the background; librarian.model = offline turns that off."
            )
        elif self._kept.tokens >= self._limit and self._kept.told_limit != self._kept.day:
            self._kept.told_limit = self._kept.day
            notice = (
                f"Summaries used {self._kept.tokens} tokens today (librarian.max_tokens_per_day is {self._limit}); "
                "until tomorrow they are made by rule."
            )
        self._write()
        if notice:
            log.warning("%s", notice)
        return notice

    def _read(self) -> None:
        if self._path is not None:
            with suppress(OSError, msgspec.DecodeError):
                self._kept = msgspec.json.decode(self._path.read_bytes(), type=_SpendingRecord)
        today = datetime.now(UTC).date().isoformat()
        if self._kept.day != today:
            self._kept.day, self._kept.tokens = today, 0

    def _write(self) -> None:
        if self._path is None:
            return
        try:
            partial = self._path.with_suffix(f".{os.getpid()}.tmp")
            partial.write_bytes(msgspec.json.encode(self._kept))
            partial.replace(self._path)
        except OSError:
            log.debug("%s could not be written", self._path, exc_info=True)
