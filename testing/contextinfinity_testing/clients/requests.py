"""Tests of a client: repeated requests, single turns, and turns that are not committed yet."""

from __future__ import annotations

import asyncio

import pytest

from contextinfinity.client.contract import Client
from contextinfinity.domain.ids import new_id
from contextinfinity.errors import InvalidInput, KeyReused, NotFound
from contextinfinity_testing.clients.branches import said
from contextinfinity_testing.clients.talking import done, hanging, heard, started, words
from contextinfinity_testing.clients.threads import thread_of


class RequestPromises:
    """``Conversations`` with keys; turns by themselves; ``Threads.commit``."""

    @pytest.mark.req("API-15")
    async def test_a_request_that_comes_again_under_its_key_is_said_once(self, client: Client) -> None:
        first = await client.conversations.ask("new", "Hello", key="k")
        again = await client.conversations.ask("new", "Hello", key="k")
        assert (again.thread_id, again.turn_id, again.text) == (first.thread_id, first.turn_id, first.text)
        assert await said(client, first.thread_id) == ["Hello"]
        assert len(await client.threads.list()) == 1

    @pytest.mark.req("API-15")
    async def test_many_at_once_under_one_key_hear_the_same_answer(self, client: Client) -> None:
        heard_by = await asyncio.gather(*(heard(client.conversations.send("new", "Hello", key="k")) for _ in range(8)))
        assert len({started(events).turn_id for events in heard_by}) == 1
        assert len({words(events) for events in heard_by}) == 1
        assert await said(client, started(heard_by[0]).thread_id) == ["Hello"]
        assert len(await client.threads.list()) == 1

    @pytest.mark.req("API-15")
    async def test_a_key_counts_for_its_caller_and_its_request(self, client: Client) -> None:
        first = await client.conversations.ask("lobby", "Hello", key="k")
        for thread_id, content in (("lobby", "Goodbye"), ("hall", "Hello")):
            with pytest.raises(KeyReused):
                await client.conversations.ask(thread_id, content, key="k")
        other = await client.conversations.ask("lobby", "Hello", key="k", user_id="anna")
        assert other.thread_id != first.thread_id
        for key in ("", "k" * 256, "a\nb"):
            with pytest.raises(InvalidInput):
                await client.conversations.ask("lobby", "Hello", key=key)
        assert await said(client, first.thread_id) == ["Hello"]

    async def test_a_turn_is_read_with_the_requests_it_took(self, client: Client) -> None:
        finished = await client.conversations.ask("new", "Hello")
        turn = await client.conversations.turn(finished.turn_id)
        assert (turn.thread_id, turn.user, turn.assistant) == (finished.thread_id, "Hello", finished.text)
        (step,) = turn.steps
        assert (step.step_index, step.outcome is None, step.ended_at is None) == (0, False, False)
        assert step.displayed_bytes == step.durable_bytes == len(finished.text.encode())
        with pytest.raises(NotFound):
            await client.conversations.turn(new_id())

    async def test_a_running_turn_is_read_as_far_as_it_is(self, client: Client) -> None:
        turn_id, events = await hanging(client)
        turn = await client.conversations.turn(turn_id)
        assert (turn.outcome, [step.outcome for step in turn.steps]) == (None, [None])
        await client.conversations.cancel(turn_id)
        assert done(await heard(events)).turn_id == turn_id

    async def test_answers_that_wait_are_committed_when_asked(self, client: Client) -> None:
        thread = await thread_of(client, "a", "b")
        committed = await client.threads.commit(thread)
        (main,) = await client.threads.branches(thread)
        assert (committed.pending, committed.branch_id, committed.state) == (0, main.branch_id, main.state)
        assert main.state >= 2
        with pytest.raises(NotFound):
            await client.threads.commit(new_id())
