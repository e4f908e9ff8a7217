"""Threads that people recognise: side requests, compaction, added and stripped messages, edited answers, openings."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest

from contextinfinity.domain.message import Json
from contextinfinity_testing.vendors import Answer, Call
from tests.doors.v1.upstream import Desk

pytestmark = [pytest.mark.req("API-16"), pytest.mark.xdist_group("v1")]

TOOLS = [
    {"type": "function", "function": {"name": "shell", "parameters": {"type": "object", "properties": {"cmd": {}}}}}
]
LONG = " Keep to the facts and leave nothing out that matters later." * 8
SUMMARY = "\n".join(
    (
        "<analysis>I looked at everything once more.</analysis>",
        "<summary>",
        "1. The person wants the boat shed painted green before the winter.",
        "2. Two tins of paint were bought, and the brushes are in the cellar.",
        "</summary>",
    )
)


class Agent:
    """A client that resends everything; its user is known to no other test."""

    def __init__(self, desk: Desk) -> None:
        self.desk, self.whose = desk, {"user_id": str(uuid4())}
        self.messages: list[dict[str, Any]] = []

    def send(self, messages: list[dict[str, Any]], answer: Answer | str = "Noted.", **more: Any) -> str:
        """Send messages and return the thread they are kept in."""
        self.desk.say(answer)
        body = {"model": "open", "messages": messages, **more}
        told = self.desk.server.http.post("/v1/chat/completions", json=body, params=self.whose)
        assert told.status_code == 200, told.text
        self.answer = told.json()["choices"][0]["message"]
        assert self.desk.asked["messages"] == messages, "the model is shown what was sent"
        return str(told.headers["x-thread-id"])

    def ask(self, text: str, answer: Answer | str = "Noted.", **more: Any) -> str:
        """Say something in the conversation."""
        self.messages.append({"role": "user", "content": text})
        thread = self.send(self.messages, answer, **more)
        self.messages.append({"role": "assistant", "content": self.answer["content"]})
        return thread

    def listed(self) -> list[dict[str, Any]]:
        """List the threads of its user."""
        threads: list[dict[str, Any]] = self.desk.server.http.get("/threads", params=self.whose).json()["threads"]
        return threads

    def kept(self, thread: str) -> list[str]:
        """Read what was said on the active branch."""
        return self.desk.kept(thread, **self.whose)


@pytest.fixture
def agent(desk: Desk) -> Agent:
    return Agent(desk)


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def system(text: str) -> dict[str, Any]:
    return {"role": "system", "content": text}


@pytest.mark.parametrize(
    "side",
    [
        [system("You write titles. Generate a short title for this conversation."), user("Paint the shed")],
        [user("Task: produce one to three tags for the chat history below." + LONG + "<chat>Paint the shed</chat>")],
        [user("Suggest three follow-up questions for this conversation." + LONG)],
    ],
    ids=["title", "tags", "follow-ups"],
)
def test_a_request_for_a_title_or_tags_is_kept_and_not_listed(agent: Agent, side: list[dict[str, Any]]) -> None:
    hidden = agent.send(side, "Boat shed")
    thread = agent.ask("Paint the shed", tools=TOOLS)
    assert hidden != thread
    assert [one["thread_id"] for one in agent.listed()] == [thread]
    assert agent.kept(hidden) == [side[-1]["content"]], "it is kept"


def test_an_article_that_wants_a_title_is_a_conversation(agent: Agent) -> None:
    thread = agent.ask("Generate a title for my article about herons in the conversation of nature.")
    assert [one["thread_id"] for one in agent.listed()] == [thread]


def test_side_requests_about_a_conversation_never_become_its_active_branch(agent: Agent) -> None:
    agent.ask("Paint the shed", tools=TOOLS)
    thread = agent.ask("Which colour?", "Green.", tools=TOOLS)
    note = user("Act on memory extraction: note what lasts from the messages above." + LONG)
    for _ in range(4):
        call = Answer(tool_calls=(Call(name="shell", arguments={"cmd": "ls"}),))
        assert agent.send([*agent.messages, note], call, tools=TOOLS) == thread
        results = {"role": "tool", "tool_call_id": agent.answer["tool_calls"][0]["id"], "content": "notes.md"}
        assert agent.send([*agent.messages, note, agent.answer, results], "Noted.", tools=TOOLS) == thread
        assert agent.kept(thread) == ["Paint the shed", "Which colour?"]
    assert agent.ask("And the door?", tools=TOOLS) == thread
    assert agent.kept(thread) == ["Paint the shed", "Which colour?", "And the door?"]
    assert len(agent.listed()) == 1


def test_a_person_who_goes_on_from_a_side_request_is_in_the_conversation_again(agent: Agent) -> None:
    agent.ask("Paint the shed")
    thread = agent.ask("Write a summary of this conversation, as long as a page." + LONG, "It was about a shed.")
    assert agent.kept(thread) == ["Paint the shed"]
    assert agent.ask("Make it shorter") == thread
    assert len(agent.kept(thread)) == 3
    first = [system("Generate a short title for each chat that is named."), user("Herons")]
    hidden = agent.send(first, "The quiet fishers")
    assert len(agent.listed()) == 1
    agent.send([*first, {"role": "assistant", "content": "The quiet fishers"}, user("Another one")])
    assert {one["thread_id"] for one in agent.listed()} == {thread, hidden}


def test_an_application_that_summarises_transcripts_is_listed(agent: Agent) -> None:
    told = [system("Write a summary of the call transcript."), user("Agent: hello. Caller: my heating is broken.")]
    thread = agent.send(told, "The heating is broken.")
    assert [one["thread_id"] for one in agent.listed()] == [thread]
    again = agent.send([*told, {"role": "assistant", "content": "The heating is broken."}, user("Shorter, please")])
    assert agent.kept(again) == [told[-1]["content"], "Shorter, please"]


def test_after_its_own_compaction_an_agent_goes_on_in_the_same_thread(agent: Agent) -> None:
    agent.ask("Paint the shed before winter, please", tools=TOOLS)
    thread = agent.ask("Buy the paint", "Two tins.", tools=TOOLS)
    ask = user("Write a summary of this conversation so that it can be continued." + LONG)
    assert agent.send([*agent.messages, ask], SUMMARY, tools=TOOLS) == thread
    lines = SUMMARY.split("<summary>\n")[1].removesuffix("\n</summary>")
    agent.messages = [
        user(f"It goes on from an earlier session.\n\nSummary:\n{lines}"),
        {"role": "assistant", "content": "Good."},
    ]
    assert agent.ask("And now the door", tools=TOOLS) == thread
    assert agent.ask("And the roof", tools=TOOLS) == thread
    (listed,) = agent.listed()
    assert listed["opening"] == "Paint the shed before winter, please"
    assert agent.kept(thread)[1:] == ["And now the door", "And the roof"]
    assert agent.desk.branches(thread) == 3


def test_an_agent_that_moves_its_own_messages_and_strips_reminders_stays_in_one_thread(agent: Agent) -> None:
    example = [user(f"Rename f.{LONG}"), {"role": "assistant", "content": "Renamed, as an example."}]
    reminder = "\n\n# Rules\n\nAnswer with whole lines, and name the file first."
    said: list[dict[str, Any]] = []
    threads = set()
    for number in range(4):
        files = [user(f"These are the files: x = {number}"), {"role": "assistant", "content": "Ok, I will edit those."}]
        asked = f"Raise x once more, this is request {number}"
        answer = f"Raised to {number + 1}; the file a.py holds the new value, and nothing else was changed in it."
        threads.add(agent.send([*example, *said, *files, user(asked + reminder)], answer))
        said += [user(asked), {"role": "assistant", "content": answer}]
        said += [user(f"I saved version {number}"), {"role": "assistant", "content": "Ok."}]
    assert len(threads) == 1
    (listed,) = agent.listed()
    assert listed["opening"].startswith("Raise x once more, this is request 0")
    assert agent.desk.branches(threads.pop()) == 1


def test_an_agent_whose_description_of_its_folder_changes_stays_in_one_thread(agent: Agent) -> None:
    """It begins every session with the names of the files, which are others when the session is resumed."""
    call = Answer(text="Look.", tool_calls=(Call(name="shell", arguments={"cmd": "cat notes/" + "shed/" * 12}),))
    begun, threads = {"role": "assistant", "content": "Got it."}, set()
    said = [user(f"Paint the shed.{LONG}")]
    answers: list[Answer | str] = [call, "Done.", call, "Done again."]
    for number, answer in enumerate(answers):
        threads.add(agent.send([user(f"The files are: {'x' * (number // 2)}"), begun, *said], answer, tools=TOOLS))
        said.append({key: value for key, value in agent.answer.items() if key in ("role", "content", "tool_calls")})
        calls = agent.answer.get("tool_calls") or ()
        said += [{"role": "tool", "tool_call_id": one["id"], "content": "Two tins."} for one in calls]
        said += [] if calls else [user("And once more")]
    assert len(threads) == 1
    compact = user("Write a summary of this conversation so that it can be continued." + LONG)
    assert agent.send([user("The files are: y"), begun, *said[:-1], compact], SUMMARY, tools=TOOLS) in threads
    lines = SUMMARY.split("<summary>\n")[1].removesuffix("\n</summary>")
    summed = [user("The files are: z"), begun, user(lines), begun, user("And now the door")]
    assert agent.send(summed, tools=TOOLS) in threads, "its own compaction is recognised as well"
    (listed,) = agent.listed()
    assert listed["opening"].startswith("Paint the shed")


def test_an_agent_that_clears_old_tool_results_stays_in_one_thread(agent: Agent) -> None:
    """Twice in a loop; the model is shown what the agent left of them."""
    said, threads = [user("Paint the shed")], set[str]()
    for number in range(7):
        call = Answer(tool_calls=(Call(name="shell", arguments={"cmd": f"cat notes/shed/{number}.md"}),))
        threads.add(agent.send(said, call, tools=TOOLS))
        called = agent.answer["tool_calls"][0]["id"]
        said.append({key: agent.answer[key] for key in ("role", "content", "tool_calls")})
        said.append({"role": "tool", "tool_call_id": called, "content": f"Note {number}.{LONG}"})
        if number in (3, 5):
            old = [one for one in said[:-4] if one["role"] == "tool"]
            said = [{**one, "content": "[cleared]"} if one in old else one for one in said]
    threads.add(agent.send(said, "Painted.", tools=TOOLS))
    assert len(threads) == 1
    (listed,) = agent.listed()
    assert (listed["opening"], agent.desk.branches(threads.pop())) == ("Paint the shed", 1)


RENDERINGS: list[Callable[[list[dict[str, Any]]], str]] = [
    lambda calls: f"Calling tools:\n{[{'id': one['id'], **_parsed(one)} for one in calls]}",
    lambda calls: "\n".join(f"```json\n{json.dumps(_parsed(one), sort_keys=True)}\n```" for one in calls),
    lambda calls: "\n".join(
        f"<{name}>{''.join(f'<{key}>{value}</{key}>' for key, value in told.items())}</{name}>"
        for name, told in (_parsed(one).values() for one in calls)
    ),
]
"""How agents write calls into a text: as Python values, as JSON, as tags."""


def _parsed(call: dict[str, Any]) -> dict[str, Any]:
    function = call["function"]
    return {"name": function["name"], "arguments": json.loads(function["arguments"])}


@pytest.mark.parametrize("rendered", RENDERINGS, ids=["python", "json", "tags"])
def test_an_agent_that_resends_tool_calls_as_text_stays_in_one_thread(
    agent: Agent, rendered: Callable[[list[dict[str, Any]]], str]
) -> None:
    said = [user("New task:\nPaint the shed")]
    threads = set()
    for number in range(4):
        told: Json = {"cmd": f"ls 'Käse {number}'\ncat \"C:\\new\"", "times": number, "quiet": True, "more": None}
        calls = (Call(name="shell", arguments=told), Call(name="shell", arguments={"cmd": ["pwd", "-P"]}))
        threads.add(
            agent.send(said, Answer(text="" if number == 2 else f"Step {number}.", tool_calls=calls), tools=TOOLS)
        )
        text = f"{agent.answer['content'] or ''}\n{rendered(agent.answer['tool_calls'])}".strip()
        said += [{"role": "assistant", "content": text}, user(f"Observation:\nkey {number}")]
    threads.add(agent.send(said, "It is painted.", tools=TOOLS))
    assert len(threads) == 1
    (listed,) = agent.listed()
    assert (listed["turns"], agent.desk.branches(listed["thread_id"])) == (5, 1)
    said[1]["content"] = said[1]["content"].replace("pwd", "whoami")
    assert agent.send(said[:3], "Now?", tools=TOOLS) not in threads, "other calls are another conversation"


def test_conversations_that_begin_with_the_same_examples_are_listed_apart(agent: Agent) -> None:
    opening = [user("Here is my folder."), {"role": "assistant", "content": "Got it. Thanks for the context!"}]
    threads = [agent.send([*opening, user(f"Question {number}")]) for number in range(3)]
    assert len(set(threads)) == 3
    assert [one["opening"] for one in agent.listed()] == ["Question 2", "Question 1", "Question 0"]
    again = agent.send([*opening, user("Question 1")], "Another answer.")
    assert again == threads[1], "an answer that is asked for again stays in its thread"


def test_an_edited_answer_is_a_branch_of_its_thread(agent: Agent) -> None:
    where = f"Where is it?{LONG}"
    thread = agent.ask(where, "It is in the second drawer on the left side of the desk.")
    agent.ask("And the other one?")
    agent.messages[1]["content"] = "It is in the third drawer on the left side of the desk."
    agent.messages = agent.messages[:2]
    assert agent.ask("Are you sure?") == thread
    assert agent.desk.branches(thread) == 2
    assert agent.kept(thread) == [where, "Are you sure?"]
    agent.messages[1]["content"] = "No idea."
    assert agent.ask("Really?") != thread, "another answer is another conversation"


@pytest.mark.req("API-13")
def test_a_greeting_that_is_answered_in_other_words_is_another_conversation(agent: Agent) -> None:
    greeted = "Hello! How can I help you today? Ask me anything."
    thread = agent.ask("Hi", greeted)
    agent.ask("The code word is whale.")
    other = Agent(agent.desk)
    other.whose = agent.whose
    other.messages = [user("Hi"), {"role": "assistant", "content": greeted.replace("help", "assist")}]
    assert other.ask("What is the code word?") != thread


@pytest.mark.req("API-13")
@pytest.mark.parametrize("begun", [[], [user("The code word is whale."), {"role": "assistant", "content": "Noted."}]])
def test_one_exchange_that_two_conversations_share_joins_nothing(agent: Agent, begun: list[dict[str, Any]]) -> None:
    joke = "Why did the cat sit on the computer? It wanted to keep an eye on the mouse! Would you like another one?"
    asked = user(f"Tell me a joke about cats.{LONG}")
    thread = agent.send([*begun, asked], joke)
    own = [user("I am Bob. Plan a trip to Rome."), {"role": "assistant", "content": "Day 1: the Colosseum."}]
    sent = [*own, asked, {"role": "assistant", "content": joke}, user("What is the code word?")]
    other = agent.send(sent, "Which one?")
    assert other != thread
    assert agent.kept(other) == [message["content"] for message in sent if message["role"] == "user"]
