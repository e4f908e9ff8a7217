"""Tests of a store: a rollback activates a new branch and keeps the old one."""

from __future__ import annotations

import pytest

from contextinfinity.domain.state import StateDraft
from contextinfinity.errors import InvalidInput
from contextinfinity.storage.contract import Store
from contextinfinity_testing.builders import exchange, new_branch, said
from contextinfinity_testing.stores.branches import five_turns, talk


class RollbackSuite:
    """Going back without losing anything."""

    @pytest.mark.req("LEDGER-8")
    async def test_a_fork_leaves_the_active_branch_and_a_rollback_changes_it(self, store: Store) -> None:
        main = await five_turns(store)
        await store.branches.fork(main.id, at=2)
        session = await store.sessions.get(main.session_id)
        assert session is not None
        assert session.active_branch == main.id
        back = await store.branches.rollback(main.id, to=2, label="second try")
        session = await store.sessions.get(main.session_id)
        assert session is not None
        assert session.active_branch == back.id
        assert (back.parent_id, back.fork_seq, back.last_turn_seq, back.label) == (main.id, 2, 2, "second try")

    @pytest.mark.req("LEDGER-8")
    async def test_a_rollback_deletes_nothing(self, store: Store) -> None:
        main = await five_turns(store)
        turns, states = await store.turns.history(main.id), await store.states.list(main.id)
        back = await store.branches.rollback(main.id, to=1)
        await talk(store, back.id, "x", "y")
        assert await said(store, back.id) == ["a", "x", "y"]
        assert await store.branches.get(main.id) == main
        assert await store.turns.history(main.id) == turns
        assert await store.states.list(main.id) == states

    @pytest.mark.req("LEDGER-8")
    async def test_a_rollback_to_a_state_takes_its_summary_and_pins(self, store: Store) -> None:
        main = await five_turns(store)
        draft = StateDraft(branch_id=main.id, reason="fold", summary="a, b and c were said", covers_turn_seq=3)
        folded = await store.states.commit(draft, expected_head=main.head_state)
        await talk(store, main.id, "f")
        back = await store.branches.rollback(main.id, state=folded.state_seq)
        assert await store.states.head(back.id) == folded
        assert await said(store, back.id) == list("abcde")

    @pytest.mark.req("TURN-15")
    @pytest.mark.parametrize("place", [0, 1, 2])
    @pytest.mark.parametrize("verb", ["fork", "rollback"])
    async def test_the_pins_of_the_branch_go_along_to_any_turn(self, store: Store, verb: str, place: int) -> None:
        main = await new_branch(store)
        await store.states.pin(main.id, "removed later")
        await store.turns.record(main.id, [exchange("a", "b"), exchange("c", "d")])
        await store.states.pin(main.id, "added later")
        head = await store.states.unpin(main.id, 1)
        if verb == "fork":
            made = await store.branches.fork(main.id, at=place)
        else:
            made = await store.branches.rollback(main.id, to=place)
        carried = await store.states.head(made.id)
        assert carried.pinned_facts == ("added later",)
        assert (made.head_state, made.head_seq) == (carried.id, carried.state_seq)
        if place < 2:
            assert (carried.branch_id, carried.parent_id, carried.turn_seq) == (made.id, made.base_state, 0)
        assert await store.states.head(main.id) == head
        await talk(store, made.id, "x")
        assert (await store.states.head(made.id)).pinned_facts == ("added later",)
        again = await store.branches.fork(made.id, at=place)
        assert (await store.states.head(again.id)).pinned_facts == ("added later",)

    @pytest.mark.req("TURN-15")
    async def test_a_fork_commits_no_state_where_the_pins_are_the_same(self, store: Store) -> None:
        main = await new_branch(store)
        await store.states.pin(main.id, "early")
        await talk(store, main.id, "a", "b")
        fork = await store.branches.fork(main.id, at=1)
        assert fork.head_state == fork.base_state

    @pytest.mark.req("TURN-15")
    async def test_a_rollback_to_a_state_restores_the_pins_of_that_state(self, store: Store) -> None:
        main = await new_branch(store)
        early = await store.states.pin(main.id, "early")
        await store.states.pin(main.id, "late")
        back = await store.branches.rollback(main.id, state=early.state_seq)
        assert await store.states.head(back.id) == early

    @pytest.mark.parametrize("place", [{}, {"to": 6}, {"to": -1}, {"state": 6}, {"to": 1, "state": 1}], ids=str)
    async def test_a_rollback_to_a_place_the_branch_does_not_have_is_refused(
        self, store: Store, place: dict[str, int]
    ) -> None:
        main = await five_turns(store)
        with pytest.raises(InvalidInput):
            await store.branches.rollback(main.id, **place)  # type: ignore[arg-type]
        assert await store.branches.list(main.session_id) == (main,)
        session = await store.sessions.get(main.session_id)
        assert session is not None
        assert session.active_branch == main.id
