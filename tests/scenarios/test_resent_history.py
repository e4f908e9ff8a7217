"""A client that resends its whole conversation and names no thread: each message is stored once."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path

import pytest

from contextinfinity.domain.message import (
    ImageBlock,
    Message,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    say,
)
from contextinfinity.domain.prompt import RequestOptions, ToolSpec
from contextinfinity.domain.session import NewSession
from contextinfinity.domain.turn import Exchange, Problem
from contextinfinity.engine.running_turn import Terms
from contextinfinity.errors import InvalidInput, KeyReused
from contextinfinity.providers.scripted import ScriptedReply, ToolCall
from tests.scenarios.chatter import ANN, Chatter, kept, threads
from tests.scenarios.desk import Desk, said

pytestmark = pytest.mark.req("API-7")


async def test_a_conversation_that_is_resent_is_kept_once_and_in_order(tmp_path: Path) -> None:
    async with Desk(tmp_path, "Hello.", "Two.", "Three.") as desk:
        client = Chatter(desk)
        turns = [await client.send(text) for text in ("Hi", "And?", " And then? ")]
        assert [turn.turn_seq for turn in turns] == [1, 2, 3]
        assert len({turn.branch_id for turn in turns}) == 1
        assert await threads(desk) == 1
        assert desk.shown == [*said(tuple(client.messages[:-1]))]
        assert desk.prompts[-1].system[0].startswith("Be brief.")


async def test_what_was_said_elsewhere_is_recorded_once(tmp_path: Path) -> None:
    async with Desk(tmp_path) as desk:
        client = Chatter(desk)
        client.messages = [say("assistant", "Welcome!"), say("user", "a"), say("assistant", "b")]
        client.messages += [say("user", "c"), say("user", "d"), say("assistant", "e")]
        first = await client.send("f")
        second = await client.send("g")
        assert (first.turn_seq, second.turn_seq) == (4, 5)
        (line,) = (await kept(desk, first.session_id)).values()
        assert line == ["Welcome!", "a", "c\n\nd", "f", "g"]
        assert [text for _, text in desk.shown][:5] == ["Welcome!", "a", "b", "c", "d"]


async def test_an_edited_message_is_a_branch_that_is_found_again(tmp_path: Path) -> None:
    async with Desk(tmp_path) as desk:
        client = Chatter(desk)
        for text in ("one", "two", "three"):
            await client.send(text)
        whole, client.messages = client.messages, client.messages[:2]
        edited = await client.send("zwei")
        assert edited.turn_seq == 2
        on_it = await client.send("drei")
        assert (on_it.branch_id, on_it.turn_seq) == (edited.branch_id, 3)
        client.messages = whole
        back = await client.send("four")
        assert back.branch_id != edited.branch_id
        assert sorted((await kept(desk, back.session_id)).values()) == [
            ["one", "two", "three", "four"],
            ["one", "zwei", "drei"],
        ]
        assert await threads(desk) == 1


async def test_an_answer_that_is_asked_for_again_is_a_sibling(tmp_path: Path) -> None:
    async with Desk(tmp_path, "Hello.", "This.", "That.", "Those.") as desk:
        client = Chatter(desk)
        await client.send("Hi")
        first = await client.send("Which?", keep=False)
        second = await client.send("Which?", keep=False)
        third = await client.send("Which?")
        assert [turn.text for turn in (first, second, third)] == ["This.", "That.", "Those."]
        assert [turn.turn_seq for turn in (first, second, third)] == [2, 2, 2]
        assert len({turn.branch_id for turn in (first, second, third)}) == 3
        on_it = await client.send("Thanks")
        assert (on_it.branch_id, on_it.turn_seq) == (third.branch_id, 3)


async def test_a_system_text_that_changes_each_time_is_shown_and_starts_nothing_new(tmp_path: Path) -> None:
    async with Desk(tmp_path) as desk:
        client = Chatter(desk)
        for minute in range(3):
            client.system = f"It is 12:0{minute}."
            turn = await client.send(f"{minute}?")
            assert desk.prompts[-1].system[0].startswith(f"It is 12:0{minute}.")
        assert (turn.turn_seq, await threads(desk)) == (3, 1)


async def test_a_conversation_that_was_imported_goes_on_in_its_thread(tmp_path: Path) -> None:
    async with Desk(tmp_path) as desk:
        store = desk.engine.store
        session = await store.sessions.create(NewSession(owner=ANN))
        told = [Exchange(message=say("user", f"Q{n}"), answer=say("assistant", f"A{n}")) for n in range(3)]
        await store.turns.record(session.active_branch, told)
        client = Chatter(desk)
        client.messages = [message for one in told for message in (one.message, one.answer) if message is not None]
        turn = await client.send("Q3")
        assert (turn.session_id, turn.turn_seq) == (session.id, 4)
        assert desk.shown == said(tuple(client.messages[:-1]))


async def test_several_people_behind_one_owner_never_meet(tmp_path: Path) -> None:
    async with Desk(tmp_path) as desk:
        carl, dora = Chatter(desk, end_user="carl"), Chatter(desk, end_user="dora")
        for text in ("Hi", "And?"):
            mine, theirs = await carl.send(text), await dora.send(text)
            assert mine.session_id != theirs.session_id
        assert (mine.turn_seq, theirs.turn_seq, await threads(desk)) == (2, 2, 2)


@pytest.mark.req("API-15")
async def test_equal_requests_at_once_are_a_turn_each_and_one_under_a_key(tmp_path: Path) -> None:
    async with Desk(tmp_path, *map(str, range(20))) as desk:
        client = Chatter(desk)
        await client.send("Hi")
        each = await asyncio.gather(*(client.send("And?", keep=False, is_retry=True) for _ in range(5)))
        assert len({turn.id for turn in each}) == len({turn.text for turn in each}) == 5
        keyed = await asyncio.gather(*(client.send("And?", keep=False, key=7) for _ in range(5)))
        assert len({turn.id for turn in keyed}) == 1
        first = await asyncio.gather(*(Chatter(desk).send("A new one") for _ in range(5)))
        assert len({turn.session_id for turn in first}) == 5
        assert len({turn.id for turn in await asyncio.gather(*(Chatter(desk).send("N", key=8) for _ in range(5)))}) == 1


@pytest.mark.req("API-15")
async def test_what_failed_under_a_key_is_tried_again(tmp_path: Path) -> None:
    async with Desk(tmp_path, BROKEN, "Now.") as desk:
        failed = await Chatter(desk).send("Hi", key=7)
        again = [await Chatter(desk).send("Hi", key=7) for _ in range(2)]
        assert [(turn.session_id, turn.text) for turn in again] == [(failed.session_id, "Now.")] * 2
        assert again[0].id == again[1].id


@pytest.mark.req("API-15")
async def test_a_key_is_refused_for_a_request_that_differs_in_anything(tmp_path: Path) -> None:
    async with Desk(tmp_path, "Hello.") as desk:
        first = await Chatter(desk).send("Hi", key=7)
        for terms in (
            Terms(system="Be rude."),
            Terms(system="Be brief.", request_options=RequestOptions(temperature=0.5)),
        ):
            with pytest.raises(KeyReused):
                await Chatter(desk).send("Hi", key=7, terms=terms)
        assert (await Chatter(desk).send("Hi", key=7)).id == first.id


async def test_a_request_that_failed_is_tried_again_in_its_place(tmp_path: Path) -> None:
    async with Desk(
        tmp_path, "Hello.", ScriptedReply(error=Problem(code="server", message="It broke.")), "Now."
    ) as desk:
        client = Chatter(desk)
        first = await client.send("Hi")
        failed = await client.send("And?")
        assert failed.outcome == "failed"
        again = await client.send("And?")
        assert (again.text, again.branch_id, again.turn_seq) == ("Now.", first.branch_id, 3)
        assert said(desk.prompts[-1].messages)[0] == ("user", "Hi")


BROKEN = ScriptedReply(error=Problem(code="server", message="It broke."))


async def test_a_question_that_failed_goes_upstream_once_however_often_it_is_sent_again(tmp_path: Path) -> None:
    async with Desk(tmp_path, "Hello.", BROKEN, BROKEN, "Now.", "And on.") as desk:
        client = Chatter(desk)
        await client.send("Hi")
        failed = [await client.send("And?"), await client.send("And?", terms=Terms(system="Another clock."))]
        again = await client.send("And?")
        assert [turn.outcome for turn in failed] == ["failed", "failed"]
        assert (again.text, again.retry_of) == ("Now.", failed[1].id)
        assert desk.shown == [("user", "Hi"), ("assistant", "Hello."), ("user", "And?")]
        await client.send("Go on")
        assert desk.shown == said(tuple(client.messages[:-1]))
        (line,) = (await kept(desk, again.session_id)).values()
        assert line == ["Hi", "And?", "And?", "And?", "Go on"], "what failed is kept all the same"


async def test_a_first_question_that_failed_is_tried_again_in_its_thread(tmp_path: Path) -> None:
    async with Desk(tmp_path, BROKEN, BROKEN, "Hello.", BROKEN, "Well?") as desk:
        client = Chatter(desk)
        failed = [await client.send("Hi"), await client.send("Hi")]
        again = await client.send("Hi")
        assert {turn.session_id for turn in failed} == {again.session_id}
        assert desk.shown == [("user", "Hi")]
        greeted = Chatter(desk)
        greeted.messages = [say("assistant", "Welcome!")]
        failure = await greeted.send("Who are you?")
        assert (await greeted.send("Who are you?")).session_id == failure.session_id
        assert desk.shown == said(tuple(greeted.messages[:-1]))
        assert (await Chatter(desk).send("Hi")).session_id != again.session_id, "it was answered: this one begins"


async def test_a_question_that_failed_and_was_taken_back_is_not_shown_any_more(tmp_path: Path) -> None:
    """A vendor may refuse it whenever it sees it."""
    refused = ScriptedReply(error=Problem(code="filter", message="Not that."))
    async with Desk(tmp_path, "Hello.", refused, "Fine.", "Good.") as desk:
        client = Chatter(desk)
        await client.send("Hi")
        failed = await client.send("Something bad")
        other = await client.send("Something good")
        assert desk.shown == [("user", "Hi"), ("assistant", "Hello."), ("user", "Something good")]
        on_it = await client.send("Thanks")
        assert (on_it.session_id, on_it.branch_id) == (failed.session_id, other.branch_id)
        assert desk.shown == said(tuple(client.messages[:-1]))
        assert sorted((await kept(desk, failed.session_id)).values()) == [
            ["Hi", "Something bad"],
            ["Hi", "Something good", "Thanks"],
        ]


async def test_a_question_that_was_half_answered_goes_upstream_once_when_it_is_sent_again(tmp_path: Path) -> None:
    half = ScriptedReply(pieces=("Half of",), error=Problem(code="server", message="It broke."))
    async with Desk(tmp_path, "Hello.", half, "All of it.") as desk:
        client = Chatter(desk)
        await client.send("Hi")
        cut = await client.send("Which?", keep=False)
        assert (cut.outcome, cut.text) == ("incomplete", "Half of")
        again = await client.send("Which?")
        assert (again.session_id, again.text) == (cut.session_id, "All of it.")
        assert desk.shown == [("user", "Hi"), ("assistant", "Hello."), ("user", "Which?")]


async def test_a_first_question_that_was_half_answered_is_answered_in_its_thread(tmp_path: Path) -> None:
    half = ScriptedReply(pieces=("Half of",), error=Problem(code="server", message="It broke."))
    async with Desk(tmp_path, half, half, "All of it.") as desk:
        client = Chatter(desk)
        cut = [await client.send("Which?", keep=False) for _ in range(2)]
        again = await client.send("Which?")
        assert {turn.session_id for turn in (*cut, again)} == {again.session_id}
        assert desk.shown == [("user", "Which?")]
        on_it = await client.send("Thanks")
        assert (on_it.branch_id, desk.shown) == (again.branch_id, said(tuple(client.messages[:-1])))


async def test_a_question_that_failed_in_a_named_thread_goes_upstream_once(tmp_path: Path) -> None:
    async with Desk(tmp_path, BROKEN, "Hello.", BROKEN, "Now.") as desk:
        client = Chatter(desk, thread_id="my-thread")
        for text in ("Hi", "And?"):
            client.messages = []
            failed = await client.send(text)
            assert (await client.send(text)).session_id == failed.session_id
        assert desk.shown == [("user", "Hi"), ("assistant", "Hello."), ("user", "And?")]


async def test_results_of_tools_that_failed_go_upstream_once(tmp_path: Path) -> None:
    call = ToolCall(call_id="c1", name="weather", arguments={"town": "Bonn"})
    async with Desk(tmp_path, ScriptedReply(tools=(call,)), BROKEN, "It rains.") as desk:
        client = Chatter(desk)
        terms = Terms(tools=(ToolSpec(name="weather", description="Tells it.", parameters={"type": "object"}),))
        await client.send("How is it in Bonn?", terms=terms)
        result = ToolResultBlock(tool_use_id="c1", content=(TextBlock(text="rain"),))
        assert (await client.send(result, terms=terms)).outcome == "failed"
        assert (await client.send(result, terms=terms)).text == "It rains."
        assert [message.role for message in desk.prompts[-1].messages] == ["user", "assistant", "user"]


async def test_tools_are_the_clients_own(tmp_path: Path) -> None:
    weather = ToolSpec(name="weather", description="Tells it.", parameters={"type": "object"})
    call = ToolCall(call_id="c1", name="weather", arguments={"town": "Bonn"})
    async with Desk(tmp_path, ScriptedReply(text="Let me look.", tools=(call,)), "It rains.") as desk:
        client = Chatter(desk)
        terms = Terms(tools=(weather,))
        asked = await client.send("How is it in Bonn?", terms=terms)
        assert asked.outcome == "paused"
        assert asked.answer is not None
        assert asked.answer.blocks[-1] == ToolUseBlock(tool_use_id="c1", name="weather", input={"town": "Bonn"})
        assert desk.prompts[-1].tools == (weather,)
        # ids change from request to request with some clients; what was called does not
        client.messages[-1] = Message(
            role="assistant",
            blocks=(
                TextBlock(text="Let me look."),
                ToolUseBlock(tool_use_id="other", name="weather", input={"town": "Bonn"}),
            ),
        )
        told = await client.send(ToolResultBlock(tool_use_id="c1", content=(TextBlock(text="rain"),)), terms=terms)
        assert (told.text, told.turn_seq, told.branch_id) == ("It rains.", 2, asked.branch_id)
        assert [message.role for message in desk.prompts[-1].messages] == ["user", "assistant", "user"]


async def test_pictures_are_kept_once_by_their_hash(tmp_path: Path) -> None:
    picture = ImageBlock(
        media_type="image/png", source={"type": "base64", "data": base64.b64encode(b"a bird").decode()}
    )
    async with Desk(tmp_path) as desk:
        client = Chatter(desk)
        turn = await client.send("Which bird?", picture)
        client.messages[0] = Message(role="user", blocks=(TextBlock(text="Which bird?"), picture))
        on_it = await client.send("Sure?")
        assert (on_it.turn_seq, on_it.branch_id) == (2, turn.branch_id)
        shown = desk.prompts[-1].messages[0].blocks[1]
        assert isinstance(shown, ImageBlock)
        assert shown.source["type"] == "base64"
        row = desk.engine.store.turns
        kept_turn = await row.get(turn.id)
        assert kept_turn is not None
        assert isinstance(kept_turn.user_message.blocks[1], ImageBlock)
        assert kept_turn.user_message.blocks[1].source["type"] == "blob"
        broken = ImageBlock(media_type="image/png", source={"type": "base64", "data": "!!"})
        with pytest.raises(InvalidInput, match="base64"):
            await client.send("This?", broken)


async def test_a_thread_that_is_named_is_gone_on_with_whatever_is_sent(tmp_path: Path) -> None:
    async with Desk(tmp_path) as desk:
        client = Chatter(desk, thread_id="my-thread")
        first = await client.send("Hi")
        client.messages = []
        second = await client.send("And?")
        assert (second.session_id, second.turn_seq) == (first.session_id, 2)
        third = await client.send("So?")
        assert (third.session_id, third.branch_id, third.turn_seq) == (first.session_id, first.branch_id, 3)
        client.messages = [say("user", "something"), say("assistant", "else")]
        other = await client.send("So?")
        assert (other.session_id, other.turn_seq) == (first.session_id, 2)
        assert desk.shown == [("user", "something"), ("assistant", "else"), ("user", "So?")]
        client.thread_id = first.session_id
        assert (await client.send("Well?")).turn_seq == 3
        assert await threads(desk) == 1


async def test_only_what_was_sent_is_shown_to_who_wants_just_that(tmp_path: Path) -> None:
    async with Desk(tmp_path) as desk:
        client = Chatter(desk)
        for text in ("one", "two", "three"):
            await client.send(text)
        client.messages = client.messages[-2:]
        turn = await client.send("four", terms=Terms(system="Alone.", only_last=0))
        assert turn.turn_seq == 2
        assert desk.prompts[-1].system == ("Alone.",)
        assert [text for _, text in desk.shown] == ["three", "Fine.", "four"]
        assert (await desk.engine.explain(turn.id)).matches


@pytest.mark.parametrize("messages", [[], [say("assistant", "Hi")], [say("system", "Hi")]])
async def test_a_conversation_without_a_message_of_the_user_is_refused(tmp_path: Path, messages: list[Message]) -> None:
    async with Desk(tmp_path) as desk:
        with pytest.raises(InvalidInput, match="no user message"):
            await Chatter(desk).post(messages)
        assert await threads(desk) == 0


async def test_a_thread_that_was_begun_elsewhere_is_found_by_what_was_said(tmp_path: Path) -> None:
    async with Desk(tmp_path, "Hello.", "Two.") as desk:
        native = await desk.engine.ask("new", "Hi", user_id="ann")
        client = Chatter(desk)
        client.messages = [say("user", "Hi"), say("assistant", "Hello.")]
        turn = await client.send("And?")
        assert (turn.session_id, turn.turn_seq) == (native.thread_id, 2)


async def test_what_was_sent_is_shown_as_it_came_also_where_more_or_something_else_is_kept(tmp_path: Path) -> None:
    async with Desk(tmp_path, *map(str, range(20))) as desk:
        client, off = Chatter(desk), Terms(only_last=0)
        client.messages = [say("assistant", "Welcome!")]
        first = await client.send("one", terms=off)
        second = await client.send("two", terms=off)
        assert (second.turn_seq, second.branch_id) == (3, first.branch_id)
        assert desk.shown == [*said(tuple(client.messages[:-1]))]
        client.messages = [say("user", "Summary: well."), *client.messages[-2:]]
        for text in ("three", "four"):
            await client.send(text, terms=off)
            assert "".join(text for _, text in desk.shown) == "".join(
                text for _, text in said(tuple(client.messages[:-1]))
            )
        client.thread_id = first.session_id
        client.messages = [say("user", "something"), say("assistant", "else")]
        elsewhere = await client.send("five", terms=off)
        assert desk.shown == [*said(tuple(client.messages[:-1]))]
        assert elsewhere.session_id == first.session_id
        client.messages = []
        await client.send("six", terms=off)
        assert desk.shown == [("user", "six")]


async def test_a_request_is_answered_anew_however_often_it_was_made_before(tmp_path: Path) -> None:
    async with Desk(tmp_path, *map(str, range(120))) as desk:
        answers = [(await Chatter(desk).send("What time is it?")).text for _ in range(105)]
        assert len(set(answers)) == 105


async def test_results_find_their_calls_also_where_the_client_names_them_anew(tmp_path: Path) -> None:
    calls = tuple(ToolCall(call_id=f"c{number}", name="weather", arguments={"day": number}) for number in range(2))
    async with Desk(tmp_path, ScriptedReply(text="Let me look.", tools=calls), "It rains.", "It rains again.") as desk:
        client = Chatter(desk)
        terms = Terms(tools=(ToolSpec(name="weather", description="Tells it.", parameters={"type": "object"}),))
        asked = await client.send("How is it?", terms=terms)
        uses = tuple(ToolUseBlock(tool_use_id=f"n{n}", name="weather", input={"day": n}) for n in range(2))
        client.messages[-1] = Message(role="assistant", blocks=(TextBlock(text="Let me look."), *uses))
        results = [ToolResultBlock(tool_use_id=f"n{n}", content=(TextBlock(text=f"rain {n}"),)) for n in (1, 0)]
        told = await client.send(*results, "And tomorrow?", terms=terms)
        assert (told.turn_seq, told.branch_id) == (2, asked.branch_id)
        assert desk.prompts[-1].messages == tuple(client.messages[:-1]), "calls and results as the client names them"
        kept = [block.tool_use_id for block in told.user_message.blocks if isinstance(block, ToolResultBlock)]
        assert kept == ["c1", "c0"], "kept under the names of the stored calls"
        client.messages = [*client.messages[:-1], say("assistant", "As I would say it.")]
        await client.send("Go on", terms=terms)
        held = [block for message in desk.prompts[-1].messages for block in message.blocks]
        assert [block.tool_use_id for block in held if isinstance(block, ToolResultBlock)] == ["n1", "n0"], "as sent"


@pytest.mark.req("API-12", "API-15")
async def test_a_first_message_that_failed_twice_is_shown_once(tmp_path: Path) -> None:
    """The second attempt broke off in the middle, so that the third is on a branch of its own."""
    broken = Problem(code="server", message="It broke.")
    replies = (ScriptedReply(error=broken), ScriptedReply(pieces=("Half of",), error=broken), "Fine.")
    async with Desk(tmp_path, *replies) as desk:
        for _ in replies:
            await Chatter(desk).post([say("user", "yes")])
        assert desk.shown == [("user", "yes")]
        assert await threads(desk) == 1
