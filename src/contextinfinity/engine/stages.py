"""The stages of a turn and the job runner, created and connected in one place for one worker.

Each stage gets the few collaborators that it uses; only the engine itself sees all of them.
"""

from __future__ import annotations

from collections.abc import Mapping

from contextinfinity.domain.ids import TurnId, WorkerId
from contextinfinity.engine.engine_setup import Setup
from contextinfinity.engine.finaliser import Finaliser
from contextinfinity.engine.folding import Folding
from contextinfinity.engine.gathering import Gathering
from contextinfinity.engine.handlers import JobHandlers
from contextinfinity.engine.job_runner import JobRunner
from contextinfinity.engine.model_choice import ModelChoice, Models
from contextinfinity.engine.recall import ContextReader
from contextinfinity.engine.recovery import Recovery
from contextinfinity.engine.respond import Responder
from contextinfinity.engine.running_turn import Broadcast, RunningTurn, TurnNotification
from contextinfinity.engine.step import StepRunner
from contextinfinity.engine.turn import TurnRunner
from contextinfinity.engine.turn_cache import Caches
from contextinfinity.storage.contract import Store
from contextinfinity.storage.journal import JournalFolder


class Stages:
    """What answers turns and runs jobs in the name of one worker."""

    def __init__(
        self,
        store: Store,
        journals: JournalFolder,
        models: Models,
        setup: Setup,
        *,
        worker: WorkerId,
        running: Mapping[TurnId, RunningTurn],
        fold_events: Broadcast,
    ) -> None:
        self.worker = worker
        self.caches = caches = Caches(store, setup.cached_bytes)
        self.recovery = Recovery(store=store, journals=journals, worker=worker)
        self.choice = choice = ModelChoice(models=models, router=setup.router, ceilings=setup.ceilings)
        self.folding = folding = Folding(store=store, models=models, setup=setup, running=running, events=fold_events)
        handlers = JobHandlers(store=store, setup=setup, models=models, caches=caches, folding=folding, running=running)
        self.job_runner = JobRunner(store.jobs, worker, handlers.by_type)
        finaliser = Finaliser(turns=store.turns, worker=worker, answered=caches.answered, run_job=self.job_runner.run)
        texts, redactor, turn_ends = caches.texts, setup.redactor, TurnNotification()
        reader = ContextReader(store=store, caches=caches, choice=choice, setup=setup, turn_ends=turn_ends)
        steps = StepRunner(store=store, journals=journals, texts=texts, worker=worker, redactor=redactor)
        self.gathering = Gathering(store=store, setup=setup, models=models, reader=reader, folding=folding)
        self.turns = TurnRunner(
            store=store,
            worker=worker,
            turn_ends=turn_ends,
            recovery=self.recovery,
            gathering=self.gathering,
            responder=Responder(store=store, setup=setup, choice=choice, texts=texts, steps=steps, finaliser=finaliser),
            finaliser=finaliser,
        )
