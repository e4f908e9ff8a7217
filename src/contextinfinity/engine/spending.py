"""Limit what models cost a user: each model call of a turn is refused once the day's or the month's limit is reached.

The ledger adds up what ended calls cost. A running call is not cut off, so calls at the same time may exceed a limit by
what they cost. Calls of models without prices are not counted, nor are summaries, rewriting, memories and embeddings.

Limit the tokens that models use for summaries: a limit per day, rejected accounts, and one-time notices.

The tokens of the day and whether model summaries were announced are stored in a small file in the data folder, so that
they survive a restart. A file that cannot be read or written is treated as empty: folding must not depend on it.
"""

from __future__ import annotations

import logging
import os
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic

import msgspec

from contextinfinity.domain.ids import now
from contextinfinity.domain.session import Owner
from contextinfinity.domain.turn import UserSpending
from contextinfinity.errors import LedgerAway, SpendingLimitReached
from contextinfinity.storage.contract import Store


@dataclass(frozen=True, kw_only=True)
class DollarLimits:
    """What models may cost a user, in US dollars; None: no limit."""

    per_day: float | None = None
    per_month: float | None = None

    async def spending(self, store: Store, owner: Owner) -> UserSpending:
        """Return what a user spent, and the limits."""
        today = now().date()
        days = await store.turns.spending(owner, today.replace(day=1))
        return UserSpending(
            today=days.get(today, 0.0),
            month=sum(days.values()),
            limit_per_day=self.per_day,
            limit_per_month=self.per_month,
        )

    async def check(self, store: Store, owner: Owner, unsaved: float | None = None) -> None:
        """Raise ``SpendingLimitReached`` if a model may not be called; while the ledger is away there is no limit.

        ``unsaved`` is the cost of a call that is written together with the next one.
        """
        if self.per_day is None and self.per_month is None:
            return
        try:
            spent = await self.spending(store, owner)
        except LedgerAway:
            return
        for limit, dollars, period in ((self.per_day, spent.today, "day"), (self.per_month, spent.month, "month")):
            dollars += unsaved or 0.0
            if limit is not None and dollars >= limit:
                raise SpendingLimitReached(
                    f"{owner.user_id} spent ${dollars:.2f}; models may cost a user ${limit:.2f} a {period}."
                )


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
