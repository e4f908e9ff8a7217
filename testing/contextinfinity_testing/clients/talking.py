"""Tests of a client: sending messages."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from contextinfinity.client.contract import Client, StampedEvent
from contextinfinity.domain.events import (
    Clarification,
    Delta,
    FinishedTurn,
    StepStarted,
    TurnDone,
    TurnFailed,
    TurnStarted,
)
from contextinfinity.domain.ids import TurnId, new_id
from contextinfinity.domain.turn import Phase
from contextinfinity.errors import InvalidInput, NotFound
from contextinfinity_testing.clients.models import ANSWERS, FAILS, HANGS, SHOWN


async def heard(events: AsyncIterator[StampedEvent]) -> list[StampedEvent]:
    """Return all events of a stream."""
    return [stamped async for stamped in events]


def words(events: list[StampedEvent]) -> str:
    """Return the concatenated text of the events."""
    return "".join(stamped.event.text for stamped in events if isinstance(stamped.event, Delta))


def started(events: list[StampedEvent]) -> TurnStarted:
    """Return the first event."""
    assert isinstance(events[0].event, TurnStarted)
    return events[0].event


def done(events: list[StampedEvent]) -> FinishedTurn:
    """Return the turn of the last event."""
    assert isinstance(events[-1].event, TurnDone)
    return events[-1].event.turn


async def hanging(client: Client) -> tuple[TurnId, AsyncIterator[StampedEvent]]:
    """Send a message to the model that never finishes, and return its events so far."""
    events = client.conversations.send("new", "go on and on", model=HANGS)
    turn_id, text = "", ""
    async for stamped in events:
        if isinstance(stamped.event, TurnStarted):
            turn_id = stamped.event.turn_id
        elif isinstance(stamped.event, Delta):
            text += stamped.event.text
        if text == "".join(SHOWN):
            break
    return turn_id, events


class TalkPromises:
    """``Conversations``."""

    async def test_a_stream_begins_with_the_turn_and_ends_with_it_finished(self, client: Client) -> None:
        events = await heard(client.conversations.send("new", "Hello"))
        first, last = started(events), done(events)
        assert (first.found, first.turns_loaded, first.turn_seq) == (False, 0, 1)
        assert any(isinstance(stamped.event, StepStarted) for stamped in events)
        assert (last.thread_id, last.branch_id, last.turn_id) == (first.thread_id, first.branch_id, first.turn_id)
        assert (last.outcome, last.error, last.turn_seq) == ("completed", None, 1)
        assert last.text == words(events)
        assert "Hello" in last.text

    async def test_without_words_only_the_beginning_and_the_end_of_a_turn_are_told(self, client: Client) -> None:
        events = await heard(client.conversations.send("new", "Hello", deltas=False))
        assert [type(stamped.event) for stamped in events] == [TurnStarted, TurnDone]
        assert "Hello" in done(events).text
        again = await heard(client.conversations.watch(done(events).turn_id, deltas=False))
        assert [type(stamped.event) for stamped in again] == [TurnDone]
        assert done(again).text == done(events).text
        failed = await heard(client.conversations.send("new", "Hello", model=FAILS, deltas=False))
        assert [type(stamped.event) for stamped in failed] == [TurnStarted, TurnFailed, TurnDone]

    async def test_a_thread_goes_on_where_it_was(self, client: Client) -> None:
        one = started(await heard(client.conversations.send("new", "one")))
        two = started(await heard(client.conversations.send(one.thread_id, "two")))
        assert (two.thread_id, two.branch_id) == (one.thread_id, one.branch_id)
        assert (two.found, two.turns_loaded, two.turn_seq) == (True, 1, 2)

    async def test_a_foreign_id_makes_a_thread_once(self, client: Client) -> None:
        one = started(await heard(client.conversations.send("my-thread", "one")))
        two = started(await heard(client.conversations.send("my-thread", "two")))
        assert (one.found, two.found, two.thread_id) == (False, True, one.thread_id)
        assert (await client.threads.get("my-thread")).external_id == "my-thread"

    async def test_an_id_of_ours_that_nobody_has_makes_none(self, client: Client) -> None:
        with pytest.raises(NotFound):
            await client.conversations.ask(new_id(), "Hello")
        assert await client.threads.list() == ()

    @pytest.mark.parametrize("nothing", ["", " \n\t"])
    async def test_an_empty_message_is_refused_before_anything_is_stored(self, client: Client, nothing: str) -> None:
        with pytest.raises(InvalidInput):
            await client.conversations.ask("new", nothing)
        assert await client.threads.list() == ()

    async def test_an_unknown_model_is_refused_before_anything_is_stored(self, client: Client) -> None:
        with pytest.raises(InvalidInput, match="no-such-model"):
            await client.conversations.ask("new", "Hello", model="no-such-model")
        assert await client.threads.list() == ()

    async def test_an_answer_that_fails_is_a_finished_turn(self, client: Client) -> None:
        events = await heard(client.conversations.send("new", "Hello", model=FAILS))
        assert [stamped.event.code for stamped in events if isinstance(stamped.event, TurnFailed)] == ["quota"]
        turn = done(events)
        assert (turn.outcome, turn.phase, turn.text) == ("failed", Phase.FAILED, "")
        assert turn.error is not None
        assert (turn.error.code, turn.error.hint) == ("quota", "Wait until tomorrow.")

    async def test_asking_gives_what_the_stream_would_have_ended_with(self, client: Client) -> None:
        turn = await client.conversations.ask("new", "Hello")
        again = done(await heard(client.conversations.watch(turn.turn_id)))
        assert (again.turn_id, again.text, again.outcome) == (turn.turn_id, turn.text, turn.outcome)

    async def test_a_turn_can_be_watched_from_any_event_on(self, client: Client) -> None:
        events = await heard(client.conversations.send("new", "Hello"))
        pieces = [stamped for stamped in events if isinstance(stamped.event, Delta)]
        assert len(pieces) > 2
        for place, piece in enumerate(pieces):
            rest = await heard(client.conversations.watch(started(events).turn_id, after=piece.id))
            assert words(rest) == words(pieces[place + 1 :])
            assert done(rest).text == done(events).text

    async def test_watching_needs_a_turn_and_an_event_id(self, client: Client) -> None:
        turn = await client.conversations.ask("new", "Hello")
        with pytest.raises(InvalidInput):
            await heard(client.conversations.watch(turn.turn_id, after="nonsense"))
        with pytest.raises(NotFound):
            await heard(client.conversations.watch(new_id()))

    @pytest.mark.req("TURN-11")
    async def test_a_cancelled_answer_is_kept_as_far_as_it_was_shown(self, client: Client) -> None:
        turn_id, events = await hanging(client)
        cancelled = await client.conversations.cancel(turn_id)
        assert (cancelled.outcome, cancelled.text, cancelled.error) == ("cancelled", "".join(SHOWN), None)
        assert done(await heard(events)).outcome == "cancelled"
        shown = (await client.conversations.show(cancelled.thread_id)).turns
        assert [(turn.user, turn.assistant, turn.outcome) for turn in shown] == [
            ("go on and on", "".join(SHOWN), "cancelled")
        ]

    @pytest.mark.req("TURN-11")
    async def test_a_conversation_goes_on_after_a_cancelled_answer(self, client: Client) -> None:
        turn_id, _ = await hanging(client)
        thread_id = (await client.conversations.cancel(turn_id)).thread_id
        turn = await asyncio.wait_for(client.conversations.ask(thread_id, "And now?", model=ANSWERS), 30)
        assert (turn.turn_seq, turn.outcome) == (2, "completed")

    @pytest.mark.req("REWRITE-4", "REWRITE-5")
    async def test_a_doubt_is_heard_as_a_question_with_its_choices(self, client: Client) -> None:
        thread_id = (await client.conversations.ask("new", "Larry Page and Sergey Brin founded Google.")).thread_id
        events = await heard(client.conversations.send(thread_id, "Where was he born?"))
        (asked,) = [stamped.event for stamped in events if isinstance(stamped.event, Clarification)]
        assert [(one.id, one.name) for one in asked.candidates] == [("1", "Larry Page"), ("2", "Sergey Brin")]
        assert (done(events).outcome, done(events).text) == ("clarification", asked.question)
        plain = await client.conversations.ask(thread_id, "Where was he born?", may_ask_back=False)
        assert plain.outcome == "completed"

    @pytest.mark.req("TURN-11")
    async def test_cancelling_what_is_over_changes_nothing(self, client: Client) -> None:
        turn = await client.conversations.ask("new", "Hello")
        again = await client.conversations.cancel(turn.turn_id)
        assert (again.outcome, again.text) == ("completed", turn.text)

    async def test_a_running_turn_is_shown_without_an_outcome(self, client: Client) -> None:
        turn_id, _ = await hanging(client)
        thread = (await client.threads.list())[0]
        (turn,) = (await client.conversations.show(thread.thread_id)).turns
        assert (turn.turn_id, turn.outcome, turn.user) == (turn_id, None, "go on and on")
        await client.conversations.cancel(turn_id)

    async def test_what_was_said_is_read_in_pages_from_the_end(self, client: Client) -> None:
        thread = (await client.conversations.ask("new", "1")).thread_id
        for number in "2345":
            await client.conversations.ask(thread, number)
        newest = await client.conversations.show(thread, limit=2)
        assert [turn.user for turn in newest.turns] == ["4", "5"]
        older = await client.conversations.show(thread, limit=10, before=newest.turns[0].turn_seq)
        assert [turn.user for turn in older.turns] == ["1", "2", "3"]
        assert all(turn.text == turn.assistant and turn.user in turn.text for turn in older.turns)

    async def test_showing_makes_no_thread(self, client: Client) -> None:
        for unknown in (new_id(), "my-thread"):
            with pytest.raises(NotFound):
                await client.conversations.show(unknown)
        assert await client.threads.list() == ()

    async def test_what_the_model_saw_is_there_afterwards(self, client: Client) -> None:
        turn = await client.conversations.ask("new", "Hello")
        assert (await client.conversations.context(turn.turn_id)).sections
        with pytest.raises(NotFound):
            await client.conversations.context(new_id())

    async def test_the_models_are_named_the_default_first(self, client: Client) -> None:
        first, *others = await client.conversations.models()
        assert first == ANSWERS
        assert {FAILS, HANGS} <= set(others)
