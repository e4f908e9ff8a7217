"""Trails in every store: the contract. They are written by the transactions that accept, finish and record turns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from contextinfinity.domain.ids import SessionId
from contextinfinity.domain.session import Owner
from contextinfinity.domain.trail import TrailEnd, Walked
from contextinfinity.domain.turn import Trail

MOST_ENDS = 20
"""How many turns of one trail are looked at: the newest, those first that nothing follows."""
MOST_WALKED = 100


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

    async def walked(self, owner: Owner, trail: Trail) -> tuple[Walked, ...]:
        """Find the turns that a request made, the newest first."""
        ...
