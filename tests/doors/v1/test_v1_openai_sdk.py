"""OpenAI's own Python SDK, with nothing changed but the address; every test with a model behind each wire."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import openai
import pytest
from openai import AsyncOpenAI, OpenAI
from openai.types.chat import ChatCompletionToolUnionParam
from pydantic import BaseModel

from contextinfinity_testing.vendors import Answer, Call, Delivery, Trouble
from tests.doors.server import pause
from tests.doors.v1.upstream import WIRES, Desk, somebody

pytestmark = [pytest.mark.req("API-7"), pytest.mark.xdist_group("v1")]
wires = pytest.mark.parametrize("model", WIRES)

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
WEATHER: ChatCompletionToolUnionParam = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "Tells the weather.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}


class Town(BaseModel):
    """What an answer is to be."""

    name: str
    people: int


@pytest.fixture
def client(desk: Desk) -> Iterator[OpenAI]:
    with OpenAI(base_url=desk.openai_url, api_key="not needed", max_retries=0) as made:
        yield made


def hi(text: str = "Hi") -> Any:
    """Begin a conversation."""
    return [{"role": "user", "content": text}]


@wires
def test_an_answer_comes_whole(desk: Desk, client: OpenAI, model: str) -> None:
    desk.say("Hello there.")
    system: Any = [{"role": "developer", "content": "Speak as a pirate."}]
    done = client.chat.completions.create(
        model=model, messages=[*system, *hi()], user=somebody(), max_completion_tokens=200
    )
    choice = done.choices[0]
    assert (done.object, done.model, choice.finish_reason) == ("chat.completion", model, "stop")
    assert (choice.message.role, choice.message.content) == ("assistant", "Hello there.")
    assert done.usage is not None
    assert done.usage.total_tokens == done.usage.prompt_tokens + done.usage.completion_tokens > 0
    assert "Speak as a pirate." in desk.shown
    assert 200 in desk.asked.values()


@wires
def test_messages_of_one_role_in_a_row_are_not_glued(desk: Desk, client: OpenAI, model: str) -> None:
    desk.say("Yes.")
    client.chat.completions.create(model=model, messages=[*hi("first"), *hi("second")], user=somebody())
    assert "firstsecond" not in desk.shown
    assert desk.shown.index("first") < desk.shown.index("second")


@wires
def test_an_answer_comes_in_pieces(desk: Desk, client: OpenAI, model: str) -> None:
    desk.say(Answer(text="One, two, three — four."))
    streamed = client.chat.completions.create(
        model=model, messages=hi(), user=somebody(), stream=True, stream_options={"include_usage": True}
    )
    chunks = list(streamed)
    assert chunks[0].choices[0].delta.role == "assistant"
    texts = [chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices]
    assert "".join(texts) == "One, two, three — four."
    assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices][-1] == "stop"
    assert not chunks[-1].choices
    assert chunks[-1].usage is not None
    assert len({chunk.id for chunk in chunks}) == 1


@wires
def test_the_streaming_helper_puts_an_answer_together(desk: Desk, client: OpenAI, model: str) -> None:
    desk.say('{"name": "Bonn", "people": 330000}')
    kinds = []
    with client.chat.completions.stream(
        model=model, messages=hi("Which town?"), user=somebody(), response_format=Town
    ) as stream:
        kinds = [event.type for event in stream]
        done = stream.get_final_completion()
    assert {"chunk", "content.delta", "content.done"} <= set(kinds)
    assert done.choices[0].message.parsed == Town(name="Bonn", people=330000)


@wires
async def test_the_asynchronous_client_does_the_same(desk: Desk, model: str) -> None:
    desk.say("Hello.", "Hello again.")
    user = somebody()
    async with AsyncOpenAI(base_url=desk.openai_url, api_key="not needed", max_retries=0) as client:
        done = await client.chat.completions.create(model=model, messages=hi(), user=user)
        assert done.choices[0].message.content == "Hello."
        said = [*hi(), {"role": "assistant", "content": "Hello."}, *hi("And?")]
        stream = await client.chat.completions.create(model=model, messages=said, user=user, stream=True)
        texts = [chunk.choices[0].delta.content or "" async for chunk in stream]
        assert "".join(texts) == "Hello again."


@wires
@pytest.mark.parametrize("stream", [False, True])
def test_a_tool_is_called_and_its_result_read(desk: Desk, client: OpenAI, model: str, stream: bool) -> None:
    desk.say(
        Answer(text="Let me look.", tool_calls=(Call(name="weather", arguments={"city": "Bonn"}),)), "It rains in Bonn."
    )
    said, user = hi("How is it in Bonn?"), somebody()

    def ask() -> Any:
        asked: dict[str, Any] = {"model": model, "messages": said, "user": user, "tools": [WEATHER]}
        if not stream:
            return client.chat.completions.create(**asked, tool_choice="auto").choices[0]
        with client.chat.completions.stream(**asked) as events:
            return events.get_final_completion().choices[0]

    choice = ask()
    (call,) = choice.message.tool_calls
    assert (choice.finish_reason, choice.message.content) == ("tool_calls", "Let me look.")
    assert (call.function.name, json.loads(call.function.arguments)) == ("weather", {"city": "Bonn"})
    assert "Tells the weather." in desk.shown
    said += [choice.message.model_dump(exclude_none=True, exclude={"parsed"})]
    said += [{"role": "tool", "tool_call_id": call.id, "content": "rain, 12 degrees"}]
    assert ask().message.content == "It rains in Bonn."
    assert "rain, 12 degrees" in desk.shown


@wires
def test_an_answer_follows_a_schema(desk: Desk, client: OpenAI, model: str) -> None:
    desk.say('{"name": "Bonn", "people": 330000}')
    done = client.chat.completions.parse(model=model, messages=hi("Which?"), user=somebody(), response_format=Town)
    assert done.choices[0].message.parsed == Town(name="Bonn", people=330000)
    assert "people" in desk.shown
    desk.say('{"any": true}')
    told = client.chat.completions.create(
        model=model, messages=hi("Answer in JSON."), user=somebody(), response_format={"type": "json_object"}
    )
    assert json.loads(told.choices[0].message.content or "") == {"any": True}


@wires
def test_a_picture_is_shown_to_the_model(desk: Desk, client: OpenAI, model: str) -> None:
    desk.say("A red dot.", "Yes.")
    url, user = f"data:image/png;base64,{PIXEL}", somebody()
    picture = {"type": "image_url", "image_url": {"url": url, "detail": "low"}}
    said: Any = [{"role": "user", "content": [{"type": "text", "text": "What is it?"}, picture]}]
    done = client.chat.completions.create(model=model, messages=said, user=user)
    assert done.choices[0].message.content == "A red dot."
    assert PIXEL in desk.shown
    said += [{"role": "assistant", "content": "A red dot."}, *hi("Sure?")]
    client.chat.completions.create(model=model, messages=said, user=user)
    assert desk.shown.count(PIXEL) == 1


@wires
def test_an_answer_stops_where_it_is_told_to(desk: Desk, client: OpenAI, model: str) -> None:
    desk.say("Count: one two STOP three", "word " * 200)
    done = client.chat.completions.create(model=model, messages=hi(), user=somebody(), stop=["STOP"])
    if model != "gpt":  # OpenAI's responses know no such thing, and the answer says so
        assert done.choices[0].message.content == "Count: one two "
    done = client.chat.completions.create(model=model, messages=hi(), user=somebody(), max_tokens=100)
    assert done.choices[0].finish_reason == "length"


TROUBLES = [
    (Trouble.status(429), openai.RateLimitError),
    (Trouble.insufficient_quota(), openai.RateLimitError),
    (Trouble.overloaded(), openai.InternalServerError),
    (Trouble.status(500), openai.InternalServerError),
    (Trouble.bad_key(), openai.AuthenticationError),
    (Trouble.drop(), openai.InternalServerError),
]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("trouble", "kind"), TROUBLES, ids=[trouble.kind for trouble, _ in TROUBLES])
@wires
def test_what_fails_upstream_is_an_error_of_the_sdk(
    desk: Desk, client: OpenAI, model: str, trouble: Trouble, kind: type[openai.APIStatusError], stream: bool
) -> None:
    desk.say(trouble)
    if (model, trouble.kind) == ("sonnet", "quota"):
        kind = openai.BadRequestError  # the status of Anthropic, which is kept
    with pytest.raises(kind) as told:
        client.chat.completions.create(model=model, messages=hi(), user=somebody(), stream=stream)
    assert told.value.message
    assert told.value.type
    assert "sk-upstream" not in str(told.value)


@wires
def test_what_fails_in_the_middle_of_a_stream_ends_it_as_an_error(desk: Desk, client: OpenAI, model: str) -> None:
    desk.say(Answer(text="One two three.", delivery=Delivery(error=Trouble.overloaded(), error_after=2)))
    stream = client.chat.completions.create(model=model, messages=hi(), user=somebody(), stream=True)
    heard: list[str | None] = []
    with pytest.raises(openai.APIError):
        heard.extend(chunk.choices[0].delta.content for chunk in stream)
    assert any(heard)


@wires
def test_a_request_that_failed_is_tried_again_by_the_sdk_and_shown_once(desk: Desk, model: str) -> None:
    desk.say(Trouble.status(500), "Now.")
    with OpenAI(base_url=desk.openai_url, api_key="not needed", max_retries=2) as client:
        answer = client.chat.completions.with_raw_response.create(model=model, messages=hi(), user=somebody())
    assert answer.parse().choices[0].message.content == "Now."
    assert answer.retries_taken == 1
    assert set(desk.kept(answer.headers["x-thread-id"])) == {"Hi"}
    assert desk.shown.count('"Hi"') == 1


def broken_off(desk: Desk) -> int:
    """Count the requests whose client left before they were answered."""
    return sum(line.get("status") == 400 and line.get("route") == "/v1/chat/completions" for line in desk.server.log())


@pytest.mark.req("API-15")
def test_a_retry_of_the_sdk_after_its_time_out_joins_the_answer_and_is_not_asked_for_twice(desk: Desk) -> None:
    gate = asyncio.Event()
    desk.say(Answer(text="Once.", delivery=Delivery(gate=gate, hold_after=0)), "Twice.")
    before, broken = len(desk.vendors.requests), broken_off(desk)
    with (
        OpenAI(base_url=desk.openai_url, api_key="not needed", max_retries=1, timeout=2) as client,
        ThreadPoolExecutor() as pool,
    ):
        create = client.chat.completions.with_raw_response.create
        asked = pool.submit(lambda: create(model="gpt", messages=hi(), user=somebody()))
        while broken_off(desk) == broken and not asked.done():
            pause()
        desk.vendors.release(gate)
        answer = asked.result()
    assert (answer.parse().choices[0].message.content, answer.retries_taken) == ("Once.", 1)
    assert len(desk.vendors.requests) == before + 1


@pytest.mark.parametrize(
    ("wrong", "param"),
    [
        ({"logprobs": True}, "logprobs"),
        ({"top_logprobs": 3, "logprobs": True}, "logprobs"),
        ({"temperature": 7}, "temperature"),
        ({"messages": []}, "messages"),
        ({"modalities": ["audio"]}, "modalities[0]"),
    ],
)
def test_what_cannot_be_done_is_refused_by_its_name(
    desk: Desk, client: OpenAI, wrong: dict[str, Any], param: str
) -> None:
    before = len(desk.vendors.requests)
    with pytest.raises(openai.BadRequestError) as told:
        client.chat.completions.create(**{"model": "gpt", "messages": hi(), "user": somebody(), **wrong})
    assert (told.value.param, told.value.type) == (param, "invalid_request_error")
    assert len(desk.vendors.requests) == before


def test_what_means_nothing_here_is_ignored_and_named(desk: Desk, client: OpenAI) -> None:
    answer = client.chat.completions.with_raw_response.create(
        model="gpt", messages=hi(), user=somebody(), service_tier="flex", extra_body={"unheard_of": 1}
    )
    assert {"service_tier", "unheard_of"} <= set(answer.headers["x-ignored-parameters"].split(", "))


def test_an_unknown_model_is_not_found(desk: Desk, client: OpenAI) -> None:
    with pytest.raises(openai.NotFoundError, match="gpt-nobody"):
        client.chat.completions.create(model="gpt-nobody", messages=hi())
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("gpt-nobody")


def test_models_are_listed_and_known_by_either_name(desk: Desk, client: OpenAI) -> None:
    names = {model.id for model in client.models.list()}
    assert {"auto", *WIRES} <= names
    assert client.models.retrieve("gpt").id == "gpt"
    done = client.chat.completions.create(model="claude-sonnet-4-5", messages=hi(), user=somebody())
    assert done.model == "claude-sonnet-4-5"
    assert desk.asked["model"] == "claude-sonnet-4-5"


def test_texts_are_embedded(client: OpenAI) -> None:
    for form in ("float", "base64"):
        made = client.embeddings.create(model="built-in", input=["a boat", "a ship"], encoding_format=form)
        assert [row.index for row in made.data] == [0, 1]
        assert len(made.data[0].embedding) == 256 or isinstance(made.data[0].embedding, str)
    assert len(client.embeddings.create(model="built-in", input="a boat").data[0].embedding) == 256
