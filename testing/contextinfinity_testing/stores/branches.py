"""Tests of a store: branches. A fork copies nothing and deletes nothing."""

from __future__ import annotations

import pytest

from contextinfinity.domain.ids import new_id
from contextinfinity.domain.session import Branch, Lineage
from contextinfinity.errors import InvalidInput, NotFound
from contextinfinity.storage.contract import Store
from contextinfinity_testing.builders import (
    answer_turn,
    commit_turn,
    exchange,
    final_turn,
    later_than,
    new_branch,
    said,
)


async def talk(store: Store, branch_id: str, *words: str) -> None:
    """Record a committed turn for every word."""
    for word in words:
        await answer_turn(store, branch_id, word, f"{word}!")


async def five_turns(store: Store) -> Branch:
    """Create a branch with the turns a, b, c, d, e, each with a state."""
    branch = await new_branch(store)
    await talk(store, branch.id, *"abcde")
    return await read(store, branch.id)


async def read(store: Store, branch_id: str) -> Branch:
    """Return an existing branch."""
    branch = await store.branches.get(branch_id)
    assert branch is not None
    return branch


def stretches(lineage: Lineage) -> list[tuple[str, int, int | None]]:
    """Return a lineage as (branch, first, last) tuples."""
    return [(part.branch_id, part.first, part.last) for part in lineage.stretches]


class BranchSuite:
    """Lines of turns."""

    @pytest.mark.req("LEDGER-8")
    async def test_a_fork_sees_its_parent_up_to_the_place_it_left(self, store: Store) -> None:
        main = await five_turns(store)
        fork = await store.branches.fork(main.id, at=3, label="what if")
        assert (fork.parent_id, fork.fork_seq, fork.last_turn_seq, fork.label) == (main.id, 3, 3, "what if")
        assert fork.session_id == main.session_id
        assert await store.branches.get(fork.id) == fork
        assert await said(store, fork.id) == ["a", "b", "c"]

    @pytest.mark.req("LEDGER-8")
    async def test_a_fork_shares_the_very_turns_of_its_parent(self, store: Store) -> None:
        main = await five_turns(store)
        fork = await store.branches.fork(main.id, at=4)
        assert await store.turns.history(fork.id) == (await store.turns.history(main.id))[:4]

    @pytest.mark.req("LEDGER-1", "LEDGER-8")
    async def test_both_lines_go_on_without_seeing_each_other(self, store: Store) -> None:
        main = await five_turns(store)
        fork = await store.branches.fork(main.id, at=3)
        await talk(store, fork.id, "x", "y")
        await talk(store, main.id, "f")
        assert await said(store, main.id) == ["a", "b", "c", "d", "e", "f"]
        assert await said(store, fork.id) == ["a", "b", "c", "x", "y"]
        for branch_id, length in ((main.id, 6), (fork.id, 5)):
            turns = await store.turns.history(branch_id)
            assert [turn.turn_seq for turn in turns] == list(range(1, length + 1))
            assert (await read(store, branch_id)).last_turn_seq == length

    @pytest.mark.req("LEDGER-8")
    async def test_a_fork_at_no_place_starts_at_the_end_and_the_head(self, store: Store) -> None:
        main = await five_turns(store)
        await store.states.pin(main.id, "The dog is called Rex.")
        main = await read(store, main.id)
        fork = await store.branches.fork(main.id)
        assert (fork.fork_seq, fork.last_turn_seq, fork.parent_id) == (5, 5, main.id)
        assert (fork.base_state, fork.head_state, fork.head_seq) == (main.head_state, main.head_state, main.head_seq)

    @pytest.mark.req("LEDGER-8")
    async def test_a_fork_before_the_first_turn_is_empty(self, store: Store) -> None:
        main = await five_turns(store)
        fork = await store.branches.fork(main.id, at=0)
        root = (await store.states.list(main.id))[-1]
        assert (fork.fork_seq, fork.last_turn_seq, fork.head_seq, fork.head_state) == (0, 0, 0, root.id)
        assert await said(store, fork.id) == []
        await talk(store, fork.id, "x")
        assert await said(store, fork.id) == ["x"]
        assert await said(store, main.id) == list("abcde")

    @pytest.mark.req("LEDGER-8")
    async def test_the_parent_of_a_fork_is_the_branch_that_owns_the_turn(self, store: Store) -> None:
        main = await five_turns(store)
        child = await store.branches.fork(main.id, at=3)
        await talk(store, child.id, "x", "y", "z")
        deep = await store.branches.fork(child.id, at=5)
        shallow = await store.branches.fork(child.id, at=2)
        at_the_seam = await store.branches.fork(child.id, at=3)
        assert (deep.parent_id, shallow.parent_id, at_the_seam.parent_id) == (child.id, main.id, main.id)
        assert await said(store, deep.id) == ["a", "b", "c", "x", "y"]
        assert await said(store, shallow.id) == ["a", "b"]
        assert await said(store, at_the_seam.id) == ["a", "b", "c"]

    @pytest.mark.req("LEDGER-8")
    async def test_a_fork_of_an_empty_fork_belongs_to_the_owner_of_the_turns(self, store: Store) -> None:
        main = await five_turns(store)
        empty = await store.branches.fork(main.id, at=3)
        again = await store.branches.fork(empty.id)
        assert (again.parent_id, again.fork_seq) == (main.id, 3)
        assert await said(store, again.id) == ["a", "b", "c"]

    @pytest.mark.req("LEDGER-8")
    async def test_a_lineage_names_whose_turns_are_seen(self, store: Store) -> None:
        main = await five_turns(store)
        child = await store.branches.fork(main.id, at=3)
        await talk(store, child.id, "x", "y", "z")
        grandchild = await store.branches.fork(child.id, at=5)
        await talk(store, grandchild.id, "q")
        assert stretches(await store.branches.lineage(main.id)) == [(main.id, 1, None)]
        assert stretches(await store.branches.lineage(child.id)) == [(main.id, 1, 3), (child.id, 4, None)]
        assert stretches(await store.branches.lineage(grandchild.id)) == [
            (main.id, 1, 3),
            (child.id, 4, 5),
            (grandchild.id, 6, None),
        ]
        assert await said(store, grandchild.id) == ["a", "b", "c", "x", "y", "q"]

    @pytest.mark.req("LEDGER-8")
    async def test_history_pages_run_across_branches(self, store: Store) -> None:
        main = await five_turns(store)
        child = await store.branches.fork(main.id, at=3)
        await talk(store, child.id, "x", "y")
        whole = await store.turns.history(child.id)
        assert await store.turns.history(child.id, limit=3) == whole[-3:]
        assert await store.turns.history(child.id, limit=2, before=5) == whole[2:4]
        assert await store.turns.history(child.id, limit=9, before=3) == whole[:2]

    # --- what a fork starts from ---

    @pytest.mark.req("LEDGER-5", "LEDGER-8")
    async def test_a_fork_starts_from_the_newest_state_of_that_turn(self, store: Store) -> None:
        main = await five_turns(store)
        chain = await store.states.list(main.id)
        for seq in range(6):
            fork = await store.branches.fork(main.id, at=seq)
            expected = next(state for state in chain if state.turn_seq <= seq)
            assert expected.turn_seq == seq
            assert (fork.base_state, fork.head_state, fork.head_seq) == (expected.id, expected.id, expected.state_seq)
            assert await store.states.head(fork.id) == expected

    @pytest.mark.req("LEDGER-5", "LEDGER-8")
    async def test_a_fork_between_two_states_starts_from_the_earlier_one(self, store: Store) -> None:
        main = await new_branch(store)
        await talk(store, main.id, "a")
        earlier = await store.states.pin(main.id, "fact")
        await store.turns.record(main.id, [exchange("b"), exchange("c"), exchange("d")])
        fork = await store.branches.fork(main.id, at=3)
        assert await store.states.head(fork.id) == earlier
        assert await said(store, fork.id) == ["a", "b", "c"]

    @pytest.mark.req("LEDGER-8")
    async def test_a_fork_of_a_fork_may_start_from_a_state_of_the_first_line(self, store: Store) -> None:
        main = await five_turns(store)
        child = await store.branches.fork(main.id, at=3)
        await talk(store, child.id, "x")
        back = await store.branches.fork(child.id, at=2)
        state = await store.states.get(back.base_state)
        assert state is not None
        assert (state.branch_id, state.turn_seq) == (main.id, 2)

    @pytest.mark.req("LEDGER-8")
    async def test_pending_turns_stay_in_view_of_a_fork(self, store: Store) -> None:
        main = await five_turns(store)
        await final_turn(store, main.id, "pending")
        fork = await store.branches.fork(main.id)
        assert (fork.last_turn_seq, fork.head_state) == (6, main.head_state)
        assert await said(store, fork.id) == [*"abcde", "pending"]
        answered = await final_turn(store, fork.id, "next")
        state = await commit_turn(store, answered)
        assert (answered.turn_seq, state.turn_seq, state.state_seq) == (7, 7, 6)

    @pytest.mark.req("LEDGER-8")
    async def test_a_fork_may_start_from_any_state_by_its_number(self, store: Store) -> None:
        main = await five_turns(store)
        await store.states.pin(main.id, "fact")
        for state in await store.states.list(main.id):
            fork = await store.branches.fork(main.id, state=state.state_seq)
            assert (fork.base_state, fork.head_seq) == (state.id, state.state_seq)
            assert fork.fork_seq == fork.last_turn_seq == state.turn_seq

    @pytest.mark.req("LEDGER-8")
    async def test_a_state_number_counts_in_the_chain_of_its_branch_only(self, store: Store) -> None:
        main = await five_turns(store)
        child = await store.branches.fork(main.id, at=2)
        await talk(store, child.id, "x")
        fork = await store.branches.fork(child.id, state=3)
        state = await store.states.get(fork.base_state)
        assert state is not None
        assert state.branch_id == child.id
        with pytest.raises(InvalidInput):
            await store.branches.fork(child.id, state=4)

    # --- places that are not there ---

    @pytest.mark.parametrize(
        "place",
        [{"at": -1}, {"at": 6}, {"state": -1}, {"state": 6}, {"at": 1, "state": 1}, {"at": 0, "state": 0}],
        ids=str,
    )
    async def test_a_fork_at_a_place_the_branch_does_not_have_is_refused(
        self, store: Store, place: dict[str, int]
    ) -> None:
        main = await five_turns(store)
        with pytest.raises(InvalidInput):
            await store.branches.fork(main.id, **place)  # type: ignore[arg-type]
        assert await store.branches.list(main.session_id) == (main,)

    async def test_an_unknown_branch_cannot_be_read_or_forked(self, store: Store) -> None:
        unknown = new_id()
        assert await store.branches.get(unknown) is None
        with pytest.raises(NotFound):
            await store.branches.lineage(unknown)
        with pytest.raises(NotFound):
            await store.branches.fork(unknown)
        with pytest.raises(NotFound):
            await store.branches.rollback(unknown, to=0)

    async def test_the_branches_of_a_session_are_listed_oldest_first(self, store: Store) -> None:
        main = await five_turns(store)
        await new_branch(store)
        forks = []
        for seq in (5, 1, 3):
            await later_than(main.created_at)
            forks.append(await store.branches.fork(main.id, at=seq))
        assert await store.branches.list(main.session_id) == (main, *forks)

    @pytest.mark.req("LEDGER-8")
    async def test_a_long_line_of_forks_sees_one_turn_of_each(self, store: Store) -> None:
        branch = await new_branch(store)
        for number in range(30):
            await store.turns.record(branch.id, [exchange(f"kept {number}"), exchange(f"left {number}")])
            branch = await store.branches.fork(branch.id, at=number + 1)
        assert await said(store, branch.id) == [f"kept {number}" for number in range(30)]
        assert len((await store.branches.lineage(branch.id)).stretches) == 31
