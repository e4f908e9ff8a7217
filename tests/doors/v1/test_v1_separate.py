"""Conversations and requests that look alike are kept apart, over HTTP with the vendors' own SDKs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from time import monotonic
from typing import Any
from uuid import uuid4

import httpx2
import pytest
from openai import OpenAI

from contextinfinity_testing.vendors import Answer, Delivery
from tests.doors.server import pause
from tests.doors.v1.upstream import Aside, Desk, somebody

pytestmark = [pytest.mark.xdist_group("v1")]

RETRY = {"x-stainless-retry-count": "1"}
THANKS = [
    {"role": "user", "content": "Thank you!"},
    {"role": "assistant", "content": "You're welcome! Anything else?"},
]


@pytest.fixture
def client(desk: Desk) -> Iterator[OpenAI]:
    with OpenAI(base_url=desk.openai_url, api_key="not needed", max_retries=0) as made:
        yield made


def ask(client: OpenAI, messages: list[Any], user: str, **more: Any) -> tuple[str, str, str]:
    """Send a conversation; return the answer, its thread and its turn."""
    asked: Any = {"model": "gpt", "messages": messages, "user": user, **more}
    answer = client.chat.completions.with_raw_response.create(**asked)
    text = answer.parse().choices[0].message.content or ""
    return text, answer.headers["x-thread-id"], answer.headers["x-turn-id"]


@pytest.mark.req("API-13")
def test_a_conversation_that_ends_like_another_one_is_kept_apart_and_whole(desk: Desk, client: OpenAI) -> None:
    user = somebody()
    messages: list[Any] = [{"role": "user", "content": "The code word is heron."}]
    desk.say("Noted.", "You're welcome! Anything else?", "I do not know.")
    ask(client, messages, user)
    messages += [{"role": "assistant", "content": "Noted."}, THANKS[0]]
    _, known, _ = ask(client, messages, user)
    foreign = [
        {"role": "user", "content": "I am Bob. Plan a trip to Rome."},
        {"role": "assistant", "content": "Day 1: Colosseum."},
        *THANKS,
        {"role": "user", "content": "What is the code word?"},
    ]
    _, thread, _ = ask(client, foreign, user)
    assert thread != known
    assert "heron" not in desk.shown
    assert "Colosseum" in desk.shown
    assert desk.kept(thread) == [message["content"] for message in foreign if message["role"] == "user"]


def remind(text: str, secret: str) -> str:
    """Add a reminder block as agents do."""
    return f"{text}\n<system-reminder>{secret}</system-reminder>"


@pytest.mark.req("API-13")
def test_every_client_is_answered_from_its_own_bytes_and_never_from_a_stored_variant(
    desk: Desk, client: OpenAI
) -> None:
    """Messages are matched after a normalisation; what the model sees is what this client sent."""
    user = somebody()
    desk.say("Noted. ", "Fine.", "Sure.", "Good.", "Bye.")
    first: list[Any] = [{"role": "user", "content": remind("Hello.", "heron")}]
    _, thread, _ = ask(client, first, user)
    first += [{"role": "assistant", "content": "Noted. "}, {"role": "user", "content": "Go on."}]
    ask(client, first, user)
    other: list[Any] = [
        {"role": "user", "content": remind(" Hello.", "stork")},
        {"role": "assistant", "content": "Noted."},
        {"role": "user", "content": "Something else."},
    ]
    _, same, turn = ask(client, other, user)
    assert same == thread
    assert texts(desk) == [message["content"] for message in other]
    context = desk.server.http.get(f"/threads/{thread}/turns/{turn}/context", params=desk.server.whose(thread)).json()
    assert context["matches"]
    assert "stork" in json.dumps(context["body"])
    other += [{"role": "assistant", "content": "Sure."}, {"role": "user", "content": "And now?"}]
    ask(client, other, user)
    assert texts(desk) == [message["content"] for message in other]
    other[0]["content"] = "Hello."
    other += [{"role": "assistant", "content": "Good."}, {"role": "user", "content": "Bye."}]
    ask(client, other, user)
    assert texts(desk) == [message["content"] for message in other]


def texts(desk: Desk) -> list[str]:
    """List the texts of the messages that the model was shown last."""
    contents = [item["content"] for item in desk.asked["input"] if item["role"] in ("user", "assistant")]
    return [one if isinstance(one, str) else "".join(part["text"] for part in one) for one in contents]


@pytest.mark.req("API-13")
def test_a_few_shot_prompt_does_not_gather_all_its_questions_in_one_thread(desk: Desk, client: OpenAI) -> None:
    user = somebody()
    examples: list[Any] = [{"role": "user", "content": "cat"}, {"role": "assistant", "content": "animal"}]
    threads = [ask(client, [*examples, {"role": "user", "content": f"{n}"}], user)[1] for n in range(6)]
    assert len(set(threads)) == 6


@pytest.mark.req("API-15")
@pytest.mark.parametrize("stream", [False, True])
def test_ten_equal_requests_at_once_get_ten_answers(desk: Desk, client: OpenAI, stream: bool) -> None:
    gate = asyncio.Event()
    desk.say(*(Answer(text=f"Answer {n}.", delivery=Delivery(gate=gate, hold_after=0)) for n in range(10)))
    asked: Any = {"model": "gpt", "messages": [{"role": "user", "content": "Roll a die."}], "user": somebody()}
    before = len(desk.vendors.requests)

    def one(number: int) -> str:
        marks = RETRY if number % 2 else {}  # nothing broke that a retry could join
        done: Any = client.chat.completions.create(**asked, stream=stream, temperature=1, extra_headers=marks)
        if not stream:
            return str(done.choices[0].message.content)
        return "".join(chunk.choices[0].delta.content or "" for chunk in done)

    with ThreadPoolExecutor(max_workers=10) as pool:
        answers = [pool.submit(one, n) for n in range(10)]
        wait_until(lambda: len(desk.vendors.requests) == before + 10)
        desk.vendors.release(gate)
        assert sorted(answer.result() for answer in answers) == [f"Answer {n}." for n in range(10)]


@pytest.mark.req("API-15")
def test_a_marked_retry_of_an_answered_request_is_a_request_of_its_own(desk: Desk, client: OpenAI) -> None:
    desk.say("Once.", "Twice.")
    messages, user = [{"role": "user", "content": "Which?"}], somebody()
    first = ask(client, messages, user)
    again = ask(client, messages, user, extra_headers=RETRY)
    assert (first[0], again[0]) == ("Once.", "Twice.")
    assert first[2] != again[2]


@pytest.mark.req("API-15")
def test_a_key_shares_the_answer_and_refuses_another_request(desk: Desk, client: OpenAI) -> None:
    desk.say("Once.", "Twice.")
    messages, user = [{"role": "user", "content": "Which?"}], somebody()
    key = {"Idempotency-Key": somebody()}
    first = ask(client, messages, user, extra_headers=key)
    assert ask(client, messages, user, extra_headers=key) == first
    assert ask(client, messages, user)[0] == "Twice."
    with pytest.raises(Exception, match=r"(?i)key"):
        ask(client, [{"role": "user", "content": "Another?"}], user, extra_headers=key)


@pytest.mark.req("API-15")
@pytest.mark.parametrize("stream", [False, True])
def test_a_marked_retry_joins_a_request_whose_connection_broke_once(desk: Desk, client: OpenAI, stream: bool) -> None:
    gate = asyncio.Event()
    desk.say(Answer(text="First.", delivery=Delivery(gate=gate, hold_after=0)), "Second.", "Third.")
    body = {"model": "gpt", "messages": [{"role": "user", "content": "Well?"}], "user": somebody(), "stream": stream}
    url, before = f"{desk.openai_url}/chat/completions", len(desk.vendors.requests)
    with pytest.raises(httpx2.ReadTimeout):
        httpx2.post(url, json=body, timeout=httpx2.Timeout(5, read=0.3), trust_env=False)
    wait_until(lambda: len(desk.vendors.requests) > before)
    desk.vendors.release(gate)
    sent: list[Any] = [{}, RETRY, RETRY]
    answers = [httpx2.post(url, json=body, headers=marks, timeout=30, trust_env=False) for marks in sent]
    unmarked, joined, other = (text_of(answer, stream=stream) for answer in answers)
    assert unmarked == "Second.", "only a marked retry joins"
    assert (joined, other) == ("First.", "Third.")
    assert len({answer.headers["x-turn-id"] for answer in answers}) == 3
    assert len(desk.vendors.requests) == before + 3


def wait_until(is_so: Callable[[], bool]) -> None:
    """Wait for a state, ten seconds at most."""
    deadline = monotonic() + 10
    while not is_so() and monotonic() < deadline:
        pause()


def text_of(answer: httpx2.Response, *, stream: bool) -> str:
    """Read an answer of chat completions, whole or as a stream."""
    if not stream:
        return str(answer.json()["choices"][0]["message"]["content"])
    chunks = (json.loads(line[6:]) for line in answer.text.splitlines() if line.startswith("data: {"))
    return "".join(chunk["choices"][0]["delta"].get("content") or "" for chunk in chunks)


@pytest.mark.req("API-16")
def test_a_stream_that_its_client_left_is_stopped_unless_somebody_reads_it(tmp_path: Path, all_vendors: Aside) -> None:
    desk = Desk(tmp_path, all_vendors, more="[server]\nleave_seconds = 0.1")
    gates = [asyncio.Event(), asyncio.Event(), asyncio.Event()]
    desk.say(*(Answer(text="One two three.", delivery=Delivery(gate=gate, hold_after=1)) for gate in gates))
    paths = []
    with ExitStack() as reading:
        for number in range(2):
            said = [{"role": "user", "content": f"Count, {number}."}]
            body = {"model": "open", "messages": said, "stream": True}
            with desk.server.http.stream("POST", "/v1/chat/completions", json=body) as told:
                next(told.iter_lines())
                paths.append(f"/threads/{told.headers['x-thread-id']}/turns/{told.headers['x-turn-id']}")
                if number == 0:
                    reader = reading.enter_context(desk.server.http.stream("GET", f"{paths[0]}/stream"))
                    lines = reader.iter_lines()
                    assert any("One" in line for line in lines), "it reads"
        asked = {"model": "gpt", "input": "Count.", "background": True, "stream": True}
        with desk.server.http.stream("POST", "/v1/responses", json=asked) as told:
            assert any("One" in line for line in told.iter_lines()), "it shows text before it is left"
            background = told.headers["x-turn-id"].replace("-", "")
        wait_until(lambda: desk.server.http.get(paths[1]).json()["outcome"] == "cancelled")
        assert desk.server.http.get(paths[1]).json()["outcome"] == "cancelled"
        assert desk.server.http.get(paths[0]).json()["outcome"] is None
        desk.vendors.release(gates[2])
        left = f"/v1/responses/resp_{background}"
        wait_until(lambda: desk.server.http.get(left).json()["status"] != "in_progress")
        assert desk.server.http.get(left).json()["status"] == "completed", "in the background nobody has to read"
        desk.vendors.release(gates[0])
        assert "three" in "".join(lines)
    desk.vendors.release(gates[1])
    desk.server.stop()


@pytest.mark.req("API-16")
@pytest.mark.parametrize("route", ["/v1/chat/completions", "/v1/messages", "/v1/responses"])
def test_who_stops_an_answer_and_goes_on_stays_in_the_thread(desk: Desk, route: str) -> None:
    """At once, while the model still writes: with all that was shown, a part of it, or a mark behind it."""
    for shown in ("One two", "One", "One two\n\n[stopped by the user]"):
        whose, gate = {"user_id": somebody()}, asyncio.Event()
        desk.say(Answer(text="One two three.", delivery=Delivery(gate=gate, hold_after=2)), "Fine.", "Bye.")
        field = "input" if "responses" in route else "messages"
        body = {**WIRES[route], field: [{"role": "user", "content": "Count."}]}
        with desk.server.http.stream("POST", route, json={**body, "stream": True}, params=whose) as told:
            assert any("two" in line for line in told.iter_lines())
            thread, turn = told.headers["x-thread-id"], told.headers["x-turn-id"]
        for answer, question in ((shown, "Stop. What else?"), ("Fine.", "And then?")):
            body[field] += [{"role": "assistant", "content": answer}, {"role": "user", "content": question}]
            gone_on = desk.server.http.post(route, json=body, params=whose)
            assert gone_on.headers["x-thread-id"] == thread
            assert desk.asked[field] == body[field], "the model sees what this client had"
        assert desk.branches(thread) == 1
        stopped = desk.server.http.get(f"/threads/{thread}/turns/{turn}", params=whose).json()
        assert (stopped["outcome"], stopped["text"]) == ("cancelled", "One two")
        desk.vendors.release(gate)


WIRES: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"model": "open", "messages": [{"role": "user", "content": "hello"}]},
    "/v1/messages": {"model": "sonnet", "max_tokens": 99, "messages": [{"role": "user", "content": "hello"}]},
    "/v1/responses": {"model": "gpt", "input": "hello"},
}


@pytest.mark.req("API-14")
@pytest.mark.parametrize("route", WIRES)
def test_a_user_in_the_body_goes_before_the_query_and_is_not_sent_on(desk: Desk, route: str) -> None:
    body, query = f"in-the-body-{uuid4()}", f"in-the-query-{uuid4()}"
    told = desk.server.http.post(route, json={**WIRES[route], "user_id": body}, params={"user_id": query})
    assert told.status_code == 200, told.text
    assert "user_id" not in desk.asked
    thread = told.headers["x-thread-id"]
    assert desk.server.whose(thread) == {"user_id": body}
    assert "user_id" not in told.headers.get("x-ignored-parameters", "")


@pytest.mark.req("API-14")
def test_items_are_added_for_the_user_in_the_body(desk: Desk) -> None:
    ann, bob = f"ann-{uuid4()}", f"bob-{uuid4()}"
    made = desk.server.http.post("/v1/conversations", json={}, params={"user_id": ann}).json()
    items = {"items": [{"type": "message", "role": "user", "content": "of bob"}], "user_id": bob}
    told = desk.server.http.post(f"/v1/conversations/{made['id']}/items", json=items, params={"user_id": ann})
    assert told.status_code == 404
