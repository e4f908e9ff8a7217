"""What a client sends reaches a model of the same wire as it was sent, as long as it fits; nothing is added."""

from __future__ import annotations

import asyncio
import base64
import json
import re
import threading
from typing import Any
from uuid import uuid4

import httpx2
import pytest
from anthropic import Anthropic
from openai import BadRequestError, OpenAI

from contextinfinity_testing.vendors import Answer, Call, Delivery, Trouble
from tests.doors.cix import Cix
from tests.doors.v1.upstream import Desk

pytestmark = pytest.mark.xdist_group("v1")

PNG = base64.b64encode(
    bytes.fromhex(
        "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c6360000002000001"
        "05fe02fea70000000049454e44ae426082"
    )
).decode()
PDF = base64.b64encode(b"%PDF-1.4 not much of a file").decode()
MARK = {"cache_control": {"type": "ephemeral"}}
WEATHER = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


@pytest.mark.req("API-12")
def test_several_answers_are_choices_and_stand_on_branches_beside_each_other(desk: Desk) -> None:
    whose = {"user_id": str(uuid4())}
    desk.say("One.", "Two.", "Three.")
    body = {"model": "open", "messages": [{"role": "user", "content": "Name a number."}], "n": 3}
    answer = desk.server.http.post("/v1/chat/completions", json=body, params=whose)
    choices = answer.json()["choices"]
    assert sorted(choice["message"]["content"] for choice in choices) == ["One.", "Three.", "Two."]
    assert [choice["index"] for choice in choices] == [0, 1, 2]
    thread = answer.headers["x-thread-id"]
    branches = desk.server.http.get(f"/threads/{thread}/branches", params=whose).json()["branches"]
    assert len(branches) == 3


@pytest.mark.req("API-12")
def test_several_answers_are_streamed_as_choices(desk: Desk, openai: OpenAI) -> None:
    desk.say("One.", Answer(text="Two.", tool_calls=(Call(name="weather", arguments={"city": "Oslo"}),)), "Three.")
    tools: Any = [{"type": "function", "function": {"name": "weather", "parameters": WEATHER}}]
    asked: Any = {"messages": [{"role": "user", "content": "Name a number."}], "tools": tools, "n": 3}
    with openai.chat.completions.stream(model="open", stream_options={"include_usage": True}, **asked) as stream:
        told = stream.get_final_completion()
    assert [choice.index for choice in told.choices] == [0, 1, 2]
    assert sorted(choice.message.content or "" for choice in told.choices) == ["One.", "Three.", "Two."]
    assert sorted(choice.finish_reason for choice in told.choices) == ["stop", "stop", "tool_calls"]
    assert sum(len(choice.message.tool_calls or ()) for choice in told.choices) == 1
    assert told.usage is not None
    assert told.usage.completion_tokens >= 3


@pytest.mark.req("API-12")
@pytest.mark.parametrize("choices", [1, 2])
def test_the_probabilities_of_words_are_returned_as_the_vendor_gives_them(
    desk: Desk, choices: int, openai: OpenAI
) -> None:
    """The same whether the answer is whole or streamed, and the same as from the vendor itself."""
    asked: Any = {"messages": [{"role": "user", "content": "Say it."}], "logprobs": True, "top_logprobs": 2}
    with OpenAI(base_url=desk.vendors.compatible_url, api_key="x") as vendor:
        desk.say("It is so, and stays so.")
        straight = vendor.chat.completions.create(model="llama3.1", **asked).choices[0].logprobs
    assert straight is not None
    desk.say(*["It is so, and stays so."] * 2 * choices)
    whole = openai.chat.completions.create(model="open", n=choices, **asked)
    assert [choice.logprobs for choice in whole.choices] == [straight] * choices
    with openai.chat.completions.stream(model="open", n=choices, **asked) as stream:
        pieces = [event.chunk.choices[0].logprobs for event in stream if event.type == "chunk"]
        told = stream.get_final_completion()
    assert [choice.logprobs and choice.logprobs.content for choice in told.choices] == [straight.content] * choices
    assert sum(piece is not None for piece in pieces) > 2, "they come with their words"
    desk.say("Fine.")
    openai.chat.completions.create(model="open", messages=[*asked["messages"], {"role": "user", "content": "So?"}])
    assert "logprob" not in desk.shown


@pytest.mark.req("API-12")
def test_parallel_calls_and_json_objects_reach_models_of_other_vendors(
    desk: Desk, openai: OpenAI, anthropic: Anthropic
) -> None:
    """The client runs its tools, so it decides; what is left out is named as the client names it."""
    function = {"name": "weather", "description": "Tells.", "parameters": WEATHER}
    asked: Any = {"messages": [{"role": "user", "content": "JSON please."}], "response_format": {"type": "json_object"}}
    tools: Any = [{"type": "function", "function": function}]
    choices: list[Any] = [{}, {"parallel_tool_calls": True}, {"parallel_tool_calls": False}]
    for several in choices:
        is_one = several.get("parallel_tool_calls") is False
        desk.say("{}", "{}")
        answer = openai.chat.completions.with_raw_response.create(model="gpt", tools=tools, seed=7, **asked, **several)
        assert desk.asked["parallel_tool_calls"] is not is_one
        assert desk.asked["text"]["format"] == {"type": "json_object"}
        assert answer.headers["x-ignored-parameters"] == "seed"
        openai.chat.completions.create(model="sonnet", tools=tools, messages=asked["messages"], **several)
        assert desk.asked.get("tool_choice", {}).get("disable_parallel_tool_use", False) is is_one
    offered: Any = [{"name": "weather", "input_schema": WEATHER}]
    said: Any = {"messages": asked["messages"], "max_tokens": 900, "stop_sequences": ["END"], "tools": offered}
    desk.say("Hm.", "Hm.")
    left = anthropic.messages.with_raw_response.create(model="gpt", tool_choice={"type": "auto"}, **said)
    assert (desk.asked["parallel_tool_calls"], left.headers["x-ignored-parameters"]) == (True, "stop_sequences")
    one: Any = {"type": "auto", "disable_parallel_tool_use": True}
    anthropic.messages.create(model="open", tool_choice=one, **said)
    assert desk.asked["parallel_tool_calls"] is False
    desk.say("{}")
    openai.responses.create(model="open", input="JSON please.", text={"format": {"type": "json_object"}})
    assert desk.asked["response_format"] == {"type": "json_object"}


@pytest.mark.req("API-7", "API-12")
def test_probabilities_of_words_come_with_responses(desk: Desk, openai: OpenAI) -> None:
    asked: Any = {"input": "Say it.", "top_logprobs": 2, "include": ["message.output_text.logprobs"]}
    with OpenAI(base_url=desk.vendors.openai_url, api_key="x") as vendor:
        desk.say("It is so.")
        straight: Any = vendor.responses.create(model="gpt-5.5", **asked).output[0]
    desk.say("It is so.", "It is so.")
    whole: Any = openai.responses.create(model="gpt", **asked)
    assert whole.output[0].content[0].logprobs == straight.content[0].logprobs
    assert len(straight.content[0].logprobs) == 3
    assert whole.top_logprobs == 2
    with openai.responses.stream(model="gpt", **asked) as stream:
        pieces = [event.logprobs for event in stream if event.type == "response.output_text.delta"]
        told: Any = stream.get_final_response()
    assert [len(piece) for piece in pieces] == [1, 1, 1], "each with its word"
    assert told.output[0].content[0].logprobs == straight.content[0].logprobs
    with pytest.raises(BadRequestError, match="top_logprobs"):
        openai.responses.create(model="sonnet", **asked)


@pytest.mark.req("API-7", "API-16")
@pytest.mark.parametrize("model", ["gpt", "sonnet", "open"])
def test_the_arguments_of_calls_stream_on_responses_too(desk: Desk, model: str, openai: OpenAI) -> None:
    tools: Any = [{"type": "function", "name": "weather", "parameters": WEATHER, "strict": False}]
    calls = tuple(Call(name="weather", arguments={"city": city}) for city in ("Oslo", "Rome, which is in Italy"))
    desk.say(Answer(text="I look.", tool_calls=calls))
    asked: Any = {"model": model, "input": "How is the weather?", "tools": tools, "stream": True}
    events: list[Any] = list(openai.responses.create(**asked))
    final = events[-1].response
    kinds = [event.type for event in events]
    deltas = [event for event in events if event.type == "response.function_call_arguments.delta"]
    assert len(deltas) > 2, "in pieces"
    items = [event.item for event in events if event.type == "response.output_item.done"]
    assert [item.type for item in items] == ["message", "function_call", "function_call"]
    assert [item.to_dict() for item in final.output] == [item.to_dict() for item in items]
    for place, call in enumerate(calls, 1):
        written = "".join(event.delta for event in deltas if event.output_index == place)
        assert (json.loads(written), items[place].arguments) == (call.arguments, written)
    assert kinds.index("response.output_text.done") < kinds.index("response.function_call_arguments.delta")
    assert [event.sequence_number for event in events] == list(range(len(events)))


@pytest.mark.req("API-12")
@pytest.mark.parametrize(("model", "is_read"), [("gpt", True), ("sonnet", True), ("open", False)])
def test_a_large_pdf_fits_by_its_pages_and_crosses_between_vendors(
    desk: Desk, model: str, is_read: bool, openai: OpenAI, anthropic: Anthropic
) -> None:
    """A file of 600 KB has one page; as JSON it would be more than any window. What cannot cross is named."""
    data = base64.b64encode(b"%PDF-1.4 1 0 obj << /Type /Page >> endobj" + bytes(600_000)).decode()
    file = {"filename": "a.pdf", "file_data": f"data:application/pdf;base64,{data}"}
    source = {"type": "base64", "media_type": "application/pdf", "data": data}
    clients: dict[str, tuple[Any, dict[str, Any]]] = {
        "messages.content.file": (openai.chat.completions, {"messages": [{"type": "file", "file": file}]}),
        "input.content.input_file": (openai.responses, {"input": [{"type": "input_file", **file}]}),
        "messages.content.document": (anthropic.messages, {"messages": [{"type": "document", "source": source}]}),
    }
    for part, (client, asked) in clients.items():
        ((name, content),) = asked.items()
        more = {"max_tokens": 500} if part.endswith("document") else {}
        desk.say("A file.")
        answer = client.with_raw_response.create(model=model, **{name: [{"role": "user", "content": content}]}, **more)
        is_own = part.endswith("content.file") and model == "open"
        assert (data in desk.shown) is (is_read or is_own)
        assert answer.headers.get("x-ignored-parameters") == (None if is_read or is_own else part)


@pytest.mark.req("API-12", "API-16")
@pytest.mark.parametrize("stream", [False, True])
def test_thinking_is_returned_and_passed_back_to_the_model_that_made_it(
    desk: Desk, stream: bool, anthropic: Anthropic
) -> None:
    asked: dict[str, Any] = {
        "model": "sonnet",
        "max_tokens": 3000,
        "thinking": {"type": "enabled", "budget_tokens": 1024},
        "tools": [{"name": "weather", "description": "Tells.", "input_schema": WEATHER}],
    }
    messages: list[Any] = [{"role": "user", "content": "How is the weather in Rome?"}]
    for number in range(3):
        call = Call(name="weather", arguments={"city": "Rome"})
        desk.say(Answer(reasoning=f"Look once more, {number}.", tool_calls=(call,)))
        if stream:
            with anthropic.messages.stream(**asked, messages=messages) as coming:
                answer: Any = coming.get_final_message()
        else:
            answer = anthropic.messages.create(**asked, messages=messages)
        assert desk.asked["messages"] == messages, "every step keeps the thinking of the steps before"
        thought, called = answer.content
        assert (thought.type, thought.thinking) == ("thinking", f"Look once more, {number}.")
        said = [block.model_dump(exclude_none=True) for block in answer.content]
        result = {"type": "tool_result", "tool_use_id": called.id, "content": "Sunny."}
        messages += [{"role": "assistant", "content": said}, {"role": "user", "content": [result]}]


ASKED: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"model": "open", "messages": [{"role": "user", "content": "Hi"}]},
    "/v1/messages": {"model": "sonnet", "max_tokens": 99, "messages": [{"role": "user", "content": "Hi"}]},
    "/v1/responses": {"model": "gpt", "input": "Hi"},
}


TROUBLES = (
    Trouble.status(429, retry_after=7),
    *(Trouble.status(code) for code in (400, 401, 403, 404, 500)),
    Trouble.overloaded(),
    Trouble.insufficient_quota(),
)


@pytest.mark.req("API-16")
@pytest.mark.parametrize("stream", [False, True])
def test_an_error_of_the_vendor_reaches_its_client_as_the_vendor_sent_it(desk: Desk, stream: bool) -> None:
    addresses = (desk.vendors.compatible_url, f"{desk.vendors.anthropic_url}/v1", desk.vendors.openai_url)
    ids = dict(zip(ASKED, ("llama3.1", "claude-sonnet-4-5", "gpt-5.5"), strict=True))
    keys = {"authorization": "Bearer sk-any", "x-api-key": "sk-any", "anthropic-version": "2023-06-01"}
    for (path, body), address, trouble in (
        (*asked, trouble) for asked in zip(ASKED.items(), addresses, strict=True) for trouble in TROUBLES
    ):
        asked = {**body, "stream": stream}
        desk.say(trouble)
        whole = f"{address}{path.removeprefix('/v1')}"
        straight = httpx2.post(whole, json={**asked, "model": ids[path]}, headers=keys, trust_env=False)
        before = len(desk.vendors.requests)
        desk.say(trouble)
        through = desk.server.http.post(path, json=asked, params={"user_id": str(uuid4())})
        assert len(desk.vendors.requests) == before + 1, "the client retries, nobody else"
        assert through.status_code == straight.status_code
        assert through.headers.get("retry-after") == straight.headers.get("retry-after")
        error = {name: value for name, value in through.json()["error"].items() if name != "details"}
        assert error == straight.json()["error"], (path, trouble)


@pytest.mark.req("API-12")
def test_messages_in_a_row_are_shown_apart_and_sent_as_they_were(desk: Desk, openai: OpenAI) -> None:
    rows: list[list[Any]] = [
        [{"role": "user", "content": "Herons are shy"}, {"role": "user", "content": "What now?"}],
        [{"role": "user", "content": [{"type": "text", "text": text} for text in ("Herons are shy", "What now?")]}],
    ]
    threads = set()
    for number, row in enumerate(rows):
        said = [*row, {"role": "assistant", "content": "Wait."}, {"role": "user", "content": "And?"}] if number else row
        desk.say("Wait.")
        answer = openai.chat.completions.with_raw_response.create(model="open", messages=said)
        assert desk.asked["messages"] == said
        threads.add(answer.headers["x-thread-id"])
    assert len(threads) == 1, "they are compared without the blank line"
    thread = threads.pop()
    assert desk.kept(thread) == ["Herons are shy\n\nWhat now?", "And?"]


@pytest.mark.req("API-12")
def test_a_system_text_alone_is_answered_and_sent_as_it_is(desk: Desk, openai: OpenAI) -> None:
    texts: list[Any] = [
        {"role": "system", "content": "Be brief."},
        {"role": "developer", "content": "Greet the guest."},
    ]
    for said in (texts, texts[1:]):
        desk.say("Welcome!")
        answer = openai.chat.completions.with_raw_response.create(model="open", messages=said)
        assert desk.asked["messages"] == said
        assert desk.kept(answer.headers["x-thread-id"]) == ["Greet the guest."]
    desk.say("Welcome!")
    openai.chat.completions.create(model="sonnet", messages=texts)
    assert (desk.asked["system"][0]["text"], desk.asked["messages"][0]["role"]) == ("Be brief.", "user")


@pytest.mark.req("API-16")
def test_an_error_after_the_first_text_is_the_vendors_own_event(desk: Desk) -> None:
    """The last event is the one that the vendor sends straight, with its type, code and message."""
    addresses = (desk.vendors.compatible_url, f"{desk.vendors.anthropic_url}/v1", desk.vendors.openai_url)
    ids = dict(zip(ASKED, ("llama3.1", "claude-sonnet-4-5", "gpt-5.5"), strict=True))
    keys = {"authorization": "Bearer sk-any", "x-api-key": "sk-any", "anthropic-version": "2023-06-01"}
    troubles = (Trouble.status(500), Trouble.status(429), Trouble.overloaded())
    for (path, body), address in zip(ASKED.items(), addresses, strict=True):
        for trouble in troubles:
            asked, told = {**body, "stream": True}, Answer(text="One two", delivery=_late(trouble))
            desk.say(told)
            whole = f"{address}{path.removeprefix('/v1')}"
            straight = httpx2.post(whole, json={**asked, "model": ids[path]}, headers=keys, trust_env=False)
            desk.say(told)
            through = desk.server.http.post(path, json=asked, params={"user_id": str(uuid4())})
            assert _last_error(through.text) == _last_error(straight.text), (path, trouble)
    desk.say(Answer(text="One two", delivery=_late(Trouble.overloaded())))
    asked = {**ASKED["/v1/chat/completions"], "model": "sonnet", "stream": True}
    other = desk.server.http.post("/v1/chat/completions", json=asked, params={"user_id": str(uuid4())})
    assert _last_error(other.text)["message"] == "Overloaded", "of another vendor: its message, our names"


def _late(trouble: Trouble) -> Delivery:
    return Delivery(error=trouble, error_after=1)


def _last_error(stream: str) -> dict[str, Any]:
    """Return the error in the last event of a stream, of any of the three wires."""
    last = json.loads([line for line in stream.splitlines() if line.startswith("data: {")][-1].removeprefix("data: "))
    error = last.get("error") or last["response"]["error"]
    return {name: value for name, value in error.items() if name != "details"}


@pytest.mark.req("API-16", "BUDGET-11")
def test_after_a_message_that_does_not_fit_the_next_one_is_answered(desk: Desk) -> None:
    whose = {"user_id": str(uuid4())}
    large = {"role": "user", "content": "word " * 200_000}
    tools = [
        {"type": "function", "function": {"name": "weather", "description": "Tells. " * 50, "parameters": WEATHER}}
    ]
    body: dict[str, Any] = {"model": "refused-open", "messages": [large], "tools": tools}
    refused = desk.server.http.post("/v1/chat/completions", json=body, params=whose)
    assert refused.status_code == 400
    error = refused.json()["error"]
    assert error["code"] == "context_length_exceeded"
    said = r"This model's maximum context length is 128000 tokens\. However, your messages resulted in \d+ tokens "
    said += r"\(\d+ in the messages, \d+ in the functions\)\. Please reduce the length of the messages or functions\."
    assert re.fullmatch(said, error["message"])
    for messages in ([large, {"role": "user", "content": "And now?"}], [{"role": "user", "content": "Once more?"}]):
        desk.say("Fine.")
        answer = desk.server.http.post("/v1/chat/completions", json={**body, "messages": messages}, params=whose)
        assert answer.status_code == 200, answer.text[:500]
        assert desk.asked["messages"][-1] == messages[-1]


@pytest.mark.req("API-16", "BUDGET-11")
@pytest.mark.parametrize(
    ("path", "model", "words", "said"),
    [
        (
            "/v1/chat/completions",
            "refused-open",
            115_000,
            r"This model's maximum context length is 128000 tokens\. However, you requested (\d+) tokens "
            r"\((\d+) in the messages, (\d+) in the completion\)\. Please reduce the length of the messages or "
            r"completion\.",
        ),
        (
            "/v1/messages",
            "refused-sonnet",
            95_000,
            r"input length and `max_tokens` exceed context limit: (\d+) \+ (\d+) > 128000, decrease input length or "
            r"`max_tokens` and try again",
        ),
    ],
)
def test_a_prompt_that_fits_without_room_for_the_answer_is_refused_in_the_vendors_words(
    desk: Desk, path: str, model: str, words: int, said: str
) -> None:
    before = len(desk.vendors.requests)
    body = {"model": model, "max_tokens": 30_000, "messages": [{"role": "user", "content": "word " * words}]}
    refused = desk.server.http.post(path, json=body, params={"user_id": str(uuid4())})
    assert refused.status_code == 400, refused.text[:500]
    error = refused.json()["error"]
    found = re.fullmatch(said, error["message"])
    assert found, error["message"]
    *whole, prompt, answer = map(int, found.groups())
    assert prompt < 128_000 < prompt + answer
    assert whole in ([], [prompt + answer])
    assert (error.get("code"), error["type"]) in (
        ("context_length_exceeded", "invalid_request_error"),
        (None, "invalid_request_error"),
    )
    assert len(desk.vendors.requests) == before


@pytest.mark.req("API-16")
@pytest.mark.parametrize("model", ["open", "sonnet"])
def test_tool_arguments_stream_as_they_arrive(desk: Desk, model: str, openai: OpenAI, anthropic: Anthropic) -> None:
    calls = (Call(name="weather", arguments={"city": "Rome " * 40}), Call(name="weather", arguments={"city": "Oslo"}))
    tools = [{"type": "function", "function": {"name": "weather", "parameters": WEATHER}}]
    desk.say(Answer(text="Let me see.", tool_calls=calls))
    asked: Any = {"model": model, "messages": [{"role": "user", "content": "How is the weather?"}], "tools": tools}
    pieces: list[list[str]] = [[], []]
    for chunk in openai.chat.completions.create(**asked, stream=True):
        for call in (chunk.choices[0].delta.tool_calls or ()) if chunk.choices else ():
            pieces[call.index].append((call.function.arguments or "") if call.function else "")
    assert [json.loads("".join(piece)) for piece in pieces] == [call.arguments for call in calls]
    assert len([piece for piece in pieces[0] if piece]) > 1
    desk.say(Answer(text="Let me see.", tool_calls=calls))
    mine: Any = [{"name": "weather", "input_schema": WEATHER}]
    sent: Any = {"model": model, "max_tokens": 500, "tools": mine, "messages": asked["messages"]}
    with anthropic.messages.stream(**sent) as stream:
        kinds = [event.type for event in stream]
        said: Any = stream.get_final_message().content
    assert [block.type for block in said] == ["text", "tool_use", "tool_use"]
    assert [block.input for block in said[1:]] == [call.arguments for call in calls]
    assert kinds.count("input_json") > 2


@pytest.mark.req("API-16")
def test_a_conversation_is_listed_by_what_its_user_said_not_by_reminders(desk: Desk) -> None:
    whose = {"user_id": str(uuid4())}
    reminder = {"type": "text", "text": "<system-reminder>The date is today.</system-reminder>"}
    content = [reminder, {"type": "text", "text": "Fix the login."}]
    body = {"model": "open", "messages": [{"role": "user", "content": content}]}
    desk.say("Done.")
    desk.server.http.post("/v1/chat/completions", json=body, params=whose)
    (thread,) = desk.server.http.get("/threads", params=whose).json()["threads"]
    assert thread["opening"] == "Fix the login."


@pytest.mark.req("API-16")
def test_a_conversation_is_listed_without_the_context_that_an_agent_sends_in_front(desk: Desk) -> None:
    for texts, listed in (
        (("<environment_context>\n  <cwd>/src</cwd>\n</environment_context>", "Fix the login."), "Fix the login."),
        (("<task>\nFix it.\n</task>",), "<task>\nFix it.\n</task>"),
        (("<b>Bold</b> and <b>more</b> text",), "<b>Bold</b> and <b>more</b> text"),
    ):
        whose = {"user_id": str(uuid4())}
        desk.say("Done.")
        messages = [{"role": "user", "content": text} for text in texts]
        desk.server.http.post("/v1/responses", json={"model": "gpt", "input": messages}, params=whose)
        (thread,) = desk.server.http.get("/threads", params=whose).json()["threads"]
        assert thread["opening"] == listed


@pytest.mark.req("API-16", "API-14")
def test_who_runs_a_server_without_tokens_sees_the_conversations_of_all_its_end_users(desk: Desk) -> None:
    names = [str(uuid4()) for _ in range(2)]
    for name in names:
        body = {"model": "open", "user": name, "messages": [{"role": "user", "content": f"I am {name}."}]}
        assert desk.server.http.post("/v1/chat/completions", json=body).status_code == 200
    cix = Cix(desk.server.folder)
    listed = {one["user_id"]: one["opening"] for one in cix.json("sessions")["sessions"]}
    assert {name: listed.get(name) for name in names} == {name: f"I am {name}." for name in names}
    table = cix("sessions").stdout
    assert "user" in table.splitlines()[0]
    assert all(name in table for name in names)
    assert [one["user_id"] for one in cix.json("sessions", "--user", names[0])["sessions"]] == names[:1]
    shown = desk.server.http.get("/threads", params={"user_id": names[0]}).json()["threads"]
    assert [one["user_id"] for one in shown] == names[:1], "over HTTP each sees their own"


@pytest.mark.req("API-16")
@pytest.mark.parametrize("model", ["gpt", "sonnet", "open"])
@pytest.mark.parametrize("client", ["chat", "messages", "responses"])
def test_the_first_arguments_of_a_call_arrive_while_the_model_still_writes_them(
    desk: Desk, client: str, model: str, openai: OpenAI, anthropic: Anthropic
) -> None:
    """The vendor is held after the first piece (Anthropic's is empty, so after two) until the client has it."""
    gate = asyncio.Event()
    call = Call(name="weather", arguments={"city": "Rome, which is in Italy"})
    desk.say(Answer(tool_calls=(call,), delivery=Delivery(gate=gate, hold_after=2 if model == "sonnet" else 1)))
    asked: list[Any] = [{"role": "user", "content": "How is the weather?"}]
    function: Any = {"name": "weather", "parameters": WEATHER}
    tool: Any = {"name": "weather", "input_schema": WEATHER}
    stream: Any
    if client == "chat":
        offered: Any = [{"type": "function", "function": function}]
        stream = openai.chat.completions.create(model=model, messages=asked, tools=offered, stream=True)
    elif client == "messages":
        stream = anthropic.messages.create(model=model, max_tokens=99, messages=asked, tools=[tool], stream=True)
    else:
        offered = [{"type": "function", "strict": False, **function}]
        stream = openai.responses.create(model=model, input=asked, tools=offered, stream=True)
    late = threading.Timer(30, desk.vendors.release, [gate])  # a stream that waits for the end fails, and does not hang
    late.start()
    written, is_early = "", False
    for event in stream:
        piece = _arguments_in(event)
        is_early = is_early or bool(piece and not gate.is_set())
        written += piece
        if is_early:
            desk.vendors.release(gate)
    late.cancel()
    assert is_early
    assert json.loads(written) == call.arguments


def _arguments_in(event: Any) -> str:
    """Return the piece of a call's arguments that an event of any of the three streams holds."""
    told = event.to_dict()
    if choices := told.get("choices"):
        calls = choices[0]["delta"].get("tool_calls") or [{}]
        return str(calls[0].get("function", {}).get("arguments") or "")
    if told["type"] == "response.function_call_arguments.delta":
        return str(told["delta"])
    return str(told["delta"].get("partial_json", "")) if told["type"] == "content_block_delta" else ""
