"""Write a request as the body of POST /responses.

System texts become ``developer`` items, messages become items in order. A body never refers to state at the provider:
items have no provider ids, except reasoning, which is sent back with its id and content.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby

from msgspec import Struct
from msgspec.structs import replace

from contextinfinity.domain.message import (
    ContentBlock,
    ImageBlock,
    Json,
    Message,
    ReasoningBlock,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    UnknownBlock,
    arguments_of,
)
from contextinfinity.domain.prompt import Abilities, Prompt, ProviderRequest, RequestOptions
from contextinfinity.domain.sent_form import JSON_OBJECT, PARALLEL, RESPONSES, RESPONSES_PARTS, all_in_form, joined_name
from contextinfinity.providers import request_options, wire_values
from contextinfinity.providers.request_options import (
    AppliedOptions,
    Offer,
    as_option,
    choice_offer,
    converted_options,
    effort_of,
    parallel_offer,
)
from contextinfinity.providers.tool_results import paired, with_safe_ids

PROVIDER = "openai"
ENCRYPTED = "reasoning.encrypted_content"
LEAST_OUTPUT = 16
"""The smallest limit that OpenAI accepts."""

RULES = request_options.Rules(
    vendor=PROVIDER,
    limits=("max_output_tokens",),
    least=LEAST_OUTPUT,
    may_forbid=("parallel_tool_calls",),
    state_hint="Remove it from the model's options in config.toml, or set openai.provider_conversations.",
    owned={
        **request_options.OWNED,
        "input": request_options.OWNED["messages"],
        "instructions": request_options.OWNED["messages"],
        "truncation": "use openai.truncation",
        "store": "use openai.store",
        "parallel_tool_calls": "use tools.allow_parallel or openai.parallel_tool_calls",
    },
)
TOOL_KEYS = frozenset({"tools", "tool_choice", "max_tool_calls", "parallel_tool_calls"})
"""Parameters that are not sent to a model without tool support."""
OF_TOOLS = ("tool_choice", "max_tool_calls", "parallel_tool_calls")
"""Options that are rejected if no tools are offered."""

ITEMS_THAT_RETURN = frozenset(
    {
        "web_search_call",
        "file_search_call",
        "computer_call",
        "code_interpreter_call",
        "image_generation_call",
        "mcp_call",
        "mcp_list_tools",
        "mcp_approval_request",
        "local_shell_call",
        "shell_call",
        "shell_call_output",
        "apply_patch_call",
        "apply_patch_call_output",
        "tool_search_call",
        "tool_search_output",
        "program",
        "program_output",
    }
)
"""Items of an answer that OpenAI accepts back unchanged."""


class ResponsesRequestSettings(Struct, frozen=True, kw_only=True):
    """Settings that apply to every request."""

    truncation: str
    store: bool
    client_store: bool
    parallel_tools: bool
    provider_tools: tuple[Json, ...]
    upstream_state: bool


def body(request: ProviderRequest, abilities: Abilities, how: ResponsesRequestSettings) -> dict[str, Json]:
    """Write the body of a request; raise ``ProviderError`` for options that cannot be followed."""
    if (sent := wire_values.sent_to(request, RESPONSES)) is not None:
        params = wire_values.dict_of(sent.get("params"))
        passed = _as_sent(request, params if how.client_store else _not_stored(params, abilities))
        return passed if abilities.tools else {key: each for key, each in passed.items() if key not in TOOL_KEYS}
    prompt = request.prompt
    tools = _tools(prompt, abilities) + list(how.provider_tools)
    written: dict[str, Json] = {
        "model": request.model_id,
        "input": list(_items(prompt, abilities, store=how.store)),
        "stream": True,
        "store": how.store,
        "truncation": how.truncation,
        "max_output_tokens": wire_values.bounded_output(request, abilities, LEAST_OUTPUT),
    }
    if tools:
        several = how.parallel_tools or wire_values.client_accepts(prompt, PARALLEL)
        written |= {"tools": tools, "parallel_tool_calls": several}
    if request.cache_key:
        written["prompt_cache_key"] = wire_values.cache_key(request.cache_key)
    if abilities.reasoning and not how.store:
        # OpenAI sends it by default now; older deployments send it only on request.
        written["include"] = [ENCRYPTED]
    if prompt.response_format is not None:
        written["text"] = {"format": _format(prompt)}
    rules = replace(RULES, upstream_state=how.upstream_state)
    return request_options.with_options(written, request.options, rules, () if tools else OF_TOOLS)


def _as_sent(request: ProviderRequest, params: dict[str, Json]) -> dict[str, Json]:
    """Write the client's own items, tools and parameters, plus the texts that we add."""
    prompt, sent = request.prompt, request.prompt.sent
    added = [_message("developer", text) for text in prompt.system[1:]]
    items = [*wire_values.list_of(sent.get("system")), *added, *all_in_form(RESPONSES, prompt.messages)]
    is_text = len(items) == 1 and isinstance(items[0], str)
    return {
        **wire_values.configured(request),
        **params,
        **({} if params.get("max_output_tokens") is None else {"max_output_tokens": request.max_output_tokens}),
        **{name: sent[name] for name in ("instructions", "tools") if name in sent},
        "model": request.model_id,
        "input": items[0] if is_text else _with_own_calls([_item(item) for item in items], sent.get("tools")),
        "stream": True,
    }


def _not_stored(params: dict[str, Json], abilities: Abilities) -> dict[str, Json]:
    """Return a client's parameters with storage turned off; the reasoning then has to come with the answer."""
    include = wire_values.list_of(params.get("include"))
    if abilities.reasoning and ENCRYPTED not in include:
        include = [*include, ENCRYPTED]
    return {**params, "store": False, **({"include": include} if include else {})}


def _item(item: Json) -> dict[str, Json]:
    """Return an item; a client may send a single message as a string."""
    return {"role": "user", "content": item} if isinstance(item, str) else item


def _with_own_calls(items: list[dict[str, Json]], tools: Json) -> list[dict[str, Json]]:
    """Write the calls that the model made here in the form of their tools: custom ones, and those in namespaces."""
    custom = {item.get("call_id") for item in items if item.get("type") == "custom_tool_call_output"}
    named: dict[str, tuple[str, str]] = {}
    for tool in map(wire_values.dict_of, wire_values.list_of(tools)):
        if tool.get("type") == "namespace":
            inner = map(wire_values.dict_of, wire_values.list_of(tool.get("tools")))
            space = wire_values.text_of(tool.get("name"))
            named |= {joined_name(space, name): (space, name) for one in inner if (name := str(one.get("name")))}

    def written(item: dict[str, Json]) -> dict[str, Json]:
        if item.get("type") != "function_call":
            return item
        if item["call_id"] in custom:
            called = {"type": "custom_tool_call", "call_id": item["call_id"], "name": item["name"]}
            item = {**called, "input": wire_values.dict_of(arguments_of(item["arguments"])).get("input", "")}
        if item["name"] in named and "namespace" not in item:
            item = {**item, **dict(zip(("namespace", "name"), named[item["name"]], strict=True))}
        return item

    return [written(item) for item in items]


def _tools(prompt: Prompt, abilities: Abilities) -> list[Json]:
    if not abilities.tools:
        return []
    return [
        # Not strict: that rejects schemas with optional arguments, and it is OpenAI's default.
        {
            "type": "function",
            "name": tool.name,
            "description": tool.description,
            "parameters": tool.parameters,
            "strict": False,
        }
        for tool in prompt.tools
    ]


def _format(prompt: Prompt) -> Json:
    if wire_values.client_accepts(prompt, JSON_OBJECT):
        return {"type": "json_object"}
    schema = prompt.response_format
    strict = wire_values.can_be_strict(schema)
    return {"type": "json_schema", "name": wire_values.FORMAT_NAME, "schema": schema, "strict": strict}


def _items(prompt: Prompt, abilities: Abilities, *, store: bool) -> Iterator[Json]:
    for text in prompt.system:
        yield _message("developer", text)
    named = with_safe_ids(prompt.messages, pattern=wire_values.CALL_ID_PATTERN, longest=wire_values.LONGEST_CALL_ID)
    messages = [each.message for each in paired(named)]
    running = wire_values.loop_start(messages)
    for place, message in enumerate(messages):
        if message.role == "system":
            yield _message("developer", message.rendered_text)
        elif message.role == "assistant":
            yield from _answer(message, store=store, running=place >= running)
        else:
            yield from _message_items(message, abilities)


def _message(role: str, content: Json) -> Json:
    return {"type": "message", "role": role, "content": content}


def _message_items(message: Message, abilities: Abilities) -> Iterator[Json]:
    for block in message.blocks:
        if isinstance(block, ToolResultBlock):
            yield {"type": "function_call_output", "call_id": block.tool_use_id, "output": _output(block, abilities)}
    parts = [] if message.role == "tool" else list(_parts(message.blocks, abilities))
    if parts:
        yield _message("user", parts)


def _output(result: ToolResultBlock, abilities: Abilities) -> Json:
    parts = list(_parts(result.content, abilities))
    if result.is_error:
        parts.insert(0, _text(wire_values.ERROR_MARK))
    if all(part["type"] == "input_text" for part in parts):
        return "".join([part["text"] for part in parts])
    return parts


def _parts(blocks: Iterable[ContentBlock], abilities: Abilities) -> Iterator[dict[str, Json]]:
    for block in blocks:
        if isinstance(block, TextBlock):
            if block.text:
                yield _text(block.text)
        elif isinstance(block, ImageBlock):
            url = wire_values.image_url(block, abilities)
            yield _text(wire_values.IMAGE_NOTE) if url is None else _image(url)
        elif isinstance(block, ToolResultBlock):
            yield from _parts(block.content, abilities)
        elif isinstance(block, UnknownBlock):
            own = wire_values.is_own(block, PROVIDER, RESPONSES_PARTS)
            yield wire_values.without_nulls(block.raw) if own else _file(block, abilities)


def _text(text: str) -> dict[str, Json]:
    return {"type": "input_text", "text": text}


def _file(block: UnknownBlock, abilities: Abilities) -> dict[str, Json]:
    """Return a file of any vendor's client, or a note."""
    document = wire_values.readable_file(block, abilities)
    if document is None:
        return _text(wire_values.UNKNOWN_NOTE)
    if (text := wire_values.file_text(document)) is not None:
        return _text(text)
    if document.url:
        return {"type": "input_file", "file_url": document.url}
    return {"type": "input_file", **wire_values.named_file(document)}


def _image(url: str) -> dict[str, Json]:
    return {"type": "input_image", "image_url": url, "detail": "auto"}


def _answer(message: Message, *, store: bool, running: bool) -> Iterator[Json]:
    for phase, blocks in groupby(message.blocks, key=_phase):
        if phase is not None:
            yield from _words(list(blocks), phase)
            continue
        for block in blocks:
            if isinstance(block, ToolUseBlock):
                yield _call(block)
            elif isinstance(block, ReasoningBlock):
                yield from _reasoning(block.raw, store=store)
            elif isinstance(block, UnknownBlock) and running and wire_values.is_own(block, PROVIDER, ITEMS_THAT_RETURN):
                yield wire_values.without_nulls(block.raw)


def _phase(block: ContentBlock) -> str | None:
    """Return the phase of a text, "" if it has none, or None for blocks that are not text."""
    if isinstance(block, ImageBlock):
        return ""
    if not isinstance(block, TextBlock):
        return None
    marks = [mark for mark in map(wire_values.dict_of, block.annotations) if mark.get("type") == "phase"]
    return wire_values.text_of(marks[0].get("phase")) if marks else ""


def _words(blocks: list[ContentBlock], phase: str) -> Iterator[Json]:
    text = "".join([block.text if isinstance(block, TextBlock) else wire_values.IMAGE_NOTE for block in blocks])
    if text:
        message = _message("assistant", text)
        yield {**message, "phase": phase} if phase else message


def _call(block: ToolUseBlock) -> Json:
    name, arguments = wire_values.safe_name(block.name), wire_values.arguments_text(block.input)
    return {"type": "function_call", "call_id": block.tool_use_id, "name": name, "arguments": arguments}


def _reasoning(raw: Json, *, store: bool) -> Iterator[Json]:
    item = wire_values.dict_of(raw)
    if item.get("type") != "reasoning" or not isinstance(item.get("id"), str):
        return
    kept = {key: item[key] for key in ("type", "id", "content", "encrypted_content") if item.get(key)}
    # Without content it is only a reference, which is valid only if the provider has stored it.
    if store or len(kept) > 2:
        yield {**kept, "summary": wire_values.list_of(item.get("summary"))}


def for_responses(request_options: RequestOptions, able: Abilities, *, parallel: bool) -> AppliedOptions:
    """Convert request options to the Responses API, which has no stop sequences, seed or penalties."""
    effort = effort_of(request_options, able)
    thought = None if effort is None else {"reasoning": {"effort": effort}}
    samples = able.guidance.sampling or effort == "none"
    offers: dict[str, Offer | None] = {
        "temperature": as_option("temperature") if samples else None,
        "top_p": as_option("top_p") if samples else None,
        "tool_choice": choice_offer(able, "tool_choice", _responses_choice),
        "parallel_tools": parallel_offer(able, parallel),
        "effort": lambda _: thought,
        "reasoning_summary": (lambda value: {"reasoning": {"summary": value}}) if able.reasoning else None,
        "thinking_tokens": lambda _: thought,
    }
    return converted_options(request_options, offers)


def _responses_choice(choice: str) -> Json:
    return {"type": "function", "name": choice[1:]} if choice.startswith(":") else choice
