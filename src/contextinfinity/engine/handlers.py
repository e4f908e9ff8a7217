"""What is done for a turn once it is answered. Each may be run twice and changes nothing the second time."""

from __future__ import annotations

from collections.abc import Mapping

from contextinfinity.domain.state import StateDraft
from contextinfinity.domain.work import Job, JobType
from contextinfinity.engine.afterwards import Handler
from contextinfinity.storage.contract import Store


def handlers(store: Store) -> Mapping[JobType, Handler]:
    """Give the handler of every job."""

    async def summarize_turn(job: Job) -> None:
        """Commit the next state: the head's summary and pins go on, no model is asked (TX-B)."""
        if job.turn_id is not None:
            draft = StateDraft(branch_id=job.branch_id, reason="turn", turn_id=job.turn_id)
            await store.states.commit(draft, expected_head=None)

    async def index_turn(job: Job) -> None:
        """Make the turn findable (TX-C); chunks come with retrieval."""
        if job.turn_id is not None:
            await store.chunks.index(job.turn_id, ())

    async def nothing_yet(job: Job) -> None:
        """Finish at once: what this job is for comes with a later release."""

    return {
        "summarize_turn": summarize_turn,
        "index_turn": index_turn,
        "remember_turn": nothing_yet,
        "fold_branch": nothing_yet,
        "reconcile_stream": nothing_yet,
    }
