"""A client that sends its whole conversation every time and names no thread: what it says is kept once."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path
from typing import Any

import pytest

from contextinfinity.domain.ids import TurnId
from contextinfinity.domain.message import (
    ContentBlock,
    ImageBlock,
    Message,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    say,
)
from contextinfinity.domain.prompt import ToolSpec
from contextinfinity.domain.session import NewSession, Owner
from contextinfinity.domain.trail import number_of
from contextinfinity.domain.turn import Exchange, Problem, Turn
from contextinfinity.engine.continuing import Talk
from contextinfinity.engine.parts import Asked, Terms
from contextinfinity.engine.talks import Talks
from contextinfinity.errors import InvalidInput
from contextinfinity.providers.scripted import Reply, ToolCall
from tests.scenarios.desk import Desk, said

pytestmark = pytest.mark.req("API-7")

ANN = Owner(user_id="ann")


class Chatter:
    """A client as they are: it holds the messages, and sends them all."""

    def __init__(
        self, desk: Desk, *, system: str = "Be brief.", end_user: str = "", thread_id: str | None = None
    ) -> None:
        self.desk, self.talks, self.system, self.thread_id = desk, Talks(desk.engine), system, thread_id
        self.end_user = end_user
        self.messages: list[Message] = []

    async def send(self, *content: str | ContentBlock, keep: bool = True, **more: Any) -> Turn:
        blocks = tuple(TextBlock(text=one) if isinstance(one, str) else one for one in content)
        messages = [*self.messages, Message(role="user", blocks=blocks)]
        turn = await self.post(messages, **more)
        if keep and turn.answer is not None:
            self.messages = [*messages, turn.answer]
        return turn

    async def post(self, messages: list[Message], *, tried_within: float = 0, terms: Terms | None = None) -> Turn:
        talk = Talk(
            messages=tuple(messages),
            end_user=self.end_user,
            thread_id=self.thread_id,
            body=number_of(repr((messages, terms)).encode()),
            tried_within=tried_within,
        )
        asked = Asked(may_ask_back=False, terms=terms or Terms(system=self.system))
        turn, _ = await self.talks.begin(talk, ANN, asked)
        return await ended(self.desk, turn.id)


async def ended(desk: Desk, turn_id: TurnId) -> Turn:
    async for _ in desk.engine.watch(turn_id):
        pass
    turn = await desk.engine.store.turns.get(turn_id)
    assert turn is not None
    return turn


async def kept(desk: Desk, thread_id: str) -> dict[str, list[str]]:
    """Give what every branch of a thread says of its own."""
    store = desk.engine.store
    branches = await store.branches.list(thread_id)
    return {
        branch.id: [turn.user_message.rendered_text for turn in await store.turns.history(branch.id, limit=100)]
        for branch in branches
    }


async def threads(desk: Desk, owner: Owner = ANN) -> int:
    return len(await desk.engine.store.sessions.list(owner))


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
        assert line == ["Welcome!", "a", "cd", "f", "g"]
        assert [text for _, text in desk.shown][:4] == ["Welcome!", "a", "b", "cd"]


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


async def test_an_answer_that_the_client_changed_goes_on_from_its_own_words(tmp_path: Path) -> None:
    async with Desk(tmp_path, "Hello.", "Wrong.") as desk:
        client = Chatter(desk)
        await client.send("Hi")
        was = await client.send("Which?")
        client.messages[-1] = say("assistant", "Right.")
        turn = await client.send("Go on")
        assert (turn.branch_id != was.branch_id, turn.turn_seq) == (True, 3)
        assert ("assistant", "Right.") in desk.shown
        assert ("assistant", "Wrong.") not in desk.shown


async def test_a_system_text_that_changes_each_time_is_shown_and_starts_nothing_new(tmp_path: Path) -> None:
    async with Desk(tmp_path) as desk:
        client = Chatter(desk)
        for minute in range(3):
            client.system = f"It is 12:0{minute}."
            turn = await client.send(f"{minute}?")
            assert desk.prompts[-1].system[0].startswith(f"It is 12:0{minute}.")
        assert (turn.turn_seq, await threads(desk)) == (3, 1)


async def test_a_client_that_trims_or_summarises_goes_on_where_it_was(tmp_path: Path) -> None:
    async with Desk(tmp_path, *map(str, range(20))) as desk:
        client = Chatter(desk)
        for place in range(6):
            await client.send(f"question {place}")
        client.messages = client.messages[-4:]
        turn = await client.send("trimmed")
        assert turn.turn_seq == 7
        assert ("user", "question 0") in desk.shown, "the model sees what is kept, not what is left of it"
        client.messages = [say("user", "Summary: all was well."), *client.messages[-2:]]
        turn = await client.send("summarised")
        assert turn.turn_seq == 8
        assert await threads(desk) == 1


async def test_a_client_that_trims_and_asks_again_gets_a_sibling_in_its_thread(tmp_path: Path) -> None:
    async with Desk(tmp_path, *map(str, range(20))) as desk:
        client = Chatter(desk)
        for place in range(5):
            last = await client.send(f"question {place}")
        trimmed = client.messages[-6:-2]
        for _ in range(3):
            client.messages = list(trimmed)
            again = await client.send("question 4")
            assert (again.session_id, again.turn_seq) == (last.session_id, 5)
            assert ("user", "question 0") in desk.shown
            assert ("assistant", "4") not in desk.shown
        client.messages = client.messages[-4:]
        on_it = await client.send("question 5")
        assert (on_it.branch_id, on_it.turn_seq) == (again.branch_id, 6)
        client.messages = [say("user", "Summary: well."), *trimmed[-2:]]
        edited = await client.send("another question")
        assert (edited.session_id, edited.turn_seq) == (last.session_id, 5)
        assert await threads(desk) == 1


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


async def test_two_conversations_that_end_alike_are_not_mixed_up_by_trimming(tmp_path: Path) -> None:
    async with Desk(tmp_path, "A", "Sure.", "B", "Sure.") as desk:
        for first in ("alpha", "beta"):
            client = Chatter(desk)
            await client.send(first)
            await client.send("ok?")
        client.messages = client.messages[-2:]
        turn = await client.send("trimmed")
        assert turn.turn_seq == 2, "nobody can tell which of both it was: it is one of its own"
        assert await threads(desk) == 3


async def test_several_people_behind_one_owner_never_meet(tmp_path: Path) -> None:
    async with Desk(tmp_path) as desk:
        carl, dora = Chatter(desk, end_user="carl"), Chatter(desk, end_user="dora")
        for text in ("Hi", "And?"):
            mine, theirs = await carl.send(text), await dora.send(text)
            assert mine.session_id != theirs.session_id
        assert (mine.turn_seq, theirs.turn_seq, await threads(desk)) == (2, 2, 2)


async def test_the_same_request_twice_at_once_is_one_turn_and_so_is_a_retry(tmp_path: Path) -> None:
    async with Desk(tmp_path) as desk:
        client = Chatter(desk)
        await client.send("Hi")
        both = await asyncio.gather(*(client.send("And?", keep=False) for _ in range(5)))
        assert len({turn.id for turn in both}) == 1
        again = await client.post([*client.messages, say("user", "And?")], tried_within=60)
        assert again.id == both[0].id
        first = await asyncio.gather(*(Chatter(desk).send("A new one") for _ in range(5)))
        assert len({turn.id for turn in first}) == 1
        assert await threads(desk) == 2


async def test_a_retry_is_not_given_what_the_same_request_got_long_ago(tmp_path: Path) -> None:
    async with Desk(tmp_path, "Monday's.", "Tuesday's.") as desk:
        monday = await Chatter(desk).send("What is new?")
        tuesday = await Chatter(desk).send("What is new?", tried_within=1e-9)
        assert (monday.text, tuesday.text) == ("Monday's.", "Tuesday's.")
        again = await Chatter(desk).send("What is new?", tried_within=60)
        assert again.id == tuesday.id


async def test_a_request_that_failed_is_tried_again_in_its_place(tmp_path: Path) -> None:
    async with Desk(tmp_path, "Hello.", Reply(error=Problem(code="server", message="It broke.")), "Now.") as desk:
        client = Chatter(desk)
        first = await client.send("Hi")
        failed = await client.send("And?")
        assert failed.outcome == "failed"
        again = await client.send("And?")
        assert (again.text, again.branch_id, again.turn_seq) == ("Now.", first.branch_id, 3)
        assert said(desk.prompts[-1].messages)[0] == ("user", "Hi")


BROKEN = Reply(error=Problem(code="server", message="It broke."))


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
    refused = Reply(error=Problem(code="filter", message="Not that."))
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
    half = Reply(pieces=("Half of",), error=Problem(code="server", message="It broke."))
    async with Desk(tmp_path, "Hello.", half, "All of it.") as desk:
        client = Chatter(desk)
        await client.send("Hi")
        cut = await client.send("Which?", keep=False)
        assert (cut.outcome, cut.text) == ("incomplete", "Half of")
        again = await client.send("Which?")
        assert (again.session_id, again.text) == (cut.session_id, "All of it.")
        assert desk.shown == [("user", "Hi"), ("assistant", "Hello."), ("user", "Which?")]


async def test_a_first_question_that_was_half_answered_is_answered_in_its_thread(tmp_path: Path) -> None:
    half = Reply(pieces=("Half of",), error=Problem(code="server", message="It broke."))
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
    async with Desk(tmp_path, Reply(tools=(call,)), BROKEN, "It rains.") as desk:
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
    async with Desk(tmp_path, Reply(text="Let me look.", tools=(call,)), "It rains.") as desk:
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
        client.messages = [say("user", "something"), say("assistant", "else")]
        third = await client.send("So?")
        assert (third.session_id, third.branch_id, third.turn_seq) == (first.session_id, first.branch_id, 3)
        client.thread_id = first.session_id
        assert (await client.send("Well?")).turn_seq == 4


async def test_only_what_was_sent_is_shown_to_who_wants_just_that(tmp_path: Path) -> None:
    async with Desk(tmp_path) as desk:
        client = Chatter(desk)
        for text in ("one", "two", "three"):
            await client.send(text)
        client.messages = client.messages[-2:]
        turn = await client.send("four", terms=Terms(system="Alone.", only_last=0))
        assert turn.turn_seq == 4
        assert desk.prompts[-1].system == ("Alone.",)
        assert [text for _, text in desk.shown] == ["three", "Fine.", "four"]
        assert (await desk.engine.explain(turn.id)).matches


@pytest.mark.parametrize("messages", [[], [say("assistant", "Hi")], [say("user", "Hi"), say("assistant", "Hello")]])
async def test_a_conversation_that_ends_with_an_answer_is_refused(tmp_path: Path, messages: list[Message]) -> None:
    async with Desk(tmp_path) as desk:
        with pytest.raises(InvalidInput, match="last message"):
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


async def test_a_trimmed_conversation_of_one_person_never_goes_on_in_another_ones(tmp_path: Path) -> None:
    async with Desk(tmp_path, "The code is 7.", "Yes.") as desk:
        carl, dora = Chatter(desk, end_user="carl"), Chatter(desk, end_user="dora")
        await carl.send("What is the code?")
        theirs = await carl.send("Sure?")
        dora.messages = carl.messages[-2:]
        mine = await dora.send("And now?")
        assert mine.session_id != theirs.session_id
        assert ("assistant", "The code is 7.") not in desk.shown
        carl.messages = carl.messages[-2:]
        assert (await carl.send("And now?")).session_id == theirs.session_id


async def test_different_messages_sent_at_once_after_the_same_answer_are_branches(tmp_path: Path) -> None:
    async with Desk(tmp_path) as desk:
        client = Chatter(desk)
        first = await client.send("Hi")
        turns = await asyncio.gather(*(client.send(f"{number}?", keep=False) for number in range(6)))
        assert [turn.turn_seq for turn in turns] == [2] * 6
        assert len({turn.branch_id for turn in turns}) == 6
        assert {turn.session_id for turn in turns} == {first.session_id}
        lines = (await kept(desk, first.session_id)).values()
        assert sorted(lines) == sorted(["Hi", f"{number}?"] for number in range(6))


async def test_a_request_is_answered_anew_however_often_it_was_made_before(tmp_path: Path) -> None:
    async with Desk(tmp_path, *map(str, range(120))) as desk:
        answers = [(await Chatter(desk).send("What time is it?")).text for _ in range(105)]
        assert len(set(answers)) == 105


async def test_results_find_their_calls_also_where_the_client_names_them_anew(tmp_path: Path) -> None:
    calls = tuple(ToolCall(call_id=f"c{number}", name="weather", arguments={"day": number}) for number in range(2))
    async with Desk(tmp_path, Reply(text="Let me look.", tools=calls), "It rains.", "It rains again.") as desk:
        client = Chatter(desk)
        terms = Terms(tools=(ToolSpec(name="weather", description="Tells it.", parameters={"type": "object"}),))
        asked = await client.send("How is it?", terms=terms)
        uses = tuple(ToolUseBlock(tool_use_id=f"n{n}", name="weather", input={"day": n}) for n in range(2))
        client.messages[-1] = Message(role="assistant", blocks=(TextBlock(text="Let me look."), *uses))
        results = [ToolResultBlock(tool_use_id=f"n{n}", content=(TextBlock(text=f"rain {n}"),)) for n in (1, 0)]
        told = await client.send(*results, "And tomorrow?", terms=terms)
        assert (told.turn_seq, told.branch_id) == (2, asked.branch_id)
        given = [
            block.tool_use_id for block in desk.prompts[-1].messages[-1].blocks if isinstance(block, ToolResultBlock)
        ]
        assert given == ["c1", "c0"]
        client.messages = [*client.messages[:-1], say("assistant", "As I would say it.")]
        await client.send("Go on", terms=terms)
        held = [block for message in desk.prompts[-1].messages for block in message.blocks]
        assert [block.tool_use_id for block in held if isinstance(block, ToolResultBlock)] == ["c1", "c0"]
