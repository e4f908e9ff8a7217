"""Checkpoints: the committed state of a branch.

A state is a summary, the pinned facts, and how far both reach. ``turn_seq`` is the last turn committed when it was
made, ``covers_turn_seq`` the last turn that its summary covers; later turns are shown to the model verbatim. States
form a chain; a branch's head is the end of its chain. A fold that was computed but not committed is a candidate: it can
be previewed and then committed exactly as shown.
"""

from __future__ import annotations

import hashlib
from datetime import datetime
from typing import Literal, TypeAlias

from msgspec import Struct

from contextinfinity.domain.ids import BranchId, SessionId, StateId, TurnId
from contextinfinity.domain.turn import Turn, Usage

StateReason: TypeAlias = Literal["root", "turn", "record", "fold", "unfold", "pin", "unpin", "delete"]
FoldCase: TypeAlias = Literal["truncate", "summarize"]

FOLDS: frozenset[StateReason] = frozenset({"fold", "unfold", "delete"})
"""The reasons that change what the summary covers."""

SCHEMA_VERSION = 1
"""The schema version of a state's content; stored with each state."""


class State(Struct, frozen=True, kw_only=True):
    """One checkpoint of a branch."""

    id: StateId
    session_id: SessionId
    branch_id: BranchId
    state_seq: int
    turn_seq: int
    covers_turn_seq: int
    reason: StateReason
    created_at: datetime
    parent_id: StateId | None = None
    summary: str = ""
    pinned_facts: tuple[str, ...] = ()
    token_count_est: int = 0
    schema_version: int = SCHEMA_VERSION


class KnownTurns(Struct, frozen=True, kw_only=True):
    """Turns of a lineage that were read before, from one turn_seq to another."""

    first: int
    last: int
    count: int
    updated: int
    """The sum of their update times, in milliseconds."""


class BranchTail(Struct, frozen=True, kw_only=True):
    """The head of a branch and the newest turns of its lineage, read in one snapshot."""

    state: State
    turns: tuple[Turn, ...]
    """Oldest first."""
    extends: bool = False
    """Whether they follow the known turns, which have not changed."""


class StateDraft(Struct, frozen=True, kw_only=True):
    """A state to commit. Fields that are None are inherited from the head; pinned facts always are.

    With ``turn_id`` it commits that turn; without, it changes only the state (a fold or its undoing).
    """

    branch_id: BranchId
    reason: StateReason
    turn_id: TurnId | None = None
    summary: str | None = None
    covers_turn_seq: int | None = None
    token_count_est: int | None = None


class FoldCandidate(Struct, frozen=True, kw_only=True):
    """A fold that could be committed: the summary, and the last turn it would cover.

    It is based on a summary that covers ``base_covers`` and has the SHA-256 ``base_summary`` (in hex); on any other it
    is out of date. ``by`` names its author: a model, or ``offline``.
    """

    branch_id: BranchId
    base_covers: int
    base_summary: str
    covers_turn_seq: int
    summary: str
    case: FoldCase
    tokens_before: int
    tokens_after: int
    created_at: datetime
    boundary_reason: str = ""
    by: str = "offline"
    base_state_seq: int = 0
    """The state_seq of the head when the turns were read; the summary may contain text that was deleted since then."""
    spent: Usage = Usage()
    """The model usage of all summaries of this branch so far, including this one."""

    def continues(self, head: State) -> bool:
        """Return whether it is based on the summary of that head."""
        same = (self.base_covers, self.base_summary) == (head.covers_turn_seq, summary_hash(head.summary))
        return same and self.covers_turn_seq <= head.turn_seq


def summary_hash(summary: str) -> str:
    """Return the SHA-256 of a summary, in hex."""
    return hashlib.sha256(summary.encode()).hexdigest()
