"""The rules of chat completions: OpenAI's, and Perplexity's on top."""

from __future__ import annotations

import re
from collections.abc import Iterable

from contextinfinity.domain.message import Json
from contextinfinity_testing.vendors.openai_rules import (
    REASONS,
    check_arguments,
    check_effort,
    check_name,
    check_picture,
    check_schema,
    invalid,
    known,
    need,
    one_of,
    typed,
)
from contextinfinity_testing.vendors.troubles import perplexity_error
from contextinfinity_testing.vendors.wire import Refused, names

PARAMETERS = names(
    "audio frequency_penalty function_call functions logit_bias logprobs max_completion_tokens max_tokens messages"
    " metadata modalities model moderation n parallel_tool_calls prediction presence_penalty prompt_cache_key"
    " prompt_cache_options prompt_cache_retention reasoning_effort response_format safety_identifier seed service_tier"
    " stop store stream stream_options temperature tool_choice tools top_logprobs top_p user verbosity"
    " web_search_options"
)
MESSAGES = {
    "system": names("role content name"),
    "developer": names("role content name"),
    "user": names("role content name"),
    "assistant": names("role content name refusal audio tool_calls function_call annotations"),
    "tool": names("role content tool_call_id"),
}
CONTENT = {
    "assistant": ("text", "refusal"),
    "user": ("text", "image_url", "input_audio", "file"),
    "system": ("text",),
    "developer": ("text",),
    "tool": ("text",),
}
MISTRAL = re.compile(r"mistral|mixtral|codestral")
MISTRALS_ID = re.compile(r"^[a-zA-Z0-9]{9}$")
ALTERNATE = (
    "After the (optional) system message(s), user or tool message(s) should alternate with assistant message(s)."
)


def check(body: Json) -> None:
    """Raise ``Refused`` where a request breaks a rule of OpenAI's."""
    known(body, PARAMETERS, "")
    need(body, "model", "")
    _messages(body)
    for index, message in enumerate(body["messages"]):
        known(message, MESSAGES[message["role"]], f"messages[{index}]")
    _settings(body)
    _tools(body)
    _order(body["messages"])


def check_perplexity(body: Json) -> None:
    """Raise ``Refused`` where a request breaks a rule of Perplexity's; it ignores unknown parameters."""
    need(body, "model", "")
    _messages(body)
    roles = [message["role"] for message in body["messages"]]
    while roles and roles[0] == "system":
        roles.pop(0)
    sides = ["user" if role in ("user", "tool") else role for role in roles]
    if any(side != ("user", "assistant")[index % 2] for index, side in enumerate(sides)):
        raise Refused(400, perplexity_error(ALTERNATE, "invalid_message", 400))
    if not sides or sides[-1] != "user":
        raise Refused(400, perplexity_error("Last message must have role `user` or `tool`.", "invalid_message", 400))


def check_compatible(body: Json) -> None:
    """Raise ``Refused`` where a request breaks a rule that all servers of this protocol enforce."""
    need(body, "model", "")
    _messages(body)
    _order(body["messages"])
    if MISTRAL.search(body["model"]):
        _ids_of_mistral(body["messages"])


def texts(message: Json) -> Iterable[str]:
    """Return the texts of a message."""
    content = message.get("content") or ""
    if isinstance(content, str):
        yield content
    else:
        yield from (block.get("text") or block.get("refusal") or "" for block in content)
    for call in message.get("tool_calls") or []:
        yield call["function"]["name"] + " " + call["function"]["arguments"]


def _messages(body: Json) -> None:
    need(body, "messages", "")
    typed(body["messages"], list, "messages", "an array of objects")
    if not body["messages"]:
        said = (
            "Invalid 'messages': empty array. Expected an array with minimum length 1, but got an empty array instead."
        )
        raise invalid(said, "messages", "empty_array")
    for index, message in enumerate(body["messages"]):
        _message(message, index)


def _message(message: Json, index: int) -> None:
    path = f"messages[{index}]"
    typed(message, dict, path, "an object")
    need(message, "role", path)
    one_of(message["role"], tuple(MESSAGES), f"{path}.role")
    if message["role"] == "tool":
        need(message, "tool_call_id", path)
    if message.get("content") is None and not message.get("tool_calls") and not message.get("refusal"):
        said = "Invalid value for 'content': expected a string, got null."
        raise invalid(said, f"messages.[{index}].content")
    if isinstance(message.get("content"), list):
        _content(message, f"{path}.content")
    if "tool_calls" in message:
        _tool_calls(message["tool_calls"], index)


def _content(message: Json, path: str) -> None:
    if not message["content"]:
        raise invalid(f"Invalid '{path}': empty array. Expected an array with minimum length 1.", path, "empty_array")
    for index, block in enumerate(message["content"]):
        need(block, "type", f"{path}[{index}]")
        one_of(block["type"], CONTENT[message["role"]], f"{path}[{index}].type")
        need(block, block["type"], f"{path}[{index}]")
        if block["type"] == "image_url":
            check_picture(block["image_url"].get("url"), f"{path}[{index}].image_url.url")


def _tool_calls(calls: Json, index: int) -> None:
    if not calls:
        raise invalid(f"[] is too short - 'messages.{index}.tool_calls'", None)
    for place, call in enumerate(calls):
        path = f"messages[{index}].tool_calls[{place}]"
        for key in ("id", "type", "function"):
            need(call, key, path)
        for key, check_it in (("name", check_name), ("arguments", check_arguments)):
            need(call["function"], key, f"{path}.function")
            check_it(call["function"][key], f"{path}.function.{key}")


def _ids_of_mistral(messages: list[Json]) -> None:
    for call in [call for message in messages for call in message.get("tool_calls") or []]:
        if not MISTRALS_ID.match(call["id"]):
            raise invalid(f"Tool call id was {call['id']} but must be a-z, A-Z, 0-9, with a length of 9.", None)


def _settings(body: Json) -> None:
    if body.get("stream_options") is not None and not body.get("stream"):
        said = "The 'stream_options' parameter is only allowed when 'stream' is enabled."
        raise invalid(said, "stream_options")
    if body.get("max_tokens") is not None and REASONS.match(body["model"]):
        said = (
            "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
        )
        raise invalid(said, "max_tokens", "unsupported_parameter")
    if body.get("stop") is not None and REASONS.match(body["model"]):
        said = "Unsupported parameter: 'stop' is not supported with this model."
        raise invalid(said, "stop", "unsupported_parameter")
    if body.get("max_tokens") is not None and body.get("max_completion_tokens") is not None:
        raise invalid(
            "Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported.", "max_tokens"
        )
    check_effort(body["model"], body.get("reasoning_effort"), body.get("temperature"), "reasoning_effort")
    form = body.get("response_format") or {"type": "text"}
    one_of(form.get("type"), ("text", "json_object", "json_schema"), "response_format.type")
    if form["type"] == "json_schema":
        need(form, "json_schema", "response_format")
        schema = form["json_schema"]
        need(schema, "name", "response_format.json_schema")
        named = f"response_format '{schema['name']}'"
        check_schema(schema.get("schema"), schema.get("strict"), named, "response_format")


def _tools(body: Json) -> None:
    if "tools" not in body:
        for key in ("tool_choice", "parallel_tool_calls"):
            if body.get(key) is not None:
                raise invalid(f"Invalid value for '{key}': '{key}' is only allowed when 'tools' are specified.", key)
        return
    if not body["tools"]:
        raise invalid("Invalid 'tools': empty array. Expected an array with minimum length 1.", "tools", "empty_array")
    for index, tool in enumerate(body["tools"]):
        path = f"tools[{index}]"
        need(tool, "type", path)
        if tool["type"] != "function":
            continue
        need(tool, "function", path)
        function = tool["function"]
        known(function, frozenset(("name", "description", "parameters", "strict")), f"{path}.function")
        need(function, "name", f"{path}.function")
        check_name(function["name"], f"{path}.function.name")
        named = f"function '{function['name']}'"
        check_schema(function.get("parameters"), function.get("strict"), named, f"{path}.function.parameters")


def _order(messages: list[Json]) -> None:
    open_calls: list[str] = []
    asked: set[str] = set()
    asker = 0
    for index, message in enumerate(messages):
        if message["role"] == "tool":
            _answers(message["tool_call_id"], asked, index)
            open_calls = [call for call in open_calls if call != message["tool_call_id"]]
            continue
        _nothing_open(open_calls, asker)
        asker = index
        open_calls = [call["id"] for call in message.get("tool_calls") or []]
        asked = set(open_calls)
    _nothing_open(open_calls, asker)


def _answers(call_id: str, asked: set[str], index: int) -> None:
    if not asked:
        said = (
            "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'."
        )
        raise invalid(said, f"messages.[{index}].role")
    if call_id not in asked:
        said = f"Invalid parameter: 'tool_call_id' of '{call_id}' not found in 'tool_calls' of previous message."
        raise invalid(said, f"messages.[{index}].tool_call_id")


def _nothing_open(open_calls: list[str], asker: int) -> None:
    if open_calls:
        said = (
            "An assistant message with 'tool_calls' must be followed by tool messages responding to each"
            f" 'tool_call_id'. The following tool_call_ids did not have response messages: {', '.join(open_calls)}"
        )
        raise invalid(said, f"messages.[{asker}].role")
