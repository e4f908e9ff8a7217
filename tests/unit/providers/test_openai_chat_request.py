"""What is written to servers that speak chat completions."""

from __future__ import annotations

import functools
import json
import re
from typing import Any, get_type_hints

import msgspec
import pytest
from openai.types.chat import (
    ChatCompletionMessageParam,
    ChatCompletionMessageToolCallUnionParam,
    ChatCompletionToolUnionParam,
)
from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming, ResponseFormat
from pydantic import TypeAdapter

from contextinfinity.domain.message import (
    ImageBlock,
    Message,
    ReasoningBlock,
    Role,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    UnknownBlock,
    say,
)
from contextinfinity.domain.prompt import Abilities, Prompt, ProviderRequest, ToolSpec
from contextinfinity.errors import ProviderError
from contextinfinity.providers.contract import Wire, write, written_again
from contextinfinity.providers.openai_chat import ChatWire
from contextinfinity.providers.openai_chat.request import IMAGE_BELOW
from contextinfinity.providers.wire_values import ERROR_MARK, IMAGE_NOTE, UNKNOWN_NOTE

ABLE = Abilities(context_limit=100_000, max_output_tokens=2_000, images=True, known=True)
ONE_SYSTEM = msgspec.structs.replace(ABLE, one_system=True)
TOOL = ToolSpec(name="weather", description="Tells the weather.", parameters={"type": "object", "properties": {}})
PICTURE = ImageBlock(media_type="image/png", source={"type": "base64", "data": "aGk="})
WIRE = ChatWire()
PERPLEXITY = ChatWire(vendor="perplexity")


def request(*messages: Message, system: tuple[str, ...] = (), **more: Any) -> ProviderRequest:
    of_prompt = {key: more.pop(key) for key in ("tools", "response_format", "markers") if key in more}
    return ProviderRequest(model_id="any", prompt=Prompt(system=system, messages=messages, **of_prompt), **more)


def body(*messages: Message, wire: ChatWire = WIRE, able: Abilities = ABLE, **more: Any) -> dict[str, Any]:
    written = wire.write(request(*messages, **more), able)
    check(written)
    return written


@functools.cache
def adapters() -> tuple[TypeAdapter[Any], ...]:
    return (
        TypeAdapter(list[ChatCompletionMessageParam]),
        TypeAdapter(list[ChatCompletionMessageToolCallUnionParam]),
        TypeAdapter(list[ChatCompletionToolUnionParam]),
        TypeAdapter(ResponseFormat),
    )


def check(written: dict[str, Any]) -> None:
    """Hold a body against the types of OpenAI's own SDK."""
    messages, calls, tools, response_format = adapters()
    assert written.keys() <= get_type_hints(CompletionCreateParamsStreaming).keys()
    messages.validate_python(written["messages"])
    for message in written["messages"]:
        calls.validate_python(message.get("tool_calls", []), strict=True)
    tools.validate_python(written.get("tools", []), strict=True)
    response_format.validate_python(written.get("response_format", {"type": "text"}))
    assert msgspec.json.decode(msgspec.json.encode(written)) == written


def assistant(*blocks: Any) -> Message:
    return Message(role="assistant", blocks=blocks)


def call(call_id: str = "call_1") -> ToolUseBlock:
    return ToolUseBlock(tool_use_id=call_id, name="weather", input={"city": "Rome"})


def tool(*results: ToolResultBlock) -> Message:
    return Message(role="tool", blocks=results)


def result(*blocks: Any, call_id: str = "call_1", **more: Any) -> ToolResultBlock:
    return ToolResultBlock(tool_use_id=call_id, content=blocks or (TextBlock(text="sunny"),), **more)


def said(written: dict[str, Any]) -> list[tuple[str, str]]:
    """Read a body back: who says what, in order."""
    return [(message["role"], message["content"]) for message in written["messages"]]


def texts(role: Role, *each: str) -> Message:
    return Message(role=role, blocks=tuple(TextBlock(text=text) for text in each))


@pytest.mark.parametrize("role", ["user", "assistant"])
def test_texts_of_one_side_are_not_glued(role: Role) -> None:
    assert said(body(texts(role, "first", "second", " third")))[-1] == (role, "first\n\nsecond third")


def test_cited_pieces_of_an_answer_stay_one_text() -> None:
    cited = TextBlock(text="42", annotations=({"type": "citation"},))
    answer = assistant(TextBlock(text="It is"), cited, TextBlock(text="."), TextBlock(text="Well?"))
    assert said(body(answer)) == [("assistant", "It is42.\n\nWell?")]


def test_a_request_of_an_older_release_is_rebuilt_as_it_was_sent() -> None:
    asked = request(texts("user", "first", "second"))
    now = write("openai_chat", WIRE, ABLE, asked)
    old_settings = {
        name: value for name, value in now.form["wire"].items() if name not in ("text_separator", "result_images")
    }
    old = written_again({**now.form, "wire": old_settings}, asked)
    assert written_again(now.form, asked).body == now.body
    assert msgspec.json.decode(old.body)["messages"] == [{"role": "user", "content": "firstsecond"}]
    looked = written_again({**now.form, "wire": old_settings}, request(assistant(call()), tool(result(PICTURE))))
    assert msgspec.json.decode(looked.body)["messages"][1:] == [
        {"role": "tool", "tool_call_id": call().tool_use_id, "content": IMAGE_NOTE}
    ]


TALK = (
    say("user", "the summary"),
    say("assistant", "I know."),
    say("user", "weather?"),
    assistant(TextBlock(text="I look."), call()),
    tool(result()),
    say("assistant", "Sunny."),
    say("system", "be short"),
    Message(role="user", blocks=(TextBlock(text="and "), TextBlock(text="tomorrow?"))),
)


def test_it_is_a_wire() -> None:
    wire: Wire = WIRE
    assert wire.path("some-model") == "/chat/completions"


@pytest.mark.req("PROVIDER-3")
def test_the_same_texts_go_out_in_the_same_roles_and_order() -> None:
    assert said(body(*TALK, system=("rules", "pins"))) == [
        ("system", "rules"),
        ("system", "pins"),
        ("user", "the summary"),
        ("assistant", "I know."),
        ("user", "weather?"),
        ("assistant", "I look."),
        ("tool", "sunny"),
        ("assistant", "Sunny."),
        ("system", "be short"),
        ("user", "and tomorrow?"),
    ]


@pytest.mark.req("PROVIDER-3")
def test_where_one_system_message_is_taken_the_texts_are_joined() -> None:
    written = said(body(say("system", "more"), *TALK, system=("rules", "pins"), able=ONE_SYSTEM))
    assert written[0] == ("system", "rules\n\npins\n\nmore")
    assert [role for role, _ in written].count("system") == 1
    assert ("user", "be short") in written
    assert said(body(say("user", "hi"), able=ONE_SYSTEM)) == [("user", "hi")]


@pytest.mark.req("PROVIDER-3")
def test_perplexity_hears_user_and_assistant_in_turns_and_no_tools() -> None:
    written = body(*TALK, system=("rules", "pins"), wire=PERPLEXITY, tools=(TOOL,))
    assert "tools" not in written
    assert said(written) == [
        ("system", "rules"),
        ("system", "pins"),
        ("user", "the summary"),
        ("assistant", "I know."),
        ("user", "weather?"),
        ("assistant", 'I look.\n\n[called weather with {"city":"Rome"}]'),
        ("user", "[weather gave back] sunny"),
        ("assistant", "Sunny."),
        ("user", "be short\n\nand tomorrow?"),
    ]


def test_perplexity_hears_the_user_first_and_pictures_among_the_words() -> None:
    picture = Message(role="user", blocks=(PICTURE,))
    written = body(say("assistant", "Welcome."), say("user", "see"), picture, wire=PERPLEXITY)["messages"]
    assert [message["role"] for message in written] == ["user", "assistant", "user"]
    assert [part["type"] for part in written[2]["content"]] == ["text", "image_url"]


@pytest.mark.req("PROVIDER-3")
def test_results_that_a_client_brings_go_before_its_words() -> None:
    message = Message(role="user", blocks=(TextBlock(text="thanks"), result()))
    assert said(body(assistant(call()), message))[1:] == [("tool", "sunny"), ("user", "thanks")]


def test_calls_and_their_results_fit_together() -> None:
    strange = "functions.weather:0"
    written = body(assistant(call(strange)), tool(result(TextBlock(text="no"), call_id=strange, is_error=True)))
    asked, answered = written["messages"]
    assert asked["content"] is None
    assert json.loads(asked["tool_calls"][0]["function"]["arguments"]) == {"city": "Rome"}
    assert asked["tool_calls"][0]["id"] == answered["tool_call_id"] != strange
    assert answered["content"] == ERROR_MARK + "no"


def test_a_model_without_tools_hears_of_calls_in_words() -> None:
    none = msgspec.structs.replace(ABLE, tools=False)
    written = body(assistant(call()), tool(result()), able=none, tools=(TOOL,))
    assert [role for role, _ in said(written)] == ["assistant", "user"]
    assert not {key for key in written if "tool" in key}


@pytest.mark.req("PROVIDER-1")
def test_settings_say_how_length_and_usage_are_asked_for() -> None:
    plain = body(say("user", "hi"), max_output_tokens=5_000)
    assert (plain["max_tokens"], plain["stream"], plain["stream_options"]) == (2_000, True, {"include_usage": True})
    other = ChatWire(max_tokens_name="max_completion_tokens", stream_usage=False)
    written = body(say("user", "hi"), wire=other)
    assert written["max_completion_tokens"] == 2_000
    assert not {"max_tokens", "stream_options"} & written.keys()


@pytest.mark.req("PROVIDER-8")
def test_no_tool_of_the_server_is_asked_for_unless_it_is_configured() -> None:
    for name in ("tools", "functions", "function_call", "web_search_options"):
        with pytest.raises(ProviderError, match=f"{name} cannot be set here: .*use provider_tools"):
            WIRE.write(request(say("user", "hi"), options={name: [{}]}), ABLE)
    assert "tool_choice" not in body(say("user", "hi"), options={"tool_choice": "auto"})
    wire = ChatWire(provider_tools=({"type": "web"},), parallel_tools=True)
    written = wire.write(request(say("user", "hi"), tools=(TOOL,), options={"tool_choice": "auto"}), ABLE)
    assert [each["type"] for each in written["tools"]] == ["function", "web"]
    assert (written["parallel_tool_calls"], written["tool_choice"]) == (True, "auto")
    search = {"web_search_options": {"search_context_size": "low"}}
    assert body(say("user", "hi"), wire=PERPLEXITY, options=search).keys() >= search.keys()


@pytest.mark.req("PROVIDER-7", "PROVIDER-1")
def test_options_are_passed_on_but_not_what_the_engine_owns_or_a_server_would_remember() -> None:
    options = {"temperature": 0, "stream_options": {"include_obfuscation": False, "include_usage": False}}
    written = body(say("user", "hi"), options=options)
    assert written["temperature"] == 0
    assert written["stream_options"] == {"include_usage": True, "include_obfuscation": False}
    owned = ("messages", "model", "stream", "n", "parallel_tool_calls")
    for wire, name in [(WIRE, name) for name in (*owned, "previous_response_id", "store")] + [(PERPLEXITY, "n")]:
        with pytest.raises(ProviderError, match=f"^{wire.vendor}: the option {name} ") as caught:
            wire.write(request(options={name: "x"}), ABLE)
        assert caught.value.kind == "bad_request"


@pytest.mark.req("PROVIDER-1", "BUDGET-2")
def test_options_may_ask_for_a_shorter_answer_under_either_name_but_not_for_a_longer_one() -> None:
    def limits(options: Any, wire: ChatWire = WIRE) -> dict[str, Any]:
        written = body(say("user", "hi"), options=options, wire=wire)
        return {key: each for key, each in written.items() if key.startswith("max_")}

    assert limits({"max_tokens": 10**9}) == {"max_tokens": 2_000}
    assert limits({"max_tokens": 50}) == {"max_tokens": 50}
    assert limits({"max_tokens": None}) == {"max_tokens": 2_000}
    assert limits({"max_completion_tokens": 500}) == {"max_completion_tokens": 500}
    assert limits({"max_completion_tokens": 10**9, "max_tokens": 60}) == {"max_completion_tokens": 60}
    assert limits({"max_tokens": 10**7}, PERPLEXITY) == {"max_tokens": 2_000}
    with pytest.raises(ProviderError, match="not an integer"):
        limits({"max_tokens": "many"})


def test_a_schema_for_the_answer_is_sent() -> None:
    schema = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}
    made = body(say("user", "hi"), response_format=schema)["response_format"]
    assert (made["type"], made["json_schema"]["schema"], made["json_schema"]["strict"]) == ("json_schema", schema, True)


@pytest.mark.req("LEDGER-2")
def test_pictures_go_out_where_the_model_sees_and_a_note_where_not() -> None:
    message = Message(role="user", blocks=(TextBlock(text="see "), PICTURE))
    assert body(message)["messages"][0]["content"][1]["image_url"] == {"url": "data:image/png;base64,aGk="}
    assert body(message, able=Abilities())["messages"][0]["content"] == "see " + IMAGE_NOTE
    looked = (assistant(call()), tool(result(PICTURE)))
    told, pictures = body(*looked)["messages"][1:]
    assert (told["role"], told["content"], pictures["role"]) == ("tool", IMAGE_BELOW, "user")
    assert [part["type"] for part in pictures["content"]] == ["text", "image_url"]
    (told,) = body(*looked, able=Abilities(tools=True))["messages"][1:]
    assert told["content"] == IMAGE_NOTE


@pytest.mark.req("PROVIDER-2")
def test_reasoning_of_this_wire_is_replayed_where_it_came_and_any_other_is_left_out() -> None:
    foreign = ReasoningBlock(raw={"type": "thinking", "thinking": "hm", "signature": "s"})
    for key in ("reasoning_content", "reasoning"):
        asked = request(assistant(foreign, ReasoningBlock(raw={key: "hm"}), call()), tool(result()))
        message, _ = WIRE.write(asked, ABLE)["messages"]
        assert message.keys() == {"role", "content", "tool_calls", key}
        assert message[key] == "hm"
    assert body(assistant(foreign))["messages"] == []


@pytest.mark.req("PROVIDER-2")
def test_an_unknown_part_of_what_the_user_sent_returns_to_its_own_server_only() -> None:
    audio = {"type": "input_audio", "input_audio": {"data": "aGk=", "format": "wav"}}
    own, foreign = (UnknownBlock(provider=name, raw=audio) for name in ("openai_chat", "anthropic"))
    message = Message(role="user", blocks=(TextBlock(text="hear"), own, foreign))
    note = {"type": "text", "text": UNKNOWN_NOTE}
    assert body(message)["messages"][0]["content"] == [{"type": "text", "text": "hear"}, audio, note]
    assert said(body(Message(role="user", blocks=(UnknownBlock(provider="x", raw=3),)))) == [("user", UNKNOWN_NOTE)]


SIGNED = {"extra_content": {"google": {"thought_signature": "sig"}}, "function": {"strict": True}}


@pytest.mark.req("PROVIDER-2")
def test_what_a_server_gave_its_calls_returns_to_it_while_it_waits_for_the_results() -> None:
    def kept(provider: str = "openai_chat") -> UnknownBlock:
        return UnknownBlock(provider=provider, raw={"tool_call_extra": SIGNED})

    def sent(*more: Message, provider: str = "openai_chat") -> list[Any]:
        asked = assistant(call("a"), kept(provider), call("b:0"))
        answered = tool(result(call_id="a"), result(call_id="b:0"))
        written = WIRE.write(request(say("user", "hi"), asked, answered, *more), ABLE)
        return list(written["messages"][1]["tool_calls"])

    bare, signed = sent()
    assert bare.keys() == {"id", "type", "function"}
    assert signed["extra_content"] == SIGNED["extra_content"]
    assert signed["function"] == {"strict": True, **bare["function"]}
    assert signed["id"] not in ("a", "b:0")
    assert all(each.keys() == bare.keys() for each in sent(say("assistant", "ok"), say("user", "next")))
    assert all(each.keys() == bare.keys() for each in sent(provider="perplexity"))


@pytest.mark.parametrize("model_id", ["mistral-large-latest", "mistralai/Mixtral-8x7B-Instruct", "codestral-2508"])
def test_models_of_mistral_get_the_ids_they_take(model_id: str) -> None:
    talk = (assistant(call("toolu_01"), call("toolu_02"), call("AbC123xyz")), tool(result(call_id="toolu_02")))
    prompt = Prompt(system=(), messages=(say("user", "hi"), *talk, say("user", "so?")))
    written = WIRE.write(ProviderRequest(model_id=model_id, prompt=prompt), ABLE)["messages"]
    ids = [each["id"] for each in written[1]["tool_calls"]]
    assert all(re.fullmatch("[A-Za-z0-9]{9}", each) for each in ids)
    assert len({*ids}) == 3
    assert ids[2] == "AbC123xyz"
    assert [each["tool_call_id"] for each in written[2:5]] == ids
    assert written[3]["content"] == "sunny"
