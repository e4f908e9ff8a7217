"""Tests of a store: what one user keeps is neither found nor changed by another."""

from __future__ import annotations

from datetime import timedelta

import pytest
from msgspec.structs import replace

from contextinfinity.domain.ids import new_id, now
from contextinfinity.domain.session import NewSession, Owner
from contextinfinity.domain.turn import PrefixHashes
from contextinfinity.storage.contract import Store
from contextinfinity_testing.builders import new_branch, new_turn
from contextinfinity_testing.stores.memories import contents, fact, said
from contextinfinity_testing.stores.prefix_hashes import exchange, thread, trail

ANN, BOB = Owner(user_id="ann"), Owner(user_id="bob")


class OwnerSuite:
    """Look-ups by hash, words or id are limited to the owner they are made for."""

    @pytest.mark.req("API-14", "API-13")
    async def test_the_hashes_of_anothers_conversation_find_nothing(self, store: Store) -> None:
        branch = await thread(store, "Hi", "Hello", "And?", "Nothing")
        sent = PrefixHashes(asked=3, before=2, body=7)
        turn = await store.turns.accept(replace(new_turn(branch.id, "Wait"), trail=sent))
        await store.prefix_hashes.note_broken(turn.id)
        fork = await store.branches.fork(branch.id, at=2)
        assert fork.session_id == branch.session_id
        texts, past = ("Hi", "Hello", "And?", "Nothing"), now() - timedelta(minutes=1)
        for stranger in (BOB, Owner(user_id="ann", org_id="else")):
            for number in (trail(*texts[:2]), trail(*texts)):
                assert await store.prefix_hashes.end(stranger, number) is None
                assert await store.prefix_hashes.end(ANN, number) is not None
            for number in (exchange(*texts[:2]), exchange(*texts[2:])):
                assert await store.prefix_hashes.exchanges(stranger, number) == ()
                assert await store.prefix_hashes.exchanges(ANN, number) != ()
            assert await store.prefix_hashes.asked(stranger, 3) == ()
            assert await store.prefix_hashes.walked(stranger, sent) is None
            assert await store.prefix_hashes.join_broken(stranger, 7, since=past) is None
        assert await store.prefix_hashes.asked(ANN, 3) == (turn.id,)
        assert await store.prefix_hashes.walked(ANN, sent) is not None
        assert await store.prefix_hashes.join_broken(ANN, 7, since=past) == turn.id

    @pytest.mark.req("API-14", "MEMORY-6")
    async def test_what_two_users_say_in_equal_words_is_independent(self, store: Store) -> None:
        anns, bobs = [await new_branch(store, NewSession(owner=owner)) for owner in (ANN, BOB)]
        tea, home = fact("The user likes tea."), fact("The user lives in Oslo.", about="home")
        _, (kept, lives) = await said(store, anns, tea, home)
        revision = await store.memories.revision(ANN)
        theirs, moved = fact("The user likes tea.", owner=BOB), fact("Bonn is home.", about="home", owner=BOB, day=3)
        _, (same, _) = await said(store, bobs, theirs, moved)
        assert same.id != kept.id
        assert sorted(await contents(store, bobs, owner=BOB)) == ["Bonn is home.", "The user likes tea."]
        assert await store.memories.revision(ANN) == revision
        assert set(await store.memories.list(ANN)) == {kept, lives}
        assert await store.memories.forget(BOB, [kept.id]) == 0
        assert await store.memories.forget(BOB, [same.id]) == 1
        assert set(await store.memories.list(ANN)) == {kept, lives}

    @pytest.mark.req("API-14", "MEMORY-5")
    async def test_what_a_user_forgets_or_writes_does_not_change_what_others_forgot(self, store: Store) -> None:
        anns = await new_branch(store, NewSession(owner=ANN))
        for owner in (ANN, BOB):
            milk = await store.memories.add(fact("The user likes milk.", owner=owner))
            assert await store.memories.forget(owner, [milk.id]) == 1
        await store.memories.forget(BOB, [(await store.memories.add(fact("The user likes rum.", owner=BOB))).id])
        _, drawn = await said(store, anns, fact("The user likes rum."))
        assert [each.content for each in drawn] == ["The user likes rum."], "only Bob forgot it"
        written = await store.memories.add(fact("The user likes milk.", owner=BOB))
        assert (await said(store, anns, fact("The user likes milk.")))[1] == (), "Ann forgot it"
        await store.memories.edit(ANN, drawn[0].id, fact("The user likes milk."))
        assert await store.memories.list(BOB) == (written,)

    @pytest.mark.req("API-14", "MEMORY-6")
    async def test_a_transfer_reaches_no_memory_and_no_turn_of_another_user(self, store: Store) -> None:
        turn, _ = await said(store, await new_branch(store, NewSession(owner=ANN)), fact("The user likes tea."))
        await store.memories.add(fact("The user likes rum.", owner=BOB))
        (anns,), (bobs,) = [await store.transfers.memories(owner) for owner in (ANN, BOB)]
        assert (anns.content, bobs.content) == ("The user likes tea.", "The user likes rum.")
        assert [source.turn_id for source in anns.sources] == [turn.id]
        for stranger in (BOB, Owner(user_id="ann", org_id="acme"), Owner(user_id="bob", org_id="acme")):
            assert await store.transfers.restore_memories(stranger, [replace(anns, id=new_id())]) == 1
            found = {each.content: each.source_turn for each in await store.memories.list(stranger)}
            assert found["The user likes tea."] is None
