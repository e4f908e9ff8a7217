"""Work that goes on behind the answers: jobs, and the workers that do it.

A job is durable the moment the turn that needs it is. Jobs of one kind on one branch are done in the
branch's order, one at a time a branch, by whichever worker takes them; a fold, which may take long, runs
beside the others. A worker is one process; it owns the turns it answers until it leaves or is found dead.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Literal, TypeAlias, get_args

from msgspec import Struct

from contextinfinity.domain.chunk import NewChunk
from contextinfinity.domain.ids import BranchId, SessionId, TurnId, WorkerId
from contextinfinity.domain.imported import Origin
from contextinfinity.domain.memory import Extraction
from contextinfinity.domain.plan import Plan
from contextinfinity.domain.session import Session
from contextinfinity.domain.state import StateDraft
from contextinfinity.domain.turn import Turn

JobType: TypeAlias = Literal["summarize_turn", "index_turn", "remember_turn", "fold_branch", "reconcile_stream"]
JobTypes: TypeAlias = Collection[JobType]
JobState: TypeAlias = Literal["queued", "running", "failed"]
Took: TypeAlias = Mapping[str, float]
"""The milliseconds that stages of a turn took, by the stage's name."""

FOLDING: frozenset[JobType] = frozenset({"fold_branch"})
"""What may take long, since a model is asked: at most one a branch runs, beside at most one of the others."""
PROMPT: frozenset[JobType] = frozenset(get_args(JobType)) - FOLDING
"""What somebody may be waiting for."""


class Job(Struct, frozen=True, kw_only=True):
    """Something to be done for a turn or a branch. A job that is done is gone."""

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
    """What the jobs of a turn work with, read at one moment."""

    turn: Turn
    session: Session
    earlier: tuple[Turn, ...] = ()
    """The turns right before it, the oldest first."""
    origins: tuple[Origin, ...] = ()
    plan: Plan | None = None


class JobResult(Struct, frozen=True, kw_only=True):
    """What a handler worked out for a turn; it is written in the transaction that ends the job.

    ``None`` leaves a part to the job of its own. The job that commits a turn may bring all three parts. ``is_written``:
    the handler has written its result and ended the job, in one transaction.
    """

    state: StateDraft | None = None
    chunks: tuple[NewChunk, ...] | None = None
    memories: Extraction | None = None
    is_written: bool = False

    @property
    def may_queue(self) -> bool:
        """Whether writing it may queue other jobs."""
        if self.state is not None and (self.chunks is None or self.memories is None):
            return True
        return self.is_written or (self.memories is not None and self.memories.based_on is not None)


class Backlog(Struct, frozen=True, kw_only=True):
    """What waits: how many jobs in each state, by kind, and since when the oldest waits."""

    queued: int = 0
    running: int = 0
    failed: int = 0
    by_type: dict[str, int] = {}
    oldest: datetime | None = None


class Worker(Struct, frozen=True, kw_only=True):
    """A process at work. ``beats`` counts its heartbeats: an observer sees it stand still, whatever the clocks say."""

    id: WorkerId
    host: str
    pid: int
    started_at: datetime
    beats: int = 0


class TakenOver(Struct, frozen=True, kw_only=True):
    """What a dead worker left: its unfinished turns, now the taker's, and how many jobs were queued again."""

    turns: tuple[TurnId, ...] = ()
    jobs: int = 0
