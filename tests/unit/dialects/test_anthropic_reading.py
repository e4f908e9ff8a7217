"""Requests of Anthropic's clients, read as ours."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from msgspec.structs import replace

from contextinfinity.dialects.anthropic import AnthropicMessages
from contextinfinity.dialects.anthropic.reading import OPTION_NAMES
from contextinfinity.dialects.contract import Dialect, IncomingRequest
from contextinfinity.domain.message import (
    ImageBlock,
    ReasoningBlock,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    UnknownBlock,
    say,
)
from contextinfinity.domain.prompt import RequestOptions, ToolSpec
from contextinfinity.domain.sent_form import MESSAGES, in_form
from contextinfinity.errors import InvalidInput
from tests.cases import each

pytestmark = pytest.mark.req("API-7")

DIALECT = AnthropicMessages()
PNG = "iVBORw0KGgo="
CALL = {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"city": "Zürich"}}
LOOK = {"name": "look", "description": "Looks.", "input_schema": {"type": "object", "properties": {}}}
SEARCH = {"type": "web_search_20250305", "name": "web_search", "max_uses": 5}
MARK = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}


def asked(**parameters: Any) -> dict[str, Any]:
    least = {"model": "claude-x", "max_tokens": 100, "messages": [{"role": "user", "content": "Hello"}]}
    return {**least, **parameters}


def read(**parameters: Any) -> IncomingRequest:
    return DIALECT.read(json.dumps(asked(**parameters)).encode())


def read_user(*blocks: Any) -> tuple[Any, ...]:
    return read(messages=[{"role": "user", "content": list(blocks)}]).messages[0].blocks


def read_assistant(*blocks: Any) -> tuple[Any, ...]:
    return read(messages=[{"role": "assistant", "content": list(blocks)}]).messages[0].blocks


def refusal(body: bytes) -> str:
    with pytest.raises(InvalidInput) as caught:
        DIALECT.read(body)
    return str(caught.value)


def refused(**parameters: Any) -> str:
    return refusal(json.dumps(asked(**parameters)).encode())


def test_it_is_a_dialect() -> None:
    dialect: Dialect = DIALECT
    assert dialect.read(json.dumps(asked()).encode()).model == "claude-x"


def test_the_least_request_is_read() -> None:
    least = IncomingRequest(
        model="claude-x", messages=(say("user", "Hello"),), request_options=RequestOptions(max_output_tokens=100)
    )
    assert read() == replace(least, option_names=OPTION_NAMES, form="messages", sent={"form": "messages"}, params={})


def test_system_texts_in_front_become_paragraphs_and_later_ones_keep_their_place() -> None:
    blocks = [
        {"type": "text", "text": "Be brief.", **MARK},
        {"type": "text", "text": " "},
        {"type": "text", "text": "Be kind."},
    ]
    messages = [
        {"role": "user", "content": "Hello"},
        {"role": "system", "content": "It is late."},
        {"role": "system", "content": [{"type": "text", "text": "Very."}]},
    ]
    incoming = read(system=blocks, messages=messages)
    assert incoming.system == "Be brief.\n\nBe kind."
    assert [message.role for message in incoming.messages] == ["user", "system", "system"]
    assert [written for one in incoming.messages for written in in_form(MESSAGES, one)] == messages
    assert incoming.sent == {"form": "messages", "system": blocks}
    assert read(system="Be brief.").system == "Be brief."
    assert read(system=None).system == ""


def test_messages_stay_as_they_were_sent() -> None:
    sent = [("user", "a"), ("user", "b"), ("assistant", "c"), ("assistant", "The answer is (")]
    messages = read(messages=[{"role": role, "content": text} for role, text in sent]).messages
    assert [(message.role, message.rendered_text) for message in messages] == sent


def test_nothing_said_is_no_block() -> None:
    sent = [{"role": "user", "content": ""}, {"role": "user", "content": []}, {"role": "user", "content": [text("")]}]
    assert [message.blocks for message in read(messages=sent).messages] == [(), (), ()]


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def test_a_marker_for_caches_changes_no_block_and_is_passed_on() -> None:
    unknown = {"type": "search_result", "title": "t", "source": "s", "content": [text("x")]}
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
    result = {"type": "tool_result", "tool_use_id": "1", "content": [text("x")]}
    plain = [text("a"), unknown, image, result]
    assert read_user(*plain) == read_user(*({**block, **MARK} for block in plain))
    marked = read(tools=[{**LOOK, **MARK}], **MARK)
    assert marked.tools == read(tools=[LOOK]).tools
    assert (marked.sent["tools"], marked.params) == ([{**LOOK, **MARK}], MARK)


def test_citations_stay_with_their_text() -> None:
    cited = {"type": "char_location", "cited_text": "x", "document_index": 0}
    assert read_assistant({**text("a"), "citations": [cited]}) == (TextBlock(text="a", annotations=(cited,)),)
    assert read_assistant({**text("a"), "citations": None}) == (TextBlock(text="a"),)


def test_pictures_are_read_with_their_bytes_or_their_address() -> None:
    inline = ImageBlock(media_type="image/png", source={"type": "base64", "data": PNG})
    afar = ImageBlock(media_type="", source={"type": "url", "url": "https://example.org/a.png"})
    lines = f"{PNG[:6]}\n{PNG[6:]}"
    assert read_user(
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": lines}},
        {"type": "image", "source": {"type": "url", "url": f"data:image/png;base64,{PNG}"}},
        {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}},
    ) == (inline, inline, inline, afar)


@pytest.mark.parametrize(
    ("source", "place"),
    [
        (None, "source: expected an object, found nothing"),
        ({"type": "base64", "media_type": "image/tiff", "data": PNG}, "source.media_type: expected image/jpeg or"),
        ({"type": "base64", "media_type": "image/png", "data": "abc"}, "source.data: expected the bytes"),
        ({"type": "base64", "media_type": "image/png", "data": ""}, "source.data: expected the bytes"),
        ({"type": "base64", "media_type": "image/png", "data": 7}, "source.data: expected a string, found a number"),
        ({"type": "url", "url": "file:///etc/passwd"}, "source.url: expected an address"),
        ({"type": "url", "url": "data:text/html;base64,aGk="}, "source.url: expected an image"),
    ],
)
def test_what_is_no_picture_is_refused(source: Any, place: str) -> None:
    message = {"role": "user", "content": [text("look"), {"type": "image", "source": source}]}
    assert refused(messages=[message]).startswith(f"messages.0.content.1.{place}")


def test_documents_of_text_become_text() -> None:
    plain = {"type": "text", "media_type": "text/plain", "data": "Once."}
    parts = {"type": "content", "content": [text("Twice."), text("Thrice.")]}
    assert read_user(
        {"type": "document", "source": plain, "title": "Tales", "context": "old", **MARK},
        {"type": "document", "source": plain, "title": None},
        {"type": "document", "source": parts},
        {"type": "document", "source": {"type": "content", "content": "As one."}},
    ) == tuple(
        TextBlock(text=words) for words in ("Tales\n\nold\n\n", "Once.", "Once.", "Twice.", "Thrice.", "As one.")
    )


def test_files_are_kept_as_they_came() -> None:
    pdf = {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": PNG}}
    asked = read(messages=[{"role": "user", "content": [pdf]}])
    assert asked.messages[0].blocks == (UnknownBlock(provider="anthropic", raw=pdf),)
    said = refused(messages=[{"role": "user", "content": [{"type": "document", "source": {"type": "scan"}}]}])
    assert said.startswith("messages.0.content.0.source.type: only documents")


def test_calls_and_results_are_read() -> None:
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
    results = [
        {"type": "tool_result", "tool_use_id": "1", "content": "fine"},
        {"type": "tool_result", "tool_use_id": "2", "content": [text("see"), picture, {"type": "tool_reference"}]},
        {"type": "tool_result", "tool_use_id": "3", "is_error": True},
        {"type": "tool_result", "tool_use_id": "4", "content": None, "is_error": None},
    ]
    inside = (
        TextBlock(text="see"),
        ImageBlock(media_type="image/png", source={"type": "base64", "data": PNG}),
        UnknownBlock(provider="anthropic", raw={"type": "tool_reference"}),
    )
    assert read_assistant(CALL) == (ToolUseBlock(tool_use_id="toolu_1", name="look", input={"city": "Zürich"}),)
    assert read_user(*results) == (
        ToolResultBlock(tool_use_id="1", content=(TextBlock(text="fine"),)),
        ToolResultBlock(tool_use_id="2", content=inside),
        ToolResultBlock(tool_use_id="3", is_error=True),
        ToolResultBlock(tool_use_id="4"),
    )


def test_thinking_keeps_its_signature() -> None:
    thinking = {"type": "thinking", "thinking": "hm", "signature": "sig"}
    unsigned = {"type": "thinking", "thinking": "hm"}
    redacted = {"type": "redacted_thinking", "data": "sealed"}
    assert read_assistant(thinking, unsigned, redacted) == (
        ReasoningBlock(encrypted_content="sig", raw=thinking),
        ReasoningBlock(raw=unsigned),
        ReasoningBlock(encrypted_content="sealed", raw=redacted),
    )


def test_blocks_that_nobody_knows_are_kept_word_for_word() -> None:
    used = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "x"}}
    assert read_assistant(used) == (UnknownBlock(provider="anthropic", raw=used),)


def test_tools_are_read_and_what_they_cannot_have_is_named() -> None:
    computer = {"type": "computer_20250124", "name": "computer", "display_width_px": 1}
    toolset = {"type": "mcp_toolset", "mcp_server_name": "m"}
    own = {"type": "custom", "name": "two", "input_schema": {}, "strict": True, "defer_loading": False}
    incoming = read(tools=[LOOK, SEARCH, computer, toolset, own])
    assert incoming.tools == (
        ToolSpec(name="look", description="Looks.", parameters=LOOK["input_schema"]),
        ToolSpec(name="two", description="", parameters={}),
    )
    assert incoming.ignored == ("tools.web_search", "tools.computer", "tools.mcp_toolset", "tools.strict")


@pytest.mark.parametrize(
    ("choice", "requested", "parallel"),
    [
        (None, None, None),
        ({"type": "auto"}, "auto", None),
        ({"type": "auto", "disable_parallel_tool_use": True}, "auto", False),
        ({"type": "any", "disable_parallel_tool_use": False}, "required", True),
        ({"type": "tool", "name": "look"}, ":look", None),
        ({"type": "none"}, "none", None),
    ],
)
def test_the_choice_of_a_tool_is_read(choice: Any, requested: str | None, parallel: bool | None) -> None:
    request_options = read(tools=[LOOK], tool_choice=choice).request_options
    assert (request_options.tool_choice, request_options.parallel_tools) == (requested, parallel)


def test_a_choice_without_tools_says_nothing() -> None:
    assert read(tool_choice={"type": "auto"}, tools=[SEARCH]).request_options == RequestOptions(max_output_tokens=100)


@pytest.mark.parametrize(
    ("choice", "place"),
    [
        ({"type": "tool", "name": "web_search"}, "tool_choice.name: this tool cannot be called here."),
        ({"type": "tool", "name": "else"}, "tool_choice.name: expected the name of one of the tools."),
        ({"type": "tool"}, "tool_choice.name: expected a string"),
        ({"type": "most"}, 'tool_choice.type: expected auto or any or tool or none, found "most"'),
        ("auto", "tool_choice: expected an object, found a string"),
        ({"type": "auto", "disable_parallel_tool_use": 1}, "tool_choice.disable_parallel_tool_use: expected true"),
    ],
)
def test_a_choice_that_cannot_be_followed_is_refused(choice: Any, place: str) -> None:
    assert refused(tools=[LOOK, SEARCH], tool_choice=choice).startswith(place)


def test_any_tool_of_none_is_refused() -> None:
    said = refused(tools=[SEARCH], tool_choice={"type": "any"})
    assert said.startswith("tool_choice.type: no tool is offered")
    assert "offer one of your own" in said


@pytest.mark.parametrize(
    ("tools", "place"),
    [
        ({}, "tools: expected a list, found an object"),
        ([LOOK, "x"], "tools.1: expected an object, found a string"),
        ([{"input_schema": {}}], "tools.0.name: expected a string, found nothing"),
        ([{"name": "a b", "input_schema": {}}], "tools.0.name: expected 1 to 128 letters"),
        ([{"name": "a"}], "tools.0.input_schema: expected an object, found nothing"),
        ([{"name": "a", "input_schema": {"type": "string"}}], "tools.0.input_schema.type: expected type object"),
        ([LOOK, LOOK], "tools: tool names must be unique"),
    ],
)
def test_what_is_no_tool_is_refused(tools: Any, place: str) -> None:
    assert refused(tools=tools).startswith(place)


def test_wishes_are_read() -> None:
    incoming = read(
        temperature=1,
        top_p=0.5,
        top_k=40,
        stop_sequences=["END", "\n\nHuman:"],
        thinking={"type": "enabled", "budget_tokens": 2048},
        output_config={"effort": "max", "format": {"type": "json_schema", "schema": {"type": "object"}}},
        stream=True,
        metadata={"user_id": "u-1", "thread_id": "t-1", "more": 1},
    )
    assert incoming.request_options == RequestOptions(
        temperature=1.0,
        top_p=0.5,
        top_k=40,
        stop=("END", "\n\nHuman:"),
        max_output_tokens=100,
        effort="max",
        thinking_tokens=2048,
    )
    assert (incoming.stream, incoming.with_usage) == (True, True)
    assert (incoming.end_user, incoming.thread_id) == ("u-1", "t-1")
    assert incoming.response_format == {"type": "object"}
    assert incoming.ignored == ()


def test_the_schema_of_an_answer_may_stand_where_it_stood_first() -> None:
    assert read(output_format={"type": "json_schema", "schema": {"a": 1}}).response_format == {"a": 1}


@pytest.mark.parametrize(
    ("thinking", "tokens", "ignored"),
    [
        ({"type": "disabled"}, 0, ()),
        ({"type": "adaptive"}, None, ()),
        ({"type": "adaptive", "display": "summarized"}, None, ("thinking.display",)),
        ({"type": "between_tools"}, None, ("thinking.between_tools",)),
        (None, None, ()),
    ],
)
def test_a_model_may_be_told_how_much_to_think(thinking: Any, tokens: int | None, ignored: tuple[str, ...]) -> None:
    incoming = read(thinking=thinking)
    assert (incoming.request_options.thinking_tokens, incoming.ignored) == (tokens, ignored)


def test_what_means_nothing_here_is_named_and_never_refused() -> None:
    incoming = read(
        service_tier="auto",
        container="c",
        mcp_servers=[{"type": "url"}],
        context_management={"edits": [1]},
        betas=["x"],
        speed="fast",
        thread={"type": "create"},
        tomorrow={"a": 1},
        inference_geo=None,
        fallbacks=[],
        output_config={"task_budget": {"total": 1}},
        **{"a\r\nheader: x": 1},
    )
    top = ("service_tier", "container", "mcp_servers", "context_management", "betas", "speed", "thread", "tomorrow")
    assert incoming.ignored == (*top, "output_config.task_budget")
    assert len(read(**{f"p{number}": 1 for number in range(1000)}).ignored) == 32


def test_a_conversation_held_elsewhere_is_refused() -> None:
    assert "metadata.thread_id" in refused(thread={"type": "continue", "previous_message_id": "msg_1"})


@each(
    ("parameters", "place"),
    [
        ({"model": None}, "model: expected a string, found nothing"),
        ({"model": ""}, "model: expected a string that is not empty"),
        ({"max_tokens": None}, "max_tokens: max_tokens is required"),
        ({"max_tokens": 0}, "max_tokens: expected an integer that is 1 or more"),
        ({"max_tokens": True}, "max_tokens: expected an integer"),
        ({"max_tokens": 10**30}, "max_tokens: expected an integer"),
        ({"temperature": 1.1}, "temperature: expected a number from 0 to 1"),
        ({"top_p": "a"}, "top_p: expected a number"),
        ({"top_k": -1}, "top_k: expected an integer"),
        ({"stream": "yes"}, "stream: expected true or false, found a string"),
        ({"stop_sequences": "END"}, "stop_sequences: expected a list"),
        ({"stop_sequences": ["a", " "]}, "stop_sequences.1: expected a string that is not blank"),
        ({"metadata": []}, "metadata: expected an object, found a list"),
        ({"metadata": {"user_id": 3}}, "metadata.user_id: expected a string, found a number"),
        ({"thinking": {"type": "enabled"}}, "thinking.budget_tokens: the thinking budget"),
        ({"thinking": {"type": "enabled", "budget_tokens": 9}}, "thinking.budget_tokens: expected an integer that"),
        ({"thinking": {"budget_tokens": 9}}, "thinking.type: expected enabled or"),
        ({"output_config": {"effort": "huge"}}, 'output_config.effort: expected low or medium or high or xhigh'),
        ({"output_config": {"format": {"type": "xml"}}}, "output_config.format.type: expected json_schema"),
        ({"output_format": {"type": "json_schema"}}, "output_format.schema: expected an object, found nothing"),
        ({"system": 1}, "system: expected a string or a list of blocks of text, found a number"),
        ({"system": [text("a"), {"type": "image"}]}, 'system.1.type: expected text, found "image"'),
        ({"messages": None}, "messages: expected at least one user message"),
        ({"messages": []}, "messages: expected at least one user message"),
        ({"messages": [{"role": "system", "content": "x"}]}, "messages: expected at least one user message"),
        ({"messages": {}}, "messages: expected a list, found an object"),
        ({"messages": ["x"]}, "messages.0: expected an object, found a string"),
        ({"messages": [{"role": "tool", "content": ""}]}, "messages.0.role: expected user or assistant or system"),
        ({"messages": [{"role": "user"}]}, "messages.0.content: expected a string or a list of blocks, found nothing"),
        ({"messages": [{"role": "user", "content": [1]}]}, "messages.0.content.0: expected an object, found a number"),
    ],
)  # fmt: skip
def test_a_wrong_value_is_refused_with_its_place(parameters: dict[str, Any], place: str) -> None:
    assert refused(**parameters).startswith(place)


@each(
    ("role", "block", "place"),
    [
        ("user", {"text": "a"}, "type: expected a string, found nothing"),
        ("user", {"type": ["text"]}, "type: expected a string, found a list"),
        ("user", {"type": "text"}, "text: expected a string, found nothing"),
        ("user", {"type": "text", "text": "a", "citations": {}}, "citations: expected a list"),
        ("user", CALL, "type: a block of this type is not allowed in a user's message"),
        ("user", {"type": "thinking", "thinking": ""}, "type: a block of this type is not allowed"),
        ("assistant", {"type": "tool_result", "tool_use_id": "1"}, "type: a block of this type is not allowed"),
        ("assistant", {**CALL, "input": "x"}, "input: expected an object, found a string"),
        ("assistant", {**CALL, "id": ""}, "id: expected a string that is not empty"),
        ("assistant", {"type": "thinking"}, "thinking: expected a string"),
        ("user", {"type": "tool_result", "tool_use_id": "1", "is_error": "no"}, "is_error: expected true or false"),
        ("user", {"type": "tool_result", "tool_use_id": "1", "content": [text("a"), CALL]}, "content.1.type: a block"),
        ("user", {"type": "document", "source": {"type": "content", "content": [{"type": "document"}]}},
         "source.content.0.type: a block of this type is not allowed in a document"),
    ],
)  # fmt: skip
def test_a_wrong_block_is_refused_with_its_place(role: str, block: Any, place: str) -> None:
    messages = [{"role": "user", "content": "a"}] * 3 + [{"role": role, "content": [text("a"), block]}]
    assert refused(messages=messages).startswith(f"messages.3.content.1.{place}")


def test_a_count_of_tokens_needs_no_length_of_the_answer() -> None:
    counted = {name: value for name, value in asked(system="Be brief.", tools=[LOOK]).items() if name != "max_tokens"}
    incoming = DIALECT.read_to_count(json.dumps(counted).encode())
    assert (incoming.system, incoming.request_options, len(incoming.tools)) == ("Be brief.", RequestOptions(), 1)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"", "not valid JSON"),
        (b"{", "not valid JSON"),
        (b"[]", "must be a JSON object"),
        (b"null", "must be a JSON object"),
        (b'{"model": "\xff"}', "not valid JSON"),
        (b'{"model": "\\ud800"}', "U+D800"),
        (b'{"max_tokens": 1e999}', "not valid JSON"),
        (b'{"max_tokens": NaN}', "not valid JSON"),
        (b'{"messages": ' + b"[" * 10_000 + b"]" * 10_000 + b"}", "nested too deep"),
        (b'{"a":' * 10_000 + b"1" + b"}" * 10_000, "nested too deep"),
    ],
)
def test_what_cannot_be_read_is_refused_in_words(body: bytes, said: str) -> None:
    assert said in refusal(body)


def nested(depth: int) -> Any:
    value: Any = "x"
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize("depth", [95, 700])
@pytest.mark.parametrize(
    ("role", "field", "block"),
    [
        ("assistant", "input", {**CALL, "input": {"a": "DEEP"}}),
        ("assistant", "citations", {**text("a"), "citations": ["DEEP"]}),
        ("assistant", "", {"type": "thinking", "thinking": "", "more": "DEEP"}),
        ("user", "", {"type": "tomorrow", "more": "DEEP"}),
    ],
)
def test_what_is_too_deep_to_be_kept_is_refused(role: str, field: str, block: Any, depth: int) -> None:
    written = json.dumps(asked(messages=[{"role": role, "content": [block]}])).replace(
        '"DEEP"', json.dumps(nested(depth))
    )
    assert f"{field}: expected a value that is at most" in refusal(written.encode())


def test_documents_in_documents_come_to_an_end() -> None:
    body = b'{"type":"document","source":{"type":"content","content":[' * 300 + b"]}}" * 300
    assert "not allowed in a document" in refusal(
        json.dumps(asked(messages=[{"role": "user", "content": ["HERE"]}])).encode().replace(b'"HERE"', body)
    )


def test_a_long_conversation_is_read_at_once() -> None:
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "It is fine. " * 20}
    turn = [
        {"role": "user", "content": [{**text("Look it up, please. " * 10), **MARK}]},
        {"role": "assistant", "content": [text("I will."), CALL]},
        {"role": "user", "content": [result]},
        {"role": "assistant", "content": "It is fine there."},
    ]
    body = json.dumps(asked(messages=turn * 500)).encode()
    assert len(DIALECT.read(body).messages) == 2_000
    assert min(seconds_to_read(body) for _ in range(7)) < 0.1  # some 7 ms where nothing else runs


def seconds_to_read(body: bytes) -> float:
    began = time.process_time()
    DIALECT.read(body)
    return time.process_time() - began


def test_a_hundred_thousand_messages_are_read() -> None:
    body = json.dumps(asked(messages=[{"role": "user", "content": "Hello"}] * 100_000)).encode()
    assert len(DIALECT.read(body).messages) == 100_000


@pytest.mark.req("API-3")
@pytest.mark.parametrize(
    "parameters",
    [
        {"messages": [{"role": "user", "content": "a\0b"}]},
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "a\0b"}]}]},
        {"messages": [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": "a\0b"}]}]},
        {"system": "a\0b"},
        {"metadata": {"user_id": "a\0b"}},
        {"metadata": {"a\0b": 1}},
    ],
)
def test_a_nul_character_is_refused_wherever_it_is(parameters: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match="NUL character"):
        read(**parameters)


def test_the_six_characters_of_an_escaped_nul_are_text() -> None:
    assert read(system="a\\u0000b").system == "a\\u0000b"
