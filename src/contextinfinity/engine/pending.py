"""Committing now what would be committed in a moment: answers that the head does not count past yet."""

from __future__ import annotations

import asyncio

from contextinfinity.domain.ids import BranchId
from contextinfinity.domain.turn import Phase, Turn
from contextinfinity.engine.afterwards import Afterwards
from contextinfinity.storage.contract import Store

LOOK_SECONDS = 0.02
MOST_PENDING = 64


async def pending(store: Store, branch_id: BranchId) -> tuple[Turn, ...]:
    """Read the answered turns of a branch that are not committed, the oldest first."""
    newest = await store.turns.history(branch_id, limit=MOST_PENDING)
    return tuple(turn for turn in newest if turn.phase is Phase.RESPONSE_FINALIZED and turn.branch_id == branch_id)


async def commit_pending(store: Store, afterwards: Afterwards, branch_id: BranchId, *, seconds: float) -> int:
    """Have them committed, and wait for that long; tell how many are left.

    The jobs are asked for again, so that one that was given up is tried once more.
    """
    left = await pending(store, branch_id)
    for turn in left:
        await store.jobs.enqueue("summarize_turn", branch_id, turn.id)
    deadline = asyncio.get_running_loop().time() + seconds
    while left and asyncio.get_running_loop().time() < deadline:
        afterwards.wake()
        await asyncio.sleep(LOOK_SECONDS)
        left = await pending(store, branch_id)
    return len(left)
