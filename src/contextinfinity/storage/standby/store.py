"""The ``Store`` that continues while the one behind it is away, and the task that reconnects."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from contextinfinity.domain.ids import new_id, now
from contextinfinity.domain.store_health import StoreHealth
from contextinfinity.errors import LedgerFailed
from contextinfinity.storage.contract import Store
from contextinfinity.storage.database import maintenance_context
from contextinfinity.storage.standby.away_operations import away_operations, left_spools
from contextinfinity.storage.standby.held_branches import Bounds, HeldBranches
from contextinfinity.storage.standby.spool_replay import NOT_NOW

log = logging.getLogger(__name__)


class StandbyStore(Store):
    """A ``Store`` in front of another, which it closes when it is closed; ``folder`` is where spools are kept.

    It is used on one event loop.
    """

    def __init__(self, ledger: Store, folder: Path, bounds: Bounds | None = None) -> None:
        self._bounds = bounds or Bounds()
        self._ledger = ledger
        self._reconnecting: asyncio.Task[None] | None = None
        self._closed = self._alerted = False
        self._kept_away: LedgerFailed | None = None
        self._held = HeldBranches(ledger, folder, self._bounds, self._reconnect)
        for name in (name for name in vars(self._held.ledger) if not name.startswith("_")):
            setattr(self, name, away_operations(self._held, name, ledger, self))

    def blocked_seconds(self, *, reading: bool = False) -> float:
        """Return for how many seconds another process has kept the ledger from continuing."""
        return self._ledger.blocked_seconds(reading=reading)

    def health(self) -> StoreHealth:
        """Return whether the ledger is there and has everything; if not, since when and why."""
        held = self._held.health()
        return held if held.status != "ready" else self._ledger.health()

    @contextmanager
    def kept_away(self, reason: str = "It was set manually.") -> Iterator[None]:
        """Open the circuit breakers and fail all probes meanwhile; for tests."""
        self._kept_away = LedgerFailed(reason)
        for breaker in (self._held.reads, self._held.writes):
            breaker.open(self._kept_away)
        try:
            yield
        finally:
            self._kept_away = None

    async def replay_left_spools(self) -> None:
        """Replay the spools of processes that have ended, as far as that is possible now.

        An engine does so when it takes over from them; this is for programs that only record finished turns.
        """
        for name in left_spools(self._held):
            await self._held.replay.retire(name)

    async def close(self) -> None:
        """Replay what is possible, leave the rest to the next process, and close the ledger."""
        self._closed = True
        if self._reconnecting is not None:
            self._reconnecting.cancel()
            with suppress(asyncio.CancelledError):
                await self._reconnecting
            with suppress(*NOT_NOW):
                await self._probe()
        self._held.close()
        await self._ledger.close()

    def _reconnect(self) -> None:
        """Start the task that probes the ledger, unless it is running."""
        if self._reconnecting is None and not self._closed:
            log.warning("the ledger is unavailable; new messages are kept in a spool until it is back")
            self._reconnecting = asyncio.create_task(
                self._until_back(), name="ledger-reconnect", context=maintenance_context()
            )

    async def _until_back(self) -> None:
        pause = self._bounds.first_pause
        while not self._held.is_over:
            await asyncio.sleep(pause)
            pause = min(2 * pause, self._bounds.longest_pause)
            self._alert(self._held.health())
            try:
                await self._probe()
            except NOT_NOW as error:
                log.info("replaying the spool failed; it is tried again later: %s", error)
            except Exception:  # try again, whatever it is
                log.exception("the spool could not be replayed")
        log.warning("the ledger is back and the spool is replayed")
        self._reconnecting, self._alerted = None, False

    async def _probe(self) -> None:
        """Probe reads and writes of the ledger; if they succeed, replay the spool."""
        held, ledger = self._held, self._ledger
        if self._kept_away is not None:
            raise self._kept_away
        if held.reads.is_open:
            await held.reads.through(lambda: ledger.sessions.get(new_id()), probing=True)
            held.reads.close()
        if held.writes.is_open:
            await held.writes.through(lambda: ledger.contents.keep_text(""), probing=True)
            held.writes.close()
        await held.replay_all()

    def _alert(self, health: StoreHealth) -> None:
        """Log once that an outage lasts."""
        if health.since is None or self._alerted:
            return
        if (now() - health.since).total_seconds() >= self._bounds.alert_seconds:
            self._alerted = True
            since = health.since.isoformat(timespec="seconds")
            log.critical(
                "the ledger is unavailable since %s, %d items spooled: %s", since, health.spool_depth, health.reason
            )
