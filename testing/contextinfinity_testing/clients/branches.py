"""Tests of a client: branches lose nothing."""

from __future__ import annotations

import pytest

from contextinfinity.client.contract import Client
from contextinfinity.domain.ids import new_id
from contextinfinity.errors import InvalidInput, NotFound
from contextinfinity_testing.clients.threads import thread_of


async def said(client: Client, thread_id: str, branch_id: str | None = None) -> list[str]:
    """Return all user messages of a branch."""
    shown = await client.conversations.show(thread_id, branch_id=branch_id, limit=1000)
    return [turn.user for turn in shown.turns]


class BranchPromises:
    """``Threads`` and their branches."""

    async def test_a_thread_begins_with_one_branch(self, client: Client) -> None:
        thread = await thread_of(client, "a", "b")
        (main,) = await client.threads.branches(thread)
        assert (main.thread_id, main.label, main.active, main.parent_id) == (thread, "main", True, None)
        assert (main.fork_seq, main.last_turn_seq) == (0, 2)

    @pytest.mark.req("LEDGER-8")
    async def test_a_fork_leaves_the_active_branch_as_it_is(self, client: Client) -> None:
        thread = await thread_of(client, "a", "b", "c")
        (main,) = await client.threads.branches(thread)
        fork = await client.threads.fork(thread, at=1)
        assert (fork.parent_id, fork.fork_seq, fork.last_turn_seq, fork.active) == (main.branch_id, 1, 1, False)
        turn = await client.conversations.ask(thread, "x", branch_id=fork.branch_id)
        assert (turn.branch_id, turn.turn_seq) == (fork.branch_id, 2)
        assert await said(client, thread) == ["a", "b", "c"]
        assert await said(client, thread, fork.branch_id) == ["a", "x"]

    @pytest.mark.req("LEDGER-8")
    @pytest.mark.parametrize("place", [0, 1, 2, 3])
    async def test_one_can_fork_at_any_turn(self, client: Client, place: int) -> None:
        thread = await thread_of(client, "a", "b", "c")
        fork = await client.threads.fork(thread, at=place)
        assert await said(client, thread, fork.branch_id) == ["a", "b", "c"][:place]

    @pytest.mark.req("LEDGER-8")
    async def test_a_fork_of_a_fork_starts_from_the_one_that_is_named(self, client: Client) -> None:
        thread = await thread_of(client, "a", "b")
        one = await client.threads.fork(thread, at=1)
        await client.conversations.ask(thread, "x", branch_id=one.branch_id)
        two = await client.threads.fork(thread, branch_id=one.branch_id)
        assert (two.parent_id, two.fork_seq) == (one.branch_id, 2)
        assert await said(client, thread, two.branch_id) == ["a", "x"]

    @pytest.mark.req("LEDGER-8")
    async def test_a_rollback_is_a_new_active_branch_and_the_old_one_stays(self, client: Client) -> None:
        thread = await thread_of(client, "a", "b", "c")
        (main,) = await client.threads.branches(thread)
        back = await client.threads.rollback(thread, to=1)
        assert (back.active, back.fork_seq) == (True, 1)
        await client.conversations.ask(thread, "x")
        assert await said(client, thread) == ["a", "x"]
        assert await said(client, thread, main.branch_id) == ["a", "b", "c"]
        assert [(one.label, one.active) for one in await client.threads.branches(thread)] == [
            ("main", False),
            (None, True),
        ]

    @pytest.mark.req("LEDGER-8")
    async def test_one_can_go_back_to_a_state(self, client: Client) -> None:
        thread = await thread_of(client, "a")
        await client.pins.add(thread, "first")
        (main,) = await client.threads.branches(thread)
        await client.pins.add(thread, "second")
        back = await client.threads.rollback(thread, state=main.state)
        assert [pin.fact for pin in (await client.pins.list(thread)).pins] == ["first"]
        assert (back.state, back.head_state) == (main.state, main.head_state)

    @pytest.mark.req("LEDGER-8")
    async def test_switching_changes_where_the_conversation_goes_on(self, client: Client) -> None:
        thread = await thread_of(client, "a", "b")
        (main,) = await client.threads.branches(thread)
        fork = await client.threads.fork(thread, at=1)
        assert (await client.threads.switch(thread, fork.branch_id)).active
        assert (await client.conversations.ask(thread, "x")).branch_id == fork.branch_id
        assert (await client.threads.switch(thread, main.branch_id)).branch_id == main.branch_id
        assert await said(client, thread) == ["a", "b"]

    async def test_a_place_the_branch_does_not_have_is_refused(self, client: Client) -> None:
        thread = await thread_of(client, "a")
        with pytest.raises(InvalidInput):
            await client.threads.fork(thread, at=2)
        with pytest.raises(InvalidInput):
            await client.threads.fork(thread, at=1, state=0)
        with pytest.raises(InvalidInput):
            await client.threads.rollback(thread)
        assert len(await client.threads.branches(thread)) == 1

    async def test_a_branch_of_another_thread_is_not_found(self, client: Client) -> None:
        thread, other = await thread_of(client, "a"), await thread_of(client, "b")
        (foreign,) = await client.threads.branches(other)
        for branch in (foreign.branch_id, new_id(), "main"):
            with pytest.raises(NotFound):
                await client.conversations.ask(thread, "x", branch_id=branch)
            with pytest.raises(NotFound):
                await client.conversations.show(thread, branch_id=branch)
            with pytest.raises(NotFound):
                await client.threads.switch(thread, branch)
            with pytest.raises(NotFound):
                await client.threads.fork(thread, branch_id=branch)
        assert await said(client, thread) == ["a"]

    async def test_a_branch_is_found_by_what_a_person_writes(self, client: Client) -> None:
        thread = await thread_of(client, "a")
        (main,) = await client.threads.branches(thread)
        fork = await client.threads.fork(thread)
        for reference in ("main", main.branch_id, main.branch_id[-8:]):
            assert (await client.threads.find_branch(thread, reference)).branch_id == main.branch_id
        assert (await client.threads.find_branch(thread, fork.branch_id[-8:])).branch_id == fork.branch_id
        for unknown in ("maine", main.branch_id[-5:], thread):
            with pytest.raises(NotFound):
                await client.threads.find_branch(thread, unknown)
