"""Parse the requests of Anthropic's clients into ``IncomingRequest``.

Unsupported parameters are listed in ``ignored``; they are rejected only if the answer would differ from what was asked
for. Invalid values are rejected with their location, ``messages.3.content.1.text``.

Tools that run at Anthropic, or that only its models know, cannot be offered to every model: they are omitted, and
rejected only if the client requires one of them.
"""

from __future__ import annotations

import re

import msgspec
from msgspec import Struct

from contextinfinity.dialects.anthropic.content_blocks import (
    InvalidField,
    assistant_content,
    count_in,
    each,
    flag_in,
    fraction_in,
    kept,
    kept_object,
    list_in,
    object_in,
    object_of,
    optional_text,
    text_in,
    texts_of,
    under,
    user_content,
    word_in,
)
from contextinfinity.dialects.contract import IncomingRequest
from contextinfinity.domain.message import Json, Message, TextBlock
from contextinfinity.domain.prompt import RequestOptions, ToolSpec
from contextinfinity.domain.sent_form import MESSAGES, with_form
from contextinfinity.domain.wire import has_nul, unreadable
from contextinfinity.errors import InvalidInput

CHOICES = {"auto": "auto", "any": "required", "none": "none"}

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_TOOL_FIELDS = frozenset({"type", "name", "description", "input_schema", "cache_control", "eager_input_streaming"})


class OfferedTools(Struct, frozen=True, kw_only=True):
    """The tools of a request: those that can be offered, the names of the others, and ignored parameters."""

    specs: tuple[ToolSpec, ...]
    left_out: frozenset[str]
    ignored: tuple[str, ...]


def offered_in(asked: dict[str, Json]) -> OfferedTools:
    """Parse the tools of a request."""
    given = under("tools", lambda tools: each(tools, _tool), list_in(asked, "tools"))
    specs = [spec for spec, _ in given if isinstance(spec, ToolSpec)]
    names = [spec.name for spec in specs]
    if len(set(names)) != len(names):
        raise InvalidField("tool names must be unique.", "tools")
    return OfferedTools(
        specs=tuple(specs),
        left_out=frozenset(spec for spec, _ in given if isinstance(spec, str)),
        ignored=tuple(dict.fromkeys([f"tools.{name}" for _, ignored in given for name in ignored])),
    )


def _tool(given: Json) -> tuple[ToolSpec | str, list[str]]:
    """Parse a tool, or return the name of an omitted one; also return its ignored parameters."""
    tool = object_of(given)
    if (optional_text(tool, "type") or "custom") != "custom":
        name = optional_text(tool, "name") or tool["type"]
        return name, [name]
    name = text_in(tool, "name")
    if _NAME.fullmatch(name) is None:
        raise InvalidField("expected 1 to 128 letters, digits, hyphens and underscores.", "name")
    schema = under("input_schema", _parameters, tool.get("input_schema"))
    spec = ToolSpec(name=name, description=optional_text(tool, "description"), parameters=schema)
    return spec, [key for key, value in tool.items() if value and key not in _TOOL_FIELDS]


def _parameters(given: Json) -> Json:
    schema = object_of(given)
    if schema.get("type", "object") != "object":
        raise InvalidField("expected type object: a tool takes named arguments.", "type")
    return kept(schema)


def choice_of(asked: dict[str, Json], tools: OfferedTools) -> tuple[str | None, bool | None]:
    """Return the tool choice in the form of ``RequestOptions``, and whether parallel calls are allowed."""
    return under("tool_choice", lambda choice: _choice(choice, tools), object_in(asked, "tool_choice"))


def _choice(choice: dict[str, Json], tools: OfferedTools) -> tuple[str | None, bool | None]:
    if not choice:
        return None, None
    kind = word_in(choice, "type", ("auto", "any", "tool", "none"))
    alone = flag_in(choice, "disable_parallel_tool_use")
    parallel = None if alone is None else not alone
    if kind == "tool":
        return f":{_named(text_in(choice, 'name'), tools)}", parallel
    if kind == "any" and not tools.specs:
        raise InvalidField("no tool is offered.", "type", hint=_hint(tools))
    return (CHOICES[kind], parallel) if tools.specs else (None, None)


def _named(name: str, tools: OfferedTools) -> str:
    if any(spec.name == name for spec in tools.specs):
        return name
    if name in tools.left_out:
        raise InvalidField("this tool cannot be called here.", "name", hint=_hint(tools))
    raise InvalidField("expected the name of one of the tools.", "name")


def _hint(tools: OfferedTools) -> str:
    return "Tools that Anthropic runs or defines are not supported; offer one of your own." if tools.left_out else ""


EFFORTS = ("low", "medium", "high", "xhigh", "max")
THINKING = ("enabled", "disabled", "adaptive", "between_tools")
LEAST_THINKING = 1024
MOST_IGNORED = 32
"""The maximum number of ignored parameters that are named."""

OPTION_NAMES = {
    "stop": "stop_sequences",
    "effort": "output_config.effort",
    "thinking_tokens": "thinking",
    "parallel_tools": "tool_choice.disable_parallel_tool_use",
}
_MEANT = frozenset(
    {
        *("model", "messages", "system", "max_tokens", "stream", "metadata", "tools", "tool_choice", "stop_sequences"),
        *("temperature", "top_p", "top_k", "thinking", "output_config", "output_format", "cache_control", "user_id"),
    }
)
WRITTEN = frozenset({"model", "messages", "system", "tools", "stream", "max_tokens", "metadata", "user_id"})
"""Parameters that the engine writes itself, even for a model of the same API."""
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")


def incoming(body: bytes) -> IncomingRequest:
    """Parse a request for a message; raise ``InvalidInput`` if it is wrong."""
    return _read(body, to_count=False)


def incoming_to_count(body: bytes) -> IncomingRequest:
    """Parse a token counting request, which does not set the answer's length."""
    return _read(body, to_count=True)


def _read(body: bytes, *, to_count: bool) -> IncomingRequest:
    asked = _decoded(body)
    try:
        return _incoming(asked, to_count)
    except InvalidField as wrong:
        raise wrong.error() from None


def _decoded(body: bytes) -> dict[str, Json]:
    try:
        asked = msgspec.json.decode(body)
    except RecursionError:
        raise InvalidInput("The body is nested too deeply.") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidInput(f"The body is not valid JSON: {unreadable(body, error)}.") from None
    if not isinstance(asked, dict):
        raise InvalidInput("The body must be a JSON object.")
    if b"\\u0000" in body and has_nul(asked):
        raise InvalidInput("The body holds a NUL character, which is not allowed.", hint="Leave it out.")
    return asked


def _incoming(asked: dict[str, Json], to_count: bool) -> IncomingRequest:
    said = _messages(asked)
    metadata = object_in(asked, "metadata")
    tools = offered_in(asked)
    stream = flag_in(asked, "stream") is True
    given = asked.get("system")
    system = [] if given is None else under("system", texts_of, given)
    return IncomingRequest(
        model=text_in(asked, "model", least=1),
        messages=tuple(said),
        system="\n\n".join(system),
        tools=tools.specs,
        request_options=_request_options(asked, tools, to_count),
        response_format=_response_format(asked),
        stream=stream,
        with_usage=stream,
        end_user=under("metadata", lambda inner: optional_text(inner, "user_id"), metadata),
        thread_id=under("metadata", lambda inner: optional_text(inner, "thread_id"), metadata) or None,
        ignored=_ignored(asked, tools),
        option_names=OPTION_NAMES,
        form=MESSAGES,
        sent={"form": MESSAGES}
        | {name: kept_value(asked, name) for name in ("system", "tools") if asked.get(name) is not None},
        params=_params(asked, metadata),
    )


def _params(asked: dict[str, Json], metadata: dict[str, Json]) -> dict[str, Json]:
    """Return the parameters that are passed unchanged to a model of the same API."""
    params = {name: kept_value(asked, name) for name in asked if name not in WRITTEN and asked[name] is not None}
    noted = {name: value for name, value in metadata.items() if name != "thread_id"}
    return params | ({"metadata": noted} if noted or asked.get("metadata") == {} else {})


def kept_value(asked: dict[str, Json], name: str) -> Json:
    """Return a parameter that is passed unchanged to a model of the same API."""
    value = asked[name]
    return under(name, kept, value) if isinstance(value, dict | list) else value


def _messages(asked: dict[str, Json]) -> list[Message]:
    said = under("messages", lambda given: each(given, _message), list_in(asked, "messages"))
    if all(message.role == "system" for message in said):
        raise InvalidField("expected at least one user message.", "messages")
    return said


def _message(given: Json) -> Message:
    message = object_of(given)
    role, content = word_in(message, "role", ("user", "assistant", "system")), message.get("content")
    if role == "user":
        said = Message(role="user", blocks=under("content", user_content, content))
    elif role == "assistant":
        said = Message(role="assistant", blocks=under("content", assistant_content, content))
    else:
        said = Message(role="system", blocks=(TextBlock(text="\n\n".join(under("content", texts_of, content))),))
    return with_form(said, MESSAGES, kept(message))


def _request_options(asked: dict[str, Json], tools: OfferedTools, to_count: bool) -> RequestOptions:
    most = count_in(asked, "max_tokens", least=1)
    if most is None and not to_count:
        raise InvalidField("max_tokens is required: the maximum number of tokens of the answer.", "max_tokens")
    tool_choice, parallel_tools = choice_of(asked, tools)
    return RequestOptions(
        temperature=fraction_in(asked, "temperature"),
        top_p=fraction_in(asked, "top_p"),
        top_k=count_in(asked, "top_k", least=0),
        stop=tuple(under("stop_sequences", lambda given: each(given, _stop), list_in(asked, "stop_sequences"))),
        max_output_tokens=most,
        tool_choice=tool_choice,
        parallel_tools=parallel_tools,
        effort=under("output_config", _effort, object_in(asked, "output_config")),
        thinking_tokens=under("thinking", _thinking_tokens, object_in(asked, "thinking")),
    )


def _stop(given: Json) -> str:
    if not isinstance(given, str) or not given.strip():
        raise InvalidField("expected a string that is not blank.")
    return given


def _effort(config: dict[str, Json]) -> str | None:
    return None if config.get("effort") is None else word_in(config, "effort", EFFORTS)


def _thinking_tokens(thinking: dict[str, Json]) -> int | None:
    """Return the thinking budget; None if the model decides for itself."""
    kind = word_in(thinking, "type", THINKING) if thinking else "adaptive"
    if kind == "disabled":
        return 0
    if kind != "enabled":
        return None
    budget = count_in(thinking, "budget_tokens", least=LEAST_THINKING)
    if budget is None:
        raise InvalidField("the thinking budget in tokens is required.", "budget_tokens")
    return budget


def _response_format(asked: dict[str, Json]) -> Json:
    """Return the schema of the answer; ``output_format`` is its older name."""
    config = object_in(asked, "output_config")
    if config.get("format") is not None:
        return under("output_config", lambda inner: under("format", _schema, inner["format"]), config)
    given = asked.get("output_format")
    return None if given is None else under("output_format", _schema, given)


def _schema(given: Json) -> Json:
    form = object_of(given)
    word_in(form, "type", ("json_schema",))
    return under("schema", kept_object, form.get("schema"))


def _ignored(asked: dict[str, Json], tools: OfferedTools) -> tuple[str, ...]:
    """Return the names of parameters that have no effect here; empty values are skipped."""
    thread = asked.get("thread")
    if isinstance(thread, dict) and thread.get("type") == "continue":
        raise InvalidField(
            "a conversation stored by Anthropic cannot be continued here.",
            "thread",
            hint="Send its messages, or name the thread to continue in metadata.thread_id.",
        )
    names = [name for name, value in asked.items() if value and name not in _MEANT]
    thinking, config = object_in(asked, "thinking"), object_in(asked, "output_config")
    names += ["thinking.between_tools"] if thinking.get("type") == "between_tools" else []
    names += ["thinking.display"] if thinking.get("display") else []
    names += [f"output_config.{name}" for name, value in config.items() if value and name not in ("effort", "format")]
    plain = [name for name in (*names, *tools.ignored) if _PLAIN_NAME.fullmatch(name)]
    return tuple(dict.fromkeys(plain))[:MOST_IGNORED]
