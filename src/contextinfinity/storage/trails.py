"""Trails in every store: the contract. They are written by the transactions that accept, finish and record turns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from contextinfinity.domain.ids import BranchId, SessionId
from contextinfinity.domain.session import Owner
from contextinfinity.domain.trail import TrailEnd, Walked
from contextinfinity.domain.turn import Trail
from contextinfinity.errors import BranchBusy

MOST_ENDS = 20
"""How many turns of one trail are looked at: the newest, those first that nothing follows."""


def gone_on(branch_id: BranchId, turn_seq: int) -> BranchBusy:
    """Say that a message cannot stand where its sender thought."""
    return BranchBusy(f"Branch {branch_id} has gone on after turn {turn_seq}.")


class Trails(Protocol):
    """Where threads of one owner left off, by what was said in them. ``session_id``: only in that one."""

    async def ends(
        self, owner: Owner, answered: Sequence[int], *, session_id: SessionId | None = None
    ) -> tuple[int, tuple[TrailEnd, ...]] | None:
        """Find the turns that trails lead to: of the first one that leads anywhere, its place among them and its turns.

        Free ones come first, and of those the newest. A branch that was begun after the turn, and on which nothing was
        said yet, is free too.
        """
        ...

    async def ends_of_exchange(
        self, owner: Owner, alone: int, *, session_id: SessionId | None = None
    ) -> tuple[TrailEnd, ...]:
        """Find the free turns that say just this, whatever stood before; two are enough to tell one from several."""
        ...

    async def walked(self, owner: Owner, trail: Trail) -> Walked | None:
        """Find the turn that a request made; the newest, where it was made more than once."""
        ...
