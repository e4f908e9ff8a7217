"""Tests of a client: threads."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from contextinfinity.client.contract import Client
from contextinfinity.domain.ids import new_id
from contextinfinity.domain.session import NewSession, Owner
from contextinfinity.errors import AlreadyExists, InvalidInput, NotFound
from contextinfinity_testing.builders import later_than

ANNA = Owner(user_id="anna")


async def thread_of(client: Client, *said: str) -> str:
    """Create a thread with these messages and return it."""
    thread = (await client.conversations.ask("new", said[0])).thread_id
    for text in said[1:]:
        await client.conversations.ask(thread, text)
    return thread


class ThreadPromises:
    """``Threads``, without their branches."""

    async def test_a_new_thread_is_empty(self, client: Client) -> None:
        made = await client.threads.create(NewSession(owner=ANNA, title="Plans", external_id="plans"))
        assert (made.user_id, made.title, made.external_id, made.turns, made.said) == ("anna", "Plans", "plans", 0, "")
        assert await client.threads.get(made.thread_id, ANNA) == made
        assert (await client.acting_for(ANNA).conversations.show(made.thread_id)).turns == ()
        with pytest.raises(AlreadyExists):
            await client.threads.create(NewSession(owner=ANNA, external_id="plans"))

    async def test_threads_are_listed_by_what_was_said_last(self, client: Client) -> None:
        one, two = await thread_of(client, "a", "b"), await thread_of(client, "c")
        await client.conversations.ask(one, "d")
        assert [(thread.thread_id, thread.turns, thread.said) for thread in await client.threads.list()] == [
            (one, 3, "d"),
            (two, 1, "c"),
        ]

    async def test_a_list_goes_on_after_any_thread(self, client: Client) -> None:
        made = [await thread_of(client, text) for text in "abc"]
        first = await client.threads.list(limit=2)
        rest = await client.threads.list(after=first[-1].position)
        assert [thread.thread_id for thread in (*first, *rest)] == made[::-1]

    async def test_a_list_goes_on_where_it_was_left_whatever_became_of_its_threads(self, client: Client) -> None:
        made = [await thread_of(client, text) for text in "abcde"]
        page = await client.threads.list(limit=2)
        await client.conversations.ask(page[-1].thread_id, "spoken in meanwhile")
        rest = await client.threads.list(limit=1, after=page[-1].position)
        await client.threads.delete(rest[-1].thread_id)
        rest += await client.threads.list(after=rest[-1].position)
        assert [thread.thread_id for thread in rest] == made[2::-1]

    async def test_a_list_is_whole_while_threads_are_deleted(self, client: Client) -> None:
        kept, going = [], []
        for _ in range(5):
            kept.append((await client.threads.create(NewSession())).thread_id)
            going.append((await client.threads.create(NewSession())).thread_id)
        deleting = asyncio.gather(*map(client.threads.delete, going))
        while not deleting.done():
            listed = [thread.thread_id for thread in await client.threads.list(limit=5)]
            rest = await client.threads.list()
            assert len(listed) == 5
            assert {thread.thread_id for thread in rest} >= set(kept)
        await deleting
        assert [thread.thread_id for thread in await client.threads.list()] == kept[::-1]

    async def test_an_owner_sees_only_their_own(self, client: Client) -> None:
        turn = await client.conversations.ask("plans", "Hello", user_id="anna")
        assert await client.threads.list() == ()
        assert [thread.thread_id for thread in await client.threads.list(ANNA)] == [turn.thread_id]
        assert (await client.threads.get("plans", ANNA)).thread_id == turn.thread_id
        with pytest.raises(NotFound):
            await client.threads.get("plans")

    @pytest.mark.req("API-14")
    async def test_a_client_that_acts_for_an_owner_finds_nothing_of_others(self, client: Client) -> None:
        anna, ben = client.acting_for(ANNA), client.acting_for(Owner(user_id="ben"))
        turn = await anna.conversations.ask("plans", "My secret is heron.")
        thread, own = turn.thread_id, (await ben.conversations.ask("plans", "Hello", user_id="anna")).thread_id
        assert [one.user_id for one in await ben.threads.list(ANNA)] == ["ben"]
        for attempt in (
            ben.threads.get(thread, ANNA),
            ben.threads.find(thread[-12:], ANNA),
            ben.threads.rename(thread, "mine"),
            ben.threads.delete(thread),
            ben.threads.branches(thread),
            ben.threads.fork(thread),
            ben.threads.fork(own, branch_id=turn.branch_id),
            ben.threads.rollback(thread, to=0),
            ben.threads.switch(thread, turn.branch_id),
            ben.threads.commit(thread),
            ben.pins.list(thread),
            ben.pins.add(thread, "A fact."),
            ben.folds.fold(thread),
            ben.conversations.show(thread),
            ben.conversations.ask(thread, "What is it?"),
            ben.conversations.ask(own, "What is it?", retry_of=turn.turn_id),
            ben.conversations.turn(turn.turn_id),
            ben.conversations.context(turn.turn_id),
            ben.conversations.explain(turn.turn_id),
            ben.conversations.cancel(turn.turn_id),
            anext(ben.conversations.watch(turn.turn_id)),
            ben.past.search("secret", thread_id=thread, user_id="anna"),
        ):
            with pytest.raises(NotFound):
                await attempt
        assert (await anna.threads.get("plans")).turns == len((await anna.conversations.show(thread)).turns) == 1
        assert (await anna.conversations.turn(turn.turn_id)).text == turn.text

    async def test_reading_makes_no_thread(self, client: Client) -> None:
        for unknown in (new_id(), "my-thread"):
            with pytest.raises(NotFound):
                await client.threads.get(unknown)
        assert await client.threads.list() == ()

    async def test_a_thread_gets_another_title(self, client: Client) -> None:
        thread = await thread_of(client, "Hello")
        assert (await client.threads.rename(thread, "Greetings")).title == "Greetings"
        assert (await client.threads.get(thread)).title == "Greetings"
        with pytest.raises(NotFound):
            await client.threads.rename(new_id(), "Nothing")

    async def test_a_thread_is_found_by_what_a_person_writes(self, client: Client) -> None:
        turn = await client.conversations.ask("plans", "Hello")
        thread = turn.thread_id
        for reference in (thread, "plans", "last", thread[-6:], thread[-12:], thread[:30], thread[-12:].upper()):
            assert (await client.threads.find(reference)).thread_id == thread

    async def test_last_is_the_one_spoken_in_last_by_that_person(self, client: Client) -> None:
        with pytest.raises(NotFound):
            await client.threads.find("last")
        one, _ = await thread_of(client, "a"), await thread_of(client, "b")
        await client.conversations.ask(one, "c")
        await client.conversations.ask("new", "d", user_id="anna")
        assert (await client.threads.find("last")).thread_id == one

    async def test_a_part_that_fits_several_names_them(self, client: Client) -> None:
        made = [await thread_of(client, text) for text in "abc"]
        part = made[0][:6] if made[1].startswith(made[0][:6]) else made[2][:6]  # the time; it may step on once
        fitting = [thread for thread in made if thread.startswith(part)]
        with pytest.raises(InvalidInput) as refused:
            await client.threads.find(part)
        assert len(fitting) > 1
        assert all(thread in refused.value.message for thread in fitting)

    async def test_a_part_that_is_too_short_or_fits_nothing_is_not_found(self, client: Client) -> None:
        thread = await thread_of(client, "Hello")
        for reference in (thread[-5:], thread[:5], "nothing-like-it", thread[2:12], "", new_id()):
            with pytest.raises(NotFound):
                await client.threads.find(reference)

    @pytest.mark.req("CHATMEM-4")
    async def test_a_deleted_thread_is_not_there_any_more(self, client: Client) -> None:
        thread, other = await thread_of(client, "a", "b"), await thread_of(client, "c")
        deleted = await client.threads.delete(thread)
        assert (deleted.thread_id, deleted.turns) == (thread, 2)
        assert [each.thread_id for each in await client.threads.list()] == [other]
        for ask in (client.threads.get(thread), client.conversations.show(thread), client.threads.delete(thread)):
            with pytest.raises(NotFound):
                await ask


class UpkeepPromises:
    """Tests of clean-up, for clients with an engine of their own."""

    @pytest.mark.req("CHATMEM-5")
    async def test_a_clean_up_tells_what_it_did(self, client: Client) -> None:
        await thread_of(client, "a")
        made = await client.threads.create(NewSession(ttl_hours=1 / 3_600_000))
        await later_than(made.created_at + timedelta(milliseconds=2))
        result = await client.threads.clean_up()
        assert (result.sessions_deleted, result.turns_deleted, result.errors) == (1, 0, ())
        assert result.execution_time > 0
        assert (await client.threads.clean_up()).sessions_deleted == 0
        assert len(await client.threads.list()) == 1
