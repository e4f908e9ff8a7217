"""What is done for a turn once it is answered. Each may be run twice and changes nothing the second time."""

from __future__ import annotations

from collections.abc import Mapping

from contextinfinity.domain.state import StateDraft
from contextinfinity.domain.work import Job, JobType
from contextinfinity.engine.afterwards import Handler
from contextinfinity.engine.folding import fold
from contextinfinity.engine.lazy_modules import FOR_A_TURN, FOR_THE_INDEX, loaded
from contextinfinity.engine.parts import Parts


def handlers(parts: Parts) -> Mapping[JobType, Handler]:
    """Give the handler of every job."""
    store = parts.store

    async def summarize_turn(job: Job) -> None:
        """Commit the next state: the head's summary and pins go on, no model is asked (TX-B)."""
        if job.turn_id is not None:
            draft = StateDraft(branch_id=job.branch_id, reason="turn", turn_id=job.turn_id)
            await store.states.commit(draft, expected_head=None)

    async def index(job: Job) -> None:
        """Make the turn findable: its chunks and their vectors (TX-C)."""
        await loaded(*FOR_THE_INDEX)
        from contextinfinity.engine.indexing import index_turn

        if job.turn_id is not None:
            await index_turn(parts, job.turn_id)

    async def fold_branch(job: Job) -> None:
        """Move old turns from the word-for-word part into the summary, where that part is too long."""
        if parts.setup.folds:
            await fold(parts, job.branch_id)

    async def remember(job: Job) -> None:
        """Keep what the user tells of themselves, and forget what they want forgotten."""
        await loaded(*FOR_A_TURN)
        from contextinfinity.engine.remembering import remember_turn

        if job.turn_id is not None and parts.setup.remembering is not None:
            await remember_turn(parts, parts.setup.remembering, job.turn_id)

    async def nothing_yet(job: Job) -> None:
        """Finish at once: what this job is for comes with a later release."""

    return {
        "summarize_turn": summarize_turn,
        "index_turn": index,
        "remember_turn": remember,
        "fold_branch": fold_branch,
        "reconcile_stream": nothing_yet,
    }
