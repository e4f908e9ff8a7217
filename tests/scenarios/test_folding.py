"""Old turns fold into the summary: after the answers, visibly, undoably, and nothing that matters is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from contextinfinity.domain.events import CompactionEvent
from contextinfinity.domain.message import TextBlock, ToolResultBlock, say
from contextinfinity.domain.state import State
from contextinfinity.domain.turn import Exchange
from contextinfinity.engine.engine_setup import Setup
from contextinfinity.engine.folding import NEAR, PAGE
from contextinfinity.errors import Refused
from contextinfinity.librarian.contract import Count, Pause, Summary, Task, no_pause
from contextinfinity.prompt.measure import Ceilings
from contextinfinity.prompt.redact import by_patterns
from contextinfinity.providers.scripted import ScriptedReply, ToolCall
from contextinfinity.tools.toolbox import Toolbox
from tests.scenarios.desk import Desk

SMALL = Ceilings(fold_trigger=1200, verbatim_window=200, summary=300)
SMALL_TALK = "The weather was fine and the walk was long. " * 6
SHOWN = Toolbox(mode="parse_only")
"""Tools that the caller has to run."""
DECISION = "We decided to use PostgreSQL 16 for the ledger."


class Watching:
    """A librarian that follows a script, and notes what it was given."""

    def __init__(self, write: Callable[[Task], str] = lambda task: f"{len(task.said)} things were said.") -> None:
        self.tasks: list[Task] = []
        self.began = asyncio.Event()
        self.may_end = asyncio.Event()
        self.may_end.set()
        self._write = write

    async def summarise(self, task: Task, count: Count, pause: Pause = no_pause) -> Summary:
        self.tasks.append(task)
        self.began.set()
        await self.may_end.wait()
        return Summary(text=self._write(task), by="watching")


async def tell(desk: Desk, times: int, text: str = SMALL_TALK) -> None:
    for number in range(times):
        await desk.ask(f"{number}: {text}")


async def until_folded(desk: Desk, text: str = SMALL_TALK) -> State:
    """Go on talking until old turns were folded."""
    before = (await desk.head()).covers_turn_seq if desk.thread != "new" else 0
    for number in range(40):
        await desk.ask(f"{number}: {text}")
        await desk.settle()
        if (head := await desk.head()).covers_turn_seq > before:
            return head
    raise AssertionError("nothing was folded")


async def hear(desk: Desk, events: list[CompactionEvent]) -> None:
    async for event in desk.engine.compactions():
        events.append(event)


def names(events: list[CompactionEvent]) -> list[str]:
    return [str(event.__struct_config__.tag) for event in events]


@pytest.mark.req("COMPACT-1", "COMPACT-3", "LIBRARIAN-3")
async def test_old_turns_fold_after_the_answer_and_what_was_decided_stays(tmp_path: Path) -> None:
    async with Desk(tmp_path, setup=Setup(ceilings=SMALL)) as desk:
        await desk.ask(DECISION)
        head = await until_folded(desk)
        assert head.reason == "fold"
        assert "PostgreSQL 16" in head.summary
        assert desk.engine.models.named(None).counter.count(head.summary) <= 300
        await desk.ask("And now?")
        (role, text), understood, *rest = desk.shown
        assert (role, head.summary in text, understood[0]) == ("user", True, "assistant")
        first_words = [words for said_by, words in rest if said_by == "user"]
        turns = await desk.engine.store.turns.history(await desk.branch(), limit=100)
        later = [turn.user_message.rendered_text for turn in turns if turn.turn_seq > head.covers_turn_seq]
        assert first_words == later, "every later turn stands word for word"


@pytest.mark.req("COMPACT-4")
async def test_whoever_follows_hears_when_folding_begins_and_ends(tmp_path: Path) -> None:
    events: list[CompactionEvent] = []
    async with Desk(tmp_path, setup=Setup(ceilings=SMALL)) as desk:
        following = asyncio.create_task(hear(desk, events))
        head = await until_folded(desk)
        while len(events) < 2:
            await asyncio.sleep(0)
        following.cancel()
    start, complete = events[:2]
    assert names([start, complete]) == ["compaction_start", "compaction_complete"]
    assert complete.case in ("summarize", "truncate")  # type: ignore[union-attr]
    assert complete.covers_turn_seq == head.covers_turn_seq  # type: ignore[union-attr]
    assert complete.tokens_after < complete.tokens_before  # type: ignore[union-attr]


@pytest.mark.req("COMPACT-4")
async def test_a_fold_that_comes_to_nothing_says_none(tmp_path: Path) -> None:
    """A question, the call it led to, and its result are never parted."""
    events: list[CompactionEvent] = []
    limits = Ceilings(fold_trigger=1200, verbatim_window=200)
    asks = ScriptedReply(text="Let me see.", tools=(ToolCall(name="look"),))
    async with Desk(tmp_path, asks, "Fine.", setup=Setup(ceilings=limits, tools=SHOWN)) as desk:
        following = asyncio.create_task(hear(desk, events))
        await desk.ask("Look at " + "this " * 500)
        result = ToolResultBlock(tool_use_id="call-1", content=(TextBlock(text="word " * 700),))
        await desk.engine.ask(desk.thread, (result,))
        await desk.settle()
        while len(events) < 2:
            await asyncio.sleep(0)
        following.cancel()
        assert (await desk.head()).covers_turn_seq == 0
    assert names(events)[:2] == ["compaction_start", "compaction_complete"]
    assert events[1].case == "none"  # type: ignore[union-attr]


@pytest.mark.req("COMPACT-1", "COMPACT-4")
async def test_folding_waits_half_a_second_after_the_answer(tmp_path: Path) -> None:
    limits = Ceilings(fold_trigger=100, verbatim_window=20)
    async with Desk(tmp_path, setup=Setup(ceilings=limits), fold_pause=Setup().fold_pause) as desk:
        await tell(desk, 3)
        (job,) = [one for one in await desk.engine.store.jobs.list() if one.job_type == "fold_branch"]
        assert job.run_at - job.created_at == timedelta(milliseconds=500)


@pytest.mark.req("COMPACT-1")
async def test_switched_off_nothing_folds_by_itself_but_a_person_may(tmp_path: Path) -> None:
    async with Desk(tmp_path, setup=Setup(ceilings=SMALL, folds=False)) as desk:
        await tell(desk, 25)
        await desk.settle()
        assert (await desk.head()).covers_turn_seq == 0
        assert await desk.engine.fold(desk.thread) is not None
        assert (await desk.head()).covers_turn_seq > 0


async def test_a_preview_changes_nothing_and_the_fold_is_what_was_previewed(tmp_path: Path) -> None:
    librarian = Watching()
    async with Desk(tmp_path, setup=Setup(ceilings=SMALL, folds=False, librarian=librarian)) as desk:
        await tell(desk, 20)
        await desk.settle()
        before = await desk.head()
        seen = await desk.engine.preview_fold(desk.thread)
        assert seen is not None
        assert await desk.head() == before
        assert seen.leaves[-1].startswith(f"#{seen.candidate.covers_turn_seq} ")
        assert seen.stays[0].startswith(f"#{seen.candidate.covers_turn_seq + 1} ")
        await desk.ask("One more, which is no part of the preview.")
        await desk.settle()
        thread = desk.thread
    other = Watching(lambda task: "Something else.")
    async with Desk(tmp_path, setup=Setup(ceilings=SMALL, folds=False, librarian=other)) as desk:
        desk.thread = thread
        made = await desk.engine.fold(thread)
        assert made is not None
        assert made.candidate == seen.candidate
        assert other.tasks == []
        head = await desk.head()
        assert (head.summary, head.covers_turn_seq) == (seen.candidate.summary, seen.candidate.covers_turn_seq)
        assert await desk.engine.store.states.proposal(head.branch_id) is None


async def test_a_fold_in_the_background_does_what_was_previewed_too(tmp_path: Path) -> None:
    librarian = Watching()
    async with Desk(tmp_path, setup=Setup(ceilings=SMALL, librarian=librarian)) as desk:
        await tell(desk, 9)
        await desk.settle()
        seen = await desk.engine.preview_fold(desk.thread)
        assert seen is not None
        assert (await until_folded(desk)).summary == seen.candidate.summary


async def test_a_preview_that_another_fold_overtook_is_made_anew(tmp_path: Path) -> None:
    librarian = Watching()
    async with Desk(tmp_path, setup=Setup(ceilings=SMALL, librarian=librarian, folds=False)) as desk:
        await tell(desk, 20)
        assert await desk.engine.preview_fold(desk.thread) is not None
        first = await desk.engine.fold(desk.thread)
        await desk.engine.unfold(desk.thread)
        await tell(desk, 5)
        second = await desk.engine.fold(desk.thread)
        assert first is not None
        assert second is not None
        assert second.candidate.covers_turn_seq > first.candidate.covers_turn_seq


async def test_undoing_brings_the_words_back_and_holds_folding_until_as_much_again_was_said(tmp_path: Path) -> None:
    async with Desk(tmp_path, setup=Setup(ceilings=SMALL)) as desk:
        folded = await until_folded(desk)
        back = await desk.engine.unfold(desk.thread)
        assert (back.reason, back.summary, back.covers_turn_seq) == ("unfold", "", 0)
        await desk.ask("What did I say first?")
        assert desk.shown[0][1].startswith("0: ")
        await desk.settle()
        assert (await desk.head()).covers_turn_seq == 0, "folding is held"
        again = await until_folded(desk)
        assert again.turn_seq - back.turn_seq >= 6, "it grew by a trigger first"
        assert again.covers_turn_seq > folded.covers_turn_seq


async def test_undoing_twice_goes_back_twice(tmp_path: Path) -> None:
    async with Desk(tmp_path, setup=Setup(ceilings=SMALL)) as desk:
        first = await until_folded(desk)
        second = await until_folded(desk)
        assert second.covers_turn_seq > first.covers_turn_seq
        once = await desk.engine.unfold(desk.thread)
        assert (once.summary, once.covers_turn_seq) == (first.summary, first.covers_turn_seq)
        twice = await desk.engine.unfold(desk.thread)
        assert (twice.summary, twice.covers_turn_seq) == ("", 0)
        with pytest.raises(Refused, match="Nothing is folded"):
            await desk.engine.unfold(desk.thread)


@pytest.mark.req("TURN-10")
async def test_what_is_pinned_and_said_while_a_librarian_hangs_is_there_afterwards(tmp_path: Path) -> None:
    """Turns are answered and committed, facts pinned and let go; the fold then goes on from there."""
    librarian = Watching()
    async with Desk(tmp_path, setup=Setup(ceilings=SMALL, librarian=librarian)) as desk:
        librarian.may_end.clear()
        await desk.ask("Hello")
        await desk.engine.pin(desk.thread, "Early fact.")
        while not librarian.began.is_set():
            await desk.ask(SMALL_TALK)
            await asyncio.sleep(0)
        await desk.engine.pin(desk.thread, "Late fact.")
        late = await desk.ask("Said while it hung.")
        assert await desk.engine.job_runner.drain(100)
        turn = await desk.engine.store.turns.get(late)
        assert turn is not None
        assert turn.phase == "Done", "a fold holds up nothing"
        librarian.may_end.set()
        await desk.settle()
        head = await desk.head()
        assert head.covers_turn_seq > 0
        assert head.pinned_facts == ("Early fact.", "Late fact.")
        await desk.ask("And?")
        assert ("user", "Said while it hung.") in desk.shown


@pytest.mark.req("TURN-10")
async def test_facts_pinned_in_the_very_moment_of_a_commit_only_move_it_on(tmp_path: Path) -> None:
    async with Desk(tmp_path, setup=Setup(ceilings=SMALL, folds=False, librarian=Watching())) as desk:
        await tell(desk, 20)
        await desk.settle()
        for number in range(5):
            assert await desk.engine.preview_fold(desk.thread) is not None
            facts = [f"Fact {number}.{n}" for n in range(20)]
            made, *_ = await asyncio.gather(
                desk.engine.fold(desk.thread), *(desk.engine.pin(desk.thread, fact) for fact in facts)
            )
            assert made is not None
            assert set(facts) <= set((await desk.head()).pinned_facts)
            await desk.engine.unfold(desk.thread)


async def test_two_who_fold_at_once_fold_once(tmp_path: Path) -> None:
    slow, quick = Watching(lambda task: "Told by the slow one."), Watching(lambda task: "Told by the quick one.")
    slow.may_end.clear()
    one = Desk(tmp_path, setup=Setup(ceilings=SMALL, folds=False, librarian=slow))
    other = Desk(tmp_path, setup=Setup(ceilings=SMALL, folds=False, librarian=quick))
    async with one, other:
        await tell(one, 20)
        await one.settle()
        folding = asyncio.create_task(one.engine.fold(one.thread))
        await slow.began.wait()
        assert await other.engine.fold(one.thread) is not None
        slow.may_end.set()
        assert await folding is None
        head = await one.head()
        assert head.summary == "Told by the quick one."
        states = await one.engine.store.states.list(head.branch_id, limit=100)
        assert [state.reason for state in states].count("fold") == 1


@pytest.mark.req("BUDGET-6", "COMPACT-4")
async def test_when_folding_fails_the_oldest_pairs_stand_as_lines_beyond_twice_the_trigger(tmp_path: Path) -> None:
    def fail(task: Task) -> str:
        raise RuntimeError("the librarian is ill")

    events: list[CompactionEvent] = []
    limits = Ceilings(fold_trigger=600, verbatim_window=100)
    async with Desk(tmp_path, setup=Setup(ceilings=limits, librarian=Watching(fail))) as desk:
        following = asyncio.create_task(hear(desk, events))
        plans = []
        for number in range(30):
            turn = await desk.ask(f"{number}: {SMALL_TALK}")
            plans.append(await desk.plan(turn))
        following.cancel()
        sizes = [sum(part.tokens for part in plan.sections if part.name == "turns") for plan in plans]
        assert max(sizes) <= 1200, "twice the trigger"
        last = plans[-1]
        assert last.shrunk is not None
        assert last.shrunk.lines_to > 5
        assert last.epoch_reason == "shrunk"
        roles = [role for role, _ in desk.shown]
        assert roles == ["user", "assistant"] * (len(roles) // 2) + ["user"], "whole pairs"
        assert (await desk.head()).covers_turn_seq == 0
    assert "compaction_error" in names(events)


@pytest.mark.req("BUDGET-6")
async def test_what_has_merely_not_been_folded_yet_is_sent_whole(tmp_path: Path) -> None:
    async with Desk(tmp_path, setup=Setup(ceilings=SMALL, folds=False)) as desk:
        await tell(desk, 60)
        assert (await desk.plan(await desk.ask("And?"))).shrunk is None


@pytest.mark.req("COMPACT-3")
async def test_where_a_new_topic_begins_the_story_before_it_leaves_and_decisions_stay(tmp_path: Path) -> None:
    limits = Ceilings(fold_trigger=2400, verbatim_window=600, summary=300)
    async with Desk(tmp_path, setup=Setup(ceilings=limits, folds=False)) as desk:
        await desk.ask(DECISION)
        for number in range(24):
            await desk.ask(f"On walk {number} it rained on the hill, and the dog ran after the sheep in the mud. " * 3)
        await desk.ask("New topic: let's plan the holiday. Which beaches in Portugal are good for children?")
        for number in range(9):
            await desk.ask(f"And what about hotel number {number} near the beach in Portugal, for the children?")
        await desk.settle()
        seen = await desk.engine.preview_fold(desk.thread)
        assert seen is not None
        assert seen.candidate.case == "truncate"
        assert seen.candidate.covers_turn_seq == 25
        assert "PostgreSQL 16" in seen.candidate.summary
        assert "the dog ran" not in seen.candidate.summary
        assert seen.candidate.boundary_reason


@pytest.mark.req("COMPACT-1")
async def test_a_long_backlog_folds_in_pages_and_a_model_is_asked_for_the_newest_only(tmp_path: Path) -> None:
    librarian = Watching()
    async with Desk(tmp_path, setup=Setup(ceilings=SMALL, librarian=librarian)) as desk:
        await desk.ask("Hello")
        await desk.settle()
        branch = await desk.branch()
        many = (NEAR + 4) * PAGE
        exchanges = [
            Exchange(message=say("user", f"Question {n}"), answer=say("assistant", "Yes. " * 9)) for n in range(many)
        ]
        await desk.engine.store.turns.record(branch, exchanges)
        await desk.ask("And now?")
        await desk.settle()
        head = await desk.head()
        assert many - 60 < head.covers_turn_seq < many
        assert 0 < len(librarian.tasks) <= NEAR
        told = [one.turn_seq for task in librarian.tasks for one in task.said]
        assert max(told) == head.covers_turn_seq
        assert max(len(task.said) for task in librarian.tasks) <= 2 * PAGE


async def test_a_librarian_that_gave_up_is_not_asked_for_the_other_pages(tmp_path: Path) -> None:
    """A model that hangs costs its time once, not once a page."""

    class GivenUp(Watching):
        async def summarise(self, task: Task, count: Count, pause: Pause = no_pause) -> Summary:
            await super().summarise(task, count, pause)
            return Summary(text="Told by rule.", problems=("the model failed: timeout",))

    librarian = GivenUp()
    async with Desk(tmp_path, setup=Setup(ceilings=SMALL, librarian=librarian)) as desk:
        await desk.ask("Hello")
        await desk.settle()
        said = [
            Exchange(message=say("user", f"Question {n}"), answer=say("assistant", "Yes. " * 9)) for n in range(300)
        ]
        await desk.engine.store.turns.record(await desk.branch(), said)
        assert await desk.engine.fold(desk.thread) is not None
        assert len(librarian.tasks) == 1


async def test_a_call_and_its_results_leave_together_or_not_at_all(tmp_path: Path) -> None:
    limits = Ceilings(fold_trigger=600, verbatim_window=120)
    asks = ScriptedReply(text="Let me see.", tools=(ToolCall(name="look"),))
    async with Desk(
        tmp_path, *["Fine. " * 60] * 12, asks, setup=Setup(ceilings=limits, folds=False, tools=SHOWN)
    ) as desk:
        await tell(desk, 12, "Go on.")
        await desk.ask("Look around.")
        await desk.settle()
        made = await desk.engine.fold(desk.thread)
        assert made is not None
        assert made.candidate.covers_turn_seq <= 12


async def test_a_call_stays_as_long_as_its_results_may_come_however_large_it_is(tmp_path: Path) -> None:
    limits = Ceilings(fold_trigger=600, verbatim_window=120)
    asks = ScriptedReply(text="Let me see.", tools=(ToolCall(name="look"),))
    async with Desk(tmp_path, *["Fine."] * 12, asks, setup=Setup(ceilings=limits, folds=False, tools=SHOWN)) as desk:
        await tell(desk, 12)
        await desk.ask("Look at " + "this " * 700)
        await desk.settle()
        made = await desk.engine.fold(desk.thread)
        assert made is not None
        assert made.candidate.covers_turn_seq == 12


@pytest.mark.req("LIBRARIAN-1")
async def test_what_must_not_leave_the_machine_is_in_no_summary(tmp_path: Path) -> None:
    librarian = Watching(lambda task: " ".join(one.text for one in task.said)[:900])
    setup = Setup(ceilings=SMALL, librarian=librarian, redactor=by_patterns((r"sk-\w+",)))
    async with Desk(tmp_path, setup=setup) as desk:
        await desk.ask("My key is sk-verysecret, we decided to keep it.")
        head = await until_folded(desk)
        assert "sk-" not in head.summary
        assert all("sk-" not in one.text for task in librarian.tasks for one in task.said)


@pytest.mark.req("COMPACT-1")
async def test_a_branch_folds_by_itself_and_leaves_its_parent_as_it_is(tmp_path: Path) -> None:
    async with Desk(tmp_path, setup=Setup(ceilings=SMALL, folds=False)) as desk:
        await tell(desk, 20)
        await desk.settle()
        parent = await desk.branch()
        fork = await desk.engine.fork(desk.thread, at=15)
        made = await desk.engine.fold(desk.thread, branch_id=fork.id)
        assert made is not None
        assert made.candidate.covers_turn_seq < 15
        assert (await desk.engine.store.states.head(parent)).covers_turn_seq == 0
        turn: dict[str, Any] = {"branch_id": fork.id}
        await desk.ask("On the branch.", **turn)
        assert made.candidate.summary in desk.shown[0][1]
        await desk.ask("On the old line.")
        assert desk.shown[0][1].startswith("0: ")
