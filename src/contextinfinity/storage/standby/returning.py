"""The way back: one probe at a time, at growing pauses; once one comes through, what is held lands."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress

from contextinfinity.domain.ids import new_id, now
from contextinfinity.storage.standby.holding import Bounds, Holding
from contextinfinity.storage.standby.landing import NOT_NOW

log = logging.getLogger(__name__)


class Return:
    """Asks for the ledger while it is away, as one task of this process."""

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self._task: asyncio.Task[None] | None = None
        self._alerted = False
        self._closed = False

    def begin(self, holding: Holding) -> None:
        """See to it that the ledger is asked for, if nobody does yet."""
        if self._task is None and not self._closed:
            log.warning("the ledger is away; what is said is held here until it is back")
            self._task = asyncio.create_task(self._come_back(holding), name="ledger-return")

    async def close(self, holding: Holding) -> None:
        """Ask a last time, so that nothing is left to the next process that need not be."""
        self._closed = True
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
            with suppress(*NOT_NOW):
                await _try(holding)

    async def _come_back(self, holding: Holding) -> None:
        pause = self._bounds.first_pause
        while not holding.is_over:
            await asyncio.sleep(pause)
            pause = min(2 * pause, self._bounds.longest_pause)
            self._alert(holding)
            try:
                await _try(holding)
            except NOT_NOW as error:
                log.info("what is held has to wait: %s", error)
            except Exception:  # whatever it is, nothing is given up
                log.exception("what is held could not land")
        log.warning("the ledger is back, and has everything")
        self._task, self._alerted = None, False

    def _alert(self, holding: Holding) -> None:
        """Tell once of an outage that lasts."""
        health = holding.health()
        if self._alerted or health.since is None:
            return
        if (now() - health.since).total_seconds() >= self._bounds.alert_seconds:
            self._alerted = True
            since = health.since.isoformat(timespec="seconds")
            log.critical("the ledger is away since %s, %d held: %s", since, health.spool_depth, health.reason)


async def _try(holding: Holding) -> None:
    """Probe what is away with something that changes nothing; then land."""
    ledger = holding.ledger
    if holding.reads.is_open:
        await holding.reads.through(lambda: ledger.sessions.get(new_id()), probing=True)
        holding.reads.close()
    if holding.writes.is_open:
        await holding.writes.through(lambda: ledger.contents.keep_text(""), probing=True)
        holding.writes.close()
    await holding.land()
