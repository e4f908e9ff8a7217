"""Prefix hashes (``domain.trail``) in every store: the contract.

They are written by the transactions that accept, finish and record turns. A prefix hash always covers everything that
is stored in front of its turn on the turn's branch, except failed turns.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from contextinfinity.domain.ids import BranchId, SessionId, TurnId
from contextinfinity.domain.prefix_hash import HashedPrefix, PrefixHashEnd
from contextinfinity.domain.session import Owner
from contextinfinity.domain.turn import PrefixHashes
from contextinfinity.errors import BranchBusy, NotFound

MOST_CANDIDATES = 20
"""Turns with equal content that are compared; more cannot be distinguished."""
MOST_CONTINUATIONS = 3
"""Different continuations are counted up to this number."""


def gone_on(branch_id: BranchId, turn_seq: int) -> BranchBusy:
    """Return the error for a message whose branch has continued in the meantime."""
    return BranchBusy(f"Branch {branch_id} has continued after turn {turn_seq}.")


def not_on_branch(branch_id: BranchId, turn_id: TurnId) -> NotFound:
    """Return the error for a retry of a turn that is not on the branch."""
    hint = "Name a turn of the branch that the message goes to."
    return NotFound(f"retry_of: there is no turn {turn_id} on branch {branch_id}.", hint=hint)


class PrefixHashStore(Protocol):
    """Finds stored conversations of one owner by their content; ``session_id`` limits a search to one of them."""

    async def end(self, owner: Owner, answered: int, *, session_id: SessionId | None = None) -> PrefixHashEnd | None:
        """Return the turn whose stored prefix has this hash, and a branch to continue it on.

        A free turn comes first, on the branch made last; a branch that was forked after the turn and has no turn of
        its own comes after those that own it. If none is free: a turn of the newest thread, with its continuations.
        """
        ...

    async def exchanges(
        self, owner: Owner, alone: int, *, session_id: SessionId | None = None
    ) -> tuple[PrefixHashEnd, ...]:
        """Return the turns with exactly this exchange, regardless of what precedes them; free ones first.

        At most ``MOST_CANDIDATES`` + 1. Imported turns are found only at the end of a branch.
        """
        ...

    async def asked(self, owner: Owner, asked: int) -> tuple[TurnId, ...]:
        """Return the newest turns whose requests were asked with this prefix hash, at most ``MOST_CANDIDATES``."""
        ...

    async def walked(self, owner: Owner, trail: PrefixHashes) -> HashedPrefix | None:
        """Find the newest turn that was asked with this prefix hash by this request (``PrefixHashes.body``)."""
        ...

    async def note_broken(self, turn_id: TurnId) -> None:
        """Record that the connection of a turn's request broke before it was answered.

        ``Workers.take_over`` does the same for all requests of the dead worker that were not marked as answered.
        Unknown turns, and turns without a prefix hash, are ignored.
        """
        ...

    async def note_delivered(self, turn_ids: Sequence[TurnId]) -> None:
        """Record that the requests of these turns were answered."""
        ...

    async def join_broken(self, owner: Owner, body: int, *, since: datetime) -> TurnId | None:
        """Return the oldest turn of this request whose connection broke since then, and clear the record of it.

        So each broken connection is joined once. Failed and cancelled turns have no answer to share.
        None: there is no such turn.
        """
        ...
