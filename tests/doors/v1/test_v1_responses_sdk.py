"""OpenAI's own Python SDK on /v1/responses, with nothing changed but the address; with a model behind each wire."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import openai
import pytest
from openai import OpenAI
from openai.types.responses import FunctionToolParam
from pydantic import BaseModel

from contextinfinity_testing.vendors import Answer, Call
from tests.doors.v1.upstream import WIRES, Aside, Desk, somebody

pytestmark = [pytest.mark.req("API-7"), pytest.mark.xdist_group("v1")]
wires = pytest.mark.parametrize("model", WIRES)

WEATHER: FunctionToolParam = {
    "type": "function",
    "name": "weather",
    "description": "Tells the weather.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    "strict": False,
}


class Town(BaseModel):
    """What an answer is to be."""

    name: str
    people: int


@pytest.fixture
def client(desk: Desk) -> Iterator[OpenAI]:
    with OpenAI(base_url=desk.openai_url, api_key="not needed", max_retries=0) as made:
        yield made


@pytest.fixture(scope="module")
def forbidding(all_vendors: Aside, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    """A server whose operator does not let OpenAI store anything."""
    made = Desk(tmp_path_factory.mktemp("forbidding"), all_vendors, more="[openai]\nstore = false")
    yield made
    made.server.stop()


@wires
def test_a_response_comes_whole_and_is_kept(desk: Desk, client: OpenAI, model: str) -> None:
    desk.say("Hello there.")
    made = client.responses.create(
        model=model, input="Hi", instructions="Speak as a pirate.", metadata={"ship": "gull"}, max_output_tokens=200
    )
    assert (made.object, made.status, made.model, made.output_text) == ("response", "completed", model, "Hello there.")
    assert made.usage is not None
    assert made.usage.total_tokens == made.usage.input_tokens + made.usage.output_tokens > 0
    assert "Speak as a pirate." in desk.shown
    assert 200 in desk.asked.values()
    found = client.responses.retrieve(made.id)
    assert found == made
    assert (found.metadata, found.instructions, found.max_output_tokens) == (
        {"ship": "gull"},
        "Speak as a pirate.",
        200,
    )
    items = client.responses.input_items.list(made.id).data
    assert [(item.type, getattr(item, "role", "")) for item in items] == [("message", "user")]
    assert "Hi" in items[0].to_json()


@wires
def test_events_come_in_the_vendors_sequence(desk: Desk, client: OpenAI, model: str) -> None:
    desk.say(Answer(text="One, two, three — four."))
    events = list(client.responses.create(model=model, input="Count", stream=True))
    kinds = [event.type for event in events]
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert kinds[:4] == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
    ]
    assert set(kinds[4:-4]) == {"response.output_text.delta"}
    assert kinds[-4:] == [
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ]
    assert "".join(getattr(event, "delta", "") for event in events) == "One, two, three — four."
    last = events[-1]
    assert last.type == "response.completed"
    assert client.responses.retrieve(last.response.id) == last.response


@wires
def test_a_response_is_gone_on_from_by_its_id(desk: Desk, client: OpenAI, model: str) -> None:
    desk.say("Noted.", "It is gull.", "It is heron.")
    first = client.responses.create(model=model, input="The code word is gull.")
    second = client.responses.create(model=model, input="Which is it?", previous_response_id=first.id)
    assert (second.output_text, second.previous_response_id) == ("It is gull.", first.id)
    assert "The code word is gull." in desk.shown
    again = client.responses.create(model=model, input="And if it were heron?", previous_response_id=first.id)
    assert again.output_text == "It is heron."
    assert "Which is it?" not in desk.shown


@wires
@pytest.mark.parametrize("stream", [False, True])
def test_a_tool_is_called_and_its_result_read(desk: Desk, client: OpenAI, model: str, stream: bool) -> None:
    call = Answer(text="Let me look.", tool_calls=(Call(name="weather", arguments={"city": "Bonn"}),))
    desk.say(call, "It rains in Bonn.")
    asked: Any = {"model": model, "input": "How is it in Bonn?", "tools": [WEATHER], "stream": stream}
    made: Any = client.responses.create(**asked)
    if stream:
        events = list(made)
        assert "response.function_call_arguments.done" in [event.type for event in events]
        made = events[-1].response
    called = made.output[-1]
    assert (called.type, called.name, json.loads(called.arguments)) == ("function_call", "weather", {"city": "Bonn"})
    result: Any = {"type": "function_call_output", "call_id": called.call_id, "output": "rain"}
    done = client.responses.create(model=model, input=[result], previous_response_id=made.id, tools=[WEATHER])
    assert done.output_text == "It rains in Bonn."
    assert "rain" in desk.shown


@wires
def test_structured_output_is_parsed(desk: Desk, client: OpenAI, model: str) -> None:
    desk.say('{"name": "Bonn", "people": 330000}')
    parsed = client.responses.parse(model=model, input="Which town?", text_format=Town)
    assert parsed.output_parsed == Town(name="Bonn", people=330000)


def test_what_is_another_users_is_not_found(desk: Desk, client: OpenAI) -> None:
    desk.say("Secret.")
    made = client.responses.create(model="gpt", input="Hi", user=somebody())
    for attempt in (
        lambda: client.responses.retrieve(made.id),
        lambda: client.responses.cancel(made.id),
        lambda: client.responses.input_items.list(made.id),
        lambda: client.responses.create(model="gpt", input="And?", previous_response_id=made.id),
        lambda: client.responses.create(model="gpt", input="And?", previous_response_id=made.id, user=somebody()),
    ):
        with pytest.raises(openai.NotFoundError):
            attempt()


def test_a_deleted_response_is_gone_and_what_followed_stays(desk: Desk, client: OpenAI) -> None:
    desk.say("One.", "Two.")
    first = client.responses.create(model="gpt", input="Hi")
    second = client.responses.create(model="gpt", input="And?", previous_response_id=first.id)
    client.responses.delete(first.id)
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(first.id)
    with pytest.raises(openai.NotFoundError) as refused:
        client.responses.create(model="gpt", input="And?", previous_response_id=first.id)
    assert (refused.value.code, refused.value.param) == ("previous_response_not_found", "previous_response_id")
    assert client.responses.retrieve(second.id) == second


def test_a_single_response_is_deleted_with_its_words(desk: Desk, client: OpenAI) -> None:
    desk.say("One.")
    made = client.responses.with_raw_response.create(model="gpt", input="Hi")
    client.responses.delete(made.parse().id)
    assert desk.server.http.get(f"/threads/{made.headers['x-thread-id']}").status_code == 404


def test_what_is_not_to_be_stored_is_kept_and_not_retrievable(desk: Desk, client: OpenAI) -> None:
    desk.say("One.")
    made = client.responses.with_raw_response.create(model="gpt", input="Not to be stored", store=False)
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(made.parse().id)
    assert desk.kept(made.headers["x-thread-id"]) == ["Not to be stored"]


REASONS = pytest.mark.parametrize("model", ["gpt", "sonnet"])


@REASONS
@pytest.mark.parametrize("stream", [False, True])
def test_reasoning_goes_out_sealed_and_comes_back_to_the_model(
    desk: Desk, client: OpenAI, model: str, stream: bool
) -> None:
    call = Call(name="weather", arguments={"city": "Bonn"})
    desk.say(Answer(text="Let me look.", reasoning="Bonn is a town.", tool_calls=(call,)), "It rains in Bonn.")
    said: list[Any] = [{"role": "user", "content": "How is it in Bonn?"}]
    asked: Any = {"model": model, "tools": [WEATHER], "store": False, "include": ["reasoning.encrypted_content"]}
    made: Any = client.responses.create(input=said, stream=stream, **asked)
    if stream:
        events = list(made)
        made = events[-1].response
        done = [event.item for event in events if event.type == "response.output_item.done"]
        assert done == made.output
    assert [item.type for item in made.output] == ["reasoning", "message", "function_call"]
    assert made.output[0].encrypted_content
    assert "Bonn is a town." not in made.output[0].to_json()
    said += [item.to_dict() for item in made.output]
    said.append({"type": "function_call_output", "call_id": made.output[-1].call_id, "output": "rain"})
    done = client.responses.create(input=said, **asked)
    assert done.output_text == "It rains in Bonn."
    assert "reasoning" in desk.shown if model == "gpt" else "Bonn is a town." in desk.shown


@REASONS
def test_a_tool_loop_by_id_gives_the_model_its_reasoning_back(desk: Desk, client: OpenAI, model: str) -> None:
    call = Call(name="weather", arguments={"city": "Bonn"})
    desk.say(Answer(reasoning="Bonn is a town.", tool_calls=(call,)), "It rains in Bonn.")
    asked: Any = {"model": model, "tools": [WEATHER]}
    made = client.responses.create(input="How is it in Bonn?", **asked)
    assert [item.type for item in made.output] == ["reasoning", "function_call"]
    result: Any = {"type": "function_call_output", "call_id": made.output[-1].call_id, "output": "rain"}
    done = client.responses.create(input=[result], previous_response_id=made.id, **asked)
    assert done.output_text == "It rains in Bonn."
    assert "reasoning" in desk.shown if model == "gpt" else "Bonn is a town." in desk.shown


@wires
def test_developer_messages_reach_what_follows_and_instructions_do_not(desk: Desk, client: OpenAI, model: str) -> None:
    desk.say("Aye.", "Aye aye.")
    said: Any = [{"role": "developer", "content": "Speak as a pirate."}, {"role": "user", "content": "Hi"}]
    first = client.responses.create(model=model, input=said, instructions="Be brief.")
    assert all(text in desk.shown for text in ("Speak as a pirate.", "Be brief."))
    client.responses.create(model=model, input="And?", previous_response_id=first.id)
    assert "Speak as a pirate." in desk.shown
    assert "Be brief." not in desk.shown
    items = client.responses.input_items.list(first.id, order="asc").data
    assert [getattr(item, "role", "") for item in items] == ["developer", "user"]


@wires
def test_old_clients_complete_a_prompt(desk: Desk, client: OpenAI, model: str) -> None:
    desk.say("upon a time.", "there was a heron.")
    done = client.completions.create(model=model, prompt="Once", max_tokens=50, user=somebody())
    assert (done.object, done.choices[0].text, done.choices[0].finish_reason) == (
        "text_completion",
        "upon a time.",
        "stop",
    )
    chunks = list(client.completions.create(model=model, prompt=["Once"], stream=True, user=somebody()))
    assert "".join(chunk.choices[0].text for chunk in chunks) == "there was a heron."
    assert chunks[-1].choices[0].finish_reason == "stop"
    with pytest.raises(openai.BadRequestError, match="prompt: expected a text that is not empty"):
        client.completions.create(model=model, prompt="")
    defaults: dict[str, Any] = {"n": 1, "best_of": 1, "echo": False, "logprobs": None, "suffix": None}
    desk.say("Once more.")
    assert client.completions.create(model=model, prompt="Once", user=somebody(), **defaults).choices[0].text
    before = len(desk.vendors.requests)
    unsupported: list[tuple[str, dict[str, Any]]] = [
        ("best_of", {"best_of": 3}),
        ("suffix", {"suffix": "End."}),
        ("echo", {"echo": True, "logprobs": 2}),
        ("logprobs", {"logprobs": 6}),
        ("prompt", {"prompt": [1, 2]}),
        ("prompt", {"prompt": ["One", "Two", "Three"], "n": 7}),
        ("prompt", {"prompt": [[1, 2]]}),
    ]
    for name, more in unsupported:
        with pytest.raises(openai.BadRequestError, match=name) as refused:
            client.completions.create(model=model, **{"prompt": "Once", **more})
        assert str(refused.value.param).startswith(name)
    assert len(desk.vendors.requests) == before, "no model was asked"


@wires
@pytest.mark.parametrize("stream", [False, True])
def test_old_clients_send_several_prompts_and_want_several_answers(
    desk: Desk, client: OpenAI, model: str, stream: bool
) -> None:
    """Two prompts with two answers each, repeated with their prompts; each answer is a turn of its own."""
    before, whose = len(desk.vendors.requests), somebody()
    desk.vendors.answering = lambda body: f", {'moon' if 'One' in json.dumps(body) else 'sun'}."
    more: Any = {"stream_options": {"include_usage": True}} if stream else {}
    asked: dict[str, Any] = {"prompt": ["One", "Two"], "n": 2, "echo": True, "stop": ["END"], "user": whose, **more}
    told: Any = client.completions.create(model=model, stream=stream, **asked)
    desk.vendors.answering, chunks = None, list(told) if stream else [told]
    texts, ends = dict[int, str](), []
    for choice in (choice for chunk in chunks for choice in chunk.choices):
        texts[choice.index] = texts.get(choice.index, "") + choice.text
        ends += [choice.finish_reason] if choice.finish_reason else []
    assert texts == {0: "One, moon.", 1: "One, moon.", 2: "Two, sun.", 3: "Two, sun."}
    assert ends == ["stop"] * 4
    assert chunks[-1].usage.completion_tokens >= 4
    assert len(desk.vendors.requests) == before + 4
    threads = desk.server.http.get("/threads", params={"user_id": whose}).json()["threads"]
    assert sorted(thread["opening"] for thread in threads) == ["One", "Two"]


def test_old_clients_get_the_probabilities_of_words(desk: Desk, client: OpenAI) -> None:
    for stream in (False, True):
        desk.say("It is so.")
        told: Any = client.completions.create(model="open", prompt="Say", logprobs=2, stream=stream, user=somebody())
        found = [one.choices[0].logprobs for one in (told if stream else [told]) if one.choices[0].logprobs]
        tokens = [token for one in found for token in one.tokens]
        offsets = [offset for one in found for offset in one.text_offset]
        assert "".join(tokens) == "It is so."
        assert offsets == [0, 2, 5]
        assert all(len(top) == 2 for one in found for top in one.top_logprobs)
        assert all(chance < 0 for one in found for chance in one.token_logprobs)
        assert desk.asked["top_logprobs"] == 2
    with pytest.raises(openai.BadRequestError, match="logprobs"):
        client.completions.create(model="sonnet", prompt="Say", logprobs=2)


@REASONS
def test_a_summary_of_the_reasoning_is_streamed_where_it_is_asked_for(desk: Desk, client: OpenAI, model: str) -> None:
    desk.say(Answer(text="Rain.", reasoning="Bonn is a town."))
    events = list(client.responses.create(model=model, input="Weather?", stream=True, reasoning={"summary": "auto"}))
    assert "".join(event.text for event in events if event.type == "response.reasoning_summary_text.done") == (
        "Bonn is a town."
    )
    kinds = [event.type for event in events]
    assert kinds.index("response.reasoning_summary_text.done") < kinds.index("response.output_text.delta")


@pytest.mark.req("PROVIDER-4")
@pytest.mark.parametrize(
    "asked", [{}, {"store": True}, {"store": False}, {"include": ["message.output_text.logprobs"]}]
)
def test_openai_stores_nothing_where_the_operator_forbids_it(forbidding: Desk, asked: dict[str, Any]) -> None:
    """The response is stored here as the client wishes; the model's reasoning comes back from here as well."""
    call = Answer(reasoning="Bonn is a town.", tool_calls=(Call(name="weather", arguments={"city": "Bonn"}),))
    forbidding.say(call, "It rains in Bonn.")
    with OpenAI(base_url=forbidding.openai_url, api_key="not needed", max_retries=0) as client:
        made = client.responses.create(model="gpt", input="How is it in Bonn?", tools=[WEATHER], **asked)
        assert forbidding.asked["store"] is False
        assert forbidding.asked["include"] == [*asked.get("include", []), "reasoning.encrypted_content"]
        result: Any = {"type": "function_call_output", "call_id": made.output[-1].call_id, "output": "rain"}
        if asked.get("store") is False:
            earlier: Any = [item.to_dict() for item in made.output if item.type != "reasoning"]
            given: Any = {"input": [{"role": "user", "content": "How is it in Bonn?"}, *earlier, result]}
            with pytest.raises(openai.NotFoundError):
                client.responses.retrieve(made.id)
        else:
            given = {"input": [result], "previous_response_id": made.id}
            assert client.responses.retrieve(made.id) == made
        done = client.responses.create(model="gpt", tools=[WEATHER], **given, **asked)
        assert done.output_text == "It rains in Bonn."
        assert forbidding.asked["store"] is False
        thoughts = [item for item in forbidding.asked["input"] if item.get("type") == "reasoning"]
        assert len(thoughts) == ("previous_response_id" in given)
        assert all(item.get("encrypted_content") for item in thoughts)
