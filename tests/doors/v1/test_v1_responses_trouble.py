"""Responses when something goes wrong: cut connections, killed servers, cancelled and repeated requests, nonsense."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from uuid import uuid4

import openai
import pytest
from openai import OpenAI

from contextinfinity_testing.vendors import Answer, Call, Delivery, Trouble
from tests.doors.server import Server, events, pause
from tests.doors.v1.upstream import WIRES, Desk, somebody

pytestmark = [pytest.mark.req("API-7"), pytest.mark.xdist_group("v1")]


@pytest.fixture
def client(desk: Desk) -> Iterator[OpenAI]:
    with OpenAI(base_url=desk.openai_url, api_key="not needed", max_retries=0) as made:
        yield made


@pytest.mark.req("STREAM-3")
def test_a_response_whose_server_was_killed_is_there_afterwards(tmp_path: Path) -> None:
    server = Server(tmp_path)
    body = {"model": "hangs", "input": "go on", "stream": True}
    with server.http.stream("POST", "/v1/responses", json=body) as answer:
        heard = []
        for event in events(answer):
            heard.append(event.data)
            if "".join(told.get("delta", "") for told in heard) == "one two three":
                break
        server.restart()
    made = heard[0]["response"]["id"]
    found = server.http.get(f"/v1/responses/{made}").json()
    assert (found["status"], found["error"]["code"]) == ("failed", "server_error")
    assert found["output"][0]["content"][0]["text"] == "one two three"
    with server.http.stream("GET", f"/v1/responses/{made}", params={"stream": True}) as answer:
        replayed = [event.data for event in events(answer)]
    deltas = [told for told in heard if told["type"] == "response.output_text.delta"]
    assert [told for told in replayed if told["type"] == "response.output_text.delta"] == deltas
    assert replayed[-1]["type"] == "response.failed"
    after = server.post("/v1/responses", {"model": "echo", "input": "and now?", "previous_response_id": made}).json()
    assert after["status"] == "completed"
    server.stop()


def test_a_stream_goes_on_after_the_last_event_that_came(desk: Desk, client: OpenAI) -> None:
    desk.say(Answer(text="One two three four.", reasoning="Count."))
    whole = list(client.responses.create(model="gpt", input="Count", stream=True))
    made = whole[0].response.id  # type: ignore[union-attr]
    again = list(client.responses.retrieve(made, stream=True, starting_after=whole[4].sequence_number))
    assert again == whole[5:]


def test_a_response_is_cancelled_from_elsewhere(desk: Desk, client: OpenAI) -> None:
    gate = asyncio.Event()
    desk.say(Answer(text="One two three.", delivery=Delivery(gate=gate, hold_after=1)))
    stream = iter(client.responses.create(model="gpt", input="Count", stream=True))
    made = next(stream).response.id  # type: ignore[union-attr]
    while next(stream).type != "response.output_text.delta":
        pass
    cancelled = client.responses.cancel(made)
    assert (cancelled.status, cancelled.output_text) == ("cancelled", "One")
    assert [event.type for event in stream][-1] == "response.failed"
    assert client.responses.cancel(made) == client.responses.retrieve(made) == cancelled
    desk.vendors.release(gate)


def test_a_response_in_the_background_is_read_when_it_is_over(desk: Desk, client: OpenAI) -> None:
    gate = asyncio.Event()
    desk.say(Answer(text="Done.", delivery=Delivery(gate=gate)))
    made = client.responses.create(model="gpt", input="Work", background=True)
    assert (made.status, made.output) == ("queued", [])
    with pytest.raises(openai.ConflictError):
        client.responses.delete(made.id)
    desk.vendors.release(gate)
    while (found := client.responses.retrieve(made.id)).status in ("queued", "in_progress"):
        pause()
    assert (found.status, found.output_text) == ("completed", "Done.")


@pytest.mark.req("API-15")
def test_equal_requests_are_separate_and_a_key_shares_one(desk: Desk, client: OpenAI) -> None:
    desk.say("One.", "Two.", "Three.")
    made = [client.responses.create(model="gpt", input="Say") for _ in range(2)]
    assert [one.output_text for one in made] == ["One.", "Two."]
    key = {"Idempotency-Key": uuid4().hex}
    shared = [client.responses.create(model="gpt", input="Say", extra_headers=key) for _ in range(2)]
    assert shared[0].id == shared[1].id
    assert len({made[0].id, made[1].id, shared[0].id}) == 3


def test_requests_to_one_conversation_are_answered_one_after_the_other(desk: Desk, client: OpenAI) -> None:
    desk.say(*(f"Answer {number}." for number in range(4)))
    conversation = client.conversations.create()

    def ask(number: int) -> str:
        said = f"Question {number}"
        return client.responses.create(model="gpt", input=said, conversation=conversation.id).output_text

    with ThreadPoolExecutor(4) as pool:
        answered = list(pool.map(ask, range(4)))
    assert sorted(answered) == [f"Answer {number}." for number in range(4)]
    items = list(client.conversations.items.list(conversation.id, order="asc"))
    assert [item.role for item in items] == ["user", "assistant"] * 4  # type: ignore[union-attr]


@pytest.mark.parametrize("model", ["gpt", "sonnet", "open"])
def test_what_the_vendor_refuses_keeps_its_status_and_is_kept_as_failed(desk: Desk, client: OpenAI, model: str) -> None:
    desk.say(Trouble.status(429), Answer(text="One two", delivery=Delivery(error=Trouble.overloaded(), error_after=1)))
    with pytest.raises(openai.RateLimitError):
        client.responses.create(model=model, input="Say")
    broken = list(client.responses.create(model=model, input="Say", stream=True))
    assert broken[-1].type == "response.failed"
    found = client.responses.retrieve(broken[-1].response.id)
    assert found.status == "failed"
    assert found.error is not None
    assert found.error == broken[-1].response.error
    assert "overloaded" in found.error.message.lower()


@pytest.mark.req("API-16", "BUDGET-11")
@pytest.mark.parametrize("model", WIRES)
def test_an_input_that_does_not_fit_is_refused_in_openais_words(desk: Desk, client: OpenAI, model: str) -> None:
    """Whole with a status, streamed with a last event: by that event agents start their own compaction."""
    tools: Any = [{"type": "function", "name": "look", "description": "Looks. " * 30, "parameters": {"type": "object"}}]
    asked: Any = {"model": model, "input": "word " * 200_000, "tools": tools, "user": somebody()}
    words = "Your input exceeds the context window of this model. Please adjust your input and try again."
    with pytest.raises(openai.BadRequestError) as refused:
        client.responses.create(**asked)
    assert (refused.value.code, refused.value.param) == ("context_length_exceeded", "input")
    assert refused.value.body["message"] == words  # type: ignore[index]
    told = list(client.responses.create(**asked, stream=True))
    assert [event.type for event in told] == ["response.created", "response.in_progress", "response.failed"]
    assert told[-1].response.error.code == "context_length_exceeded"
    assert told[-1].response.error.message.startswith(words)
    desk.say("Fine.")
    assert client.responses.create(**{**asked, "input": "And now?"}).output_text == "Fine."


def test_nonsense_is_refused_in_words(desk: Desk) -> None:
    deep: Any = {}
    for _ in range(300):
        deep = {"a": deep}
    hi = {"role": "user", "content": "Hi"}
    wrong: list[Any] = [
        {},
        {"input": []},
        {"input": 7},
        {"input": [7]},
        {"input": [{"role": "developer", "content": "Only this."}]},
        {"input": [{"type": "function_call", "name": 3}, hi]},
        {"input": [{"type": "function_call_output", "output": "x"}]},
        {"input": [{"type": "reasoning", "encrypted_content": "cix1.????"}, hi]},
        {"input": [{"type": "reasoning", "encrypted_content": "cix1.eyJ0eXBlIjoidGV4dCJ9"}, hi]},
        {"input": [{"role": "user", "content": [{"type": "input_file", "deep": deep}]}]},
        {"input": [{"type": "strange", "deep": deep}, hi]},
        {"input": "Hi", "tools": [deep]},
        {"input": "Hi", "tools": [{"type": "function"}]},
        {"input": "Hi", "tools": [{"type": "namespace", "name": "a", "tools": [{"type": "function"}]}]},
        {"input": "Hi", "tool_choice": "required"},
        {"input": "Hi", "tool_choice": {"type": "function", "name": "none"}},
        {"input": "Hi", "metadata": {"a": 1}},
        {"input": "Hi", "metadata": {str(number): "" for number in range(17)}},
        {"input": "Hi", "text": {"format": {"type": "yaml"}}},
        {"input": "Hi", "background": True, "store": False},
        {"input": "Hi", "include": "all"},
        {"input": "Hi\0"},
        {"input": "Hi", "previous_response_id": "resp_" + "0" * 32, "conversation": "conv_" + "0" * 32},
    ]
    for body in wrong:
        answer = desk.server.http.post("/v1/responses", json={"model": "gpt", **body})
        assert answer.status_code == 400, (body, answer.text)
        assert answer.json()["error"]["message"]
    for named in ("", "resp_1", "resp_" + "0" * 32, "../x", "resp_" + "g" * 32):
        body = {"model": "gpt", "input": "Hi", "previous_response_id": named}
        assert desk.server.http.post("/v1/responses", json=body).status_code == 404
    for route in ("responses", "conversations"):
        for named in ("x", "resp_" + "0" * 32, "conv_" + "0" * 32):
            assert desk.server.http.get(f"/v1/{route}/{named}").status_code in (400, 404)


def test_what_another_vendor_thought_cannot_be_forged_into_a_crash(desk: Desk, client: OpenAI) -> None:
    desk.say("Fine.")
    foreign: Any = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAAA"}
    said: Any = [{"role": "user", "content": "Hi"}, foreign, {"role": "assistant", "content": "Hello."}]
    done = client.responses.create(model="sonnet", input=[*said, {"role": "user", "content": "And?"}])
    assert done.output_text == "Fine."
    assert "gAAAAA" not in json.dumps(desk.asked)


def test_custom_and_namespaced_tools_come_back_as_they_were_offered(desk: Desk, client: OpenAI) -> None:
    patch = Call(name="apply_patch", arguments={"input": "*** Begin"})
    calls = (patch, Call(name="agents__close", arguments={"id": "1"}))
    desk.say(Answer(tool_calls=calls), "Done.")
    close = {"type": "function", "name": "close", "parameters": {"type": "object", "properties": {}}}
    grammar = {"type": "grammar", "syntax": "lark", "definition": "start: /.+/"}
    tools: Any = [
        {"type": "custom", "name": "apply_patch", "description": "Edits.", "format": grammar},
        {"type": "namespace", "name": "agents", "description": "Agents.", "tools": [close]},
        {"type": "web_search"},
    ]
    asked: Any = {"model": "gpt", "tools": tools, "store": False}
    made = client.responses.with_raw_response.create(input="Go", **asked)
    assert "x-ignored-parameters" not in made.headers
    assert desk.asked["tools"] == tools
    custom, called = made.parse().output
    assert (custom.type, custom.name, custom.input) == ("custom_tool_call", "apply_patch", "*** Begin")
    assert (called.type, called.name, called.namespace) == ("function_call", "close", "agents")
    results = [
        {"type": "custom_tool_call_output", "call_id": custom.call_id, "output": "ok"},
        {"type": "function_call_output", "call_id": called.call_id, "output": "closed"},
    ]
    said: Any = [{"role": "user", "content": "Go"}, custom.to_dict(), called.to_dict(), *results]
    again = client.responses.with_raw_response.create(input=said, **asked)
    assert again.parse().output_text == "Done."
    assert again.headers["x-thread-id"] == made.headers["x-thread-id"]
