"""Trails in every store: the contract. They are written by the transactions that accept, finish and record turns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from contextinfinity.domain.ids import BranchId, SessionId
from contextinfinity.domain.session import Owner
from contextinfinity.domain.trail import TrailEnd, Walked
from contextinfinity.domain.turn import Trail
from contextinfinity.errors import BranchBusy


def gone_on(branch_id: BranchId, turn_seq: int) -> BranchBusy:
    """Say that a message cannot stand where its sender thought."""
    return BranchBusy(f"Branch {branch_id} has gone on after turn {turn_seq}.")


class Trails(Protocol):
    """Where threads of one owner left off, by what was said in them. ``session_id``: only in that one."""

    async def end(
        self, owner: Owner, answered: Sequence[int], *, session_id: SessionId | None = None
    ) -> tuple[int, TrailEnd] | None:
        """Find the turn that trails lead to: of the first one that leads anywhere, its place among them and its turn.

        Of several a free one, on the branch begun last. One that was begun after the turn, and on which nothing was
        said yet, is free too, and comes after those whose own it is. None free: one of the newest thread.
        """
        ...

    async def ends_of_exchange(
        self, owner: Owner, alone: int, *, session_id: SessionId | None = None
    ) -> tuple[TrailEnd, ...]:
        """Find turns that say just this, whatever stood before: free ones, or else such as have been gone on from.

        Each turn comes once; two are enough to tell one from several.
        """
        ...

    async def walked(self, owner: Owner, trail: Trail) -> Walked | None:
        """Find the turn that a request made; the newest, where it was made more than once."""
        ...
