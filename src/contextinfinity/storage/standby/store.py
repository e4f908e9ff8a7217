"""The ``Store`` that goes on while the one behind it is away."""

from __future__ import annotations

from pathlib import Path
from typing import cast

from contextinfinity.domain.health import Health
from contextinfinity.errors import LedgerFailed
from contextinfinity.storage.contract import Branches, Contents, Jobs, Sessions, States, Store, Turns, Workers
from contextinfinity.storage.deletions import Deletions
from contextinfinity.storage.imports import Arrivals
from contextinfinity.storage.prefix_hashes import Trails
from contextinfinity.storage.standby.arriving import StandbyArrivals
from contextinfinity.storage.standby.deleting import StandbyDeletions
from contextinfinity.storage.standby.holding import Bounds, Holding
from contextinfinity.storage.standby.nouns import (
    StandbyBranches,
    StandbyContents,
    StandbyJobs,
    StandbySessions,
    StandbyStates,
    StandbyTurns,
    StandbyWorkers,
)
from contextinfinity.storage.standby.returning import Return
from contextinfinity.storage.standby.trails import StandbyTrails


class Standby:
    """A ``Store`` in front of another, which it closes when it is closed; ``folder`` is where spools are kept.

    It is used on one event loop.
    """

    def __init__(self, ledger: Store, folder: Path, bounds: Bounds | None = None) -> None:
        bounds = bounds or Bounds()
        self._ledger = ledger
        self._return = Return(bounds)
        self._holding = holding = Holding(ledger, folder, bounds, lambda: self._return.begin(self._holding))
        self.sessions = cast(Sessions, StandbySessions(holding, ledger.sessions))
        self.branches = cast(Branches, StandbyBranches(holding, ledger.branches))
        self.turns = cast(Turns, StandbyTurns(holding, ledger.turns))
        self.states = cast(States, StandbyStates(holding, ledger.states))
        self.contents = cast(Contents, StandbyContents(holding, ledger.contents))
        self.jobs = cast(Jobs, StandbyJobs(holding, ledger.jobs))
        self._workers = StandbyWorkers(holding, ledger.workers)
        self.workers = cast(Workers, self._workers)
        self.arrivals = cast(Arrivals, StandbyArrivals(holding, ledger.arrivals))
        self.chunks = ledger.chunks
        self.index = ledger.index
        self.vectors = ledger.vectors
        self.memories = ledger.memories
        self.tokens = ledger.tokens
        self.trails = cast(Trails, StandbyTrails(holding, ledger.trails))
        self.landings = ledger.landings
        self.deletions = cast(Deletions, StandbyDeletions(holding, ledger.deletions))

    def held_up(self, *, reading: bool = False) -> float:
        """Tell for how many seconds another process has kept the ledger from going on."""
        return self._ledger.held_up(reading=reading)

    def health(self) -> Health:
        """Say whether the ledger is there and has everything, and if not, since when and why."""
        held = self._holding.health()
        return held if held.status != "ready" else self._ledger.health()

    def take_for_away(self, reason: str = "It was said so.") -> None:
        """Ask the ledger nothing until a probe comes through: for whoever knows better, and for tests."""
        for breaker in (self._holding.reads, self._holding.writes):
            breaker.open(LedgerFailed(reason))

    async def land_left(self) -> None:
        """Land what dead processes left in their spools, as far as that is possible now.

        An engine does so when it takes over from them; this is for whoever only keeps finished turns.
        """
        await self._workers.land_left()

    async def close(self) -> None:
        """Land what can land, leave the rest to the next process, and close the ledger."""
        await self._return.close(self._holding)
        self._holding.close()
        await self._ledger.close()
