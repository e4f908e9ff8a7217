"""Tests of a store: memories that supersede others, and memories that a person wrote."""

from __future__ import annotations

from datetime import timedelta

import pytest

from contextinfinity.domain.ids import now
from contextinfinity.domain.memory import Recall
from contextinfinity.domain.session import Branch, NewSession
from contextinfinity.storage.contract import Store
from contextinfinity_testing.builders import new_branch
from contextinfinity_testing.stores.memories import ANN, MOMENT, contents, fact, said

OSLO, BONN, ROME = (f"The user lives in {town}." for town in ("Oslo", "Bonn", "Rome"))


async def threads(store: Store, number: int) -> list[Branch]:
    """Create this many conversations of one user."""
    return [await new_branch(store, NewSession(owner=ANN)) for _ in range(number)]


async def delete(store: Store, branch: Branch) -> None:
    """Delete the conversation of a branch."""
    while (await store.deletions.delete(branch.session_id)).more:
        pass


def seen_from(branch: Branch, **more: object) -> Recall:
    """Return the memories that a turn of a branch sees."""
    far = timedelta(days=36_500)
    asked = {"owner": ANN, "session_id": branch.session_id, "branch_id": branch.id, "terms": (), "at": now()}
    return Recall(oldest=now() - far, **(asked | more))  # type: ignore[arg-type]


class CorrectionSuite:
    """A deleted or invisible correction supersedes no fact; memories that a person wrote stay."""

    @pytest.mark.req("MEMORY-4", "CHATMEM-4")
    async def test_a_deleted_correction_gives_back_what_it_replaced(self, store: Store) -> None:
        here, first, second, third = await threads(store, 4)
        await said(store, first, fact(OSLO, about="home"))
        await said(store, second, fact(BONN, about="home", day=1))
        await said(store, third, fact(ROME, about="home", day=2))
        await delete(store, second)
        assert await contents(store, here) == [ROME]
        (old,) = [each for each in await store.memories.list(ANN, superseded=True) if each.content == OSLO]
        assert old.valid_to == MOMENT + timedelta(days=2)
        await delete(store, third)
        assert await contents(store, here) == [OSLO]
        (alone,) = await store.memories.list(ANN, superseded=True)
        assert (alone.superseded_by, alone.valid_to) == (None, None)

    @pytest.mark.req("MEMORY-4")
    async def test_of_several_that_a_deleted_correction_replaced_the_last_holds(self, store: Store) -> None:
        here, first, second, third = await threads(store, 4)
        await said(store, third, fact(ROME, about="home", day=3))
        await said(store, second, fact(BONN, about="home", day=2))  # heard of later, said earlier
        await said(store, first, fact(OSLO, about="home", day=1))
        await delete(store, third)
        assert await contents(store, here) == [BONN]
        await delete(store, second)
        assert await contents(store, here) == [OSLO]

    @pytest.mark.req("MEMORY-4")
    async def test_a_plan_that_holds_again_still_ends(self, store: Store) -> None:
        here, first, second = await threads(store, 3)
        end = MOMENT + timedelta(days=9)
        await said(store, first, fact("a flight on the ninth", about="plan:flight", valid_to=end))
        await said(store, second, fact("a flight some day", about="plan:flight", day=1))
        await delete(store, second)
        assert await contents(store, here, at=MOMENT) == ["a flight on the ninth"]
        assert await contents(store, here, at=end) == []

    @pytest.mark.req("MEMORY-5")
    async def test_a_forgotten_correction_does_not_bring_back_what_it_replaced(self, store: Store) -> None:
        here, there = await threads(store, 2)
        _, (oslo,) = await said(store, there, fact(OSLO, about="home"))
        _, (bonn,) = await said(store, there, fact(BONN, about="home", day=1))
        _, (rome,) = await said(store, there, fact(ROME, about="home", day=2))
        await store.memories.forget(ANN, [bonn.id])
        assert {key: each.id for key, each in (await store.memories.current(seen_from(here), [oslo.id])).items()} == {
            oslo.id: rome.id
        }
        await store.memories.forget(ANN, [rome.id])
        assert await contents(store, here) == await contents(store, here, "Oslo") == []
        assert await store.memories.current(seen_from(here), [oslo.id]) == {}

    @pytest.mark.req("MEMORY-4")
    async def test_a_correction_on_a_line_that_was_left_counts_only_there(self, store: Store) -> None:
        here, there = await threads(store, 2)
        _, (oslo,) = await said(store, there, fact(OSLO, about="home"))
        await said(store, there, fact("The user likes tea."))
        _, (bonn,) = await said(store, there, fact(BONN, about="home", day=1))
        back = await store.branches.rollback(there.id, to=2)
        for place in (here, back):
            assert sorted(await contents(store, place)) == ["The user likes tea.", OSLO]
            assert await contents(store, place, "Who is in Oslo?") == [OSLO]
            assert await contents(store, place, "Who is in Bonn?") == []
            (shown,) = (await store.memories.current(seen_from(place), [oslo.id])).values()
            assert (shown.id, shown.superseded_by) == (oslo.id, None)
        assert BONN in await contents(store, there)
        assert BONN in await contents(store, here, other_branches=True)
        (shown,) = (await store.memories.current(seen_from(there), [oslo.id])).values()
        assert shown.id == bonn.id
        await said(store, back, fact(ROME, about="home", day=2))
        assert sorted(await contents(store, here)) == ["The user likes tea.", ROME]
        assert await contents(store, here, "Who is in Oslo?") == []

    @pytest.mark.req("MEMORY-4")
    async def test_of_what_is_replaced_out_of_sight_the_last_holds(self, store: Store) -> None:
        here, there = await threads(store, 2)
        await said(store, there, fact(OSLO, about="home"), fact(BONN, about="home", day=2))
        await said(store, there, fact(ROME, about="home", day=3))
        await store.branches.rollback(there.id, to=1)
        await said(store, here, fact("The user lives in Kiel.", about="home", day=1))  # heard of later
        assert await contents(store, here) == [BONN]
        assert await contents(store, here, "Kiel or Bonn or Oslo?") == [BONN]

    @pytest.mark.req("CHATMEM-4")
    async def test_what_only_turns_past_their_time_said_is_not_recalled(self, store: Store) -> None:
        here = await new_branch(store, NewSession(owner=ANN))
        chat = await new_branch(store, NewSession(owner=ANN, ttl_hours=24.0))
        _, (oslo,) = await said(store, here, fact(OSLO, about="home"))
        await said(store, chat, fact(BONN, about="home", day=1), fact("a note", origin="asked"))
        tomorrow = now() + timedelta(hours=25)
        assert sorted(await contents(store, here, at=now())) == [BONN, "a note"]
        assert await contents(store, here, at=tomorrow) == [OSLO]
        assert await contents(store, here, "note", at=tomorrow) == []
        (shown,) = (await store.memories.current(seen_from(here, at=tomorrow), [oslo.id])).values()
        assert shown.id == oslo.id

    @pytest.mark.req("MEMORY-5")
    async def test_what_a_person_wrote_stays_when_a_conversation_that_said_it_goes(self, store: Store) -> None:
        here, there = await threads(store, 2)
        await said(store, there, fact(OSLO, about="home", origin="asked"), fact("The user likes tea."))
        await store.memories.add(fact(OSLO, origin="person"))
        (tea,) = [each for each in await store.memories.list(ANN) if each.content.endswith("tea.")]
        await store.memories.edit(ANN, tea.id, fact("The user likes green tea."))
        await delete(store, there)
        rest = {each.content: each for each in await store.memories.list(ANN)}
        assert rest.keys() == {OSLO, "The user likes green tea."}
        assert [(each.origin, each.source_turn) for each in rest.values()] == [("person", None)] * 2
        assert sorted(await contents(store, here)) == sorted(rest)

    @pytest.mark.req("MEMORY-4")
    async def test_what_a_person_wrote_is_corrected_like_all_else(self, store: Store) -> None:
        here = await new_branch(store, NewSession(owner=ANN))
        await store.memories.add(fact(OSLO, origin="person"))
        await said(store, here, fact(OSLO, about="home", day=1))
        await said(store, here, fact(BONN, about="home", day=2))
        assert await contents(store, here) == [BONN]

    @pytest.mark.req("MEMORY-5")
    async def test_an_edited_memory_is_true_and_about_its_new_words(self, store: Store) -> None:
        here = await new_branch(store, NewSession(owner=ANN))
        _, (oslo,) = await said(store, here, fact(OSLO, about="home", valid_to=MOMENT))
        _, (bonn,) = await said(store, here, fact(BONN, about="home", day=1))
        edited = await store.memories.edit(ANN, oslo.id, fact(ROME, about="home"))
        assert (edited.id, edited.superseded_by, edited.valid_to) == (oslo.id, None, None)
        assert await contents(store, here) == [ROME]
        (shown,) = (await store.memories.current(seen_from(here), [bonn.id])).values()
        assert shown.id == oslo.id
        await store.memories.edit(ANN, oslo.id, fact("The user is left-handed."))
        await said(store, here, fact(BONN, about="home", day=40_000))
        assert sorted(await contents(store, here)) == ["The user is left-handed.", BONN]

    @pytest.mark.req("MEMORY-5")
    async def test_a_memory_edited_into_anothers_words_is_one_with_it(self, store: Store) -> None:
        here = await new_branch(store, NewSession(owner=ANN))
        turn, (tea,) = await said(store, here, fact("The user likes tea."))
        _, (milk,) = await said(store, here, fact("The user likes milk."))
        await store.memories.edit(ANN, milk.id, fact("The user likes tea."))
        (left,) = await store.memories.list(ANN, superseded=True)
        assert (left.id, left.content) == (milk.id, tea.content)
        await store.memories.replace_extracted(turn.id, [fact("The user likes tea.")])
        assert len(await store.memories.list(ANN, superseded=True)) == 1

    @pytest.mark.req("MEMORY-6")
    async def test_what_is_forgotten_in_one_thread_stays_in_others(self, store: Store) -> None:
        here, there = await threads(store, 2)
        turns = []
        for branch in (here, there):
            turn, (kept,) = await said(store, branch, fact(OSLO, thread=branch.session_id))
            turns.append((turn, kept))
        assert await store.memories.forget(ANN, [kept.id for _, kept in turns], thread=here.session_id) == 1
        assert await contents(store, here) == []
        assert await contents(store, there) == [OSLO]
        for branch, (turn, _) in zip((here, there), turns, strict=True):
            await store.memories.replace_extracted(turn.id, [fact(OSLO, thread=branch.session_id)])
        assert await contents(store, here) == []
        assert await contents(store, there) == [OSLO]

    @pytest.mark.req("MEMORY-1")
    async def test_the_users_own_are_listed_without_those_of_threads(self, store: Store) -> None:
        here = await new_branch(store, NewSession(owner=ANN))
        await store.memories.add(fact("everywhere"))
        await store.memories.add(fact("here", thread=here.session_id))
        assert [each.content for each in await store.memories.list(ANN, thread="")] == ["everywhere"]
        assert [each.content for each in await store.memories.list(ANN, thread=here.session_id)] == ["here"]
