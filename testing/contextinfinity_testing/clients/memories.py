"""Tests of a client: memories."""

from __future__ import annotations

import pytest

from contextinfinity.client.contract import Client
from contextinfinity.domain.ids import new_id
from contextinfinity.domain.session import NewSession, Owner
from contextinfinity.errors import InvalidInput, NotFound

ANN, BOB = Owner(user_id="ann"), Owner(user_id="bob")


class MemoryPromises:
    """``Memories``."""

    @pytest.mark.req("MEMORY-5")
    async def test_a_memory_is_added_listed_edited_and_forgotten(self, client: Client) -> None:
        tea = await client.memories.add("The user likes tea.")
        rum = await client.memories.add("The user likes rum.")
        assert [memory.id for memory in await client.memories.list()] == [rum.id, tea.id]
        assert [memory.id for memory in await client.memories.list(limit=1, after=rum.position)] == [tea.id]
        edited = await client.memories.edit(tea.id, "The user likes green tea.")
        assert (edited.id, edited.content, edited.origin) == (tea.id, "The user likes green tea.", "person")
        await client.memories.forget(rum.id)
        assert [memory.id for memory in await client.memories.list(limit=1, after=rum.position)] == [tea.id]
        assert [memory.content for memory in await client.memories.export()] == ["The user likes green tea."]
        assert await client.memories.audit() == ()

    @pytest.mark.req("MEMORY-1")
    async def test_a_memory_has_the_tags_of_its_shelf(self, client: Client) -> None:
        thread = (await client.threads.create(NewSession(owner=ANN))).thread_id
        own = await client.memories.add("Of Ann.", tags=["user:ann"], owner=ANN)
        shelved = await client.memories.add("Of the thread.", tags=["user:ann", f"thread:{thread}"], owner=ANN)
        assert (own.tags, shelved.tags) == (("user:ann",), ("user:ann", f"thread:{thread}"))
        for question in (None, "Which thread is it of?"):
            assert await client.memories.list(ANN, tag=f"thread:{thread}", q=question) == (shelved,)
        assert await client.memories.list(ANN, tag="user:ann") == (own,)
        for tags in (["user:bob"], ["project:x"], ["thread:"]):
            with pytest.raises(InvalidInput):
                await client.memories.add("Of whom?", tags=tags, owner=ANN)
        with pytest.raises(NotFound):
            await client.memories.add("Of whom?", tags=[f"thread:{thread}"], owner=BOB)

    @pytest.mark.req("MEMORY-2")
    async def test_memories_are_found_by_what_they_are_about(self, client: Client) -> None:
        for fact in ("The user plays the bassoon.", "The user likes rum.", "The user has a dog."):
            await client.memories.add(fact)
        found = await client.memories.list(q="Does somebody play the bassoon?")
        assert found[0].content == "The user plays the bassoon."

    @pytest.mark.req("MEMORY-6")
    async def test_another_users_memory_is_not_there(self, client: Client) -> None:
        kept = await client.memories.add("Ann likes tea.", owner=ANN)
        assert await client.memories.list(BOB) == await client.memories.export(BOB) == ()
        assert await client.memories.list(BOB, q="tea") == ()
        for memory_id in (kept.id, new_id(), "nothing"):
            with pytest.raises(NotFound):
                await client.memories.edit(memory_id, "Bob likes tea.", owner=BOB)
            with pytest.raises(NotFound):
                await client.memories.forget(memory_id, owner=BOB)
            with pytest.raises(NotFound):
                await client.memories.find(memory_id, BOB)
        assert await client.memories.list(ANN) == (kept,)

    async def test_a_memory_is_found_by_a_part_of_its_id(self, client: Client) -> None:
        kept = await client.memories.add("The user likes tea.")
        for reference in (kept.id, kept.id[-8:]):
            assert await client.memories.find(reference) == kept

    async def test_what_says_nothing_or_too_much_is_refused(self, client: Client) -> None:
        for bad in ("", " \n ", "x" * 501):
            with pytest.raises(InvalidInput):
                await client.memories.add(bad)
        assert await client.memories.list() == ()
