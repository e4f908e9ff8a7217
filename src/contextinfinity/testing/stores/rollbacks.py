"""What every store promises about going back: a new line becomes the active one, the old one stays."""

from __future__ import annotations

import pytest

from contextinfinity.domain.state import StateDraft
from contextinfinity.errors import InvalidInput
from contextinfinity.storage.contract import Store
from contextinfinity.testing.builders import exchange, new_branch, said
from contextinfinity.testing.stores.branches import five_turns, talk


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

    @pytest.mark.req("LEDGER-8")
    async def test_a_rollback_forgets_pins_made_later(self, store: Store) -> None:
        main = await new_branch(store)
        await store.turns.record(main.id, [exchange("a", "b"), exchange("c", "d")])
        await store.states.pin(main.id, "late")
        back = await store.branches.rollback(main.id, to=1)
        assert (await store.states.head(back.id)).pinned_facts == ()
        assert (await store.states.head(main.id)).pinned_facts == ("late",)

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
