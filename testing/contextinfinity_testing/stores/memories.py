"""Tests of a store: memories."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from contextinfinity.domain.ids import Position, new_id, now
from contextinfinity.domain.memory import Memory, NewMemory, Recall, container_tags
from contextinfinity.domain.session import Branch, NewSession, Owner
from contextinfinity.domain.turn import Turn
from contextinfinity.errors import InvalidInput, NotFound
from contextinfinity.storage.contract import Store
from contextinfinity.text.keywords import terms
from contextinfinity_testing.builders import answer_turn, embedding, new_branch

ANN, BOB = Owner(user_id="ann"), Owner(user_id="bob")
MOMENT = datetime(2026, 3, 1, tzinfo=UTC)


def fact(content: str, *, owner: Owner = ANN, day: int = 0, about: str = "", **more: object) -> NewMemory:
    """Return a fact that was stated this many days after a time."""
    said_at = MOMENT + timedelta(days=day)
    return NewMemory(owner=owner, content=content, said_at=said_at, about=about, span=(0, 5), **more)  # type: ignore[arg-type]


async def said(store: Store, branch: Branch, *facts: NewMemory) -> tuple[Turn, tuple[Memory, ...]]:
    """Record a turn that states facts."""
    turn = await answer_turn(store, branch.id, "hello")
    return turn, await store.memories.replace_extracted(turn.id, facts)


async def contents(store: Store, branch: Branch, question: str = "", owner: Owner = ANN, **more: object) -> list[str]:
    """Return the memories that a turn of a branch would show, or find for a question."""
    asked = Recall(
        owner=owner,
        session_id=branch.session_id,
        branch_id=branch.id,
        terms=tuple(terms(question)),
        at=MOMENT + timedelta(days=30),
        oldest=MOMENT - timedelta(days=60),
    )
    recalled = await store.memories.recall(replace(asked, **more))
    return [each.memory.content for each in (recalled.found if question else recalled.standing)]


class MemorySuite:
    """Facts kept across conversations."""

    @pytest.mark.req("MEMORY-4")
    async def test_a_fact_has_the_turn_and_the_span_that_said_it(self, store: Store) -> None:
        branch = await new_branch(store, NewSession(owner=ANN))
        turn, (kept,) = await said(
            store, branch, fact("The user lives in Oslo.", about="home", confidence=0.5, weight=3)
        )
        assert (kept.source_turn, kept.source_span, kept.owner) == (turn.id, (0, 5), ANN)
        assert (kept.confidence, kept.weight, kept.valid_from) == (0.5, 3, MOMENT)
        assert await store.memories.list(ANN) == (kept,)
        assert await store.memories.read(ANN, [new_id(), kept.id]) == (kept,)

    @pytest.mark.req("MEMORY-4")
    async def test_the_same_words_are_kept_once_with_every_turn_that_said_them(self, store: Store) -> None:
        branch = await new_branch(store, NewSession(owner=ANN))
        first, (kept,) = await said(store, branch, fact("The user likes tea."))
        second, (again,) = await said(store, branch, fact("The user likes tea.", day=2))
        assert (again.id, again.source_turn) == (kept.id, second.id)
        assert (again.created_at, again.valid_from) == (MOMENT, MOMENT + timedelta(days=2))
        assert await store.memories.replace_extracted(second.id, [fact("The user likes tea.", day=2)]) == (again,)
        await store.memories.replace_extracted(second.id, [])
        assert [each.source_turn for each in await store.memories.list(ANN)] == [first.id]
        await store.memories.replace_extracted(first.id, [])
        assert await store.memories.list(ANN) == ()

    @pytest.mark.req("MEMORY-4")
    async def test_what_is_said_later_of_the_same_thing_wins(self, store: Store) -> None:
        branch = await new_branch(store, NewSession(owner=ANN))
        _, (oslo,) = await said(store, branch, fact("The user lives in Oslo.", about="home"))
        _, (bonn,) = await said(store, branch, fact("The user lives in Bonn.", about="home", day=3))
        await said(store, branch, fact("The user lives in Rome.", about="home", day=1))  # said earlier, heard of later
        assert await contents(store, branch) == ["The user lives in Bonn."]
        everything = {each.content: each for each in await store.memories.list(ANN, superseded=True)}
        old = everything["The user lives in Oslo."]
        assert (old.id, old.superseded_by) == (oslo.id, bonn.id)
        assert old.valid_to == MOMENT + timedelta(days=3)
        assert everything["The user lives in Rome."].superseded_by == bonn.id
        back, _ = await said(store, branch, fact("The user lives in Oslo.", about="home", day=5))
        assert await contents(store, branch) == ["The user lives in Oslo."]
        await store.memories.replace_extracted(back.id, [])
        assert await contents(store, branch) == ["The user lives in Bonn."]

    @pytest.mark.req("MEMORY-4")
    async def test_a_fact_may_make_others_untrue(self, store: Store) -> None:
        branch = await new_branch(store, NewSession(owner=ANN))
        await said(store, branch, fact("The user uses Vim.", about="uses:vim"))
        await said(store, branch, fact("The user uses Emacs.", about="uses:emac", replaces=("uses:vim",), day=1))
        assert await contents(store, branch) == ["The user uses Emacs."]

    @pytest.mark.req("MEMORY-4")
    async def test_drawing_twice_changes_nothing(self, store: Store) -> None:
        branch = await new_branch(store, NewSession(owner=ANN))
        facts = fact("The user lives in Oslo.", about="home"), fact("The user likes tea.")
        turn, _ = await said(store, branch, *facts)
        await said(store, branch, fact("The user lives in Bonn.", about="home", day=3))
        before = await store.memories.list(ANN, superseded=True)
        await store.memories.replace_extracted(turn.id, facts)
        assert await store.memories.list(ANN, superseded=True) == before
        assert await store.memories.replace_extracted(new_id(), facts) == ()

    @pytest.mark.req("MEMORY-1", "MEMORY-6")
    async def test_a_turn_sees_its_users_and_its_threads_memories_and_no_others(self, store: Store) -> None:
        here, there = [await new_branch(store, NewSession(owner=ANN)) for _ in range(2)]
        bobs = await new_branch(store, NewSession(owner=BOB))
        await said(store, here, fact("Ann likes tea."), fact("Here we speak German.", thread=here.session_id))
        await said(store, there, fact("There we speak French.", thread=there.session_id))
        await said(store, bobs, fact("Bob likes tea.", owner=BOB))
        await store.memories.add(fact("Ann of another house.", owner=Owner(user_id="ann", org_id="acme")))
        assert sorted(await contents(store, here)) == ["Ann likes tea.", "Here we speak German."]
        assert sorted(await contents(store, there)) == ["Ann likes tea.", "There we speak French."]
        assert await contents(store, bobs, "tea", BOB) == ["Bob likes tea."]
        assert await contents(store, here, "Who knows French or likes tea?") == ["Ann likes tea."]
        kept = await store.memories.list(ANN)
        tags = {each.content: each.tags for each in kept}
        assert tags["Ann likes tea."] == container_tags("ann")
        assert tags["Here we speak German."] == container_tags("ann", here.session_id)
        assert await store.memories.list(ANN, thread="no thread's id") == ()
        assert await store.memories.forget(ANN, [each.id for each in kept], thread="no thread's id") == 0

    @pytest.mark.req("MEMORY-1", "MEMORY-4")
    async def test_what_a_thread_says_of_a_thing_holds_there(self, store: Store) -> None:
        here, there = [await new_branch(store, NewSession(owner=ANN)) for _ in range(2)]
        of_thread = fact("German here.", about="answers", thread=here.session_id, day=2)
        await said(store, there, fact("English always.", about="answers", day=1))
        await said(store, here, of_thread, fact("No about."))
        await said(store, there, fact("French always.", about="answers", day=3))
        assert sorted(await contents(store, here)) == ["German here.", "No about."]
        assert sorted(await contents(store, there)) == ["French always.", "No about."]
        await said(store, here, fact("Dutch always.", about="answers", day=4))
        assert sorted(await contents(store, here)) == ["Dutch always.", "No about."]

    @pytest.mark.req("MEMORY-6")
    async def test_what_is_anothers_can_be_neither_read_nor_changed(self, store: Store) -> None:
        kept = await store.memories.add(fact("Ann likes tea."))
        await store.memories.add(fact("Bob likes rum.", owner=BOB))
        assert await store.memories.read(BOB, [kept.id]) == ()
        assert await store.memories.forget(BOB, [kept.id]) == 0
        await store.memories.placed(BOB, [kept.id], now())
        assert await store.memories.expire(BOB, now() + timedelta(days=1)) == 1
        with pytest.raises(NotFound):
            await store.memories.edit(BOB, kept.id, fact("Ann hates tea."))
        assert await store.memories.list(BOB, after=kept.position) == ()
        assert await store.memories.list(ANN) == (kept,)

    @pytest.mark.req("MEMORY-2")
    async def test_the_rarest_words_find_the_best(self, store: Store) -> None:
        branch = await new_branch(store, NewSession(owner=ANN))
        for drink in ("tea", "milk", "rum"):
            await store.memories.add(fact(f"The user likes {drink}.", vector=embedding("toy", 1, 0)))
        found = await contents(store, branch, "Does she like rum?")
        assert (found[0], len(found)) == ("The user likes rum.", 3)
        assert await contents(store, branch, "Anything about cars?") == []

    @pytest.mark.req("MEMORY-3")
    async def test_what_weighs_most_and_was_said_last_stands_first(self, store: Store) -> None:
        branch = await new_branch(store, NewSession(owner=ANN))
        for content, weight, day in (("a", 1, 3), ("b", 5, 1), ("c", 5, 2)):
            await store.memories.add(fact(content, weight=weight, day=day))
        assert await contents(store, branch) == ["c", "b", "a"]

    @pytest.mark.req("MEMORY-4")
    async def test_what_was_learned_on_a_line_that_was_left_is_not_used_there(self, store: Store) -> None:
        branch = await new_branch(store, NewSession(owner=ANN))
        other = await new_branch(store, NewSession(owner=ANN))
        await said(store, branch, fact("said before"))
        await said(store, branch, fact("said on the old line"), fact("kept", origin="asked"))
        await said(store, branch, fact("of the thread", thread=branch.session_id, origin="asked"))
        back = await store.branches.rollback(branch.id, to=1)
        for place in (back, other):
            assert sorted(await contents(store, place)) == ["kept", "said before"]
        assert "of the thread" in await contents(store, branch)
        assert "said on the old line" in await contents(store, other, other_branches=True)
        await said(store, back, fact("said on the old line", day=1))
        assert "said on the old line" in await contents(store, other)

    @pytest.mark.req("MEMORY-5")
    async def test_what_was_forgotten_does_not_come_back_from_before(self, store: Store) -> None:
        branch = await new_branch(store, NewSession(owner=ANN))
        tea = fact("The user likes tea.", day=0)
        turn, (kept,) = await said(store, branch, tea)
        assert await store.memories.forget(ANN, [kept.id, new_id()]) == 1
        assert await store.memories.forget(ANN, [kept.id]) == 0
        assert await store.memories.replace_extracted(turn.id, [tea]) == ()
        assert await store.memories.list(ANN, superseded=True) == ()
        assert await contents(store, branch, "tea") == []
        _, again = await said(store, branch, NewMemory(owner=ANN, content=tea.content, said_at=now() + timedelta(1)))
        assert [each.content for each in again] == [tea.content]

    @pytest.mark.req("MEMORY-5")
    async def test_a_person_may_add_again_what_was_forgotten(self, store: Store) -> None:
        kept = await store.memories.add(fact("The user likes tea.", origin="person"))
        await store.memories.forget(ANN, [kept.id])
        again = await store.memories.add(fact("The user likes tea.", origin="person"))
        assert await store.memories.list(ANN) == (again,)

    @pytest.mark.req("MEMORY-5")
    async def test_an_edited_memory_keeps_its_place_and_its_old_words_are_gone(self, store: Store) -> None:
        branch = await new_branch(store, NewSession(owner=ANN))
        drawn = fact("The user likes coffee.", about="like:coffee")
        turn, (kept,) = await said(store, branch, drawn)
        edited = await store.memories.edit(ANN, kept.id, fact("The user likes decaf."))
        assert (edited.id, edited.content, edited.origin) == (kept.id, "The user likes decaf.", "person")
        assert (edited.about, edited.source_turn) == ("", turn.id)
        await store.memories.replace_extracted(turn.id, [drawn])
        assert await store.memories.list(ANN, superseded=True) == (edited,)
        assert await contents(store, branch, "coffee", oldest=MOMENT) == []
        assert await contents(store, branch, "decaf", oldest=MOMENT) == ["The user likes decaf."]
        with pytest.raises(NotFound):
            await store.memories.edit(ANN, new_id(), fact("anything"))

    @pytest.mark.req("MEMORY-5")
    async def test_a_memory_expires_when_it_was_neither_said_nor_shown_for_long(self, store: Store) -> None:
        branch = await new_branch(store, NewSession(owner=ANN))
        old, shown, new = [await store.memories.add(fact(f"fact {day}", day=day)) for day in (0, 1, 9)]
        await store.memories.placed(ANN, [shown.id], MOMENT + timedelta(days=8))
        border = MOMENT + timedelta(days=5)
        assert await contents(store, branch, oldest=border) == ["fact 9", "fact 1"]
        assert await store.memories.expire(ANN, border) == 1
        assert {each.id for each in await store.memories.list(ANN)} == {shown.id, new.id}
        assert await store.memories.read(ANN, [old.id]) == ()

    @pytest.mark.req("MEMORY-5")
    async def test_what_is_over_is_not_recalled(self, store: Store) -> None:
        branch = await new_branch(store, NewSession(owner=ANN))
        await store.memories.add(fact("a flight", valid_to=MOMENT + timedelta(days=3)))
        assert await contents(store, branch, at=MOMENT) == ["a flight"]
        assert await contents(store, branch, "flight") == []

    async def test_a_list_is_read_page_by_page(self, store: Store) -> None:
        for day in range(5):
            await store.memories.add(fact(f"fact {day}", day=day))
        pages: list[str] = []
        after: Position | None = None
        while page := await store.memories.list(ANN, limit=2, after=after):
            pages += [each.content for each in page]
            after = page[-1].position
        assert pages == ["fact 4", "fact 3", "fact 2", "fact 1", "fact 0"]
        assert await store.memories.list(ANN, limit=-1) == ()

    async def test_a_page_goes_on_where_a_memory_stood_that_was_forgotten(self, store: Store) -> None:
        kept = [await store.memories.add(fact(f"fact {day}", day=day)) for day in range(3)]
        await store.memories.forget(ANN, [kept[2].id])
        assert await store.memories.list(ANN, after=kept[2].position) == (kept[1], kept[0])

    @pytest.mark.parametrize("content", ["", "  ", "two\nlines", "x" * 501])
    async def test_what_is_no_single_fact_is_refused(self, store: Store, content: str) -> None:
        with pytest.raises(InvalidInput):
            await store.memories.add(fact(content))
        assert await store.memories.list(ANN) == ()

    @pytest.mark.req("CHATMEM-4", "MEMORY-5")
    async def test_a_deleted_session_takes_along_what_nobody_else_said_and_what_was_kept_for_it(
        self, store: Store
    ) -> None:
        gone, left = [await new_branch(store, NewSession(owner=ANN)) for _ in range(2)]
        await said(store, gone, fact("The user lives in Oslo."), fact("The user likes tea."))
        await said(store, left, fact("The user likes tea."))
        for thread in (gone.session_id, left.session_id, None):
            await store.memories.add(fact(f"Written down for {thread}.", thread=thread))
        while (await store.deletions.delete(gone.session_id)).more:
            pass
        rest = {memory.content for memory in await store.memories.list(ANN)}
        expected = {"The user likes tea.", f"Written down for {left.session_id}.", "Written down for None."}
        assert rest == expected
        assert await store.memories.list(ANN, thread=gone.session_id) == ()
