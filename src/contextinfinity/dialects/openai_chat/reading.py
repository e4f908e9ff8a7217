"""Parse the body of POST /v1/chat/completions.

Parameters that change the answer but cannot be followed are rejected by name. Parameters that only concern the vendor's
processing, and unknown ones, are listed as ignored. Null is the same as missing.

System texts at the start are removed from the list; later ones keep their place. Tool results become results in user
messages. Empty texts make no block, so that a message is the same whether its content is null, empty or missing.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

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
    expected,
    field,
    number,
    optional,
    whole_number,
    word_of,
)
from contextinfinity.domain.message import (
    IMAGE_TYPES,
    REFUSAL,
    ContentBlock,
    ImageBlock,
    Json,
    Message,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    UnknownBlock,
    arguments_of,
)
from contextinfinity.domain.prompt import RequestOptions, ToolSpec
from contextinfinity.domain.sent_form import CHAT, with_form

Blocks: TypeAlias = tuple[ContentBlock, ...]
PartKinds: TypeAlias = Mapping[str, Callable[[dict[str, Json]], ContentBlock]]

PROVIDER = "openai_chat"
"""Parts that are kept unchanged are sent back unchanged to a provider of this name."""
SHORT_ARGUMENTS = 1200
"""In characters; shorter arguments cannot contain a number that is too large to store."""
FEW_BRACKETS = 90
_ROLES = word_of("system", "developer", "user", "assistant", "tool", "function")
_CALLS = word_of("function")
_DETAILS = word_of("auto", "low", "high", "original")
_OTHER_TYPES = {"image/jpg": "image/jpeg"}


class MessageReader:
    """Parses messages one after the other."""

    def __init__(self) -> None:
        self.system: list[str] = []
        self.system_sent: list[Json] = []
        """The messages with the first system texts, as sent."""
        self.messages: list[Message] = []
        self.named = False
        """Whether a message has a ``name``."""

    def take(self, value: Json, *, is_only: bool = False) -> None:
        """Parse one message; ``is_only``: there is no other to answer, so a system text counts as the user's."""
        said = value if type(value) is dict else an_object(value)
        role, content = said.get("role"), said.get("content")
        if len(said) == 2 and content and type(content) is str and (role == "user" or role == "assistant"):
            # Fast path for the usual message: a request may resend thousands.
            self.messages.append(Message(role=role, blocks=(TextBlock(text=content),)))
            return
        role = field(said, "role", _ROLES)
        if "name" in said and role not in ("tool", "function"):
            self.named |= optional(said, "name", a_text) is not None
        if role in ("system", "developer") and not self.messages and not is_only:
            self.system += [block.text for block in _content(said, _SYSTEM) if isinstance(block, TextBlock)]
            self.system_sent.append(said)
            return
        if role in ("system", "developer"):
            message = Message(role="user" if is_only else "system", blocks=_content(said, _SYSTEM))
        elif role == "user":
            message = Message(role="user", blocks=_content(said, _USER))
        elif role == "assistant":
            message = Message(role="assistant", blocks=_answer(said))
        else:
            call_id = field(said, "tool_call_id" if role == "tool" else "name", a_text)
            result = ToolResultBlock(tool_use_id=call_id, content=_content(said, _TOOL, may_be_null=True))
            message = Message(role="user", blocks=(result,))
        self.messages.append(with_form(message, CHAT, said))


def _answer(said: dict[str, Json]) -> Blocks:
    blocks = _content(said, _ASSISTANT, may_be_null=True)
    if said.get("audio") is not None:
        raise InvalidValue("audio answers are not supported", "Send the transcript of the answer as content.").inside(
            "audio"
        )
    if refusal := optional(said, "refusal", a_text):
        blocks += (TextBlock(text=refusal, annotations=(REFUSAL,)),)
    if (calls := optional(said, "tool_calls", _calls)) is not None:
        blocks += tuple(calls)
    if (call := optional(said, "function_call", _named_function)) is not None:
        blocks += (call,)
    return blocks


def _content(said: dict[str, Json], kinds: PartKinds, *, may_be_null: bool = False) -> Blocks:
    content = said.get("content")
    if isinstance(content, str):
        return (TextBlock(text=content),) if content else ()
    if content is None and may_be_null:
        return ()
    try:
        if not isinstance(content, list):
            raise expected("a string or a list of parts", content)
        parts = each(content, lambda part: _part(part, kinds))
    except InvalidValue as wrong:
        raise wrong.inside("content") from None
    return tuple(part for part in parts if not isinstance(part, TextBlock) or part.text)


def _part(value: Json, kinds: PartKinds) -> ContentBlock:
    part = an_object(value)
    kind = part.get("type")
    read = kinds.get(kind) if isinstance(kind, str) else None
    if read is None:
        raise expected(f"one of {', '.join(kinds)}", kind).inside("type")
    return read(part)


def _text(part: dict[str, Json]) -> ContentBlock:
    return TextBlock(text=field(part, "text", a_text))


def _refusal(part: dict[str, Json]) -> ContentBlock:
    return TextBlock(text=field(part, "refusal", a_text), annotations=(REFUSAL,))


def _picture(part: dict[str, Json]) -> ContentBlock:
    """Parse an image; some clients send the URL without the object around it."""
    if isinstance(part.get("image_url"), str):
        return field(part, "image_url", image_at)
    shown = field(part, "image_url", an_object)
    try:
        image, detail = field(shown, "url", image_at), optional(shown, "detail", _DETAILS)
    except InvalidValue as wrong:
        raise wrong.inside("image_url") from None
    if detail is None:
        return image
    return ImageBlock(media_type=image.media_type, source={**image.source, "detail": detail})


def image_at(value: Json) -> ImageBlock:
    """Parse the URL or data URL of an image."""
    url = a_text(value)
    if url.startswith(("https://", "http://")):
        return ImageBlock(media_type="", source={"type": "url", "url": url})
    head, comma, data = url.partition(",")
    media_type, _, encoding = head.removeprefix("data:").lower().partition(";")
    media_type = _OTHER_TYPES.get(media_type, media_type)
    if not (comma and head.startswith("data:") and encoding == "base64"):
        raise expected("an address that begins with https://, http:// or data:image/…;base64,", value)
    if media_type not in IMAGE_TYPES:
        raise expected(f"an image of type {', '.join(sorted(IMAGE_TYPES))}", media_type)
    data = "".join(data.split())
    try:
        whole = bool(binascii.a2b_base64(data, strict_mode=True))
    except ValueError:
        whole = False
    if not whole:
        raise InvalidValue("the image is not valid base64")
    return ImageBlock(media_type=media_type, source={"type": "base64", "data": data})


def _file(part: dict[str, Json]) -> ContentBlock:
    if not can_be_kept(part):
        raise InvalidValue("it is nested too deeply")
    return UnknownBlock(provider=PROVIDER, raw=part)


_SYSTEM: PartKinds = {"text": _text}
_USER: PartKinds = {"text": _text, "image_url": _picture, "file": _file, "input_audio": _file, "video_url": _file}
_ASSISTANT: PartKinds = {"text": _text, "refusal": _refusal}
_TOOL: PartKinds = {"text": _text, "image_url": _picture}


def _calls(value: Json) -> list[ToolUseBlock]:
    return each(value, _call)


def _call(value: Json) -> ToolUseBlock:
    call = an_object(value)
    optional(call, "type", _CALLS)
    call_id = field(call, "id", a_text)
    return field(call, "function", lambda function: _named_function(function, call_id))


def _named_function(value: Json, call_id: str | None = None) -> ToolUseBlock:
    """Parse a call; one in the old format has its function's name as id."""
    function = an_object(value)
    name = field(function, "name", a_name)
    return ToolUseBlock(
        tool_use_id=name if call_id is None else call_id, name=name, input=arguments_in(function.get("arguments"))
    )


def arguments_in(written: Json) -> Json:
    """Parse arguments; text that is not JSON, or cannot be stored as such, stays text."""
    arguments = arguments_of(written)
    if isinstance(written, str):
        short = len(written) < SHORT_ARGUMENTS and written.count("{") + written.count("[") < FEW_BRACKETS
        return arguments if short or can_be_kept(arguments) else written
    if not isinstance(arguments, dict) or not can_be_kept(arguments):
        raise expected("a JSON text", written).inside("arguments")
    return arguments


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
