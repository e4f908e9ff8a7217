from __future__ import annotations

import base64
import json
from time import thread_time
from typing import Any

import pytest
from msgspec.structs import replace

from contextinfinity.dialects.contract import IncomingRequest
from contextinfinity.dialects.openai_chat import OpenAIChat
from contextinfinity.dialects.openai_chat.reading import OPTION_NAMES
from contextinfinity.domain.message import (
    REFUSAL,
    ContentBlock,
    ImageBlock,
    Message,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    say,
)
from contextinfinity.domain.prompt import RequestOptions, ToolSpec
from contextinfinity.errors import InvalidInput
from tests.cases import each

pytestmark = pytest.mark.req("API-7")

HI: list[Any] = [{"role": "user", "content": "hi"}]
PIXEL = base64.b64encode(b"\x89PNG\r\n\x1a\n not really").decode()
WEATHER = {"name": "weather", "description": "Tells it.", "parameters": {"type": "object", "properties": {}}}


def sent(**parameters: Any) -> bytes:
    return json.dumps({"model": "m", "messages": HI, **parameters}).encode()


def read(**parameters: Any) -> IncomingRequest:
    return OpenAIChat().read(sent(**parameters))


def said(*messages: Any) -> tuple[Message, ...]:
    return read(messages=list(messages)).messages


def refused(**parameters: Any) -> str:
    with pytest.raises(InvalidInput) as caught:
        read(**parameters)
    return str(caught.value)


def blocks(message: Any) -> tuple[ContentBlock, ...]:
    (only,) = said(message)
    return only.blocks


def test_a_plain_request_is_a_model_and_what_was_said() -> None:
    least = IncomingRequest(model="m", messages=(say("user", "hi"),))
    sent = {"form": "chat", "system": []}
    assert read() == replace(least, option_names=OPTION_NAMES, form="chat", sent=sent, params={})


def test_system_texts_in_front_are_taken_out_and_later_ones_keep_their_place() -> None:
    asked = read(
        messages=[
            {"role": "system", "content": "Be short."},
            *HI,
            {
                "role": "developer",
                "content": [{"type": "text", "text": "Be kind."}, {"type": "text", "text": "Rhyme."}],
            },
            {"role": "assistant", "content": "hello"},
        ]
    )
    assert asked.system == "Be short."
    assert [message.role for message in asked.messages] == ["user", "system", "assistant"]
    assert asked.messages[1].rendered_text == "Be kind.Rhyme."


def test_parts_of_text_are_blocks_and_empty_ones_are_none() -> None:
    parts = [{"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}, {"type": "text", "text": ""}]
    assert blocks({"role": "user", "content": parts}) == (TextBlock(text="a"),)


@pytest.mark.parametrize("answer", [{"content": ""}, {"content": None}, {}, {"content": []}, {"content": "", "x": 1}])
def test_an_empty_answer_is_the_same_however_it_is_sent(answer: Any) -> None:
    assert blocks({"role": "assistant", **answer}) == ()


@pytest.mark.parametrize("url", [f"data:image/png;base64,{PIXEL}", f"data:image/png;base64,{PIXEL[:8]}\n{PIXEL[8:]}"])
def test_a_picture_in_the_request_keeps_its_bytes(url: str) -> None:
    image = ImageBlock(media_type="image/png", source={"type": "base64", "data": PIXEL})
    assert blocks({"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]}) == (image,)
    assert blocks({"role": "user", "content": [{"type": "image_url", "image_url": url}]}) == (image,)


def test_a_picture_elsewhere_keeps_its_address_and_how_closely_to_look() -> None:
    shown = {"url": "https://example.com/a.png", "detail": "low"}
    assert blocks({"role": "user", "content": [{"type": "image_url", "image_url": shown}]}) == (
        ImageBlock(media_type="", source={"type": "url", "url": "https://example.com/a.png", "detail": "low"}),
    )


def test_a_common_other_name_of_jpeg_is_understood() -> None:
    url = f"data:image/jpg;base64,{PIXEL}"
    (image,) = blocks({"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]})
    assert isinstance(image, ImageBlock)
    assert image.media_type == "image/jpeg"


def test_calls_and_their_results_are_kept_with_their_ids() -> None:
    call = {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Rome"}'}}
    assert without_form(
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_1", "content": "sunny"},
        {"role": "tool", "tool_call_id": "call_2", "content": [{"type": "text", "text": "warm"}]},
    ) == (
        Message(role="assistant", blocks=(ToolUseBlock(tool_use_id="call_1", name="weather", input={"city": "Rome"}),)),
        Message(role="user", blocks=(ToolResultBlock(tool_use_id="call_1", content=(TextBlock(text="sunny"),)),)),
        Message(role="user", blocks=(ToolResultBlock(tool_use_id="call_2", content=(TextBlock(text="warm"),)),)),
    )


def without_form(*messages: dict[str, Any]) -> tuple[Message, ...]:
    return tuple(replace(message, wire=None) for message in said(*messages))


def test_words_stand_before_the_calls_that_follow_them() -> None:
    call = {"id": "c", "function": {"name": "weather", "arguments": ""}}
    assert blocks({"role": "assistant", "content": "Let me see.", "tool_calls": [call]}) == (
        TextBlock(text="Let me see."),
        ToolUseBlock(tool_use_id="c", name="weather", input={}),
    )


@pytest.mark.parametrize(
    "written",
    [
        "{broken",
        "[" * 50_000,
        "[" * 150 + "]" * 150,
        '{"a":' + "7" * 2000 + "}",
    ],
)
def test_arguments_that_cannot_be_kept_as_json_stay_the_text_they_are(written: str) -> None:
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": written}}
    (block,) = blocks({"role": "assistant", "tool_calls": [call]})
    assert isinstance(block, ToolUseBlock)
    assert block.input == written


def test_long_arguments_are_read_all_the_same() -> None:
    arguments = {"text": "x" * 5000, "list": [[n] for n in range(200)]}
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": json.dumps(arguments)}}
    (block,) = blocks({"role": "assistant", "tool_calls": [call]})
    assert isinstance(block, ToolUseBlock)
    assert block.input == arguments


def test_calls_of_the_old_kind_go_by_the_name_of_their_function() -> None:
    asked = read(
        messages=[
            {"role": "assistant", "content": None, "function_call": {"name": "weather", "arguments": "{}"}},
            {"role": "function", "name": "weather", "content": "sunny"},
        ],
        functions=[WEATHER],
        function_call={"name": "weather"},
    )
    assert [message.blocks for message in asked.messages] == [
        (ToolUseBlock(tool_use_id="weather", name="weather", input={}),),
        (ToolResultBlock(tool_use_id="weather", content=(TextBlock(text="sunny"),)),),
    ]
    assert [tool.name for tool in asked.tools] == ["weather"]
    assert asked.request_options.tool_choice == ":weather"


def test_a_refusal_is_kept_as_one() -> None:
    declined = TextBlock(text="No.", annotations=(REFUSAL,))
    assert blocks({"role": "assistant", "content": None, "refusal": "No."}) == (declined,)
    assert blocks({"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]}) == (declined,)


def test_tools_are_read_with_their_schema() -> None:
    asked = read(
        tools=[
            {"type": "function", "function": {**WEATHER, "strict": True}},
            {"type": "function", "function": {"name": "time"}},
        ]
    )
    assert asked.tools == (
        ToolSpec(name="weather", description="Tells it.", parameters=WEATHER["parameters"]),
        ToolSpec(name="time", description="", parameters={"type": "object", "properties": {}}),
    )
    assert asked.ignored == ("tools.function.strict",)


@pytest.mark.parametrize(
    ("choice", "wish"),
    [
        ("auto", "auto"),
        ("none", "none"),
        ("required", "required"),
        ({"type": "function", "function": {"name": "weather"}}, ":weather"),
        (None, None),
    ],
)
def test_which_tool_to_call_is_a_wish(choice: Any, wish: str | None) -> None:
    asked = read(tools=[{"type": "function", "function": WEATHER}], tool_choice=choice)
    assert asked.request_options.tool_choice == wish


def test_every_parameter_that_means_something_is_a_wish() -> None:
    asked = read(
        temperature=0,
        top_p=0.5,
        top_k=40,
        stop=["END", ""],
        seed=-7,
        presence_penalty=-2,
        frequency_penalty=1.5,
        max_tokens=10,
        max_completion_tokens=20,
        parallel_tool_calls=False,
        reasoning_effort="low",
    )
    assert asked.request_options == RequestOptions(
        temperature=0.0,
        top_p=0.5,
        top_k=40,
        stop=("END",),
        seed=-7,
        presence_penalty=-2.0,
        frequency_penalty=1.5,
        max_output_tokens=20,
        parallel_tools=False,
        effort="low",
    )
    assert not asked.ignored


def test_one_text_to_stop_at_may_stand_alone_and_an_old_limit_counts() -> None:
    assert read(stop="END", max_tokens=10).request_options == RequestOptions(stop=("END",), max_output_tokens=10)


@pytest.mark.parametrize(
    ("form", "schema"),
    [
        ({"type": "text"}, None),
        ({"type": "json_object"}, {"type": "object"}),
        ({"type": "json_schema", "json_schema": {"name": "a", "schema": {"type": "array"}}}, {"type": "array"}),
        ({"type": "json_schema", "json_schema": {"name": "a"}}, {"type": "object"}),
    ],
)
def test_the_form_of_the_answer_is_a_schema(form: Any, schema: Any) -> None:
    assert read(response_format=form).response_format == schema


def test_a_stream_tells_what_it_took_only_where_it_is_asked_to() -> None:
    assert read(stream=True).stream
    assert not read(stream=True).with_usage
    assert read(stream=True, stream_options={"include_usage": True}).with_usage
    assert not read(stream=True, stream_options={"include_usage": False}).with_usage
    assert not read(stream_options={"include_usage": True}).with_usage


@pytest.mark.parametrize(
    ("parameters", "end_user"),
    [
        ({"user": "ann", "safety_identifier": "x", "metadata": {"user_id": "y"}}, "ann"),
        ({"user": "", "safety_identifier": "ann"}, "ann"),
        ({"metadata": {"user_id": "ann"}}, "ann"),
        ({}, ""),
    ],
)
def test_who_speaks_is_read_from_wherever_applications_say_it(parameters: Any, end_user: str) -> None:
    asked = read(**parameters)
    assert asked.end_user == end_user
    assert not asked.ignored


def test_a_thread_may_be_named_and_other_notes_are_passed_over() -> None:
    asked = read(metadata={"thread_id": "t-1", "trace": "x"})
    assert asked.thread_id == "t-1"
    assert asked.ignored == ("metadata",)


def test_what_means_nothing_here_is_named_and_does_not_fail() -> None:
    asked = read(
        messages=[{"role": "user", "name": "Ann", "content": "hi"}],
        store=True,
        service_tier="flex",
        prompt_cache_key="k",
        prediction={"type": "content", "content": "x"},
        verbosity="low",
        logit_bias={"50256": -100},
        reasoning={"effort": "high"},
        some_new_thing=[1, 2],
    )
    assert asked.messages[0].blocks == say("user", "hi").blocks
    assert asked.ignored == (
        *("store", "service_tier", "prompt_cache_key", "prediction", "verbosity", "logit_bias", "reasoning"),
        *("some_new_thing", "messages.name"),
    )


def test_that_a_result_names_its_tool_is_nothing_to_ignore() -> None:
    assert not read(messages=[{"role": "tool", "tool_call_id": "c", "name": "weather", "content": "sunny"}]).ignored


def test_parameters_at_their_defaults_are_not_worth_a_word() -> None:
    asked = read(
        store=False,
        service_tier="auto",
        verbosity="medium",
        logit_bias={},
        modalities=["text"],
        n=1,
        logprobs=False,
        top_logprobs=0,
        audio=None,
        top_k=-1,
        tools=None,
        stop=None,
        unheard_of=None,
    )
    assert replace(asked, params={}) == read()


def test_what_is_named_as_ignored_can_be_shown_anywhere() -> None:
    asked = read(**{"a\nb": 1, "x" * 500: 1, **{f"p{n}": 1 for n in range(1000)}})
    assert len(asked.ignored) == 32
    assert all(name.isalnum() and len(name) <= 64 for name in asked.ignored)


def user(content: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": content}]}


def assistant(**fields: Any) -> dict[str, Any]:
    return {"messages": [*HI, {"role": "assistant", **fields}]}


TOOLS = [{"type": "function", "function": WEATHER}]
DEEP: Any = {}
for _ in range(150):
    DEEP = {"properties": {"a": DEEP}}


@each(
    ("parameters", "path", "right"),
    [
        ({"model": None}, "model", "a string of 1 to 128"),
        ({"messages": None}, "messages", "a list, got nothing"),
        ({"messages": []}, "messages", "at least one"),
        ({"messages": [*HI, "x"]}, "messages[1]", "an object, got the text 'x'"),
        ({"messages": [{"role": "robot"}]}, "messages[0].role", "system, developer, user, assistant, tool, function"),
        (user(None), "messages[0].content", "a string or a list of parts, got nothing"),
        (user(7), "messages[0].content", "a string or a list of parts, got 7"),
        (user(["x"]), "messages[0].content[0]", "an object"),
        (user([{"type": "text", "text": "a"}, {"type": "video"}]), "messages[0].content[1].type", "text, image_url"),
        (user([{"type": "text", "text": 1}]), "messages[0].content[0].text", "a string"),
        (user([{"type": ["text"]}]), "messages[0].content[0].type", "got a list"),
        (user([{"type": "image_url"}]), "messages[0].content[0].image_url", "an object"),
        (
            user([{"type": "image_url", "image_url": {"url": "file:///etc/passwd"}}]),
            "messages[0].content[0].image_url.url",
            "https://",
        ),
        (
            user([{"type": "image_url", "image_url": {"url": "data:text/plain;base64,YQ=="}}]),
            "messages[0].content[0].image_url.url",
            "image/png",
        ),
        (
            user([{"type": "image_url", "image_url": "data:image/png;base64,a"}]),
            "messages[0].content[0].image_url",
            "base64",
        ),
        (assistant(tool_calls={}), "messages[1].tool_calls", "a list"),
        (assistant(tool_calls=[{}]), "messages[1].tool_calls[0].id", "a string"),
        (assistant(tool_calls=[{"id": "a", "type": "custom"}]), "messages[1].tool_calls[0].type", "function"),
        (assistant(tool_calls=[{"id": "a"}]), "messages[1].tool_calls[0].function", "an object"),
        (
            assistant(tool_calls=[{"id": "a", "function": {"name": ""}}]),
            "messages[1].tool_calls[0].function.name",
            "1 to 128",
        ),
        (
            assistant(tool_calls=[{"id": "a", "function": {"name": "f", "arguments": 7}}]),
            "messages[1].tool_calls[0].function.arguments",
            "a JSON text",
        ),
        (assistant(audio={"id": "a"}), "messages[1].audio", "audio answers"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "messages[0].tool_call_id", "a string"),
        ({"tools": [{"type": "custom", "custom": {"name": "x"}}]}, "tools[0].type", "JSON schema"),
        ({"tools": [{"type": "function"}]}, "tools[0].function", "an object"),
        (
            {"tools": [{"type": "function", "function": {"name": "a", "parameters": []}}]},
            "tools[0].function.parameters",
            "an object",
        ),
        (
            {"tools": [{"type": "function", "function": {"name": "a", "parameters": DEEP}}]},
            "tools[0].function.parameters",
            "100 levels",
        ),
        ({"tools": TOOLS, "tool_choice": {"type": "allowed_tools"}}, "tool_choice.type", "function"),
        ({"tools": TOOLS, "tool_choice": "any"}, "tool_choice", "none, auto, required"),
        (
            {"tools": TOOLS, "tool_choice": {"type": "function", "function": {"name": "x"}}},
            "tool_choice",
            "not among the tools",
        ),
        ({"tool_choice": "required"}, "tool_choice", "no tools"),
        ({"response_format": {"type": "xml"}}, "response_format.type", "json_schema"),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"schema": 1}}},
            "response_format.json_schema.schema",
            "object",
        ),
        ({"temperature": 3}, "temperature", "0 to 2"),
        ({"temperature": True}, "temperature", "0 to 2"),
        ({"max_tokens": 0}, "max_tokens", "an integer"),
        ({"stop": ["a", 1]}, "stop[1]", "a string"),
        ({"stop": ["a"] * 17}, "stop", "at most 16"),
        ({"reasoning_effort": "huge"}, "reasoning_effort", "minimal"),
        ({"stream": "yes"}, "stream", "true or false"),
        ({"stream": True, "stream_options": []}, "stream_options", "an object"),
        ({"user": "x" * 129}, "user", "1 to 128"),
        ({"metadata": "x"}, "metadata", "an object"),
        ({"metadata": {"thread_id": 7}}, "metadata.thread_id", "a string"),
        ({"metadata": {"user_id": []}}, "metadata.user_id", "a string"),
    ],
)
def test_what_is_wrong_is_named_with_its_place_and_what_would_be_right(parameters: Any, path: str, right: str) -> None:
    told = refused(**parameters)
    assert told.startswith(f"{path}: ")
    assert right in told


@each(
    "body",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b'"x"',
        b"\xff\xfe",
        b'{"model":"\xff"}',
        b'{"model":"\\ud800"}',
        b'{"model":"m","messages":[{"role":"user","content":"a \\udc00 b"}]}',
        b'{"n":' + b"1" * 5000 + b"}",
        b'{"n":1e999}',
        b"[" * 10_000 + b"]" * 10_000,
        b'{"messages":' + b"[" * 10_000 + b"]" * 10_000 + b"}",
        b'{"n":' + b"[" * 900 + b"]" * 900 + b"}",
        b'{"n":' + b'{"\\u0000":' * 300 + b"1" + b"}" * 300 + b"}",
    ],
)
def test_a_body_that_is_no_request_is_refused_and_breaks_nothing(body: bytes) -> None:
    with pytest.raises(InvalidInput):
        OpenAIChat().read(body)


@pytest.mark.req("API-3")
def test_a_nul_is_no_text_and_its_place_is_named() -> None:
    assert refused(**user([{"type": "text", "text": "a\0b"}])).startswith("messages[0].content[0].text: ")
    assert refused(metadata={"a": [{"b\0": 1}]}).startswith("metadata.a[0]: ")
    assert read(**user("a\\u0000b")).messages == (say("user", "a\\u0000b"),)


def test_a_huge_conversation_is_read() -> None:
    many = [{"role": "user" if place % 2 else "assistant", "content": str(place)} for place in range(100_000)]
    asked = read(messages=many)
    assert len(asked.messages) == 100_000
    assert asked.messages[-1] == say("user", "99999")
    assert refused(messages=[*many, {}]).startswith("messages[100000].role: ")


def test_a_nul_among_many_values_under_a_long_name_is_found_quickly() -> None:
    body = json.dumps({"a": "\0", "x" * 1_000_000: [0] * 100_000}).encode()
    began = thread_time()
    with pytest.raises(InvalidInput, match=r"^a: "):
        OpenAIChat().read(body)
    assert thread_time() - began < 5
