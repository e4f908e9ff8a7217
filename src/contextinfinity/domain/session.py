"""Sessions, branches and lineages.

A session belongs to one owner and holds branches. A branch owns the turns added on it and records where it was forked
from its parent; earlier turns belong to the parent and are shared, never copied. The lineage of a branch lists the
ranges of turns visible on it.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Literal, TypeAlias

from msgspec import Struct

from contextinfinity.domain.ids import BranchId, Position, SessionId, StateId, TurnId
from contextinfinity.domain.message import Json

SessionKind: TypeAlias = Literal["thread", "chat"]
"""``chat``: a session with a time to live and document D's rules; ``thread``: everything else."""


class Owner(Struct, frozen=True, kw_only=True):
    """The owner of a session; the same user in two organisations shares nothing."""

    user_id: str = "local"
    org_id: str = ""


class IdempotencyKey(Struct, frozen=True, kw_only=True):
    """The idempotency key of a request, and a hash of its content.

    Both are SHA-256 in hex. ``key`` hashes the caller and the caller's key together, so two callers never share one.
    """

    key: str
    asked: str


class NewSession(Struct, frozen=True, kw_only=True):
    """The parameters of a new session. ``once`` is an idempotency key: a repeated request creates no second session."""

    owner: Owner = Owner()
    id: SessionId | None = None
    external_id: str | None = None
    kind: SessionKind = "thread"
    title: str | None = None
    system: str | None = None
    ttl_hours: float | None = None
    branch_id: BranchId | None = None
    """The id of its first branch, if that was announced before the session could be created."""
    once: IdempotencyKey | None = None
    metadata: dict[str, Json] = {}


class Session(Struct, frozen=True, kw_only=True):
    """One conversation."""

    id: SessionId
    owner: Owner
    kind: SessionKind
    active_branch: BranchId
    created_at: datetime
    updated_at: datetime
    external_id: str | None = None
    title: str | None = None
    system: str | None = None
    ttl_hours: float | None = None
    metadata: dict[str, Json] = {}
    """Data that the APIs store with the session besides its messages."""

    @property
    def position(self) -> Position:
        """Its position in its owner's list when it was read."""
        return Position(self.updated_at, self.id)


class Branch(Struct, frozen=True, kw_only=True):
    """One sequence of turns. ``head_state`` is the only source of committed state."""

    id: BranchId
    session_id: SessionId
    base_state: StateId
    head_state: StateId
    head_seq: int
    last_turn_seq: int
    created_at: datetime
    parent_id: BranchId | None = None
    fork_seq: int = 0
    label: str | None = None


class TurnRange(Struct, frozen=True, kw_only=True):
    """The turns ``first`` to ``last`` of one branch; ``last`` is None for all turns to its end."""

    branch_id: BranchId
    first: int
    last: int | None


class Lineage(Struct, frozen=True, kw_only=True):
    """The ranges of turns visible on a branch, oldest first, its own last. They neither overlap nor leave gaps."""

    stretches: tuple[TurnRange, ...]

    @staticmethod
    def of(chain: list[tuple[BranchId, int]]) -> Lineage:
        """Build it from (branch, fork turn_seq) pairs, from the branch itself to its root."""
        ends = [None, *(fork_seq for _, fork_seq in chain)]
        stretches = [
            TurnRange(branch_id=branch, first=fork_seq + 1, last=end)
            for (branch, fork_seq), end in zip(chain, ends, strict=False)
            if end is None or end > fork_seq
        ]
        return Lineage(stretches=tuple(reversed(stretches)))

    def owner_of(self, turn_seq: int) -> BranchId:
        """Return the branch that owns the turn with that turn_seq; for future turns, the branch itself."""
        for stretch in self.stretches:
            if stretch.first <= turn_seq and (stretch.last is None or turn_seq <= stretch.last):
                return stretch.branch_id
        return self.stretches[0].branch_id if turn_seq < 1 else self.stretches[-1].branch_id

    def backwards(self, before: int) -> Iterator[tuple[BranchId, int, int]]:
        """Yield (branch, first, last) from the newest range to the oldest, limited to turns before ``before``."""
        for stretch in reversed(self.stretches):
            last = before - 1 if stretch.last is None else min(stretch.last, before - 1)
            if last >= stretch.first:
                yield stretch.branch_id, stretch.first, last


class Removed(Struct, frozen=True, kw_only=True):
    """The result of one batch of a deletion; ``more`` is True while the session has more to remove."""

    turns: int = 0
    sessions: int = 0
    more: bool = False


class ScannedPlace(Struct, frozen=True, kw_only=True):
    """A place that was searched for deleted text: what was searched, and how many rows or samples were found there."""

    place: str
    scanned: str
    found: int = 0
    note: str = ""


class Deleted(Struct, frozen=True, kw_only=True):
    """The scope of a deletion: a turn, a conversation, or all conversations and memories of a user.

    ``remaining`` lists the places where deleted text may still exist, one sentence each with the reason. It is empty
    when no such place is known. ``places`` is the proof, where one was asked for: every place that was searched.
    """

    thread_id: SessionId | None = None
    turn_id: TurnId | None = None
    user_id: str | None = None
    conversations: int = 0
    turns: int = 0
    memories: int = 0
    remaining: tuple[str, ...] = ()
    places: tuple[ScannedPlace, ...] = ()


class CleanupResult(Struct, frozen=True, kw_only=True):
    """The result of a clean-up: deletions, seconds and errors; failed deletions are retried by the next one.

    ``remaining`` lists places where deleted text may still exist, as in ``Deleted``.
    """

    sessions_deleted: int = 0
    turns_deleted: int = 0
    execution_time: float = 0.0
    errors: tuple[str, ...] = ()
    remaining: tuple[str, ...] = ()
