"""What is written to OpenAI's Responses."""

from __future__ import annotations

import functools
import json
from typing import Any, get_type_hints

import msgspec
import pytest
from openai.types.responses import ResponseInputItemParam, ToolParam
from openai.types.responses.response_create_params import ResponseCreateParamsStreaming
from openai.types.responses.response_text_config_param import ResponseTextConfigParam
from pydantic import TypeAdapter

from contextinfinity.domain.message import (
    ImageBlock,
    Message,
    ReasoningBlock,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    UnknownBlock,
    blob_source,
    say,
)
from contextinfinity.domain.prompt import Abilities, Prompt, ProviderRequest, ToolSpec
from contextinfinity.errors import ProviderError
from contextinfinity.providers.contract import Wire
from contextinfinity.providers.openai_responses import ResponsesWire
from contextinfinity.providers.wire_values import ERROR_MARK, IMAGE_NOTE

ABLE = Abilities(context_limit=100_000, max_output_tokens=2_000, images=True, reasoning=True, known=True)
CLOSED = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": False}
TOOL = ToolSpec(name="weather", description="Tells the weather.", parameters={"type": "object", "properties": {}})
PICTURE = ImageBlock(media_type="image/png", source={"type": "base64", "data": "aGk="})
THOUGHT: dict[str, Any] = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "secret"}
WIRE = ResponsesWire()


def request(*messages: Message, system: tuple[str, ...] = (), **more: Any) -> ProviderRequest:
    of_prompt = {key: more.pop(key) for key in ("tools", "response_format", "markers") if key in more}
    return ProviderRequest(model_id="gpt-6-astra", prompt=Prompt(system=system, messages=messages, **of_prompt), **more)


def body(*messages: Message, wire: ResponsesWire = WIRE, able: Abilities = ABLE, **more: Any) -> dict[str, Any]:
    written = wire.write(request(*messages, **more), able)
    check(written)
    return written


@functools.cache
def adapters() -> tuple[TypeAdapter[Any], ...]:
    return tuple(TypeAdapter(each) for each in (list[ResponseInputItemParam], list[ToolParam], ResponseTextConfigParam))


def check(written: dict[str, Any]) -> None:
    """Hold a body against the types of OpenAI's own SDK."""
    assert written.keys() <= get_type_hints(ResponseCreateParamsStreaming).keys()
    items, tools, text = adapters()
    items.validate_python(written["input"], strict=True)
    tools.validate_python(written.get("tools", []))
    text.validate_python(written.get("text", {}))
    assert msgspec.json.decode(msgspec.json.encode(written)) == written


def assistant(*blocks: Any) -> Message:
    return Message(role="assistant", blocks=blocks)


def call(call_id: str = "call_1", arguments: Any = None) -> ToolUseBlock:
    return ToolUseBlock(tool_use_id=call_id, name="weather", input={"city": "Rome"} if arguments is None else arguments)


def result(*blocks: Any, call_id: str = "call_1", **more: Any) -> ToolResultBlock:
    return ToolResultBlock(tool_use_id=call_id, content=blocks or (TextBlock(text="sunny"),), **more)


def said(written: dict[str, Any]) -> list[tuple[str, str]]:
    """Read a body back: who says what, in order."""
    return [_said(item) for item in written["input"]]


def _said(item: dict[str, Any]) -> tuple[str, str]:
    if item["type"] == "message":
        content = item["content"]
        text = content if isinstance(content, str) else "".join(part["text"] for part in content)
        return {"developer": "system"}.get(item["role"], item["role"]), text
    if item["type"] == "function_call":
        return "call", item["arguments"]
    return "tool", item["output"]


def test_it_is_a_wire() -> None:
    wire: Wire = WIRE
    assert wire.path("some-model") == "/responses"


@pytest.mark.req("PROVIDER-3")
def test_the_same_texts_go_out_in_the_same_roles_and_order() -> None:
    written = body(
        say("user", "the summary"),
        say("assistant", "I know."),
        say("user", "weather?"),
        assistant(TextBlock(text="I look."), call()),
        Message(role="tool", blocks=(result(),)),
        say("assistant", "Sunny."),
        say("system", "be short"),
        Message(role="user", blocks=(TextBlock(text="and "), TextBlock(text="tomorrow?"))),
        system=("rules", "pins"),
    )
    assert said(written) == [
        ("system", "rules"),
        ("system", "pins"),
        ("user", "the summary"),
        ("assistant", "I know."),
        ("user", "weather?"),
        ("assistant", "I look."),
        ("call", '{"city":"Rome"}'),
        ("tool", "sunny"),
        ("assistant", "Sunny."),
        ("system", "be short"),
        ("user", "and tomorrow?"),
    ]


@pytest.mark.req("PROVIDER-3")
def test_results_that_a_client_brings_go_before_its_words() -> None:
    message = Message(role="user", blocks=(TextBlock(text="thanks"), result()))
    assert said(body(assistant(call()), message))[1:] == [("tool", "sunny"), ("user", "thanks")]


@pytest.mark.req("PROVIDER-4")
def test_a_request_says_all_that_it_depends_on() -> None:
    written = body(say("user", "hi"), cache_key="branch-1", tools=(TOOL,))
    assert written["stream"] is True
    assert written["store"] is False
    assert written["truncation"] == "disabled"
    assert written["parallel_tool_calls"] is False
    assert written["prompt_cache_key"] == "branch-1"
    assert written["tools"][0]["strict"] is False
    assert ResponsesWire(parallel_tools=True).write(request(tools=(TOOL,)), ABLE)["parallel_tool_calls"] is True


@pytest.mark.req("PROVIDER-4")
@pytest.mark.parametrize(("asked", "sent"), [(500, 500), (5_000, 2_000), (1, 16)])
def test_the_answer_is_bounded_by_the_request_and_by_the_model(asked: int, sent: int) -> None:
    assert body(say("user", "hi"), max_output_tokens=asked)["max_output_tokens"] == sent


@pytest.mark.req("PROVIDER-8")
def test_without_tools_no_key_of_tools_is_sent() -> None:
    options = {"tool_choice": "auto", "max_tool_calls": 3}
    assert not {key for key in body(say("user", "hi"), options=options) if "tool" in key}
    none = msgspec.structs.replace(ABLE, tools=False)
    assert "tools" not in body(say("user", "hi"), able=none, tools=(TOOL,))


@pytest.mark.req("PROVIDER-8")
def test_a_tool_of_the_provider_is_asked_for_only_where_it_is_configured() -> None:
    search = {"type": "web_search"}
    with pytest.raises(ProviderError, match=r"tools cannot be set here: .*use provider_tools"):
        body(say("user", "hi"), options={"tools": [search]}, tools=(TOOL,))
    wire = ResponsesWire(provider_tools=(search,))
    offered = body(say("user", "hi"), wire=wire, tools=(TOOL,))["tools"]
    assert [tool["type"] for tool in offered] == ["function", "web_search"]


@pytest.mark.req("PROVIDER-7")
@pytest.mark.parametrize("name", ["previous_response_id", "conversation", "background", "prompt"])
def test_what_makes_the_provider_remember_is_refused(name: str) -> None:
    asked = request(say("user", "hi"), options={name: "resp_1"})
    with pytest.raises(ProviderError, match=name) as caught:
        WIRE.write(asked, ABLE)
    assert caught.value.kind == "bad_request"
    assert ResponsesWire(allow_upstream_state=True).write(asked, ABLE)[name] == "resp_1"
    assert not WIRE.write(request(say("user", "hi"), options={name: None}), ABLE)[name]


@pytest.mark.req("PROVIDER-1")
def test_options_are_passed_on_but_never_over_what_the_engine_owns() -> None:
    options = {
        "temperature": 0.5,
        "text": {"verbosity": "low", "format": {"type": "text"}},
        "include": ["web_search_call.action.sources"],
    }
    written = body(say("user", "hi"), options=options, response_format=CLOSED)
    assert written["temperature"] == 0.5
    assert (written["text"]["verbosity"], written["text"]["format"]["schema"]) == ("low", CLOSED)
    assert written["include"] == ["reasoning.encrypted_content", "web_search_call.action.sources"]
    with pytest.raises(ProviderError, match=r"^openai: the options are not a table"):
        WIRE.write(request(options=["no table"]), ABLE)


@pytest.mark.req("PROVIDER-4")
@pytest.mark.parametrize(
    "name", ["input", "instructions", "model", "stream", "tools", "truncation", "store", "parallel_tool_calls"]
)
def test_an_option_that_could_not_hold_is_refused_by_name(name: str) -> None:
    with pytest.raises(ProviderError, match=f"^openai: the option {name} cannot be set here: ") as caught:
        WIRE.write(request(say("user", "hi"), options={name: True}), ABLE)
    assert caught.value.kind == "bad_request"
    assert caught.value.hint


@pytest.mark.req("PROVIDER-4", "BUDGET-2")
@pytest.mark.parametrize(("asked", "sent"), [(10**9, 2_000), (100, 100), (5, 16), (None, 2_000)])
def test_options_may_ask_for_a_shorter_answer_but_not_for_a_longer_one(asked: int | None, sent: int) -> None:
    assert body(say("user", "hi"), options={"max_output_tokens": asked})["max_output_tokens"] == sent


def test_a_schema_is_enforced_where_that_is_possible() -> None:
    open_schema = {**CLOSED, "required": []}
    nested = {**CLOSED, "properties": {"a": {"type": "array", "items": {"type": "object", "properties": {}}}}}
    for schema, strict in ((CLOSED, True), (open_schema, False), (nested, False), ({**CLOSED, "allOf": []}, False)):
        made = body(say("user", "hi"), response_format=schema)["text"]["format"]
        assert (made["type"], made["schema"], made["strict"]) == ("json_schema", schema, strict)


@pytest.mark.req("LEDGER-2")
def test_pictures_go_out_where_the_model_sees_and_a_note_where_not() -> None:
    link = ImageBlock(media_type="image/png", source={"type": "url", "url": "https://example.org/a.png"})
    kept = ImageBlock(media_type="image/png", source=blob_source("ab"))
    message = Message(role="user", blocks=(PICTURE, link, kept))
    sent = body(message)["input"][0]["content"]
    assert [part.get("image_url") for part in sent] == ["data:image/png;base64,aGk=", "https://example.org/a.png", None]
    assert sent[2]["text"] == IMAGE_NOTE
    blind = body(message, able=Abilities())["input"][0]["content"]
    assert [part["text"] for part in blind] == [IMAGE_NOTE] * 3


@pytest.mark.req("LEDGER-2")
def test_a_result_is_text_or_a_list_with_pictures_and_says_when_it_is_an_error() -> None:
    nested = result(TextBlock(text="out: "), result(TextBlock(text="in")))
    shown = result(TextBlock(text="see"), PICTURE, call_id="call_2")
    failed = result(TextBlock(text="no such city"), call_id="call_3", is_error=True)
    calls = assistant(call(), call("call_2"), call("call_3"))
    outputs = [
        item["output"] for item in body(calls, Message(role="tool", blocks=(nested, shown, failed)))["input"][3:]
    ]
    assert outputs[0] == "out: in"
    assert [part["type"] for part in outputs[1]] == ["input_text", "input_image"]
    assert outputs[2] == ERROR_MARK + "no such city"


@pytest.mark.parametrize(
    ("arguments", "sent"),
    [
        ("not json {", {"arguments": "not json {"}),
        ([1], {"arguments": [1]}),
        (None, {}),
        ({"a": "ü"}, {"a": "ü"}),
    ],
)
def test_arguments_of_any_kind_are_sent_as_an_object(arguments: Any, sent: Any) -> None:
    block = ToolUseBlock(tool_use_id="call_1", name="weather", input=arguments)
    assert json.loads(body(assistant(block))["input"][0]["arguments"]) == sent


@pytest.mark.req("PROVIDER-4")
def test_reasoning_of_openai_is_replayed_and_any_other_is_left_out() -> None:
    foreign = ReasoningBlock(raw={"type": "thinking", "thinking": "hm", "signature": "s"})
    chat = ReasoningBlock(raw={"reasoning_content": "hm"})
    bare = ReasoningBlock(raw={"type": "reasoning", "id": "rs_2", "summary": []})
    answered = Message(role="tool", blocks=(result(),))
    written = body(assistant(foreign, chat, bare, ReasoningBlock(raw={**THOUGHT, "status": None}), call()), answered)
    assert [item["type"] for item in written["input"]] == ["reasoning", "function_call", "function_call_output"]
    assert written["input"][0] == THOUGHT
    assert written["include"] == ["reasoning.encrypted_content"]
    stored = body(assistant(bare, call()), answered, wire=ResponsesWire(store=True))
    assert [item["type"] for item in stored["input"]] == ["reasoning", "function_call", "function_call_output"]
    assert "include" not in stored


def test_the_phase_of_an_answer_is_sent_back() -> None:
    first = TextBlock(text="Let me look.", annotations=({"type": "phase", "phase": "commentary"},))
    last = TextBlock(text="Done.", annotations=({"type": "phase", "phase": "final_answer"},))
    items = body(assistant(first, last, TextBlock(text="More.")))["input"]
    assert [(item["content"], item.get("phase")) for item in items] == [
        ("Let me look.", "commentary"),
        ("Done.", "final_answer"),
        ("More.", None),
    ]


@pytest.mark.req("PROVIDER-2")
def test_an_unknown_item_returns_to_its_own_provider_inside_the_running_loop() -> None:
    search = {
        "type": "web_search_call",
        "id": "ws_1",
        "status": "completed",
        "action": {"type": "search", "query": "x"},
    }
    own = UnknownBlock(provider="openai", raw=search)
    others = (UnknownBlock(provider="anthropic", raw=search), UnknownBlock(provider="openai", raw={"type": "new"}))
    asked = assistant(own, *others, call())
    answered = Message(role="tool", blocks=(result(),))
    running = body(say("user", "hi"), asked, answered)["input"]
    assert [item["type"] for item in running] == [
        "message",
        "web_search_call",
        "function_call",
        "function_call_output",
    ]
    over = body(say("user", "hi"), asked, answered, say("assistant", "ok"), say("user", "next"))["input"]
    assert "web_search_call" not in [item["type"] for item in over]


def test_calls_from_elsewhere_get_ids_that_openai_takes() -> None:
    strange = "toolu:" + "x" * 80
    items = body(assistant(call(strange)), Message(role="tool", blocks=(result(call_id=strange),)))["input"]
    assert items[0]["call_id"] == items[1]["call_id"] != strange
    assert len(items[0]["call_id"]) <= 64


def test_a_long_conversation_begins_with_the_bytes_of_a_shorter_one() -> None:
    turns = [say("user", "a"), assistant(TextBlock(text="b"), call("x:1")), Message(role="tool", blocks=(result(),))]
    short, long = body(*turns), body(*turns, say("assistant", "c"), say("user", "d"))
    assert long["input"][: len(short["input"])] == short["input"]
