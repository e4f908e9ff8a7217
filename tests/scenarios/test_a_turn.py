"""A message and its answer, whatever happens on the way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest

from contextinfinity.domain.events import Delta, Event, FinishedTurn, StepStarted, TurnDone, TurnFailed, TurnStarted
from contextinfinity.domain.prompt import ProviderRequest
from contextinfinity.domain.turn import Phase, Problem, Turn
from contextinfinity.engine.engine import Engine
from contextinfinity.engine.engine_setup import Setup
from contextinfinity.engine.lifecycle import QUEUE_LIMIT
from contextinfinity.errors import InvalidInput, NotFound, QueueFull
from contextinfinity.providers.scripted import ScriptedReply
from contextinfinity.storage.sqlite.connection import connect
from tests.scenarios.conftest import Build, Scripted

Talk = Callable[[Scripted], Awaitable[Engine]]


async def stored(engine: Engine, turn_id: str) -> Turn:
    turn = await engine.store.turns.get(turn_id)
    assert turn is not None
    return turn


async def settled(engine: Engine, turn_id: str) -> Turn:
    """Wait until nothing is left to do for a turn."""
    async with asyncio.timeout(100):
        while (turn := await stored(engine, turn_id)).phase not in (Phase.DONE, Phase.FAILED):
            await asyncio.sleep(0)
    return turn


async def first(events: AsyncIterator[Event], kind: type[Event]) -> Event:
    async for event in events:
        if isinstance(event, kind):
            return event
    raise AssertionError(f"no {kind.__name__} came")


def words(events: list[Event]) -> str:
    return "".join(event.text for event in events if isinstance(event, Delta))


@pytest.mark.req("TURN-1", "TURN-2", "TURN-3")
async def test_a_message_is_durable_before_anything_else_and_its_answer_before_the_end(talk: Talk) -> None:
    engine = await talk(["The answer is forty-two."])
    events: list[Event] = []
    async for event in engine.send("new", "What is the answer?"):
        events.append(event)
        if isinstance(event, TurnStarted):
            assert (await stored(engine, event.turn_id)).user_message.rendered_text == "What is the answer?"
        if isinstance(event, StepStarted):
            (step,) = await engine.store.turns.steps(events[0].turn_id)  # type: ignore[union-attr]
            assert step.id == event.step_id, "the step is durable before its first word is shown"
        if isinstance(event, TurnDone):
            turn = await stored(engine, event.turn.turn_id)
            assert turn.phase is not Phase.RESPONDING
            assert turn.answer is not None
            assert turn.answer.rendered_text == event.turn.text == "The answer is forty-two."
    assert isinstance(events[0], TurnStarted)
    assert isinstance(events[1], StepStarted)
    assert isinstance(events[-1], TurnDone)
    assert words(events) == "The answer is forty-two."
    done = await settled(engine, events[0].turn_id)
    assert done.phase is Phase.DONE
    assert done.state_after is not None


async def test_a_thread_goes_on_under_its_own_id_and_under_a_foreign_one(talk: Talk) -> None:
    engine = await talk(lambda request: str(len(request.prompt.messages)))
    opened = await engine.ask("new", "one")
    assert (await engine.ask(opened.thread_id, "two")).text == "3", "the earlier pair and the message"
    foreign = await engine.ask("ticket-17", "one")
    again = await first(engine.send("ticket-17", "two"), TurnStarted)
    assert isinstance(again, TurnStarted)
    assert (again.thread_id, again.found, again.turns_loaded) == (foreign.thread_id, True, 1)
    with pytest.raises(NotFound, match="no conversation"):
        await engine.ask("01890000-0000-7000-8000-000000000000", "whose is this?")


@pytest.mark.req("TURN-12")
@pytest.mark.parametrize(
    ("reply", "outcome", "phase", "text", "code"),
    [
        (ScriptedReply(text="All of it."), "completed", Phase.DONE, "All of it.", None),
        (ScriptedReply(text=""), "completed", Phase.DONE, "", None),
        (ScriptedReply(text="Half of", cut_after=2), "incomplete", Phase.FAILED, "Half of", "interrupted"),
        (ScriptedReply(text="", cut_after=0), "failed", Phase.FAILED, "", "interrupted"),
        (ScriptedReply(error=Problem(code="quota", message="No more.")), "failed", Phase.FAILED, "", "quota"),
        (
            ScriptedReply(text="So far", error=Problem(code="net", message="Gone.")),
            "incomplete",
            Phase.FAILED,
            "So far",
            "net",
        ),
    ],
)
async def test_every_outcome_has_its_phase_and_its_text(
    talk: Talk, reply: ScriptedReply, outcome: str, phase: Phase, text: str, code: str | None
) -> None:
    engine = await talk([reply, "and on"])
    events = [event async for event in engine.send("new", "Tell me.")]
    end = events[-1]
    assert isinstance(end, TurnDone)
    assert (end.turn.outcome, end.turn.text) == (outcome, text)
    assert (end.turn.error and end.turn.error.code) == code
    assert any(isinstance(event, TurnFailed) for event in events) == (code is not None)
    turn = await settled(engine, end.turn.turn_id)
    assert (turn.phase, turn.state_after is None) == (phase, phase is Phase.FAILED)
    assert (await engine.ask(end.turn.thread_id, "Go on.")).text == "and on", "the branch is free"
    head = await engine.store.states.head(end.turn.branch_id)
    assert head.turn_seq in (0, 1, 2)


@pytest.mark.req("TURN-11")
async def test_a_cancelled_answer_keeps_what_was_shown(talk: Talk) -> None:
    engine = await talk([ScriptedReply(text="one two three", hang=True)])
    shown = ""
    async for event in engine.send("new", "Count."):
        if isinstance(event, TurnStarted):
            turn_id = event.turn_id
        if isinstance(event, Delta):
            shown += event.text
            if shown == "one two three":
                await engine.cancel(turn_id)
        if isinstance(event, TurnDone):
            assert (event.turn.outcome, event.turn.text, event.turn.error) == ("cancelled", "one two three", None)
    assert (await settled(engine, turn_id)).phase is Phase.DONE


@pytest.mark.req("TURN-11")
async def test_a_hanging_model_and_those_who_wait_behind_it_can_be_stopped(talk: Talk) -> None:
    engine = await talk([ScriptedReply(hang=True), "second"])
    hanging, _ = await engine.accept("new", "hello?")
    waiting, _ = await engine.accept(hanging.session_id, "hello??")
    await first(engine_events(engine, hanging.id), StepStarted)  # or its answer would be another turn's
    stopped = await engine.cancel(waiting.id)
    assert (stopped.outcome, stopped.phase) == ("cancelled", Phase.FAILED), "it was never begun"
    third = asyncio.create_task(engine.ask(hanging.session_id, "hello???"))
    ended = await engine.cancel(hanging.id)
    assert (ended.outcome, ended.text) == ("cancelled", "")
    assert (await third).text == "second"


@pytest.mark.req("TURN-11")
async def test_cancelling_what_is_over_changes_nothing(talk: Talk) -> None:
    engine = await talk(["done"])
    answer = await engine.ask("new", "hello")
    again = await engine.cancel(answer.turn_id)
    assert (again.outcome, again.text) == ("completed", "done")


@pytest.mark.req("TURN-6")
async def test_messages_wait_their_turn_and_are_answered_in_order(talk: Talk) -> None:
    engine = await talk(lambda request: f"{len(request.prompt.messages)}")
    opened = await engine.ask("new", "first")
    turns = [(await engine.accept(opened.thread_id, f"message {number}"))[0] for number in range(10)]
    answers = [await first(engine_events(engine, turn.id), TurnDone) for turn in turns]
    assert [answer.turn.text for answer in answers if isinstance(answer, TurnDone)] == [
        str(2 * number + 3) for number in range(10)
    ], "each saw all before it"


def engine_events(engine: Engine, turn_id: str) -> AsyncIterator[Event]:
    async def events() -> AsyncIterator[Event]:
        async for stamped in engine.watch(turn_id):
            yield stamped.event

    return events()


@pytest.mark.req("TURN-6")
async def test_the_next_message_is_answered_before_the_last_is_committed(talk: Talk) -> None:
    prompts: list[ProviderRequest] = []

    def remember(request: ProviderRequest) -> str:
        prompts.append(request)
        return "noted"

    engine = await talk(remember)
    await engine.job_runner.stop()
    opened = await engine.ask("new", "The code word is heron.")
    assert (await stored(engine, opened.turn_id)).phase is Phase.RESPONSE_FINALIZED
    await engine.ask(opened.thread_id, "What is the code word?")
    said = [message.rendered_text for message in prompts[-1].prompt.messages]
    assert said == ["The code word is heron.", "noted", "What is the code word?"]


@pytest.mark.req("TURN-6")
async def test_too_many_waiting_messages_are_refused_before_they_are_accepted(talk: Talk) -> None:
    engine = await talk([ScriptedReply(hang=True)])
    running, _ = await engine.accept("new", "hang")
    async with asyncio.timeout(100):
        while (await stored(engine, running.id)).phase is not Phase.RESPONDING:
            await asyncio.sleep(0)
    for number in range(QUEUE_LIMIT):
        await engine.accept(running.session_id, f"waiting {number}")
    with pytest.raises(QueueFull, match="16 messages wait") as refused:
        await engine.accept(running.session_id, "one too many")
    assert refused.value.running == running.id
    assert len(await engine.store.turns.history(running.branch_id, limit=100)) == QUEUE_LIMIT + 1


async def test_a_consumer_that_leaves_does_not_stop_the_answer(talk: Talk) -> None:
    go_on = asyncio.Event()

    async def slowly(_: ProviderRequest) -> ScriptedReply:
        await go_on.wait()
        return ScriptedReply(text="said to an empty room")

    engine = await talk(slowly)
    started = await first(engine.send("new", "anybody?"), TurnStarted)
    assert isinstance(started, TurnStarted)
    go_on.set()
    assert (await settled(engine, started.turn_id)).phase is Phase.DONE
    late = [stamped async for stamped in engine.watch(started.turn_id)]
    assert words([stamped.event for stamped in late]) == "said to an empty room"
    ids = [stamped.id for stamped in late if isinstance(stamped.event, Delta)]
    assert ids == [f"0-{number}" for number in range(1, len(ids) + 1)]
    rest = [stamped.event async for stamped in engine.watch(started.turn_id, after=ids[1])]
    assert words(rest) == " an empty room"
    with pytest.raises(InvalidInput, match="no event id"):
        engine.watch(started.turn_id, after="yesterday")


async def test_many_watchers_each_hear_everything(talk: Talk) -> None:
    engine = await talk([ScriptedReply(pieces=tuple(f"{number} " for number in range(2000)))])
    turn, _ = await engine.accept("new", "count")

    async def hear() -> str:
        return words([stamped.event async for stamped in engine.watch(turn.id)])

    heard = await asyncio.gather(*(hear() for _ in range(5)))
    assert set(heard) == {"".join(f"{number} " for number in range(2000))}


async def test_two_hundred_turns_at_once_lose_no_event(talk: Talk) -> None:
    engine = await talk(lambda request: request.prompt.messages[-1].rendered_text * 5)
    questions = [f"question {number} " for number in range(200)]
    answers = await asyncio.gather(*(engine.ask("new", question) for question in questions))
    assert [answer.text for answer in answers] == [question * 5 for question in questions]


async def test_a_very_long_answer_comes_whole(talk: Talk) -> None:
    engine = await talk([ScriptedReply(pieces=("wörd ",) * 100_000)])
    answer = await engine.ask("new", "at length, please")
    assert answer.text == "wörd " * 100_000


@pytest.mark.req("TURN-8")
async def test_closing_in_the_middle_marks_what_was_shown(build: Build) -> None:
    engine = build([ScriptedReply(text="this far", hang=True)])
    async with engine:
        events = engine.send("new", "Tell me.")
        started = await first(events, TurnStarted)
        assert isinstance(started, TurnStarted)
        await first(events, Delta)
        await engine.close(answer_seconds=0)
    async with build(["again"]) as reopened:
        turn = await stored(reopened, started.turn_id)
        assert turn.phase is Phase.FAILED
        assert turn.answer is not None
        assert turn.answer.rendered_text == "this far"
        assert (turn.outcome, turn.error and turn.error.code) == ("incomplete", "interrupted")
        assert isinstance(await reopened.ask(started.thread_id, "Again?"), FinishedTurn)


@pytest.mark.req("LEDGER-8")
async def test_fork_rollback_and_pin_through_the_engine(talk: Talk) -> None:
    engine = await talk(lambda request: f"saw {len(request.prompt.messages)}")
    opened = await engine.ask("new", "one")
    await engine.ask(opened.thread_id, "two")
    forked = await engine.fork(opened.thread_id, at=1)
    assert (await engine.ask(opened.thread_id, "three", branch_id=forked.id)).text == "saw 3"
    assert (await engine.ask(opened.thread_id, "three")).text == "saw 5", "the active branch is as it was"
    back = await engine.rollback(opened.thread_id, to=1)
    assert (await engine.ask(opened.thread_id, "again two")).branch_id == back.id
    pinned = await engine.pin(opened.thread_id, "The code word is heron.")
    assert pinned.pinned_facts == ("The code word is heron.",)
    assert (await engine.unpin(opened.thread_id, 1)).pinned_facts == ()


async def test_a_model_nobody_named_is_refused_before_anything_is_accepted(talk: Talk) -> None:
    engine = await talk(["hello"])
    with pytest.raises(InvalidInput, match="no model 'gpt'; there are: built-in"):
        await engine.ask("new", "hello", model="gpt")


@pytest.mark.req("SAFE-7")
@pytest.mark.sqlite_file("it reads the file")
async def test_raw_responses_are_kept_compressed(build: Build, tmp_path: Path) -> None:
    async with build(["word " * 2000]) as engine:
        answer = await engine.ask("new", "say something")
        (step,) = await engine.store.turns.steps(answer.turn_id)
    with closing(connect(str(tmp_path / "ledger.db"))) as ledger:
        ((body,),) = ledger.execute("SELECT body FROM response").fetchall()
    assert step.response is not None
    assert b"word word" in step.response
    assert len(bytes(body)) < len(step.response) / 10  # type: ignore[arg-type]


@pytest.mark.req("SAFE-7")
async def test_a_journal_is_removed_when_its_time_is_over_and_the_text_stays(build: Build, tmp_path: Path) -> None:
    async with build(["kept for ever"]) as engine:
        answer = await engine.ask("new", "say something")
    assert list((tmp_path / "streams").glob("*.jsonl"))
    reopened = build(["again"])
    reopened.setup = Setup(keep_journals=timedelta())
    async with reopened:
        async with asyncio.timeout(100):
            while list((tmp_path / "streams").glob("*.jsonl")):
                await asyncio.sleep(0)
        late = [stamped.event async for stamped in reopened.watch(answer.turn_id)]
    assert words(late) == "", "what can be resumed is gone"
    assert isinstance(late[-1], TurnDone)
    assert late[-1].turn.text == "kept for ever"


@pytest.mark.req("STREAM-2", "TURN-9")
async def test_an_answer_is_whole_though_a_power_cut_took_the_end_of_its_journal(build: Build, tmp_path: Path) -> None:
    async with build(["one two three"]) as engine:
        answer = await engine.ask("new", "count")
    (journal,) = (tmp_path / "streams").glob("*.jsonl")
    lines = journal.read_bytes().splitlines(keepends=True)
    assert len(lines) > 2
    for kept in (len(lines) - 1, 0):
        journal.write_bytes(b"".join(lines[:kept]))
        async with build(["again"]) as reopened:
            heard = [stamped.event async for stamped in reopened.watch(answer.turn_id)]
            branch = await reopened.store.turns.history(answer.branch_id, limit=10)
        assert isinstance(heard[-1], TurnDone)
        assert heard[-1].turn.text == "one two three"
        assert [turn.text for turn in branch] == ["one two three"], "and it is there once"
