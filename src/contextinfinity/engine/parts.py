"""The dependencies of a running turn, created once per engine: ledger, journals, models, setup, worker id."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from msgspec.structs import replace

from contextinfinity.domain.ids import TurnId, WorkerId
from contextinfinity.domain.job import Job
from contextinfinity.domain.plan import Budget
from contextinfinity.domain.turn import Turn
from contextinfinity.engine.engine_setup import Setup
from contextinfinity.engine.model_choice import Model, Models
from contextinfinity.engine.running_turn import Broadcast, RunningTurn, Terms, TurnNotification
from contextinfinity.engine.turn_cache import Caches
from contextinfinity.prompt.measure import divide_resent_window, divide_window
from contextinfinity.storage.contract import Store
from contextinfinity.storage.journal import JournalFolder


@dataclass(frozen=True, kw_only=True)
class Parts:
    """The dependencies of a running turn."""

    store: Store
    journals: JournalFolder
    models: Models
    worker: WorkerId
    caches: Caches
    setup: Setup = field(default_factory=Setup)
    running: Mapping[TurnId, RunningTurn] = field(default_factory=dict)
    """The turns that run in this process."""
    taken_over: dict[TurnId, None] = field(default_factory=dict)
    """Turns taken over from dead workers that are not ended yet, oldest first."""
    recovering: asyncio.Lock = field(default_factory=asyncio.Lock)
    branches: TurnNotification = field(default_factory=TurnNotification)
    """Notified whenever a turn ends, because a branch may be free."""
    folds: Broadcast = field(default_factory=Broadcast)
    """Receives the events of folds."""
    run_job: Callable[[Job], None] | None = None
    """Runs a job that this worker has claimed; None: jobs are left to other processes."""
    look_seconds: float = 0.05
    """The polling interval for changes by other processes."""

    def setup_after(self, turn: Turn) -> Setup:
        """Return the setup for a conversation whose newest turn is this one: ``auto`` is the model that answered it."""
        return self.setup.following(self.models.that_answered(turn))

    def budget_of(self, model: Model, terms: Terms | None = None) -> Budget:
        """Return the token budget for a model's window; ``terms``: those of a client that resends the conversation."""
        limit, configured = model.abilities.context_limit, model.configured_window
        ceilings = replace(self.setup.ceilings, reserve=model.max_output_tokens)
        if terms is None:
            budget = divide_window(limit, ceilings)
        else:
            budget = divide_resent_window(limit, ceilings, terms.request_options.max_output_tokens)
        return budget if limit == configured else replace(budget, configured_limit=configured)
