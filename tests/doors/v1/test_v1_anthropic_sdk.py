"""Anthropic's own Python SDK, with nothing changed but the address; every test with a model behind each wire."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import anthropic
import pytest
from anthropic import Anthropic, AsyncAnthropic
from anthropic.types import TextBlock, ToolUseBlock
from pydantic import BaseModel

from contextinfinity_testing.vendors import Answer, Call, Delivery, Trouble
from tests.doors.v1.upstream import WIRES, Desk, somebody

pytestmark = [pytest.mark.req("API-7"), pytest.mark.xdist_group("v1")]
wires = pytest.mark.parametrize("model", WIRES)

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
WEATHER: Any = {
    "name": "weather",
    "description": "Tells the weather.",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}


class Town(BaseModel):
    """What an answer is to be."""

    name: str
    people: int


@pytest.fixture
def client(desk: Desk) -> Iterator[Anthropic]:
    with Anthropic(base_url=desk.anthropic_url, api_key="not needed", max_retries=0) as made:
        yield made


def asked(model: str, *said: str | dict[str, Any], user: str | None = None, **more: Any) -> Any:
    """Put a request together; what is said without a role is the user's."""
    messages = [{"role": "user", "content": one} if isinstance(one, str) else one for one in said]
    metadata = {"user_id": user or somebody()}
    return {"model": model, "messages": messages, "max_tokens": 500, "metadata": metadata, **more}


def words(message: anthropic.types.Message) -> str:
    """Read what an answer says."""
    return "".join(block.text for block in message.content if isinstance(block, TextBlock))


@wires
def test_a_message_comes_whole(desk: Desk, client: Anthropic, model: str) -> None:
    desk.say("Hello there.")
    system = [
        {"type": "text", "text": "Speak as a pirate.", "cache_control": {"type": "ephemeral"}},
        {"type": "text", "text": "Be brief."},
    ]
    done = client.messages.create(**asked(model, "Hi", system=system))
    assert (done.type, done.role, done.model, done.stop_reason) == ("message", "assistant", model, "end_turn")
    assert words(done) == "Hello there."
    assert done.usage.input_tokens + (done.usage.cache_read_input_tokens or 0) > 0
    assert done.usage.output_tokens > 0
    assert "Speak as a pirate." in desk.shown
    assert "Be brief." in desk.shown
    assert 500 in desk.asked.values()


@wires
def test_a_message_comes_in_events(desk: Desk, client: Anthropic, model: str) -> None:
    desk.say("One, two, three — four.")
    kinds = [event.type for event in client.messages.create(**asked(model, "Hi"), stream=True)]
    assert (kinds[0], kinds[-2:]) == ("message_start", ["message_delta", "message_stop"])
    assert kinds.count("content_block_start") == kinds.count("content_block_stop") == 1


@wires
def test_the_streaming_helper_puts_a_message_together(desk: Desk, client: Anthropic, model: str) -> None:
    desk.say("One, two, three — four.")
    with client.messages.stream(**asked(model, "Hi")) as stream:
        assert "".join(stream.text_stream) == "One, two, three — four."
        done = stream.get_final_message()
    assert (words(done), done.stop_reason) == ("One, two, three — four.", "end_turn")
    assert done.usage.output_tokens > 0


@wires
async def test_the_asynchronous_client_does_the_same(desk: Desk, model: str) -> None:
    desk.say("Hello.", "Hello again.")
    user = somebody()
    async with AsyncAnthropic(base_url=desk.anthropic_url, api_key="not needed", max_retries=0) as client:
        first = await client.messages.create(**asked(model, "Hi", user=user))
        answer = {"role": "assistant", "content": first.content}
        async with client.messages.stream(**asked(model, "Hi", answer, "And?", user=user)) as stream:
            assert [text async for text in stream.text_stream]
            assert words(await stream.get_final_message()) == "Hello again."


@wires
@pytest.mark.parametrize("stream", [False, True])
def test_a_tool_is_called_and_its_result_read(desk: Desk, client: Anthropic, model: str, stream: bool) -> None:
    call = Call(name="weather", arguments={"city": "Bonn"})
    desk.say(Answer(text="Let me look.", tool_calls=(call, call)), "It rains in Bonn.")
    user = somebody()

    def ask(*said: str | dict[str, Any]) -> anthropic.types.Message:
        request = asked(model, *said, user=user, tools=[WEATHER])
        if not stream:
            made: anthropic.types.Message = client.messages.create(**request)
            return made
        with client.messages.stream(**request) as events:
            return events.get_final_message()

    called = ask("How is it in Bonn?")
    assert called.stop_reason == "tool_use"
    uses = [block for block in called.content if isinstance(block, ToolUseBlock)]
    assert [(use.name, use.input) for use in uses] == [("weather", {"city": "Bonn"})] * 2
    results = [{"type": "tool_result", "tool_use_id": use.id, "content": f"rain {n}"} for n, use in enumerate(uses)]
    told = ask(
        "How is it in Bonn?",
        {"role": "assistant", "content": called.content},
        {"role": "user", "content": [*results, {"type": "text", "text": "Go on."}]},
    )
    assert words(told) == "It rains in Bonn."
    assert all(said in desk.shown for said in ("rain 0", "rain 1", "Go on."))


@wires
def test_a_message_follows_a_schema(desk: Desk, client: Anthropic, model: str) -> None:
    desk.say('{"name": "Bonn", "people": 330000}')
    done = client.messages.parse(**asked(model, "Which town?"), output_format=Town)
    assert done.parsed_output == Town(name="Bonn", people=330000)
    assert "people" in desk.shown


@wires
def test_a_picture_is_shown_to_the_model(desk: Desk, client: Anthropic, model: str) -> None:
    desk.say("A red dot.")
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}}
    content = [picture, {"type": "text", "text": "What is it?"}]
    assert words(client.messages.create(**asked(model, {"role": "user", "content": content}))) == "A red dot."
    assert desk.shown.count(PIXEL) == 1


@wires
def test_a_message_stops_where_it_is_told_to(desk: Desk, client: Anthropic, model: str) -> None:
    desk.say("word " * 200, "Count: one two STOP three")
    assert client.messages.create(**{**asked(model, "Hi"), "max_tokens": 100}).stop_reason == "max_tokens"
    if model != "gpt":  # OpenAI's responses know no such thing, and the answer says so
        assert words(client.messages.create(**asked(model, "Hi", stop_sequences=["STOP"]))) == "Count: one two "


def test_what_a_model_cannot_be_told_is_named(desk: Desk, client: Anthropic) -> None:
    answer = client.messages.with_raw_response.create(**asked("gpt", "Hi", stop_sequences=["STOP"], speed="fast"))
    assert {"stop_sequences", "speed"} <= set(answer.headers["x-ignored-parameters"].split(", "))


TROUBLES = [
    (Trouble.status(429), anthropic.RateLimitError, "rate_limit_error"),
    (Trouble.overloaded(), anthropic.InternalServerError, "overloaded_error"),
    (Trouble.status(500), anthropic.InternalServerError, "api_error"),
    (Trouble.bad_key(), anthropic.AuthenticationError, "authentication_error"),
]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("trouble", "kind", "named"), TROUBLES, ids=[named for _, _, named in TROUBLES[:3]] + ["key"])
@wires
def test_what_fails_upstream_is_an_error_of_the_sdk(
    desk: Desk, client: Anthropic, model: str, trouble: Trouble, kind: Any, named: str, stream: bool
) -> None:
    desk.say(trouble)
    with pytest.raises(kind) as told:
        client.messages.create(**asked(model, "Hi"), stream=stream)
    assert told.value.body["type"] == "error"
    assert told.value.body["error"]["type"] == named
    assert "sk-upstream" not in str(told.value)


@wires
def test_what_fails_in_the_middle_of_a_stream_ends_it_as_an_error(desk: Desk, client: Anthropic, model: str) -> None:
    desk.say(Answer(text="One two three.", delivery=Delivery(error=Trouble.overloaded(), error_after=2)))
    heard = []
    with pytest.raises(anthropic.APIStatusError), client.messages.stream(**asked(model, "Hi")) as stream:  # noqa: PT012
        for text in stream.text_stream:
            heard.append(text)
    assert heard


@wires
def test_a_request_that_failed_is_tried_again_by_the_sdk(desk: Desk, model: str) -> None:
    desk.say(Trouble.overloaded(), "Now.")
    with Anthropic(base_url=desk.anthropic_url, api_key="not needed", max_retries=2) as client:
        answer = client.messages.with_raw_response.create(**asked(model, "Hi"))
    assert words(answer.parse()) == "Now."
    assert answer.retries_taken == 1
    assert set(desk.kept(answer.headers["x-thread-id"])) == {"Hi"}
    assert desk.shown.count('"Hi"') == 1


@pytest.mark.parametrize(
    ("wrong", "place"),
    [
        ({"extra_body": {"temperature": 7}}, "temperature"),
        ({"messages": []}, "messages"),
        ({"max_tokens": 0}, "max_tokens"),
    ],
)
def test_what_is_wrong_is_refused_by_its_name(desk: Desk, client: Anthropic, wrong: dict[str, Any], place: str) -> None:
    with pytest.raises(anthropic.BadRequestError, match=place) as told:
        client.messages.create(**{**asked("gpt", "Hi"), **wrong})
    assert told.value.body["error"]["type"] == "invalid_request_error"  # type: ignore[index]


def test_an_unknown_model_is_not_found(client: Anthropic) -> None:
    with pytest.raises(anthropic.NotFoundError, match="claude-nobody") as told:
        client.messages.create(**asked("claude-nobody", "Hi"))
    assert told.value.body["error"]["type"] == "not_found_error"  # type: ignore[index]


def test_models_are_listed(client: Anthropic) -> None:
    assert {"auto", *WIRES} <= {model.id for model in client.models.list()}
    assert client.models.retrieve("sonnet").type == "model"


@wires
def test_tokens_are_counted_without_asking_anybody(desk: Desk, client: Anthropic, model: str) -> None:
    before = len(desk.vendors.requests)
    said: Any = [{"role": "user", "content": "How many tokens are in this sentence, do you think?"}]
    short = client.messages.count_tokens(model=model, messages=said).input_tokens
    long = client.messages.count_tokens(model=model, messages=said, system="Be brief.", tools=[WEATHER]).input_tokens
    assert 5 < short < long < 200
    assert len(desk.vendors.requests) == before
