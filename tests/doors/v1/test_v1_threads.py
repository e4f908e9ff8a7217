"""Which thread a request belongs to, over HTTP with the vendors' own SDKs: what clients do to their messages."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest
from anthropic import Anthropic
from openai import OpenAI

from contextinfinity_testing.vendors import Trouble
from tests.doors.v1.upstream import Aside, Desk, somebody

pytestmark = [pytest.mark.req("API-7"), pytest.mark.xdist_group("v1")]

LONG = "What is the best way to water a garden in a dry summer when the well gives less each week? Case"
"""Three of these are more than the characters by which a trimmed conversation is recognised."""
ROUTED = """
[[router.rules]]
intent = "code"
model = "sonnet"
"""


class Told(NamedTuple):
    """An answer and where it is kept."""

    text: str
    thread: str
    turn: str


class Client:
    """A client that keeps its conversation itself and sends all of it each time."""

    def __init__(self, send: Callable[..., Told], user: str | None = None) -> None:
        self._send = send
        self.user = user or somebody()
        self.messages: list[dict[str, Any]] = []
        self.system = "Be brief."

    def ask(self, text: str, *, keep: bool = True, **more: Any) -> Told:
        """Say something more."""
        said = [*self.messages, {"role": "user", "content": text}]
        told = self._send(said, self.system, self.user, **more)
        if keep:
            self.messages = [*said, {"role": "assistant", "content": told.text}]
        return told


Senders = dict[str, Callable[..., Told]]


@pytest.fixture
def senders(desk: Desk) -> Iterator[Senders]:
    openai = OpenAI(base_url=desk.openai_url, api_key="not needed", max_retries=0)
    anthropic = Anthropic(base_url=desk.anthropic_url, api_key="not needed", max_retries=0)

    def as_openai(said: Any, system: str, user: str, *, headers: Any = None, **more: Any) -> Told:
        messages: Any = [{"role": "system", "content": system}, *said]
        asked = {"model": "gpt", "messages": messages, "user": user, **more}
        answer = openai.chat.completions.with_raw_response.create(**asked, extra_headers=headers)
        text = answer.parse().choices[0].message.content or ""
        return Told(text, answer.headers["x-thread-id"], answer.headers["x-turn-id"])

    def as_anthropic(said: Any, system: str, user: str, *, headers: Any = None, **more: Any) -> Told:
        metadata = {"user_id": user, **more.pop("metadata", {})}
        asked = {"model": "gpt", "messages": said, "system": system, "metadata": metadata, "max_tokens": 500, **more}
        answer = anthropic.messages.with_raw_response.create(**asked, extra_headers=headers)
        text = "".join(block.text for block in answer.parse().content if block.type == "text")
        return Told(text, answer.headers["x-thread-id"], answer.headers["x-turn-id"])

    with openai, anthropic:
        yield {"openai": as_openai, "anthropic": as_anthropic}


@pytest.fixture(params=["openai", "anthropic"])
def client(request: pytest.FixtureRequest, senders: Senders) -> Client:
    return Client(senders[request.param])


def test_a_conversation_is_one_thread_and_nothing_in_it_is_kept_twice(desk: Desk, client: Client) -> None:
    told = [client.ask(text) for text in ("one", "two", "three")]
    assert len({one.thread for one in told}) == 1
    assert desk.kept(told[0].thread) == ["one", "two", "three"]


def test_a_conversation_goes_on_when_its_client_changes(desk: Desk, senders: Senders) -> None:
    first = Client(senders["openai"])
    begun = first.ask("The code word for the door is sesame.")
    second = Client(senders["anthropic"], first.user)
    second.messages = first.messages
    told = second.ask("What is the code word for the door?", model="sonnet")
    assert (told.thread, told.text) == (begun.thread, "sesame")


def test_a_system_prompt_that_changes_each_turn_is_shown_and_starts_nothing_new(desk: Desk, client: Client) -> None:
    threads = set()
    for minute in range(3):
        client.system = f"It is 12:0{minute}."
        threads.add(client.ask(f"question {minute}").thread)
        assert f"It is 12:0{minute}." in desk.shown
        assert minute == 0 or f"It is 12:0{minute - 1}." not in desk.shown
    assert len(threads) == 1


def test_a_client_that_trims_goes_on_in_its_thread_and_loses_nothing(desk: Desk, client: Client) -> None:
    begun = client.ask("The code word for the safe is mango.")
    for number in range(4):
        client.ask(f"{LONG} {number}")
    client.messages = client.messages[-6:]
    told = client.ask("What is the code word for the safe?")
    assert (told.thread, told.text) == (begun.thread, "mango")


@pytest.mark.req("API-13")
def test_a_trimmed_conversation_of_few_words_is_not_recognised(desk: Desk, client: Client) -> None:
    """Two exchanges of a few words may be the end of any conversation: 200 characters by the user are needed."""
    begun = client.ask("The code word for the mill is sack.")
    for number in range(4):
        client.ask(f"Go on, {number}.")
    client.messages = client.messages[-6:]
    told = client.ask("Yes, please.")
    assert told.thread != begun.thread
    assert desk.kept(told.thread, user_id=client.user)[-1] == "Yes, please."
    assert "sack" not in desk.shown


def test_a_client_that_summarises_goes_on_in_its_thread(desk: Desk, client: Client) -> None:
    begun = client.ask("The code word for the boat is anchor.")
    for number in range(3):
        client.ask(f"{LONG} {number}")
    client.messages = [{"role": "user", "content": "Summary: they talked."}, *client.messages[-6:]]
    told = client.ask("What is the code word for the boat?")
    assert (told.thread, told.text) == (begun.thread, "anchor")


def test_an_edited_message_is_a_branch_and_both_can_be_gone_on_with(desk: Desk, client: Client) -> None:
    for text in ("one", "two"):
        client.ask(text)
    whole, client.messages = client.messages, client.messages[:2]
    client.ask("zwei")
    edited = client.ask("drei")
    assert '"two"' not in desk.shown
    assert '"zwei"' in desk.shown
    client.messages = whole
    back = client.ask("three")
    assert '"zwei"' not in desk.shown
    assert back.thread == edited.thread
    assert desk.branches(back.thread) == 2


def test_an_answer_that_is_asked_for_again_is_another_one(desk: Desk, client: Client) -> None:
    desk.say("This.", "That.", "Well.")
    first, second = client.ask("Which?", keep=False), client.ask("Which?")
    assert (first.text, second.text) == ("This.", "That.")
    assert first.turn != second.turn
    client.ask("Go on.")
    assert '"That."' in desk.shown
    assert '"This."' not in desk.shown


def test_a_thread_that_a_header_names_is_gone_on_with_whatever_is_sent(desk: Desk, client: Client) -> None:
    header = {"X-Thread-Id": f"room {somebody()}"}
    begun = client.ask("The code word for the gate is iron.", headers=header)
    client.messages = []
    told = client.ask("What is the code word for the gate?", headers=header)
    assert (told.thread, told.text) == (begun.thread, "iron")
    client.messages = []
    assert client.ask("Well?", headers={"X-Thread-Id": begun.thread}).thread == begun.thread
    assert client.ask("A fresh one.", headers={"X-Thread-Id": "new"}).thread != begun.thread


def test_a_thread_that_the_metadata_name_is_gone_on_with(desk: Desk, client: Client) -> None:
    named = {"thread_id": f"room {somebody()}"}
    begun = client.ask("The code word for the barn is hay.", metadata=named)
    client.messages = []
    told = client.ask("What is the code word for the barn?", metadata=named)
    assert (told.thread, told.text) == (begun.thread, "hay")


def test_endless_context_can_be_switched_off_for_one_request(desk: Desk, client: Client) -> None:
    off = {"X-Endless-Context": "off"}
    begun = client.ask("The code word for the lock is brass.")
    client.ask("question")
    told = client.ask("What is the code word for the lock?", headers=off)
    assert (told.thread, told.text) == (begun.thread, "brass")
    client.messages = client.messages[-2:]
    client.messages[0] = {"role": "user", "content": "Something."}
    told = client.ask("What is the code word for the lock?", headers=off)
    assert "do not know" in told.text
    assert "brass" not in desk.kept(told.thread)[0]
    assert desk.kept(told.thread)[-1] == "What is the code word for the lock?"


def test_end_users_behind_one_key_never_meet(desk: Desk, client: Client, senders: Senders) -> None:
    send = client._send
    ann, bob = Client(send), Client(send)
    for text in ("Hi", "And?"):
        assert ann.ask(text).thread != bob.ask(text).thread
    header = {"X-Thread-Id": "our room"}
    assert ann.ask("Hi", headers=header).thread != bob.ask("Hi", headers=header).thread


def test_a_failed_answer_leaves_the_conversation_whole(desk: Desk, client: Client) -> None:
    desk.say("Hello.", Trouble.status(500), "Now.")
    begun = client.ask("Hi")
    with pytest.raises(Exception, match=r"500|502"):
        client.ask("And?")
    told = client.ask("And?")
    assert (told.thread, told.text) == (begun.thread, "Now.")
    assert '"Hello."' in desk.shown


@pytest.fixture(scope="module")
def routed(all_vendors: Aside, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    made = Desk(tmp_path_factory.mktemp("routed"), all_vendors, more=ROUTED)
    made.say()
    yield made
    made.server.stop()


def test_the_router_chooses_where_the_client_says_auto(routed: Desk) -> None:
    with OpenAI(base_url=routed.openai_url, api_key="not needed", max_retries=0) as client:
        asked = {"role": "user", "content": "Fix this: `def f(x): retrun x` raises SyntaxError"}
        done = client.chat.completions.create(model="auto", messages=[asked])  # type: ignore[list-item]
        assert (done.model, routed.asked["model"]) == ("auto", "claude-sonnet-4-5")
        before = len(routed.vendors.requests)
        client.chat.completions.create(model="auto", messages=[{"role": "user", "content": "Tell me a story."}])
        assert len(routed.vendors.requests) == before, "the default model, which is not at a vendor, answered"
