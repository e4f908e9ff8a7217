"""Parse the body of POST /v1/responses.

Parameters that change the answer but cannot be followed are rejected by name. Parameters that only concern the vendor's
processing, and unknown ones, are listed as ignored. Null is the same as missing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from contextinfinity.dialects.contract import IncomingRequest
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
    field,
    number,
    optional,
    whole_number,
    word_of,
)
from contextinfinity.dialects.openai_responses.items import (
    InputItems,
    ToolNames,
    conversation_id,
    item_text,
    session_of,
    turn_of,
)
from contextinfinity.domain.message import Json
from contextinfinity.domain.prompt import RequestOptions
from contextinfinity.domain.sent_form import RESPONSES
from contextinfinity.errors import NotFound

MOST_IGNORED = 32
MOST_METADATA, LONGEST_KEY, LONGEST_VALUE = 16, 64, 512
BETWEEN = "\n\n"
ANY_OBJECT: Json = {"type": "object"}
ENCRYPTED = "reasoning.encrypted_content"
RESPONSE = "response"
"""The metadata field of a turn with the request parameters that its response repeats."""
LAYOUT = "layout"
"""In that field: how the blocks of the turn's message were divided into items."""
DEVELOPER = "developer"
"""In that field: the first system and developer items of the input (once: their texts); they apply to later turns."""

ECHOED = (
    *("instructions", "metadata", "tools", "tool_choice", "parallel_tool_calls", "temperature", "top_p", "text"),
    *("max_output_tokens", "reasoning", "truncation", "user", "safety_identifier", "previous_response_id"),
    *("prompt_cache_key", "background", "max_tool_calls", "store", "top_logprobs"),
)
"""Parameters that the response repeats."""
READ = frozenset(
    {
        *ECHOED,
        "model",
        "input",
        "conversation",
        "stream",
        "stream_options",
        "prompt",
        "include",
        "user_id",
    }
)
SILENT = frozenset(
    {"client_metadata", "prompt_cache_key", "prompt_cache_retention", "service_tier", "context_management"}
)
"""Parameters about the vendor's caches, accounts and windows, which do not change the answer."""
WRITTEN = frozenset(
    {
        *("model", "input", "instructions", "tools", "stream", "background", "conversation", "previous_response_id"),
        *("metadata", "user_id"),
    }
)
"""Parameters that the engine writes itself, even for a model of the same API."""
OPTION_NAMES = {
    "parallel_tools": "parallel_tool_calls",
    "effort": "reasoning.effort",
    "reasoning_summary": "reasoning.summary",
}
NO_PROMPTS = "stored prompts are not supported"
NO_LOGPROBS = "log probabilities are not supported"
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_TOKENS = whole_number(1, 2**31 - 1)
_EFFORT = word_of("none", "minimal", "low", "medium", "high", "xhigh", "max")


class ResponsesRequest(Struct, frozen=True, kw_only=True):
    """A parsed request for a response."""

    incoming: IncomingRequest
    tools: ToolNames
    instructions: str = ""
    developer: tuple[str, ...] = ()
    """The first system and developer texts in the input."""
    developer_sent: tuple[Json, ...] = ()
    """Their items, as sent."""
    tools_sent: Json = None
    echo: dict[str, Json]
    """The parameters that the response repeats."""
    encrypted: bool = False
    """Whether reasoning is returned in the form that the client must send back."""


def read(body: bytes) -> ResponsesRequest:
    """Parse a request; raise ``InvalidInput`` with the location, the problem and the fix."""
    return read_object(body_object(body))


def read_object(asked: dict[str, Json]) -> ResponsesRequest:
    """Parse a decoded request whose item references have been replaced by the items."""
    try:
        return _asked(asked)
    except InvalidValue as wrong:
        raise wrong.error() from None


def _asked(asked: dict[str, Json]) -> ResponsesRequest:
    follows, conversation = _place(asked)
    appends = conversation is not None or follows is not None
    items = InputItems(in_place_from=0 if appends else 1)
    field(asked, "input", lambda value: each([value] if isinstance(value, str) else value, items.take))
    messages = tuple(items.messages)
    if not messages:
        raise InvalidValue("expected at least one message of the user", "Send input.").inside("input")
    tools = optional(asked, "tools", _tools) or ToolNames()
    metadata = optional(asked, "metadata", a_metadata) or {}
    stream, background = (optional(asked, name, a_flag) or False for name in ("stream", "background"))
    store = optional(asked, "store", a_flag) is not False
    if background and not store:
        raise InvalidValue("a response in the background has to be stored", "Leave store out.").inside("background")
    echo: dict[str, Json] = _echo(asked, items) if store else {"store": False}
    if conversation is not None:
        echo["conversation"] = {"id": conversation_id(conversation)}
    incoming = IncomingRequest(
        model=field(asked, "model", a_name),
        messages=messages,
        tools=tuple(tools.offered),
        request_options=_request_options(asked, tools),
        response_format=_format(asked),
        stream=stream,
        background=background,
        with_usage=stream,
        end_user=end_user(asked),
        thread_id=conversation or _text_in(metadata, "thread_id") or None,
        follows=follows,
        appends=appends,
        option_names=OPTION_NAMES,
        form=RESPONSES,
        params=_params(asked, metadata),
        keeps={RESPONSE: echo | {"model": asked["model"]}},
        ignored=(*_ignored(asked), *(f"tools.{kind}" for kind in dict.fromkeys(tools.hosted)))[:MOST_IGNORED],
        unsupported=tuple(_unsupported(asked)),
    )
    return ResponsesRequest(
        incoming=incoming,
        instructions=optional(asked, "instructions", a_text) or "",
        developer=tuple(items.system),
        developer_sent=tuple(items.system_sent),
        tools_sent=asked.get("tools"),
        tools=tools,
        echo=incoming.keeps[RESPONSE],
        encrypted=ENCRYPTED in (optional(asked, "include", lambda value: each(value, a_text)) or ()),
    )


def _params(asked: dict[str, Json], metadata: dict[str, str]) -> dict[str, Json]:
    """Return the parameters that are passed unchanged to a model of the same API."""
    params = {name: value for name, value in asked.items() if name not in WRITTEN}
    noted = {name: value for name, value in metadata.items() if name not in ("thread_id", "user_id")}
    if not can_be_kept(params):
        raise InvalidValue("a parameter is nested too deeply, or contains a number that is too large")
    return params | ({"metadata": noted} if noted or asked.get("metadata") == {} else {})


def _unsupported(asked: dict[str, Json]) -> Iterator[tuple[str, str]]:
    """Yield the parameters that only a model of this API may support, with the reason."""
    if optional(asked, "top_logprobs", whole_number(0, 20)):
        yield "top_logprobs", NO_LOGPROBS
    if asked.get("prompt"):
        yield "prompt", NO_PROMPTS
    if any(isinstance(item, dict) and item.get("type") == "item_reference" for item in asked["input"]):
        yield "input", "an item that it refers to is not stored here"


def following(asked: ResponsesRequest, before: Sequence[Json]) -> ResponsesRequest:
    """Add the first system and developer texts of earlier inputs to a request."""
    texts = [item if isinstance(item, str) else item_text(item) for item in before]
    items = [{"role": DEVELOPER, "content": item} if isinstance(item, str) else item for item in before]
    developer = [*items, *asked.developer_sent]
    is_followed = asked.echo.get("store") is not False or "conversation" in asked.echo
    keeps = {RESPONSE: {**asked.echo, DEVELOPER: developer}} if developer and is_followed else asked.incoming.keeps
    system = BETWEEN.join(filter(None, (asked.instructions, *texts, *asked.developer)))
    sent = {"form": RESPONSES, "system": developer}
    sent |= {"instructions": asked.instructions} if asked.instructions else {}
    sent |= {} if asked.tools_sent is None else {"tools": asked.tools_sent}
    return replace(asked, incoming=replace(asked.incoming, system=system, keeps=keeps, sent=sent))


def _place(asked: dict[str, Json]) -> tuple[str | None, str | None]:
    """Return the position of the input: a previous turn, a conversation, or neither."""
    previous, conversation = (
        optional(asked, "previous_response_id", a_text),
        optional(asked, "conversation", _conversation),
    )
    if previous is None or conversation is None:
        return None if previous is None else _turn(previous), conversation
    raise InvalidValue("it cannot be combined with conversation", "Send one of them.").inside("previous_response_id")


def _turn(response_id: str) -> str:
    turn_id = turn_of(response_id)
    if turn_id is None:
        raise no_such_response(response_id)
    return turn_id


def no_such_response(response_id: str) -> NotFound:
    """Return the error for an unknown previous response."""
    return NotFound(f"previous_response_id: Previous response with id {response_id[:80]!r} not found.", hint="")


def _conversation(value: Json) -> str:
    named = field(value, "id", a_text) if isinstance(value, dict) else a_text(value)
    session_id = session_of(named)
    if session_id is None:
        raise NotFound(f"conversation: Conversation with id {named[:80]!r} not found.", hint="")
    return session_id


def _echo(asked: dict[str, Json], items: InputItems) -> dict[str, Json]:
    echo = {name: asked[name] for name in ECHOED if asked.get(name) is not None}
    if len(items.layout) != 1 or items.layout[0][0] != "message":
        echo[LAYOUT] = items.layout
    return echo


def _request_options(asked: dict[str, Json], tools: ToolNames) -> RequestOptions:
    reasoning = optional(asked, "reasoning", an_object) or {}
    return RequestOptions(
        temperature=optional(asked, "temperature", number(0, 2)),
        top_p=optional(asked, "top_p", number(0, 1)),
        max_output_tokens=optional(asked, "max_output_tokens", _TOKENS),
        tool_choice=optional(asked, "tool_choice", tools.chosen),
        parallel_tools=optional(asked, "parallel_tool_calls", a_flag),
        effort=optional(reasoning, "effort", _EFFORT),
        reasoning_summary=optional(reasoning, "summary", word_of("auto", "concise", "detailed")),
    )


def _format(asked: dict[str, Json]) -> Json:
    text = optional(asked, "text", an_object) or {}
    form = optional(text, "format", an_object) or {"type": "text"}
    kind = field(form, "type", word_of("text", "json_object", "json_schema"))
    if kind == "text":
        return None
    return ANY_OBJECT if kind == "json_object" else optional(form, "schema", a_schema) or ANY_OBJECT


def a_metadata(value: Json) -> dict[str, str]:
    """Return validated metadata: at most 16 texts by name."""
    metadata = an_object(value)
    if len(metadata) > MOST_METADATA:
        raise InvalidValue(f"expected at most {MOST_METADATA} entries, got {len(metadata)}")
    for name, said in metadata.items():
        if not isinstance(said, str) or len(said) > LONGEST_VALUE or not 0 < len(name) <= LONGEST_KEY:
            rule = f"a name of 1 to {LONGEST_KEY} characters and a string of at most {LONGEST_VALUE}"
            raise InvalidValue(f"expected {rule}").inside(name)
    return metadata


def end_user(asked: dict[str, Json]) -> str:
    """Return the end user, as the application names them, or an empty string."""
    try:
        metadata = optional(asked, "metadata", a_metadata) or {}
        return _text_in(asked, "user") or _text_in(asked, "safety_identifier") or _text_in(metadata, "user_id")
    except InvalidValue as wrong:
        raise wrong.error() from None


def _text_in(owner: dict[str, Json] | dict[str, str], name: str) -> str:
    """Return a name; an empty one is treated as missing."""
    return "" if owner.get(name) == "" else optional(owner, name, a_name) or ""


def _tools(value: Json) -> ToolNames:
    names = ToolNames()
    each(value, names.take)
    return names


def _ignored(asked: dict[str, Json]) -> Iterator[str]:
    """Yield the parameters that have no effect here, if their names are printable."""
    for name, value in asked.items():
        if name not in READ | SILENT and value not in (None, {}, []) and _PLAIN_NAME.fullmatch(name):
            yield name
    if (asked.get("text") or {}).get("verbosity") not in (None, "medium"):
        yield "text.verbosity"
