"""Parse the body of POST /v1/chat/completions.

Parameters that change the answer but cannot be followed are rejected by name. Parameters that only concern the vendor's
processing, and unknown ones, are listed as ignored. Null is the same as missing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from contextinfinity.dialects.contract import IncomingRequest
from contextinfinity.dialects.openai_chat.conversation import MessageReader
from contextinfinity.dialects.openai_chat.value_checks import (
    InvalidValue,
    a_flag,
    a_name,
    a_schema,
    a_text,
    an_object,
    body_object,
    can_be_kept,
    each,
    expected,
    field,
    number,
    optional,
    whole_number,
    word_of,
)
from contextinfinity.domain.message import Json
from contextinfinity.domain.prompt import RequestOptions, ToolSpec
from contextinfinity.domain.sent_form import CHAT

MOST_CHOICES = 16
MOST_STOPS = 16
MOST_IGNORED = 32
BETWEEN = "\n\n"
ANY_OBJECT: Json = {"type": "object"}
NO_PARAMETERS: Json = {"type": "object", "properties": {}}

READ = frozenset(
    {
        "user_id",
        "model",
        "messages",
        "tools",
        "tool_choice",
        "functions",
        "function_call",
        "parallel_tool_calls",
        "response_format",
        "stop",
        "max_tokens",
        "max_completion_tokens",
        "temperature",
        "top_p",
        "top_k",
        "seed",
        "presence_penalty",
        "frequency_penalty",
        "reasoning_effort",
        "n",
        "logprobs",
        "top_logprobs",
        "stream",
        "stream_options",
        "user",
        "safety_identifier",
        "metadata",
        "modalities",
        "audio",
        "web_search_options",
        "moderation",
    }
)
WRITTEN = frozenset({"model", "messages", "tools", "stream", "stream_options", "metadata", "n", "user_id"})
"""Parameters that the engine writes itself, even for a model of the same API."""
REFUSED = {
    "audio": "audio answers are not supported",
    "web_search_options": "web search is not supported",
    "moderation": "moderation is not supported",
    "logprobs": "log probabilities are not supported",
    "top_logprobs": "log probabilities are not supported",
}
"""Without these the answer would not be what was asked for."""
OPTION_NAMES = {"parallel_tools": "parallel_tool_calls", "effort": "reasoning_effort"}
DEFAULTS: dict[str, tuple[Json, ...]] = {
    "store": (False,),
    "service_tier": ("auto", "default"),
    "verbosity": ("medium",),
    "logit_bias": ({},),
}
"""Values that equal the default."""

_PLAIN_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_TOKENS = whole_number(1, 2**31 - 1)
_PENALTY = number(-2, 2)
_CHOICES = word_of("none", "auto", "required")
_EFFORT = word_of("none", "minimal", "low", "medium", "high", "xhigh", "max")


def read(body: bytes) -> IncomingRequest:
    """Parse a request; raise ``InvalidInput`` with the location, the problem and the fix."""
    asked = body_object(body)
    try:
        return _incoming(asked)
    except InvalidValue as wrong:
        raise wrong.error() from None


def _incoming(asked: dict[str, Json]) -> IncomingRequest:
    said = MessageReader()
    model = field(asked, "model", a_name)
    if not field(asked, "messages", lambda messages: each(messages, said.take)):
        raise InvalidValue("expected at least one message").inside("messages")
    if not said.messages:  # system texts only: the last one is answered
        *before, last = said.system_sent
        said = MessageReader()
        for message in before:
            said.take(message)
        said.take(last, is_only=True)
    tools = [*(optional(asked, "tools", _tools) or ()), *(optional(asked, "functions", _functions) or ())]
    metadata = optional(asked, "metadata", an_object) or {}
    stream = optional(asked, "stream", a_flag) or False
    choices = optional(asked, "n", whole_number(1, MOST_CHOICES)) or 1
    ignored = [*_ignored(asked, metadata), *_ignored_nested(asked, said)]
    return IncomingRequest(
        model=model,
        messages=tuple(said.messages),
        system=BETWEEN.join(said.system),
        tools=tuple(tools),
        request_options=_request_options(asked, tools),
        response_format=optional(asked, "response_format", _format),
        stream=stream,
        with_usage=stream and optional(asked, "stream_options", _with_usage) is True,
        end_user=_end_user(asked, metadata),
        thread_id=_noted(metadata, "thread_id") or None,
        ignored=tuple(ignored[:MOST_IGNORED]),
        unsupported=tuple(_unsupported(asked)),
        option_names=OPTION_NAMES,
        form=CHAT,
        sent={"form": CHAT, "system": said.system_sent} | ({"tools": asked["tools"]} if asked.get("tools") else {}),
        params=_params(asked, metadata),
        choices=choices,
    )


def _params(asked: dict[str, Json], metadata: dict[str, Json]) -> dict[str, Json]:
    """Return the parameters that are passed unchanged to a model of the same API."""
    params = {name: value for name, value in asked.items() if name not in WRITTEN}
    noted = {name: value for name, value in metadata.items() if name not in ("thread_id", "user_id")}
    if not can_be_kept(params):
        raise InvalidValue("a parameter is nested too deeply, or contains a number that is too large")
    return params | ({"metadata": noted} if noted or asked.get("metadata") == {} else {})


def _unsupported(asked: dict[str, Json]) -> Iterator[tuple[str, str]]:
    """Yield the parameters that only a model of this API may support, with the reason."""
    for name, said in REFUSED.items():
        value = asked.get(name)
        if value is not None and value is not False and value != 0:
            yield name, said
    if asked.get("modalities") not in (None, [], ["text"]):
        yield "modalities[0]", "only text answers are supported"


def _request_options(asked: dict[str, Json], tools: list[ToolSpec]) -> RequestOptions:
    most = optional(asked, "max_completion_tokens", _TOKENS) or optional(asked, "max_tokens", _TOKENS)
    top_k = optional(asked, "top_k", whole_number(-1, 2**31 - 1))
    return RequestOptions(
        temperature=optional(asked, "temperature", number(0, 2)),
        top_p=optional(asked, "top_p", number(0, 1)),
        top_k=top_k if top_k and top_k > 0 else None,  # other vendors write "all" as 0 or -1
        stop=optional(asked, "stop", _stop) or (),
        seed=optional(asked, "seed", whole_number(-(2**63), 2**63 - 1)),
        presence_penalty=optional(asked, "presence_penalty", _PENALTY),
        frequency_penalty=optional(asked, "frequency_penalty", _PENALTY),
        max_output_tokens=most,
        tool_choice=_tool_choice(asked, {tool.name for tool in tools}),
        parallel_tools=optional(asked, "parallel_tool_calls", a_flag),
        effort=optional(asked, "reasoning_effort", _EFFORT),
    )


def _stop(value: Json) -> tuple[str, ...]:
    """Parse the stop sequences; empty ones are omitted."""
    texts = [value] if isinstance(value, str) else each(value, a_text)
    if len(texts) > MOST_STOPS:
        raise InvalidValue(f"expected at most {MOST_STOPS} strings, got {len(texts)}")
    return tuple(text for text in texts if text)


def _tools(value: Json) -> list[ToolSpec]:
    return each(value, _tool)


def _tool(value: Json) -> ToolSpec:
    tool = an_object(value)
    if tool.get("type") != "function":
        wrong = expected("function", tool.get("type")).inside("type")
        wrong.hint = "Offer it as a function with a JSON schema, and run it yourself."
        raise wrong
    return field(tool, "function", _function)


def _functions(value: Json) -> list[ToolSpec]:
    return each(value, _function)


def _function(value: Json) -> ToolSpec:
    inner = an_object(value)
    return ToolSpec(
        name=field(inner, "name", a_name),
        description=optional(inner, "description", a_text) or "",
        parameters=optional(inner, "parameters", a_schema) or NO_PARAMETERS,
    )


def _tool_choice(asked: dict[str, Json], tools: set[str]) -> str | None:
    name = "tool_choice" if asked.get("tool_choice") is not None else "function_call"
    choice = optional(asked, name, _old_choice if name == "function_call" else _choice)
    if choice == "required" and not tools:
        raise InvalidValue("no tools are offered", "Send tools, or leave it out.").inside(name)
    if choice is not None and choice.startswith(":") and choice[1:] not in tools:
        raise InvalidValue("the named tool is not among the tools").inside(name)
    return choice


def _choice(value: Json) -> str:
    if not isinstance(value, dict):
        return _CHOICES(value)
    if value.get("type") != "function":
        raise expected("function", value.get("type")).inside("type")
    return field(value, "function", _old_choice)


def _old_choice(value: Json) -> str:
    return ":" + field(value, "name", a_name) if isinstance(value, dict) else _CHOICES(value)


def _format(value: Json) -> Json:
    form = an_object(value)
    kind = field(form, "type", word_of("text", "json_object", "json_schema"))
    if kind == "text":
        return None
    if kind == "json_object":
        return ANY_OBJECT
    return field(form, "json_schema", lambda inner: optional(an_object(inner), "schema", a_schema)) or ANY_OBJECT


def _with_usage(value: Json) -> bool:
    return optional(an_object(value), "include_usage", a_flag) is True


def _end_user(asked: dict[str, Json], metadata: dict[str, Json]) -> str:
    """Return the end user, as the application names them."""
    return _name_in(asked, "user") or _name_in(asked, "safety_identifier") or _noted(metadata, "user_id")


def _noted(metadata: dict[str, Json], name: str) -> str:
    try:
        return _name_in(metadata, name)
    except InvalidValue as wrong:
        raise wrong.inside("metadata") from None


def _name_in(owner: dict[str, Json], name: str) -> str:
    """Return a name; an empty one is treated as missing."""
    return "" if owner.get(name) == "" else optional(owner, name, a_name) or ""


def _ignored(asked: dict[str, Json], metadata: dict[str, Json]) -> Iterator[str]:
    """Yield the parameters that have no effect here, if their names are printable."""
    for name, value in asked.items():
        unread = name not in READ and value is not None and value not in DEFAULTS.get(name, ())
        if unread and _PLAIN_NAME.fullmatch(name):
            yield name
    if metadata.keys() - {"thread_id", "user_id"}:
        yield "metadata"


def _ignored_nested(asked: dict[str, Json], said: MessageReader) -> Iterator[str]:
    """Yield nested parameters that have no effect here."""
    if said.named:
        yield "messages.name"
    if any(tool["function"].get("strict") for tool in asked.get("tools") or ()):
        yield "tools.function.strict"
