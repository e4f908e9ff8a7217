"""Tests of a store: the newest fold is found, and a proposed fold is kept until it is committed."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest
from msgspec.structs import replace

from contextinfinity.domain.ids import BranchId, new_id, now
from contextinfinity.domain.state import FOLDS, FoldCandidate, State, StateDraft, StateReason
from contextinfinity.errors import HeadMoved, InvalidInput, NotFound
from contextinfinity.storage.contract import Store
from contextinfinity_testing.builders import answer_turn, exchange, new_branch

HUGE = 10**30


async def change(store: Store, branch_id: BranchId, reason: StateReason, covers: int) -> State:
    """Commit a fold, or its reversal, on top of the head."""
    draft = StateDraft(branch_id=branch_id, reason=reason, summary=f"{reason} to {covers}", covers_turn_seq=covers)
    return await store.states.commit(draft, expected_head=None)


async def said_three(store: Store) -> BranchId:
    """Create a branch with three turns."""
    branch = await new_branch(store)
    await store.turns.record(branch.id, [exchange("a", "b"), exchange("c", "d"), exchange("e", "f")])
    return branch.id


def candidate(branch_id: BranchId, **changes: object) -> FoldCandidate:
    """Return a fold candidate of the first two turns."""
    made = FoldCandidate(
        branch_id=branch_id,
        base_covers=0,
        base_summary=hashlib.sha256(b"").hexdigest(),
        covers_turn_seq=2,
        summary="They said a to d. 🙂\x00",
        case="summarize",
        boundary_reason="Another topic.",
        tokens_before=100,
        tokens_after=10,
        created_at=now(),
        by="a model",
    )
    return replace(made, **changes)


class FoldSuite:
    """Folds, and those that could be made."""

    # --- the newest ---

    @pytest.mark.req("COMPACT-1")
    async def test_the_newest_state_of_a_reason_is_found_behind_all_others(self, store: Store) -> None:
        branch = await said_three(store)
        first = await change(store, branch, "fold", 1)
        second = await change(store, branch, "fold", 2)
        undone = await change(store, branch, "unfold", 1)
        pinned = await store.states.pin(branch, "fact")
        await answer_turn(store, branch, "later")
        newest = store.states.newest
        assert await newest(branch, FOLDS) == await newest(branch, ["unfold"]) == undone
        assert await newest(branch, ["fold"]) == second
        assert await newest(branch, {"pin", "fold"}) == pinned
        assert await newest(branch, {"turn", "pin", "fold"}) == await store.states.head(branch)
        assert [await newest(branch, ["fold"], covers=covers) for covers in (0, 1, 2, 3)] == [
            None,
            first,
            second,
            None,
        ]
        assert await newest(branch, FOLDS, covers=1) == undone
        assert await newest(branch, ("record", "pin"), covers=0) == (await store.states.list(branch))[-2]

    @pytest.mark.req("COMPACT-1")
    async def test_a_fold_is_found_across_the_branches_the_chain_runs_through(self, store: Store) -> None:
        main = await said_three(store)
        folded = await change(store, main, "fold", 1)
        fork = await store.branches.fork(main)
        await store.states.pin(fork.id, "fact")
        deep = await store.branches.fork((await store.branches.fork(fork.id)).id)
        later = await change(store, main, "fold", 2)
        for branch in (fork, deep):
            assert await store.states.newest(branch.id, FOLDS) == folded, "what came after the fork is not its own"
        assert await store.states.newest(main, FOLDS) == later
        own = await change(store, deep.id, "fold", 3)
        assert await store.states.newest(deep.id, FOLDS) == own
        assert await store.states.newest(deep.id, FOLDS, covers=1) == folded
        early = await store.branches.fork(main, at=0)
        assert await store.states.newest(early.id, FOLDS) is None

    async def test_what_there_is_none_of_is_not_found(self, store: Store) -> None:
        branch = await said_three(store)
        assert await store.states.newest(branch, FOLDS) is None
        assert await store.states.newest(branch, ()) is None
        root = (await store.states.list(branch))[-1]
        assert await store.states.newest(branch, ["root"]) == root
        for covers in (-1, HUGE, -HUGE):
            assert await store.states.newest(branch, ("root", "record"), covers=covers) is None
        for unknown in (new_id(), branch.upper()):
            with pytest.raises(NotFound):
                await store.states.newest(unknown, FOLDS)

    # --- candidates ---

    @pytest.mark.req("COMPACT-1")
    async def test_a_candidate_is_kept_as_it_is_until_a_newer_one_comes(self, store: Store) -> None:
        branch, other = await said_three(store), await said_three(store)
        before = await store.states.list(branch)
        assert await store.states.proposal(branch) is None
        made = candidate(branch)
        assert await store.states.propose(made) == made == await store.states.proposal(branch)
        assert await store.states.proposal(other) is None
        newer = candidate(branch, covers_turn_seq=3, summary="", case="truncate", boundary_reason="", by="offline")
        assert await store.states.propose(newer) == newer == await store.states.proposal(branch)
        assert await store.states.list(branch) == before, "a candidate is no state"

    @pytest.mark.req("COMPACT-1")
    @pytest.mark.parametrize("reason", sorted(FOLDS))
    async def test_a_fold_or_its_undoing_removes_the_candidate(self, store: Store, reason: StateReason) -> None:
        branch, other = await said_three(store), await said_three(store)
        for branch_id in (branch, other):
            await store.states.propose(candidate(branch_id))
        await change(store, branch, reason, 1)
        assert await store.states.proposal(branch) is None
        assert await store.states.proposal(other) is not None
        again = candidate(branch, base_covers=1)
        assert await store.states.propose(again) == await store.states.proposal(branch)

    @pytest.mark.req("COMPACT-1")
    async def test_a_candidate_stays_when_nothing_was_folded(self, store: Store) -> None:
        branch = await said_three(store)
        made = await store.states.propose(candidate(branch))
        draft = StateDraft(branch_id=branch, reason="fold", summary="s", covers_turn_seq=1)
        with pytest.raises(HeadMoved):
            await store.states.commit(draft, expected_head=new_id())
        with pytest.raises(InvalidInput):
            await change(store, branch, "fold", 99)
        await store.states.pin(branch, "fact")
        await answer_turn(store, branch, "later")
        await store.turns.record(branch, [exchange("g", "h")])
        fork = await store.branches.fork(branch)
        await change(store, fork.id, "fold", 1)
        assert await store.states.proposal(branch) == made

    @pytest.mark.req("COMPACT-1")
    @pytest.mark.parametrize(
        "changed",
        [
            {"covers_turn_seq": 4},
            {"covers_turn_seq": HUGE},
            {"covers_turn_seq": -1},
            {"base_covers": -1},
            {"base_covers": 3},
            {"base_summary": ""},
            {"base_summary": "AB" * 32},
            {"base_summary": f"{'ab' * 32}\n"},
            {"tokens_before": -1},
            {"tokens_after": HUGE},
            {"case": "forget"},
            {"summary": "half \ud800"},
            {"boundary_reason": "half \ud800"},
            {"by": "half \ud800"},
        ],
        ids=str,
    )
    async def test_a_candidate_out_of_bounds_is_refused(self, store: Store, changed: dict[str, Any]) -> None:
        branch = await said_three(store)
        kept = await store.states.propose(candidate(branch))
        with pytest.raises(InvalidInput):
            await store.states.propose(candidate(branch, **changed))
        assert await store.states.proposal(branch) == kept

    async def test_a_candidate_of_a_branch_that_is_not_there_is_refused(self, store: Store) -> None:
        branch = await said_three(store)
        for unknown in (new_id(), branch.upper(), "somewhere"):
            with pytest.raises(NotFound):
                await store.states.propose(candidate(unknown))
            assert await store.states.proposal(unknown) is None
