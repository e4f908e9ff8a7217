"""Background jobs.

A job is queued in the transaction that makes it necessary, so it is as durable as its turn. The jobs of a branch run
one at a time, those of one type in turn order, on any worker; a fold may be slow and runs in parallel with the others.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Literal, TypeAlias, get_args

from msgspec import Struct

from contextinfinity.domain.ids import BranchId, SessionId, TurnId, WorkerId
from contextinfinity.domain.memory import Extraction
from contextinfinity.domain.plan import Plan
from contextinfinity.domain.search import NewChunk
from contextinfinity.domain.session import Session
from contextinfinity.domain.state import StateDraft
from contextinfinity.domain.transfer import Origin
from contextinfinity.domain.turn import Turn

JobType: TypeAlias = Literal["summarize_turn", "index_turn", "remember_turn", "fold_branch", "reconcile_stream"]
JobTypes: TypeAlias = Collection[JobType]
JobState: TypeAlias = Literal["queued", "running", "failed"]
Took: TypeAlias = Mapping[str, float]
"""The duration of each stage of a turn in milliseconds, by stage name."""

FOLDING: frozenset[JobType] = frozenset({"fold_branch"})
"""Jobs that may be slow because they call a model. A branch runs at most one of them beside one other job."""
PROMPT: frozenset[JobType] = frozenset(get_args(JobType)) - FOLDING
"""Jobs that a caller may be waiting for."""


class Job(Struct, frozen=True, kw_only=True):
    """Work to do for a turn or a branch. Finished jobs are deleted."""

    id: int
    job_type: JobType
    session_id: SessionId
    branch_id: BranchId
    turn_seq: int
    state: JobState
    run_at: datetime
    created_at: datetime
    updated_at: datetime
    turn_id: TurnId | None = None
    attempts: int = 0
    last_error: str | None = None
    owner: WorkerId | None = None


class AnsweredTurn(Struct, frozen=True, kw_only=True):
    """The input of a turn's jobs, read in one transaction."""

    turn: Turn
    session: Session
    earlier: tuple[Turn, ...] = ()
    """The turns immediately before it, oldest first."""
    origins: tuple[Origin, ...] = ()
    plan: Plan | None = None


class JobResult(Struct, frozen=True, kw_only=True):
    """The result of a job handler; it is written in the transaction that completes the job.

    A part that is ``None`` is left to its own job; the job that commits a turn may return all three parts.
    ``is_written`` means that the handler has already written its result and completed the job in one transaction.
    """

    state: StateDraft | None = None
    chunks: tuple[NewChunk, ...] | None = None
    memories: Extraction | None = None
    is_written: bool = False

    @property
    def may_queue(self) -> bool:
        """Whether writing the result may queue other jobs."""
        if self.state is not None and (self.chunks is None or self.memories is None):
            return True
        return self.is_written or (self.memories is not None and self.memories.based_on is not None)


class Backlog(Struct, frozen=True, kw_only=True):
    """The job queue: the number of jobs by state and by type, and the creation time of the oldest."""

    queued: int = 0
    running: int = 0
    failed: int = 0
    by_type: dict[str, int] = {}
    oldest: datetime | None = None
