"""The fake vendors refuse what the vendors refuse, in their words. Each request here breaks one rule."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from contextinfinity_testing.vendors import Answer, Call, FakeVendors

USER: Any = {"role": "user", "content": "Hello"}
OPEN = {"type": "object", "properties": {"at": {"type": "string"}}}


@pytest.fixture
async def vendors() -> AsyncIterator[FakeVendors]:
    async with FakeVendors() as running:
        yield running


async def refused(url: str, path: str, body: Any, version: str = "2023-06-01") -> tuple[int, Any]:
    import httpx2

    headers = {"authorization": "Bearer k", "x-api-key": "k", "anthropic-version": version}
    async with httpx2.AsyncClient(verify=False) as client:
        reply = await client.post(url + path, json=body, headers=headers)
    return reply.status_code, reply.json()


def call_item(call_id: str) -> Any:
    return {"type": "function_call", "call_id": call_id, "name": "look", "arguments": "{}"}


def output_item(call_id: str) -> Any:
    return {"type": "function_call_output", "call_id": call_id, "output": "x"}


SVG = "data:image/svg+xml;base64,aGk="
BROKEN = "data:image/png;base64,%%%"


def seen(url: str) -> Any:
    return {"role": "user", "content": [{"type": "input_image", "image_url": url, "detail": "auto"}]}


def shown(url: str) -> Any:
    return {"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]}


SEALED = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "Zm9yZ2VkIGJ5IHNvbWVib2R5IGVsc2U="}
RESPONSES: dict[str, tuple[dict[str, Any], str, str | None]] = {
    "no model": ({"model": None}, "Missing required parameter: 'model'.", "missing_required_parameter"),
    "no input": ({"input": None}, "Missing required parameter: 'input'.", "missing_required_parameter"),
    "unknown parameter": ({"max_tokens": 9}, "Unknown parameter: 'max_tokens'.", "unknown_parameter"),
    "unknown field": ({"input": [USER | {"name": "x"}]}, "Unknown parameter: 'input[0].name'.", "unknown_parameter"),
    "role": ({"input": [USER | {"role": "tool"}]}, "Invalid value: 'tool'.", "invalid_value"),
    "content of the other side": (
        {"input": [{"role": "assistant", "content": [{"type": "input_text", "text": "x"}]}]},
        "Invalid value: 'input_text'. Supported values are: 'output_text', and 'refusal'.",
        "invalid_value",
    ),
    "no content": ({"input": [{"role": "user"}]}, "Missing required parameter: 'input[0].content'.", None),
    "output without call": ({"input": [output_item("call_1")]}, "No tool call found for function call output", None),
    "output before call": ({"input": [output_item("c"), call_item("c")]}, "No tool call found", None),
    "call without output": (
        {"input": [USER, call_item("call_1")]},
        "No tool output found for function call call_1",
        None,
    ),
    "forged reasoning": ({"input": [SEALED, call_item("c"), output_item("c")]}, "could not be verified", None),
    "reasoning at the end": (
        {"input": [{"type": "reasoning", "id": "rs_1", "summary": []}]},
        "Item with id 'rs_1' not found.",
        None,
    ),
    "small limit": ({"max_output_tokens": 3}, "integer below minimum value", "integer_below_min_value"),
    "include": ({"include": ["thoughts"]}, "Invalid value: 'thoughts'.", "invalid_value"),
    "temperature": ({"temperature": 0.2}, "Unsupported parameter: 'temperature'", "unsupported_parameter"),
    "previous": ({"previous_response_id": "resp_0"}, "not found", "previous_response_not_found"),
    "name of a call": (
        {"input": [call_item("c") | {"name": "look around"}, output_item("c")]},
        "Invalid 'input[0].name': string does not match pattern.",
        "invalid_value",
    ),
    "name of a tool": ({"tools": [{"type": "function", "name": "a.b"}]}, "Invalid 'tools[0].name'", "invalid_value"),
    "arguments": (
        {"input": [call_item("c") | {"arguments": "not json {"}, output_item("c")]},
        "Invalid 'input[0].arguments'",
        None,
    ),
    "kind of picture": ({"input": [seen(SVG)]}, "unsupported MIME type 'image/svg+xml'", "invalid_value"),
    "broken picture": ({"input": [seen(BROKEN)]}, "invalid base64-encoded value", "invalid_value"),
    "broken picture of a tool": (
        {"input": [call_item("c"), output_item("c") | {"output": seen(BROKEN)["content"]}]},
        "invalid base64-encoded value",
        "invalid_value",
    ),
    "open strict schema": (
        {"tools": [{"type": "function", "name": "f", "parameters": OPEN, "strict": True}]},
        "'additionalProperties' is required to be supplied and to be false.",
        None,
    ),
}


@pytest.mark.req("PROVIDER-4")
@pytest.mark.parametrize("rule", RESPONSES)
async def test_responses_refuse_what_openai_refuses(vendors: FakeVendors, rule: str) -> None:
    change, message, code = RESPONSES[rule]
    body = {key: value for key, value in ({"model": "gpt-5", "input": "Hello"} | change).items() if value is not None}
    status, told = await refused(vendors.openai_url, "/responses", body)
    assert status in (400, 404)
    assert message in told["error"]["message"]
    assert code is None or told["error"]["code"] == code


def asked(*ids: str, **more: str) -> Any:
    function = {"name": "look", "arguments": "{}", **more}
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": i, "type": "function", "function": function} for i in ids],
    }


def told(call_id: str) -> Any:
    return {"role": "tool", "tool_call_id": call_id, "content": "x"}


CHAT: dict[str, tuple[dict[str, Any], str]] = {
    "no messages": ({"messages": None}, "Missing required parameter: 'messages'."),
    "empty": ({"messages": []}, "Invalid 'messages': empty array."),
    "role": ({"messages": [USER | {"role": "model"}]}, "Invalid value: 'model'."),
    "null content": ({"messages": [{"role": "assistant", "content": None}]}, "expected a string, got null"),
    "unknown parameter": ({"thinking": {}}, "Unknown parameter: 'thinking'."),
    "unknown field": ({"messages": [USER | {"id": "x"}]}, "Unknown parameter: 'messages[0].id'."),
    "stray tool": ({"messages": [USER, told("c")]}, "must be a response to a preceeding message with 'tool_calls'"),
    "unanswered": ({"messages": [USER, asked("a", "b"), told("a")]}, "did not have response messages: b"),
    "answered late": ({"messages": [USER, asked("a"), USER, told("a")]}, "did not have response messages: a"),
    "unknown call": ({"messages": [USER, asked("a"), told("z")]}, "'tool_call_id' of 'z' not found"),
    "empty calls": ({"messages": [{"role": "assistant", "content": "x", "tool_calls": []}]}, "[] is too short"),
    "empty tools": ({"tools": []}, "Invalid 'tools': empty array."),
    "choice without tools": ({"tool_choice": "auto"}, "only allowed when 'tools' are specified"),
    "stream options": ({"stream_options": {"include_usage": True}}, "only allowed when 'stream' is enabled"),
    "name of a call": (
        {"messages": [asked("a", name="n" * 65), told("a")]},
        "Invalid 'messages[0].tool_calls[0].function.name': string does not match pattern.",
    ),
    "arguments": (
        {"messages": [asked("a", arguments="[1]"), told("a")]},
        "Invalid 'messages[0].tool_calls[0].function.arguments'",
    ),
    "kind of picture": ({"messages": [shown(SVG)]}, "unsupported MIME type 'image/svg+xml'"),
    "broken picture": ({"messages": [shown(BROKEN)]}, "invalid base64-encoded value"),
    "max_tokens": ({"max_tokens": 5}, "Use 'max_completion_tokens' instead."),
    "stop": ({"stop": ["END"]}, "Unsupported parameter: 'stop' is not supported with this model."),
}


@pytest.mark.req("PROVIDER-4")
@pytest.mark.parametrize("rule", CHAT)
async def test_chat_refuses_what_openai_refuses(vendors: FakeVendors, rule: str) -> None:
    change, message = CHAT[rule]
    body = {key: value for key, value in ({"model": "gpt-5", "messages": [USER]} | change).items() if value is not None}
    status, reply = await refused(vendors.openai_url, "/chat/completions", body)
    assert (status, reply["error"]["type"]) == (400, "invalid_request_error")
    assert message in reply["error"]["message"]


def use(*ids: str) -> Any:
    return {"role": "assistant", "content": [{"type": "tool_use", "id": i, "name": "look", "input": {}} for i in ids]}


def results(*ids: str, before: tuple[Any, ...] = ()) -> Any:
    return {
        "role": "user",
        "content": [*before, *({"type": "tool_result", "tool_use_id": i, "content": "x"} for i in ids)],
    }


def text(words: str, **more: Any) -> Any:
    return {"type": "text", "text": words, **more}


def look(media_type: str, data: str) -> Any:
    source = {"type": "base64", "media_type": media_type, "data": data}
    return {"role": "user", "content": [{"type": "image", "source": source}]}


MARK = {"cache_control": {"type": "ephemeral"}}
FORGED = {"type": "thinking", "thinking": "Hm.", "signature": "Zm9yZ2VkIGJ5IHNvbWVib2R5IGVsc2U="}
THINK = {"thinking": {"type": "enabled", "budget_tokens": 1024}, "max_tokens": 2000}
CLAUDE: dict[str, tuple[dict[str, Any], str]] = {
    "no max_tokens": ({"max_tokens": None}, "max_tokens: Field required"),
    "unknown parameter": ({"max_output_tokens": 5}, "max_output_tokens: Extra inputs are not permitted"),
    "unknown field": ({"messages": [USER | {"id": "x"}]}, "messages.0.id: Extra inputs are not permitted"),
    "empty": ({"messages": []}, "messages: at least one message is required"),
    "system role": ({"messages": [{"role": "system", "content": "x"}, USER]}, 'Unexpected role "system"'),
    "role": (
        {"messages": [{"role": "tool", "content": "x"}]},
        "messages.0.role: Input should be 'user' or 'assistant'",
    ),
    "assistant first": ({"messages": [{"role": "assistant", "content": "x"}, USER]}, 'must use the "user" role'),
    "no content": ({"messages": [{"role": "user", "content": ""}]}, "must have non-empty content"),
    "empty text": ({"messages": [{"role": "user", "content": [text("")]}]}, "text content blocks must be non-empty"),
    "blank text": ({"messages": [{"role": "user", "content": [text(" ")]}]}, "must contain non-whitespace text"),
    "unknown block": ({"messages": [{"role": "user", "content": [{"type": "noise"}]}]}, "Input tag 'noise' found"),
    "unanswered": ({"messages": [USER, use("a"), USER]}, "messages.1: `tool_use` ids were found without `tool_result`"),
    "at the end": ({"messages": [USER, use("a")]}, "were found without `tool_result` blocks immediately after: a."),
    "one of two": ({"messages": [USER, use("a", "b"), results("a")]}, "immediately after: b."),
    "results not first": (
        {"messages": [USER, use("a"), results("a", before=(text("Here:"),))]},
        "`tool_use` ids were found without `tool_result` blocks immediately after: a.",
    ),
    "unknown result": (
        {"messages": [USER, use("a"), results("a", "z")]},
        "messages.2.content.1: unexpected `tool_use_id`",
    ),
    "stray result": ({"messages": [results("a")]}, "unexpected `tool_use_id` found in `tool_result` blocks: a."),
    "same id twice": ({"messages": [USER, use("a", "a"), results("a")]}, "`tool_use` ids must be unique"),
    "same id again": (
        {"messages": [USER, use("a"), results("a"), use("a"), results("a")]},
        "`tool_use` ids must be unique",
    ),
    "name of a call": (
        {
            "messages": [
                USER,
                {"role": "assistant", "content": [use("a")["content"][0] | {"name": "a b"}]},
                results("a"),
            ]
        },
        "messages.1.content.0.tool_use.name: String should match pattern",
    ),
    "kind of picture": ({"messages": [look("image/tiff", "aGk=")]}, "base64.media_type: Input should be 'image/jpeg'"),
    "broken picture": ({"messages": [look("image/png", "%%%")]}, "invalid base64 data"),
    "strange id": ({"messages": [USER, use("a.b"), results("a.b")]}, "String should match pattern"),
    "five markers": (
        {"messages": [{"role": "user", "content": [text(str(i), **MARK) for i in range(5)]}]},
        "A maximum of 4 blocks with cache_control may be provided. Found 5.",
    ),
    "forged thinking": (
        {"messages": [USER, {"role": "assistant", "content": [FORGED, text("x")]}, USER]},
        "messages.1.content.0: Invalid `signature` in `thinking` block",
    ),
    "thinking left out": (THINK | {"messages": [USER, use("a"), results("a")]}, "Expected `thinking` or"),
    "budget": (THINK | {"max_tokens": 1000}, "`max_tokens` must be greater than `thinking.budget_tokens`."),
    "cool thinking": (THINK | {"temperature": 0.5}, "`temperature` may only be set to 1 when thinking is enabled."),
    "forced thinking": (
        THINK | {"tool_choice": {"type": "any"}},
        "Thinking may not be enabled when tool_choice forces",
    ),
    "blank stop": ({"stop_sequences": ["END", " "]}, "stop_sequences.1: each stop sequence must contain"),
    "trailing space": (
        {"messages": [USER, {"role": "assistant", "content": "Well "}]},
        "final assistant content cannot end with trailing whitespace",
    ),
    "tool name": ({"tools": [{"name": "a b", "input_schema": OPEN}]}, "tools.0.custom.name: String should match"),
    "tools twice": ({"tools": [{"name": "a", "input_schema": OPEN}] * 2}, "tools: Tool names must be unique."),
}


@pytest.mark.req("PROVIDER-5")
@pytest.mark.parametrize("rule", CLAUDE)
async def test_messages_refuse_what_anthropic_refuses(vendors: FakeVendors, rule: str) -> None:
    change, message = CLAUDE[rule]
    whole = {"model": "claude-x", "max_tokens": 50, "messages": [USER]} | change
    body = {key: value for key, value in whole.items() if value is not None}
    status, reply = await refused(vendors.anthropic_url, "/v1/messages", body)
    assert (status, reply["type"], reply["error"]["type"]) == (400, "error", "invalid_request_error")
    assert message in reply["error"]["message"]


@pytest.mark.req("PROVIDER-5")
@pytest.mark.parametrize("name", ["temperature", "top_p", "top_k"])
async def test_messages_take_no_temperature_since_the_api_of_october_2026(vendors: FakeVendors, name: str) -> None:
    body = {"model": "claude-x", "max_tokens": 50, "messages": [USER], name: 1}
    assert (await refused(vendors.anthropic_url, "/v1/messages", body))[0] == 200
    status, reply = await refused(vendors.anthropic_url, "/v1/messages", body, "2026-10-21")
    assert (status, reply["error"]["message"]) == (400, f"{name}: Extra inputs are not permitted")


@pytest.mark.parametrize(
    "roles", ["user user", "system user user", "assistant user", "user system user", "user assistant", "system"]
)
async def test_perplexity_wants_the_sides_to_alternate(vendors: FakeVendors, roles: str) -> None:
    body = {"model": "sonar", "messages": [{"role": role, "content": "x"} for role in roles.split()]}
    status, reply = await refused(vendors.perplexity_url, "/chat/completions", body)
    assert (status, reply["error"]["type"], reply["error"]["code"]) == (400, "invalid_message", 400)


async def test_mistral_wants_short_ids(vendors: FakeVendors) -> None:
    for call_id, expected in (("call_0123", 400), ("Ab3456789", 200)):
        body = {"model": "mistral-large-latest", "messages": [USER, asked(call_id), told(call_id)]}
        status, reply = await refused(vendors.compatible_url, "/chat/completions", body)
        assert status == expected, reply


@pytest.mark.parametrize("path", ["/responses", "/chat/completions", "/messages"])
@pytest.mark.parametrize("body", [7, {"model": "gpt-5", "input": [7], "messages": [7], "max_tokens": 5}])
async def test_what_cannot_be_read_is_refused_too(vendors: FakeVendors, path: str, body: Any) -> None:
    status, _ = await refused(vendors.openai_url, path, body)
    assert status == 400


@pytest.mark.req("PROVIDER-4")
async def test_a_call_needs_the_reasoning_it_came_with(vendors: FakeVendors) -> None:
    vendors.say(Answer(reasoning="Hm.", tool_calls=(Call(name="look"),)), "Done.")
    options: Any = {"model": "gpt-5", "store": False, "include": ["reasoning.encrypted_content"]}
    _, reply = await refused(vendors.openai_url, "/responses", {"input": "Hello", **options})
    thought, call = reply["output"]
    output = output_item(call["call_id"])
    without = await refused(vendors.openai_url, "/responses", {"input": [USER, call, output], **options})
    alone = await refused(vendors.openai_url, "/responses", {"input": [USER, thought], **options})
    together = await refused(vendors.openai_url, "/responses", {"input": [USER, thought, call, output], **options})
    assert "was provided without its required 'reasoning' item" in without[1]["error"]["message"]
    assert "was provided without its required following item" in alone[1]["error"]["message"]
    assert together[0] == 200


@pytest.mark.req("PROVIDER-5")
async def test_thinking_must_come_back_as_it_was(vendors: FakeVendors) -> None:
    vendors.say(Answer(text="x", reasoning="Hm."))
    body: Any = {"model": "claude-x", "max_tokens": 50, "messages": [USER]}
    _, reply = await refused(vendors.anthropic_url, "/v1/messages", body)
    reply["content"][0]["thinking"] = "Something else."
    body["messages"] = [USER, {"role": "assistant", "content": reply["content"]}, USER]
    status, told = await refused(vendors.anthropic_url, "/v1/messages", body)
    assert (status, "cannot be modified" in told["error"]["message"]) == (400, True)
