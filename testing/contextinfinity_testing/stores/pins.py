"""Tests of a store: pinned facts, and reading the chain of states."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from contextinfinity.domain.ids import new_id
from contextinfinity.domain.state import StateDraft
from contextinfinity.errors import InvalidInput, NotFound
from contextinfinity.storage.contract import Store
from contextinfinity_testing.builders import answer_turn, new_branch


class PinSuite:
    """Pinned facts."""

    @pytest.mark.req("LEDGER-5", "TURN-4")
    async def test_a_pin_is_a_state_of_its_own_at_once(self, store: Store) -> None:
        branch = await new_branch(store)
        await answer_turn(store, branch.id, "hello")
        head = await store.states.head(branch.id)
        draft = StateDraft(branch_id=branch.id, reason="fold", summary="s" * 12, covers_turn_seq=1, token_count_est=7)
        head = await store.states.commit(draft, expected_head=head.id)
        fact = "  The dog is called Rex.\n"
        pinned = await store.states.pin(branch.id, fact)
        assert await store.states.head(branch.id) == pinned
        assert (pinned.pinned_facts, pinned.reason, pinned.parent_id) == ((fact,), "pin", head.id)
        assert (pinned.state_seq, pinned.turn_seq) == (head.state_seq + 1, head.turn_seq)
        assert (pinned.summary, pinned.covers_turn_seq, pinned.token_count_est) == ("s" * 12, 1, 7)
        after = await store.branches.get(branch.id)
        assert after is not None
        assert (after.head_state, after.head_seq) == (pinned.id, pinned.state_seq)

    async def test_a_fact_that_is_pinned_already_stays_once(self, store: Store) -> None:
        branch = await new_branch(store)
        await store.states.pin(branch.id, "one")
        head = await store.states.pin(branch.id, "two")
        assert await store.states.pin(branch.id, "one") == head
        assert await store.states.head(branch.id) == head
        assert (await store.states.pin(branch.id, "One")).pinned_facts == ("one", "two", "One")

    async def test_a_fact_is_taken_away_by_its_number(self, store: Store) -> None:
        branch = await new_branch(store)
        for fact in ("one", "two", "three"):
            head = await store.states.pin(branch.id, fact)
        state = await store.states.unpin(branch.id, 2)
        assert (state.pinned_facts, state.reason, state.parent_id) == (("one", "three"), "unpin", head.id)
        assert (state.state_seq, await store.states.head(branch.id)) == (head.state_seq + 1, state)
        assert (await store.states.unpin(branch.id, 1)).pinned_facts == ("three",)
        assert (await store.states.unpin(branch.id, 1)).pinned_facts == ()
        assert (await store.states.get(head.id)) == head

    @pytest.mark.parametrize("number", [-1, 0, 2])
    async def test_a_fact_that_is_not_there_cannot_be_taken_away(self, store: Store, number: int) -> None:
        branch = await new_branch(store)
        head = await store.states.pin(branch.id, "one")
        with pytest.raises(NotFound):
            await store.states.unpin(branch.id, number)
        assert await store.states.head(branch.id) == head

    @pytest.mark.parametrize("fact", ["", "  \n\t", "\u2003", "half \ud800"])
    async def test_a_fact_without_words_is_refused(self, store: Store, fact: str) -> None:
        branch = await new_branch(store)
        with pytest.raises(InvalidInput):
            await store.states.pin(branch.id, fact)
        assert await store.branches.get(branch.id) == branch

    async def test_pins_on_one_branch_are_not_seen_on_another(self, store: Store) -> None:
        branch = await new_branch(store)
        await store.states.pin(branch.id, "shared")
        fork = await store.branches.fork(branch.id)
        await store.states.pin(branch.id, "on main")
        await store.states.pin(fork.id, "on the fork")
        assert (await store.states.head(branch.id)).pinned_facts == ("shared", "on main")
        forked = await store.states.head(fork.id)
        assert (forked.pinned_facts, forked.branch_id, forked.state_seq) == (("shared", "on the fork"), fork.id, 2)

    # --- reading the chain ---

    @pytest.mark.req("LEDGER-5")
    async def test_the_chain_runs_through_the_branches_it_came_from(self, store: Store) -> None:
        branch = await new_branch(store)
        for word in "abc":
            await answer_turn(store, branch.id, word)
        fork = await store.branches.fork(branch.id, at=2)
        await answer_turn(store, fork.id, "x")
        chain = await store.states.list(fork.id)
        assert [(state.state_seq, state.branch_id) for state in chain] == [
            (3, fork.id),
            (2, branch.id),
            (1, branch.id),
            (0, branch.id),
        ]
        assert await store.states.list(fork.id, limit=2) == chain[:2]

    @pytest.mark.parametrize("limit", [0, -1])
    async def test_a_chain_of_no_length_is_empty(self, store: Store, limit: int) -> None:
        branch = await new_branch(store)
        assert await store.states.list(branch.id, limit=limit) == ()

    async def test_the_chain_of_an_unknown_branch_is_empty_and_its_head_missing(self, store: Store) -> None:
        unknown = new_id()
        assert await store.states.get(unknown) is None
        assert await store.states.list(unknown) == ()
        attempts: list[Callable[[], Awaitable[object]]] = [
            lambda: store.states.head(unknown),
            lambda: store.states.pin(unknown, "fact"),
            lambda: store.states.unpin(unknown, 1),
        ]
        for attempt in attempts:
            with pytest.raises(NotFound):
                await attempt()
        assert await store.branches.get(unknown) is None
