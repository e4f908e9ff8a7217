"""Resent conversations are joined only where nothing contradicts; otherwise all that was sent is kept apart."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from contextinfinity.domain.message import Role, say
from contextinfinity.storage.sqlite.connection import connect
from contextinfinity.storage.sqlite.migrate import migrations
from tests.scenarios.chatter import LONG, Chatter, kept, threads
from tests.scenarios.desk import Desk, said

pytestmark = pytest.mark.req("API-13")


async def test_an_answer_that_the_client_changed_goes_on_from_its_own_words(tmp_path: Path) -> None:
    async with Desk(tmp_path, "Hello.", "Wrong.") as desk:
        client = Chatter(desk)
        await client.send("Hi")
        was = await client.send("Which?")
        client.messages[-1] = say("assistant", "Right.")
        turn = await client.send("Go on")
        assert (turn.session_id != was.session_id, turn.turn_seq) == (True, 3)
        assert list((await kept(desk, turn.session_id)).values()) == [["Hi", "Which?", "Go on"]]
        assert ("assistant", "Right.") in desk.shown
        assert ("assistant", "Wrong.") not in desk.shown


@pytest.mark.parametrize("role", ["user", "assistant"])
async def test_a_client_that_trims_or_summarises_goes_on_where_it_was(tmp_path: Path, role: Role) -> None:
    async with Desk(tmp_path, *map(str, range(20))) as desk:
        client = Chatter(desk)
        for place in range(6):
            await client.send(f"{LONG}{place}")
        client.messages = client.messages[-6:]
        turn = await client.send(f"{LONG}trimmed")
        assert turn.turn_seq == 7
        assert ("user", f"{LONG}0") in desk.shown, "the model sees what is kept, not what is left of it"
        client.messages = [say(role, "Summary: all was well."), *client.messages[-6:]]
        for seq in (8, 9):
            turn = await client.send(f"{LONG}summarised {seq}")
            assert turn.turn_seq == seq
            assert turn.metadata == ({"client_summary": "Summary: all was well."} if seq == 8 else None), "kept once"
        assert await threads(desk) == 1


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param(lambda sent: sent[-2:], id="one exchange"),
        pytest.param(lambda sent: [say("user", "Short"), sent[-1], *sent[-2:]], id="few characters"),
        pytest.param(lambda sent: sent[-8:-2], id="not the end"),
        pytest.param(lambda sent: [say("user", "S"), say("assistant", "T"), *sent[-6:]], id="two unknown messages"),
        pytest.param(lambda sent: [*sent[-6:-3], say("assistant", "Other"), *sent[-2:]], id="another answer"),
        pytest.param(lambda sent: [say("user", "Another beginning"), *sent[1:]], id="another first message"),
        pytest.param(lambda sent: [say("user", "I am Dave"), *sent[-7:]], id="another question to a stored answer"),
        pytest.param(lambda sent: [*sent[-6:-4], *sent[-2:]], id="a gap"),
        pytest.param(lambda sent: [*sent[-4:-2], *sent[-6:-4], *sent[-2:]], id="another order"),
    ],
)
async def test_what_is_not_the_end_of_a_branch_is_a_thread_of_its_own(tmp_path: Path, changed: Any) -> None:
    async with Desk(tmp_path, *map(str, range(20))) as desk:
        client = Chatter(desk)
        for place in range(6):
            last = await client.send(f"{LONG}{place}")
        client.messages = changed(client.messages)
        turn = await client.send("And now?")
        assert turn.session_id != last.session_id
        assert desk.shown == said(tuple(client.messages[:-1]))
        (line,) = (await kept(desk, turn.session_id)).values()
        assert line == [one.rendered_text for one in client.messages if one.role == "user"]


async def test_one_exchange_is_no_end_of_a_branch_however_long_it_is(tmp_path: Path) -> None:
    async with Desk(tmp_path, *map(str, range(20))) as desk:
        client = Chatter(desk)
        for place in range(3):
            last = await client.send(f"{place} {'x' * 500}")
        client.messages = client.messages[-2:]
        assert (await client.send("And now?")).session_id != last.session_id


@pytest.mark.parametrize(("characters", "is_joined"), [(199, False), (200, True)])
async def test_a_trimmed_conversation_needs_200_characters_by_the_user(
    tmp_path: Path, characters: int, is_joined: bool
) -> None:
    async with Desk(tmp_path, *map(str, range(20))) as desk:
        client = Chatter(desk)
        for text in ("x" * 300, "y" * 100, "z" * (characters - 100)):
            last = await client.send(text)
        client.messages = client.messages[-4:]
        turn = await client.send("And now?")
        assert (turn.session_id == last.session_id) is is_joined


@pytest.mark.parametrize("role", ["user", "assistant"])
async def test_a_message_in_front_of_a_whole_conversation_is_shown_to_the_model(tmp_path: Path, role: Role) -> None:
    async with Desk(tmp_path, *map(str, range(20))) as desk:
        client = Chatter(desk)
        for place in range(3):
            last = await client.send(f"{LONG}{place}")
        client.messages = [say(role, "I am Bob."), *client.messages]
        turn = await client.send("And now?")
        assert turn.session_id != last.session_id
        assert "I am Bob." in desk.shown[0][1]


async def test_an_end_that_two_branches_share_leads_to_neither(tmp_path: Path) -> None:
    async with Desk(tmp_path) as desk:
        sent = []
        for first in ("alpha", "beta"):
            client = Chatter(desk)
            for text in (first, *(f"{LONG}{place}" for place in range(3))):
                await client.send(text)
            sent.append(client.messages)
        client.messages = client.messages[-6:]
        turn = await client.send("trimmed")
        assert (turn.turn_seq, await threads(desk)) == (4, 3)
        assert desk.shown == said(tuple(client.messages[:-1]))


async def test_an_end_that_another_branch_holds_in_its_middle_leads_to_neither(tmp_path: Path) -> None:
    async with Desk(tmp_path) as desk:
        for texts in (("alpha", "a", "b", "c", "gone on"), ("beta", "a", "b", "c")):
            client = Chatter(desk)
            for text in texts:
                await client.send(text if len(text) > 1 else f"{LONG}{text}")
        client.messages = client.messages[-6:]
        assert (await client.send("trimmed")).turn_seq == 4
        assert await threads(desk) == 3


async def test_what_agents_add_to_messages_and_strip_later_is_not_compared(tmp_path: Path) -> None:
    async with Desk(tmp_path) as desk:
        client = Chatter(desk)
        reminder = "<system-reminder>The todo list is empty.</system-reminder>"
        first = await client.send(reminder, "Hi ")
        client.messages[0] = say("user", "Hi")
        assert (await client.send("And?", reminder)).session_id == first.session_id
        alone = await Chatter(desk).send(reminder)
        other = Chatter(desk)
        other.messages = [say("user", reminder.replace("empty", "full")), say("assistant", "Fine.")]
        assert (await other.send("So?")).session_id != alone.session_id


async def test_a_message_alone_in_a_named_thread_is_not_the_beginning_of_another_conversation(tmp_path: Path) -> None:
    async with Desk(tmp_path, "It is heron.", "Hello.", "No idea.") as desk:
        named = Chatter(desk, thread_id="room")
        await named.send("The code word?")
        named.messages = []
        known = await named.send("Hi")
        client = Chatter(desk)
        client.messages = [say("user", "Hi"), say("assistant", "Hello.")]
        turn = await client.send("Which word?")
        assert turn.session_id != known.session_id
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


async def test_a_trimmed_conversation_of_one_person_never_goes_on_in_another_ones(tmp_path: Path) -> None:
    async with Desk(tmp_path, "The code is 7.", "Yes.") as desk:
        carl, dora = Chatter(desk, end_user="carl"), Chatter(desk, end_user="dora")
        await carl.send("What is the code?")
        for place in range(3):
            theirs = await carl.send(f"{LONG}{place}")
        dora.messages = carl.messages[-6:]
        mine = await dora.send("And now?")
        assert mine.session_id != theirs.session_id
        assert ("assistant", "The code is 7.") not in desk.shown
        carl.messages = carl.messages[-6:]
        assert (await carl.send("And now?")).session_id == theirs.session_id


async def test_different_messages_sent_at_once_after_the_same_answer_are_branches(tmp_path: Path) -> None:
    async with Desk(tmp_path) as desk:
        client = Chatter(desk)
        first = await client.send("Hi")
        turns = await asyncio.gather(*(client.send(f"{number}?", keep=False) for number in range(6)))
        assert [turn.turn_seq for turn in turns] == [2] * 6
        assert len({turn.branch_id for turn in turns}) == 6
        sessions = {turn.session_id for turn in turns}
        assert (first.session_id in sessions, len(sessions)) == (True, 4), "the fourth is a few-shot prompt"
        lines = [line for session in sessions for line in (await kept(desk, session)).values()]
        assert sorted(lines) == sorted(["Hi", f"{number}?"] for number in range(6))


@pytest.mark.sqlite_file("it deletes rows")
async def test_a_conversation_of_an_older_release_goes_on_in_its_thread(tmp_path: Path) -> None:
    async with Desk(tmp_path) as desk:
        client = Chatter(desk)
        for text in ("Hi", "And?"):
            first = await client.send(text)
        await desk.settle()
        ledger = connect(str(desk.path))
        (change,) = (step.sql for step in migrations() if step.name == "resent_conversations")
        ledger.execute(change[change.index("UPDATE") :])
        assert ledger.execute("SELECT count(answered) FROM trail").get == 0
        ledger.close()
        turns = [await client.send(text) for text in ("So?", "Well?")]
        assert [(turn.branch_id, turn.turn_seq) for turn in turns] == [(first.branch_id, 3), (first.branch_id, 4)]
