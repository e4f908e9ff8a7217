"""The rules of Anthropic's Messages, with the vendor's error messages."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence

from contextinfinity.domain.message import Json
from contextinfinity_testing.vendors.troubles import anthropic_error
from contextinfinity_testing.vendors.wire import IMAGE_TYPES, Refused, is_base64, names, unsealed

PARAMETERS = names(
    "cache_control container diagnostics inference_geo max_tokens messages metadata model output_config service_tier"
    " speed stop_sequences stream system temperature thinking tool_choice tools top_k top_p"
)
BLOCKS = {
    "text": names("type text cache_control citations"),
    "image": names("type source cache_control"),
    "document": names("type source cache_control citations context title"),
    "thinking": names("type thinking signature"),
    "redacted_thinking": names("type data"),
    "tool_use": names("type id name input cache_control caller toolset_name"),
    "tool_result": names("type tool_use_id content is_error cache_control toolset_name"),
    "search_result": names("type source title content citations cache_control"),
    "server_tool_use": names("type id name input cache_control caller"),
    "web_search_tool_result": names("type tool_use_id content cache_control caller"),
}
REQUIRED = {
    "text": ("text",),
    "image": ("source",),
    "document": ("source",),
    "thinking": ("signature", "thinking"),
    "redacted_thinking": ("data",),
    "tool_use": ("id", "input", "name"),
    "tool_result": ("tool_use_id",),
    "search_result": ("source", "title", "content"),
    "server_tool_use": ("id", "name", "input"),
    "web_search_tool_result": ("tool_use_id", "content"),
}
OF_ASSISTANT = ("text", "thinking", "redacted_thinking", "tool_use", "server_tool_use", "web_search_tool_result")
OF_USER = ("text", "image", "document", "tool_result", "search_result")
TOOL_NAME = re.compile(r"^[a-zA-Z0-9_-]{1,128}$")
TOOL_ID = re.compile(r"^[a-zA-Z0-9_-]+$")
FUTURE = "future_"
"""Fields of a later version of the API begin so; they are accepted."""
MARKERS = 4
LEAST_THINKING = 1024


def check(body: Json) -> None:
    """Raise ``Refused`` where a request breaks a rule."""
    _known(body, PARAMETERS, "")
    for key in ("model", "messages", "max_tokens"):
        _need(body, key, "")
    if not isinstance(body["max_tokens"], int) or body["max_tokens"] < 0:
        raise _invalid("max_tokens: Input should be greater than or equal to 0")
    _system(body.get("system") or [])
    _tools(body.get("tools") or [])
    _messages(body["messages"])
    _markers(body)
    _calls(body["messages"])
    _thinking(body)
    _stop_sequences(body.get("stop_sequences") or [])


def blocks(content: Json) -> list[Json]:
    """Return content as blocks; a text is short for one."""
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content)


def texts(block: Json) -> Iterable[str]:
    """Return the texts of a block."""
    match block["type"]:
        case "text":
            yield block["text"]
        case "tool_use":
            yield f"{block['name']} {block['input']}"
        case "tool_result":
            for inner in blocks(block.get("content") or []):
                yield from texts(inner)


def _invalid(message: str) -> Refused:
    return Refused(400, anthropic_error("invalid_request_error", message))


def _known(value: Json, allowed: Collection[str], path: str) -> None:
    for key in value:
        if key not in allowed and not key.startswith(FUTURE):
            raise _invalid(f"{path}{key}: Extra inputs are not permitted")


def _need(value: Json, key: str, path: str) -> None:
    if key not in value:
        raise _invalid(f"{path}{key}: Field required")


def _system(system: Json) -> None:
    for index, block in enumerate(blocks(system)):
        path = f"system.{index}."
        if block.get("type") != "text":
            raise _invalid(f"{path}type: Input should be 'text'")
        _known(block, BLOCKS["text"], path)
        _need(block, "text", path)
        if not block["text"]:
            raise _invalid("system: text content blocks must be non-empty")


def _tools(tools: Sequence[Json]) -> None:
    names: set[str] = set()
    for index, tool in enumerate(tools):
        if tool.get("type", "custom") != "custom":
            continue
        path = f"tools.{index}.custom."
        for key in ("name", "input_schema"):
            _need(tool, key, path)
        if not TOOL_NAME.match(tool["name"]):
            raise _invalid(f"{path}name: String should match pattern '{TOOL_NAME.pattern}'")
        if tool["input_schema"].get("type") != "object":
            raise _invalid(f"{path}input_schema.type: Input should be 'object'")
        if tool["name"] in names:
            raise _invalid("tools: Tool names must be unique.")
        names.add(tool["name"])


def _messages(messages: Json) -> None:
    if not isinstance(messages, list) or not messages:
        raise _invalid("messages: at least one message is required")
    for index, message in enumerate(messages):
        _message(message, index, last=index == len(messages) - 1)
    if messages[0]["role"] != "user":
        raise _invalid('messages: first message must use the "user" role')


def _message(message: Json, index: int, *, last: bool) -> None:
    path = f"messages.{index}."
    _known(message, ("role", "content"), path)
    for key in ("role", "content"):
        _need(message, key, path)
    if message["role"] == "system":
        raise _invalid(
            'messages: Unexpected role "system". The Messages API accepts a top-level `system` parameter, not "system"'
            " as an input message role."
        )
    if message["role"] not in ("user", "assistant"):
        raise _invalid(f"{path}role: Input should be 'user' or 'assistant'")
    prefill = last and message["role"] == "assistant"
    if not message["content"] and not prefill:
        said = "all messages must have non-empty content except for the optional final assistant message"
        raise _invalid(f"messages.{index}: {said}")
    for place, block in enumerate(blocks(message["content"])):
        _block(block, f"{path}content.{place}", OF_USER if message["role"] == "user" else OF_ASSISTANT)
    if prefill:
        _prefill(blocks(message["content"]))


def _prefill(content: Sequence[Json]) -> None:
    if content and content[-1]["type"] == "text" and content[-1]["text"] != content[-1]["text"].rstrip():
        raise _invalid("messages: final assistant content cannot end with trailing whitespace")


def _block(block: Json, path: str, allowed: Sequence[str]) -> None:
    kind = block.get("type")
    if kind not in BLOCKS:
        tags = ", ".join(f"'{name}'" for name in BLOCKS)
        raise _invalid(f"{path}: Input tag '{kind}' found using 'type' does not match any of the expected tags: {tags}")
    _known(block, BLOCKS[kind], f"{path}.{kind}.")
    for key in REQUIRED[kind]:
        _need(block, key, f"{path}.{kind}.")
    if kind not in allowed:
        owner = "user" if kind in OF_USER else "assistant"
        raise _invalid(f"{path}: `{kind}` blocks can only be in `{owner}` messages")
    if kind in _KINDS:
        _KINDS[kind](block, path)


def _text(block: Json, path: str) -> None:
    if not isinstance(block["text"], str):
        raise _invalid(f"{path}.text.text: Input should be a valid string")
    if not block["text"]:
        if block.get("cache_control"):
            raise _invalid(f"{path}.text: cache_control cannot be set for empty text blocks")
        raise _invalid("messages: text content blocks must be non-empty")
    if not block["text"].strip():
        raise _invalid("messages: text content blocks must contain non-whitespace text")


def _tool_use(block: Json, path: str) -> None:
    if not isinstance(block["input"], dict):
        raise _invalid(f"{path}.tool_use.input: Input should be a valid dictionary")
    if not TOOL_NAME.match(block["name"]):
        raise _invalid(f"{path}.tool_use.name: String should match pattern '{TOOL_NAME.pattern}'")
    if not TOOL_ID.match(block["id"]):
        raise _invalid(f"{path}.tool_use.id: String should match pattern '{TOOL_ID.pattern}'")


def _image(block: Json, path: str) -> None:
    source, path = block["source"], f"{path}.image.source"
    if source.get("type") not in ("base64", "url", "file"):
        raise _invalid(f"{path}: Input tag '{source.get('type')}' does not match any of the expected tags")
    if source["type"] != "base64":
        return
    if source.get("media_type") not in IMAGE_TYPES:
        *most, last = [f"'{name}'" for name in IMAGE_TYPES]
        raise _invalid(f"{path}.base64.media_type: Input should be {', '.join(most)} or {last}")
    if not is_base64(source.get("data")):
        raise _invalid(f"{path}.base64: invalid base64 data")


def _tool_result(block: Json, path: str) -> None:
    for place, inner in enumerate(blocks(block.get("content") or [])):
        _block(inner, f"{path}.tool_result.content.{place}", ("text", "image", "document", "search_result"))


def _signed(block: Json, path: str) -> None:
    thought = unsealed(block["signature"])
    if thought is None:
        raise _invalid(f"{path}: Invalid `signature` in `thinking` block")
    if block["thinking"] not in ("", thought):
        said = "`thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified."
        raise _invalid(f"{path}: {said} These blocks must remain as they were in the original response.")


def _redacted(block: Json, path: str) -> None:
    if unsealed(block["data"]) is None:
        raise _invalid(f"{path}: Invalid `data` in `redacted_thinking` block")


_KINDS = {
    "text": _text,
    "image": _image,
    "tool_use": _tool_use,
    "tool_result": _tool_result,
    "thinking": _signed,
    "redacted_thinking": _redacted,
}


def _markers(body: Json) -> None:
    found = sum(1 for value in marked(body) if value.get("cache_control"))
    if found > MARKERS:
        raise _invalid(f"A maximum of 4 blocks with cache_control may be provided. Found {found}.")


def marked(body: Json) -> Iterator[Json]:
    """Return everything that may carry a cache marker."""
    yield body
    yield from body.get("tools") or []
    yield from blocks(body.get("system") or [])
    for message in body["messages"]:
        for block in blocks(message["content"]):
            yield block
            if block["type"] == "tool_result":
                yield from blocks(block.get("content") or [])


def _calls(messages: Sequence[Json]) -> None:
    seen: set[str] = set()
    called: list[str] = []
    merged = list(_turns(messages))
    for index, role, content in merged:
        results = [block["tool_use_id"] for block in content if block["type"] == "tool_result"]
        _answered(called, content, index - 1)
        for place, block in enumerate(content):
            if block["type"] == "tool_result" and block["tool_use_id"] not in called:
                raise _unexpected(block["tool_use_id"], index, place)
        if len(set(results)) != len(results):
            raise _invalid(f"messages.{index}.content: each tool_use must have a single result.")
        called = [block["id"] for block in content if block["type"] == "tool_use"] if role == "assistant" else []
        if len(set(called)) != len(called) or seen & set(called):
            raise _invalid(f"messages.{index}.content: `tool_use` ids must be unique")
        seen |= set(called)
    if called:
        raise _missing(called, merged[-1][0])


def _turns(messages: Sequence[Json]) -> Iterator[tuple[int, str, list[Json]]]:
    """Join messages of one role that follow each other, as the vendor does."""
    turn: tuple[int, str, list[Json]] | None = None
    for index, message in enumerate(messages):
        if turn is not None and turn[1] == message["role"]:
            turn = (turn[0], turn[1], turn[2] + blocks(message["content"]))
            continue
        if turn is not None:
            yield turn
        turn = (index, message["role"], blocks(message["content"]))
    if turn is not None:
        yield turn


def _answered(called: Sequence[str], content: Sequence[Json], index: int) -> None:
    first = {block["tool_use_id"] for block in content[: len(called)] if block["type"] == "tool_result"}
    missing = [call for call in called if call not in first]
    if missing:
        raise _missing(missing, index)


def _missing(calls: Sequence[str], index: int) -> Refused:
    return _invalid(
        f"messages.{index}: `tool_use` ids were found without `tool_result` blocks immediately after:"
        f" {', '.join(calls)}. Each `tool_use` block must have a corresponding `tool_result` block in the next message."
    )


def _unexpected(call: str, index: int, place: int) -> Refused:
    return _invalid(
        f"messages.{index}.content.{place}: unexpected `tool_use_id` found in `tool_result` blocks: {call}."
        " Each `tool_result` block must have a corresponding `tool_use` block in the previous message."
    )


def _thinking(body: Json) -> None:
    thinking = body.get("thinking") or {"type": "disabled"}
    kinds = ("enabled", "disabled", "adaptive", "between_tools")
    if thinking.get("type") not in kinds:
        raise _invalid(f"thinking: Input tag '{thinking.get('type')}' does not match any of the expected tags: {kinds}")
    if thinking["type"] != "enabled":
        return
    _need(thinking, "budget_tokens", "thinking.enabled.")
    if thinking["budget_tokens"] < LEAST_THINKING:
        raise _invalid("thinking.enabled.budget_tokens: Input should be greater than or equal to 1024")
    if thinking["budget_tokens"] >= body["max_tokens"]:
        raise _invalid("`max_tokens` must be greater than `thinking.budget_tokens`.")
    if body.get("temperature") not in (None, 1):
        raise _invalid("`temperature` may only be set to 1 when thinking is enabled.")
    if (body.get("tool_choice") or {}).get("type") in ("any", "tool"):
        raise _invalid("Thinking may not be enabled when tool_choice forces tool use.")
    _thought_first(list(_turns(body["messages"])))


def _stop_sequences(stops: Sequence[str]) -> None:
    for index, text in enumerate(stops):
        if not text.strip():
            raise _invalid(f"stop_sequences.{index}: each stop sequence must contain non-whitespace")


def _thought_first(turns: Sequence[tuple[int, str, list[Json]]]) -> None:
    if len(turns) < 2 or not any(block["type"] == "tool_result" for block in turns[-1][2]):
        return
    index, _, content = turns[-2]
    if content[0]["type"] not in ("thinking", "redacted_thinking"):
        raise _invalid(
            f"messages.{index}.content.0.type: Expected `thinking` or `redacted_thinking`, but found"
            f" `{content[0]['type']}`. When `thinking` is enabled, a final `assistant` message must start with a"
            " thinking block (preceeding the lastmost set of `tool_use` and `tool_result` blocks)."
        )
