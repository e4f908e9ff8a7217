"""Tests of a client: pinned facts, and closing the client."""

from __future__ import annotations

import pytest

from contextinfinity.client.contract import Client
from contextinfinity.domain.ids import new_id
from contextinfinity.errors import InvalidInput, NotFound
from contextinfinity_testing.clients.threads import thread_of


async def facts(client: Client, thread_id: str, branch_id: str | None = None) -> list[tuple[int, str]]:
    """Return the pinned facts with their numbers."""
    return [(pin.n, pin.fact) for pin in (await client.pins.list(thread_id, branch_id=branch_id)).pins]


class PinPromises:
    """``PinnedFacts``."""

    async def test_facts_are_numbered_in_the_order_they_were_pinned(self, client: Client) -> None:
        thread = await thread_of(client, "Hello")
        assert await facts(client, thread) == []
        await client.pins.add(thread, "tea, not coffee")
        pinned = await client.pins.add(thread, "  spaces\nand lines  ")
        assert [pin.n for pin in pinned.pins] == [1, 2]
        assert await facts(client, thread) == [(1, "tea, not coffee"), (2, "  spaces\nand lines  ")]

    async def test_a_fact_that_is_let_go_gives_its_number_to_the_next(self, client: Client) -> None:
        thread = await thread_of(client, "Hello")
        for fact in "abc":
            await client.pins.add(thread, fact)
        rest = await client.pins.remove(thread, 2)
        assert [(pin.n, pin.fact) for pin in rest.pins] == [(1, "a"), (2, "c")]
        assert await facts(client, thread) == [(1, "a"), (2, "c")]

    async def test_a_fact_is_pinned_once(self, client: Client) -> None:
        thread = await thread_of(client, "Hello")
        await client.pins.add(thread, "a")
        assert len((await client.pins.add(thread, "a")).pins) == 1

    async def test_a_fact_that_is_blank_or_not_there_is_refused(self, client: Client) -> None:
        thread = await thread_of(client, "Hello")
        with pytest.raises(InvalidInput):
            await client.pins.add(thread, " \n")
        for number in (0, 1, -1):
            with pytest.raises(NotFound):
                await client.pins.remove(thread, number)
        with pytest.raises(NotFound):
            await client.pins.list(new_id())

    async def test_pins_belong_to_their_branch(self, client: Client) -> None:
        thread = await thread_of(client, "Hello")
        await client.pins.add(thread, "of both")
        fork = await client.threads.fork(thread)
        again = await client.pins.add(thread, "of both", branch_id=fork.branch_id)
        assert again.branch_id == fork.branch_id
        await client.pins.add(thread, "of one", branch_id=fork.branch_id)
        assert await facts(client, thread) == [(1, "of both")]
        assert await facts(client, thread, fork.branch_id) == [(1, "of both"), (2, "of one")]

    @pytest.mark.req("TURN-15")
    async def test_pins_go_along_to_an_earlier_turn(self, client: Client) -> None:
        thread = await thread_of(client, "a", "b")
        await client.pins.add(thread, "late")
        fork = await client.threads.fork(thread, at=0)
        back = await client.threads.rollback(thread, to=1)
        assert await facts(client, thread, fork.branch_id) == [(1, "late")]
        assert await facts(client, thread, back.branch_id) == [(1, "late")]

    async def test_closing_twice_does_nothing(self, client: Client) -> None:
        await thread_of(client, "Hello")
        await client.close()
        await client.close()
