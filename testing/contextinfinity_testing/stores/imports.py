"""Tests of a store: imported messages are stored once, with their origin."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from contextinfinity.domain.ids import BranchId, new_id
from contextinfinity.domain.message import (
    ImageBlock,
    Message,
    Role,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    blob_source,
    say,
)
from contextinfinity.domain.state import StateDraft
from contextinfinity.domain.transfer import ImportCounts, ImportedMessage
from contextinfinity.domain.turn import Phase
from contextinfinity.errors import InvalidInput, NotFound, OutOfOrder
from contextinfinity.storage.contract import Store
from contextinfinity_testing.builders import exchange, new_branch, turn_in

TALK: tuple[tuple[Role, str], ...] = (
    ("system", "Be brief."),
    ("user", "one"),
    ("assistant", "1"),
    ("assistant", "and more"),
    ("user", "two"),
    ("user", "two"),
    ("assistant", "2"),
)


def arrivals(*said: tuple[Role, str], ids: bool = False, first: int = 0) -> list[ImportedMessage]:
    """Return imported messages with these texts."""
    return [
        ImportedMessage(message=say(role, text), place=place, external_id=f"m{place}" if ids else None)
        for place, (role, text) in enumerate(said, first)
    ]


async def sides(store: Store, branch_id: BranchId) -> list[tuple[str, str | None]]:
    """Return question and answer of every turn."""
    turns = await store.turns.history(branch_id, limit=1000)
    return [(turn.user_message.rendered_text, turn.answer.rendered_text if turn.answer else None) for turn in turns]


IN_TURNS = [("Be brief.", None), ("one", "1"), ("and more", None), ("two", None), ("two", "2")]


class ImportSuite:
    """Messages from elsewhere."""

    @pytest.mark.req("LEDGER-4", "THREAD-13")
    async def test_arrivals_become_turns_that_are_done_and_nobodys(self, store: Store) -> None:
        branch = await new_branch(store)
        head = await store.states.pin(branch.id, "fact")
        assert await store.imports.add(branch.id, arrivals(*TALK)) == ImportCounts(added=7)
        assert await sides(store, branch.id) == IN_TURNS
        turns = await store.turns.history(branch.id)
        state = await store.states.head(branch.id)
        assert {(turn.phase, turn.owner) for turn in turns} == {(Phase.DONE, None)}
        assert {(turn.state_before, turn.state_after) for turn in turns} == {(head.id, state.id)}
        assert (state.reason, state.turn_seq, state.pinned_facts) == ("record", 5, ("fact",))
        assert await store.jobs.list() == ()

    @pytest.mark.req("LEDGER-6")
    @pytest.mark.parametrize("ids", [True, False])
    async def test_what_arrived_once_does_not_arrive_again(self, store: Store, ids: bool) -> None:
        branch = await new_branch(store)
        given = arrivals(*TALK, ids=ids)
        await store.imports.add(branch.id, given)
        before = await store.branches.get(branch.id)
        assert await store.imports.add(branch.id, given) == ImportCounts(skipped=7)
        assert await store.branches.get(branch.id) == before
        grown = [*given, *arrivals(("user", "three"), ids=ids, first=7)]
        assert await store.imports.add(branch.id, grown) == ImportCounts(added=1, skipped=7)
        assert await sides(store, branch.id) == [*IN_TURNS, ("three", None)]

    @pytest.mark.req("LEDGER-6")
    @pytest.mark.parametrize("ids", [True, False])
    async def test_however_arrivals_are_parted_the_same_turns_come_out(self, store: Store, ids: bool) -> None:
        given = arrivals(*TALK, ids=ids)
        for cut in range(len(given) + 1):
            branch = await new_branch(store)
            await store.imports.add(branch.id, given[:cut])
            await store.imports.add(branch.id, given)
            assert await sides(store, branch.id) == IN_TURNS

    async def test_the_same_words_in_another_place_are_another_message(self, store: Store) -> None:
        branch = await new_branch(store)
        await store.imports.add(branch.id, arrivals(("user", "ok")))
        assert await store.imports.add(branch.id, arrivals(("user", "ok"), first=1)) == ImportCounts(added=1)
        assert await store.imports.add(branch.id, arrivals(("user", "no"), first=1)) == ImportCounts(added=1)

    async def test_a_file_that_lost_its_ids_is_known_by_its_places(self, store: Store) -> None:
        branch = await new_branch(store)
        await store.imports.add(branch.id, arrivals(*TALK, ids=True))
        assert await store.imports.add(branch.id, arrivals(*TALK)) == ImportCounts(skipped=7)

    @pytest.mark.req("LEDGER-4")
    async def test_an_id_that_other_words_have_is_told_and_they_stay(self, store: Store) -> None:
        branch = await new_branch(store)
        await store.imports.add(branch.id, arrivals(("user", "one"), ids=True))
        edited = [replace(each, external_id="m0") for each in arrivals(("user", "other"), ("user", "one"), first=3)]
        assert await store.imports.add(branch.id, edited) == ImportCounts(skipped=1, clashing=(3,))
        twice = [replace(each, external_id="new") for each in arrivals(("user", "a"), ("user", "b"), ("user", "a"))]
        assert await store.imports.add(branch.id, twice) == ImportCounts(added=1, skipped=1, clashing=(1,))
        assert await sides(store, branch.id) == [("one", None), ("a", None)]

    async def test_ids_belong_to_their_session(self, store: Store) -> None:
        one, other = await new_branch(store), await new_branch(store)
        for branch in (one, other):
            assert await store.imports.add(branch.id, arrivals(*TALK, ids=True)) == ImportCounts(added=7)
        fork = await store.branches.fork(one.id, at=1)
        assert await store.imports.add(fork.id, arrivals(*TALK, ids=True)) == ImportCounts(skipped=7)

    async def test_origins_are_read_back_question_first(self, store: Store) -> None:
        branch = await new_branch(store)
        moment = datetime(2023, 5, 8, 13, 56, 0, 123000, tzinfo=UTC)
        question, answer = arrivals(("user", "one"), ("assistant", "1"), ids=True)
        question = replace(question, created_at=moment, details={"name": "Ada"})
        answer = replace(answer, external_id=None, model="old-model")
        await store.turns.record(branch.id, [exchange("said here", "yes")])
        await store.imports.add(branch.id, [question, answer])
        here, there = await store.turns.history(branch.id)
        assert (there.created_at, there.model) == (moment, "old-model")
        origins = await store.imports.origins([here.id, there.id, new_id()])
        assert list(origins) == [there.id]
        first, second = origins[there.id]
        assert (first.side, first.place, first.external_id) == ("user", 0, "m0")
        assert (first.created_at, first.details) == (moment, {"name": "Ada"})
        assert (second.side, second.place, second.external_id, second.created_at) == ("assistant", 1, None, None)
        assert first.content_hash != second.content_hash

    async def test_the_beginning_of_a_session_is_read_by_place(self, store: Store) -> None:
        branch = await new_branch(store)
        given = arrivals(*TALK, ids=True)
        await store.imports.add(branch.id, given[3:])
        await store.imports.add(branch.id, given[:3])
        read = await store.imports.beginning(branch.session_id, limit=5)
        assert [(origin.place, origin.external_id) for origin in read] == [(n, f"m{n}") for n in range(5)]
        assert await store.imports.beginning(branch.session_id, limit=0) == ()
        assert await store.imports.beginning(new_id()) == ()

    async def test_results_of_tools_that_follow_each_other_are_one_message(self, store: Store) -> None:
        branch = await new_branch(store)
        calls = tuple(ToolUseBlock(tool_use_id=name, name="look", input={}) for name in "ab")
        results = [ToolResultBlock(tool_use_id=name, content=(TextBlock(text=name),)) for name in "ab"]
        said = [
            say("user", "Look."),
            Message(role="assistant", blocks=calls),
            *(Message(role="tool", blocks=(result,)) for result in results),
            say("assistant", "Seen."),
        ]
        given = [ImportedMessage(message=message, place=at, external_id=f"m{at}") for at, message in enumerate(said)]
        assert await store.imports.add(branch.id, given) == ImportCounts(added=5)
        assert await store.imports.add(branch.id, given) == ImportCounts(skipped=5)
        asked, told = await store.turns.history(branch.id)
        assert asked.answer == said[1]
        assert (told.user_message, told.answer) == (Message(role="tool", blocks=tuple(results)), said[4])
        origins = (await store.imports.origins([told.id]))[told.id]
        assert [(origin.side, origin.external_id) for origin in origins] == [
            ("user", "m2"),
            ("user", "m3"),
            ("assistant", "m4"),
        ]

    # --- answering what is there ---

    async def test_an_answer_closes_a_question_that_arrived_before(self, store: Store) -> None:
        branch = await new_branch(store)
        given = arrivals(("user", "one"), ("assistant", "1"), ids=True)
        await store.imports.add(branch.id, given[:1])
        await store.imports.add(branch.id, given[1:])
        (turn,) = await store.turns.history(branch.id)
        assert (turn.outcome, turn.answer) == ("completed", say("assistant", "1"))
        origins = (await store.imports.origins([turn.id]))[turn.id]
        assert [origin.external_id for origin in origins] == ["m0", "m1"]

    async def test_an_answer_closes_no_question_that_stood_after_it(self, store: Store) -> None:
        branch = await new_branch(store)
        first, answer, second = arrivals(("user", "one"), ("assistant", "1"), ("user", "two"))
        await store.imports.add(branch.id, [first, second])
        assert await store.imports.add(branch.id, [first, answer, second]) == ImportCounts(added=1, skipped=2)
        assert await sides(store, branch.id) == [("one", None), ("two", None), ("1", None)]

    @pytest.mark.parametrize("ids", [True, False])
    async def test_what_is_new_on_both_sides_of_what_was_there_is_not_put_together(
        self, store: Store, ids: bool
    ) -> None:
        branch = await new_branch(store)
        given = arrivals(("user", "one"), ("user", "two"), ("assistant", "2"), ids=ids)
        await store.imports.add(branch.id, given[1:2])
        assert await store.imports.add(branch.id, given) == ImportCounts(added=2, skipped=1)
        assert await sides(store, branch.id) == [("two", None), ("one", None), ("2", None)]

    async def test_a_record_that_comes_twice_parts_no_question_from_its_answer(self, store: Store) -> None:
        branch = await new_branch(store)
        said = arrivals(("user", "one"), ("user", "one"), ("assistant", "1"))
        given = [replace(each, external_id=name) for each, name in zip(said, "aab", strict=True)]
        assert await store.imports.add(branch.id, given) == ImportCounts(added=2, skipped=1)
        assert await sides(store, branch.id) == [("one", "1")]

    async def test_an_answer_closes_no_question_that_was_asked_here(self, store: Store) -> None:
        branch = await new_branch(store)
        await store.turns.log(branch.id, say("user", "asked here"))
        await store.imports.add(branch.id, arrivals(("assistant", "from elsewhere")))
        assert await sides(store, branch.id) == [("asked here", None), ("from elsewhere", None)]

    @pytest.mark.req("LEDGER-4")
    async def test_an_answer_closes_no_question_that_a_summary_tells_of(self, store: Store) -> None:
        branch = await new_branch(store)
        await store.imports.add(branch.id, arrivals(("user", "one")))
        fold = StateDraft(branch_id=branch.id, reason="fold", summary="Something was asked.", covers_turn_seq=1)
        await store.states.commit(fold, expected_head=None)
        await store.imports.add(branch.id, arrivals(("assistant", "late"), first=1))
        assert await sides(store, branch.id) == [("one", None), ("late", None)]

    # --- what is refused ---

    @pytest.mark.parametrize("phase", [Phase.ACCEPTED, Phase.RESPONDING, Phase.RESPONSE_FINALIZED])
    async def test_nothing_arrives_past_an_unsettled_turn(self, store: Store, phase: Phase) -> None:
        branch = await new_branch(store)
        await store.imports.add(branch.id, arrivals(("user", "one")))
        turn = await turn_in(store, branch.id, phase)
        with pytest.raises(OutOfOrder):
            await store.imports.add(branch.id, arrivals(*TALK))
        assert (await store.turns.history(branch.id))[1:] == (turn,)
        assert await store.imports.add(branch.id, arrivals(("user", "one"))) == ImportCounts(skipped=1)

    async def test_arrivals_come_in_whole_or_not_at_all(self, store: Store) -> None:
        branch = await new_branch(store)
        await store.imports.add(branch.id, arrivals(("user", "one")))
        before = await store.branches.get(branch.id)
        (answer, good) = arrivals(("assistant", "1"), ("user", "two"), first=1)
        picture = ImageBlock(media_type="image/png", source=blob_source("0" * 64))
        for bad in (
            replace(good, message=say("user", "\udc00")),
            replace(good, external_id=""),
            replace(good, external_id="x" * 513),
            replace(good, external_id="\udc00"),
            replace(good, place=-1),
            replace(good, details={"n": float("nan")}),
            replace(good, message=Message(role="user", blocks=(picture,))),
        ):
            with pytest.raises(InvalidInput):
                await store.imports.add(branch.id, [answer, good, bad])
        assert await store.branches.get(branch.id) == before
        assert await sides(store, branch.id) == [("one", None)]
        assert len(await store.imports.beginning(branch.session_id)) == 1
        with pytest.raises(NotFound):
            await store.imports.add(new_id(), [good])
        assert await store.imports.add(branch.id, []) == ImportCounts()

    @pytest.mark.req("LEDGER-6")
    async def test_two_that_bring_the_same_bring_it_once(self, store: Store) -> None:
        branch = await new_branch(store)
        given = arrivals(*TALK, ids=True)
        done = await asyncio.gather(*(store.imports.add(branch.id, given[at:]) for at in (0, 3, 0, 5)))
        assert sum(each.added for each in done) == 7
        said = [side for turn in await sides(store, branch.id) for side in turn if side is not None]
        assert sorted(said) == sorted(text for _, text in TALK)
