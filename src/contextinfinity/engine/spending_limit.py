"""Limit what models cost a user: each model call of a turn is refused once the day's or the month's limit is reached.

The ledger adds up what ended calls cost. A running call is not cut off, so calls at the same time may exceed a limit by
what they cost. Calls of models without prices are not counted, nor are summaries, rewriting, memories and embeddings.
"""

from __future__ import annotations

from dataclasses import dataclass

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
