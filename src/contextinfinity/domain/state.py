"""Checkpoints: what of a branch is committed.

A state is a summary, the pinned facts, and how far both reach. ``turn_seq`` is the last turn committed
when it was made, ``covers_turn_seq`` the last turn its summary stands for; every later turn is shown to
the model word for word. States form a chain; a branch's head is the end of its chain. A fold that was worked
out and not committed yet is a candidate: it is shown to people, and committed as they saw it.
"""

from __future__ import annotations

import hashlib
from datetime import datetime
from typing import Literal, TypeAlias

from msgspec import Struct

from contextinfinity.domain.ids import BranchId, SessionId, StateId, TurnId
from contextinfinity.domain.turn import Usage

StateReason: TypeAlias = Literal["root", "turn", "record", "fold", "unfold", "pin", "unpin", "delete"]
FoldCase: TypeAlias = Literal["truncate", "summarize"]

FOLDS: frozenset[StateReason] = frozenset({"fold", "unfold", "delete"})
"""The reasons that change what the summary covers."""

SCHEMA_VERSION = 1
"""The shape of a state's content; stored with each state."""


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


class StateDraft(Struct, frozen=True, kw_only=True):
    """A state to be committed. What is None is inherited from the head; pins always are.

    With ``turn_id`` it commits that turn; without, it changes the state only (a fold or its undoing).
    """

    branch_id: BranchId
    reason: StateReason
    turn_id: TurnId | None = None
    summary: str | None = None
    covers_turn_seq: int | None = None
    token_count_est: int | None = None


class FoldCandidate(Struct, frozen=True, kw_only=True):
    """A fold that could be committed: the summary, and how far it would reach.

    It goes on from a summary that covers ``base_covers`` and has the SHA-256 ``base_summary`` (in hex); on another
    one it is out of date. ``by`` names who wrote it: a model, or ``offline``.
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
    """The number of the head when the turns were read: of what was deleted since, it may say something."""
    spent: Usage = Usage()
    """What models used for the summaries of this branch so far, this one included."""

    def continues(self, head: State) -> bool:
        """Tell whether it goes on from the summary of that head."""
        same = (self.base_covers, self.base_summary) == (head.covers_turn_seq, summary_hash(head.summary))
        return same and self.covers_turn_seq <= head.turn_seq


def summary_hash(summary: str) -> str:
    """Return the SHA-256 of a summary, in hex."""
    return hashlib.sha256(summary.encode()).hexdigest()
