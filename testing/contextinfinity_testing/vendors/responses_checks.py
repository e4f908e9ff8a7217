"""The rules of OpenAI's Responses, with the vendor's error messages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from contextinfinity.domain.message import Json
from contextinfinity_testing.vendors.openai_rules import (
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
from contextinfinity_testing.vendors.troubles import openai_error
from contextinfinity_testing.vendors.wire import Refused, names, unsealed

PARAMETERS = names(
    "background client_metadata context_management conversation include input instructions max_output_tokens"
    " max_tool_calls metadata model moderation parallel_tool_calls previous_response_id prompt prompt_cache_key"
    " prompt_cache_options prompt_cache_retention reasoning safety_identifier service_tier store stream"
    " stream_options temperature text tool_choice tools top_logprobs top_p truncation user"
)
INCLUDABLE = (
    "file_search_call.results",
    "web_search_call.results",
    "web_search_call.action.sources",
    "message.input_image.image_url",
    "computer_call_output.output.image_url",
    "code_interpreter_call.outputs",
    "reasoning.encrypted_content",
    "message.output_text.logprobs",
)
ITEMS = {
    "message": names("type role content id status phase"),
    "function_call": names("type id call_id name arguments status caller namespace async"),
    "function_call_output": names("type id call_id output status caller name namespace"),
    "reasoning": names("type id summary content encrypted_content status"),
    "item_reference": names("type id"),
    "custom_tool_call": names("type id call_id name input status namespace"),
    "custom_tool_call_output": names("type id call_id output status"),
    "web_search_call": names("type id status action"),
    "file_search_call": names("type id status queries results"),
    "code_interpreter_call": names("type id status code container_id outputs"),
    "image_generation_call": names("type id status result"),
    "computer_call": names("type id status call_id action actions pending_safety_checks"),
    "computer_call_output": names("type id status call_id output acknowledged_safety_checks"),
    "local_shell_call": names("type id status call_id action"),
    "local_shell_call_output": names("type id status output"),
    "shell_call": names("type id status call_id action environment"),
    "shell_call_output": names("type id status call_id output max_output_length"),
    "apply_patch_call": names("type id status call_id operation"),
    "apply_patch_call_output": names("type id status call_id output"),
    "mcp_list_tools": names("type id server_label tools error"),
    "mcp_approval_request": names("type id server_label name arguments"),
    "mcp_approval_response": names("type id approval_request_id approve reason"),
    "mcp_call": names("type id server_label name arguments output error status approval_request_id"),
    "compaction": names("type id encrypted_content"),
}
IDS = {"message": "msg_", "function_call": "fc_", "reasoning": "rs_", "custom_tool_call": "ctc_"}
"""How the ids of these items must begin."""
FUNCTION = names("type name description parameters strict allowed_callers defer_loading output_schema async")
ROLES = ("assistant", "system", "developer", "user")
CONTENT = {
    "assistant": ("output_text", "refusal"),
    "user": ("input_text", "input_image", "input_file"),
    "system": ("input_text", "input_image", "input_file"),
    "developer": ("input_text", "input_image", "input_file"),
}
LEAST_OUTPUT = 16


class Issued:
    """The items that were given out, and which reasoning each call came with."""

    def __init__(self) -> None:
        self._reasoning: set[str] = set()
        self._with: dict[str, str] = {}
        self.kept: set[str] = set()
        """The ids of the items that were stored."""

    def remember(self, items: Sequence[Json], *, is_stored: bool) -> None:
        """Take the items of an answer, in order."""
        thought = None
        self.kept |= {item["id"] for item in items if is_stored}
        for item in items:
            if item["type"] == "reasoning":
                thought = item["id"]
                self._reasoning.add(thought)
            elif thought is not None:
                self._with[item["id"]] = thought

    def came_with(self, item_id: Json) -> str | None:
        """Return the reasoning that belongs to an item."""
        return self._with.get(item_id)


def check(body: Json, issued: Issued) -> None:
    """Raise ``Refused`` where a request breaks a rule."""
    known(body, PARAMETERS, "")
    need(body, "model", "")
    need(body, "input", "")
    if body.get("previous_response_id") is not None:
        said = f"Previous response with id '{body['previous_response_id']}' not found."
        raise invalid(said, "previous_response_id", "previous_response_not_found")
    _settings(body)
    for index, tool in enumerate(body.get("tools") or []):
        _tool(tool, f"tools[{index}]")
    if not isinstance(body["input"], str):
        typed(body["input"], list, "input", "one of an array of objects or string")
        _items(body["input"], issued)
        _calls(body["input"])
        _reasoning(body["input"], issued)


def texts(item: Json) -> Iterable[str]:
    """Return the texts of an input item."""
    match item.get("type", "message"):
        case "function_call":
            yield item["name"] + " " + item["arguments"]
        case "custom_tool_call":
            yield item["name"] + " " + item["input"]
        case "function_call_output" | "custom_tool_call_output":
            yield from _said(item["output"])
        case "message":
            yield from _said(item["content"])


def _said(content: Json) -> Iterable[str]:
    if isinstance(content, str):
        yield content
    else:
        yield from (block.get("text") or block.get("refusal") or "" for block in content)


def _settings(body: Json) -> None:
    for index, name in enumerate(body.get("include") or []):
        one_of(name, INCLUDABLE, f"include[{index}]")
    if body.get("truncation") is not None:
        one_of(body["truncation"], ("auto", "disabled"), "truncation")
    limit = body.get("max_output_tokens")
    if limit is not None and limit < LEAST_OUTPUT:
        said = f"Expected a value >= {LEAST_OUTPUT}, but got {limit} instead."
        said = f"Invalid 'max_output_tokens': integer below minimum value. {said}"
        raise invalid(said, "max_output_tokens", "integer_below_min_value")
    check_effort(
        body["model"], (body.get("reasoning") or {}).get("effort"), body.get("temperature"), "reasoning.effort"
    )
    form = (body.get("text") or {}).get("format") or {"type": "text"}
    one_of(form.get("type"), ("text", "json_object", "json_schema"), "text.format.type")
    if form["type"] == "json_schema":
        need(form, "name", "text.format")
        need(form, "schema", "text.format")
        check_schema(form["schema"], form.get("strict"), f"response_format '{form['name']}'", "text.format.schema")


def _tool(tool: Json, path: str) -> None:
    need(tool, "type", path)
    if tool["type"] != "function":
        return
    known(tool, FUNCTION, path)
    need(tool, "name", path)
    check_name(tool["name"], f"{path}.name")
    check_schema(tool.get("parameters"), tool.get("strict"), f"function '{tool['name']}'", f"{path}.parameters")


def _items(items: list[Json], issued: Issued) -> None:
    for index, item in enumerate(items):
        path = f"input[{index}]"
        typed(item, dict, path, "an input item")
        kind = item.get("type", "message")
        one_of(kind, tuple(ITEMS), f"{path}.type")
        known(item, ITEMS[kind], path)
        for key in _required(kind):
            need(item, key, path)
        if kind == "message":
            _message(item, path)
        elif kind == "function_call_output":
            typed(item["output"], (str, list), f"{path}.output", "one of an array of objects or string")
            _pictures(item["output"], f"{path}.output")
        elif kind == "function_call":
            check_name(item["name"], f"{path}.name")
            check_arguments(item["arguments"], f"{path}.arguments")
        elif kind == "item_reference" and item["id"] not in issued.kept:
            raise _not_kept(item["id"])
        if item.get("id") is not None and not item["id"].startswith(IDS.get(kind, "")):
            said = f"Invalid '{path}.id': '{item['id']}'. Expected an ID that begins with '{IDS[kind][:-1]}'."
            raise invalid(said, f"{path}.id", "invalid_value")


def _required(kind: str) -> Sequence[str]:
    return {
        "message": ("role", "content"),
        "function_call": ("call_id", "name", "arguments"),
        "function_call_output": ("call_id", "output"),
        "reasoning": ("id", "summary"),
        "item_reference": ("id",),
        "custom_tool_call": ("call_id", "name", "input"),
        "custom_tool_call_output": ("call_id", "output"),
    }.get(kind, ())


def _message(item: Json, path: str) -> None:
    one_of(item["role"], ROLES, f"{path}.role")
    if isinstance(item["content"], str):
        return
    typed(item["content"], list, f"{path}.content", "one of an array of objects or string")
    for index, block in enumerate(item["content"]):
        where = f"{path}.content[{index}]"
        need(block, "type", where)
        one_of(block["type"], CONTENT[item["role"]], f"{where}.type")
        key = {"refusal": "refusal", "input_image": "type", "input_file": "type"}.get(block["type"], "text")
        need(block, key, where)
        typed(block[key], str, f"{where}.{key}", "a string")
    _pictures(item["content"], f"{path}.content")


def _pictures(content: Json, path: str) -> None:
    for index, block in enumerate(content):
        if isinstance(block, dict) and block.get("type") == "input_image" and block.get("image_url") is not None:
            check_picture(block["image_url"], f"{path}[{index}].image_url")


def _calls(items: list[Json]) -> None:
    called: list[tuple[str, str]] = []
    answered: set[str] = set()
    for item in items:
        if item.get("type") in ("function_call", "custom_tool_call"):
            called.append((item["type"], item["call_id"]))
        elif item.get("type") in ("function_call_output", "custom_tool_call_output"):
            kind = item["type"].removesuffix("_output")
            if (kind, item["call_id"]) not in called:
                named = kind.replace("_", " ")
                raise invalid(f"No tool call found for {named} output with call_id {item['call_id']}.", "input")
            answered.add(item["call_id"])
    for _, call_id in called:
        if call_id not in answered:
            raise invalid(f"No tool output found for function call {call_id}.", "input")


def _reasoning(items: list[Json], issued: Issued) -> None:
    thoughts: list[str] = []
    for index, item in enumerate(items):
        if item.get("type") == "reasoning":
            _known_thought(item, issued)
            thoughts.append(item["id"])
            after = items[index + 1] if index + 1 < len(items) else {}
            if str(after.get("type", "")).endswith("_output") or _asks(after):
                said = f"Item '{item['id']}' of type 'reasoning' was provided without its required following item."
                raise invalid(said, "input")
        needed = issued.came_with(item.get("id"))
        if needed is not None and needed not in thoughts:
            said = f"Item '{item['id']}' of type '{item['type']}' was provided without its required 'reasoning' item: "
            raise invalid(f"{said}'{needed}'.", "input")


def _asks(item: Json) -> bool:
    return not item or item.get("role", "assistant") != "assistant"


def _known_thought(item: Json, issued: Issued) -> None:
    sealed = item.get("encrypted_content")
    if sealed is None:
        if item["id"] not in issued.kept:
            raise _not_kept(item["id"])
        return
    if unsealed(sealed, item["id"]) is None:
        said = f"The encrypted content for item {item['id']} could not be verified."
        raise invalid(said, None, "invalid_encrypted_content")


def _not_kept(item_id: str) -> Refused:
    said = f"Item with id '{item_id}' not found. Items are not persisted when `store` is set to false."
    return Refused(404, openai_error(said, param="input"))
