"""The job handlers: background work for an answered turn. All handlers are idempotent."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TypeVar

from contextinfinity.domain.ids import TurnId
from contextinfinity.domain.job import AnsweredTurn, Job, JobResult, JobType
from contextinfinity.domain.memory import Extraction
from contextinfinity.domain.search import NewChunk
from contextinfinity.domain.state import StateDraft
from contextinfinity.engine.engine_setup import Setup
from contextinfinity.engine.folding import Folding
from contextinfinity.engine.job_runner import Handler
from contextinfinity.engine.lazy_modules import FOR_A_TURN, FOR_THE_INDEX, loaded
from contextinfinity.engine.model_choice import Models
from contextinfinity.engine.running_turn import RunningTurn
from contextinfinity.engine.turn_cache import Caches
from contextinfinity.storage.contract import Store
from contextinfinity.storage.ledger.keyword_index import BORROWED_FROM
from contextinfinity.telemetry.stage_times import timed

log = logging.getLogger(__name__)
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class JobHandlers:
    """Runs the jobs of a ledger."""

    store: Store
    setup: Setup
    models: Models
    caches: Caches
    folding: Folding
    running: Mapping[TurnId, RunningTurn]

    @property
    def by_type(self) -> Mapping[JobType, Handler]:
        """The handler of every job type."""
        return {
            "summarize_turn": self._summarize_turn,
            "index_turn": self._index,
            "remember_turn": self._remember,
            "fold_branch": self._fold_branch,
            "reconcile_stream": self._no_work,
        }

    async def _summarize_turn(self, job: Job) -> JobResult | None:
        """Commit the next state (TX-B) with the head's summary and pins; no model is called.

        The chunks and memories of the turn are computed as well if that needs no remote call, so that one
        transaction writes everything. A stage that fails or needs a remote call is left to its own job.
        """
        if job.turn_id is None:
            return None
        draft = StateDraft(branch_id=job.branch_id, reason="turn", turn_id=job.turn_id)
        turn = self.caches.answered.get(job.turn_id) or await self._answered(job)
        if turn is None:
            return JobResult(state=draft)
        chunks = await _or_later("index", job, self._chunks(turn, may_wait=False))
        memories = await _or_later("remember", job, self._memories(turn, may_wait=False))
        return JobResult(state=draft, chunks=chunks, memories=memories)

    async def _index(self, job: Job) -> JobResult | None:
        """Index the turn: compute its chunks and their vectors (TX-C)."""
        turn = await self._answered(job)
        return None if turn is None else JobResult(chunks=await self._chunks(turn))

    async def _remember(self, job: Job) -> JobResult | None:
        """Store the facts that the user states, and delete the memories they want forgotten."""
        turn = await self._answered(job)
        return None if turn is None else JobResult(memories=await self._memories(turn))

    async def _fold_branch(self, job: Job) -> JobResult | None:
        """Fold the branch if its verbatim part is too long."""
        folded = await self.folding.fold(job.branch_id, job=job) if self.setup.folds else None
        return None if folded is None else JobResult(is_written=True)

    async def _no_work(self, job: Job) -> None:
        """Finish at once: this job type has no work yet."""

    async def _answered(self, job: Job) -> AnsweredTurn | None:
        return None if job.turn_id is None else await self.store.turns.answered(job.turn_id, earlier=BORROWED_FROM)

    async def _chunks(self, turn: AnsweredTurn, *, may_wait: bool = True) -> tuple[NewChunk, ...] | None:
        """Return the chunks of a turn; None if ``may_wait`` is false and a remote embedder is needed."""
        await loaded(*FOR_THE_INDEX)
        from contextinfinity.engine.indexing import Indexer

        setup = self.setup
        indexer = Indexer(store=self.store, retrieval=setup.retrieval, redactor=setup.redactor, running=self.running)
        with nullcontext() if may_wait else timed("index"):
            return await indexer.chunks_of_turn(turn, may_wait=may_wait)

    async def _memories(self, turn: AnsweredTurn, *, may_wait: bool = True) -> Extraction | None:
        """Return the memory changes of a turn; None if ``may_wait`` is false and a model extracts them."""
        remembering = self.setup.following(self.models.that_answered(turn.turn)).remembering
        if remembering is None:
            return Extraction(owner=turn.session.owner)
        if remembering.asks_model and not may_wait:
            return None
        await loaded(*FOR_A_TURN)
        from contextinfinity.engine.memory_jobs import extract_turn

        return await extract_turn(self.store, self.caches.texts, remembering, turn)


async def _or_later(stage: str, job: Job, work: Awaitable[T]) -> T | None:
    """Return the result of a stage; None if it failed, so that its own job retries it."""
    try:
        return await work
    except Exception as error:  # the turn is committed without the stage
        log.warning("%s of turn %s is left to its job: %s: %s", stage, job.turn_id, type(error).__name__, error)
        return None
