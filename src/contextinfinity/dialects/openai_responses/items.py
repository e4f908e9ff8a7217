"""Parse the input items, the ids and the tools of the Responses API.

Adjacent items of the assistant (reasoning, text, calls) become one message. Tool results become user messages. Items of
other types are kept unchanged for the vendor. The first system and developer texts are collected separately.

Ids are derived from those of the ledger:

    resp_<turn>          the response of a turn
    conv_<session>       the conversation of a session
    msg_<turn><place>    an item of a turn: input items from place 0 on, output items from ``OUTPUT`` on

They are not stored: an id is decoded to its row; an id in any other form is unknown.

Tools become functions that every model can call. A custom tool, whose input is plain text, becomes a function with one
argument ``input``; a function in a namespace gets a combined name. ``ToolNames`` maps calls back to the client's tools.
Tools that OpenAI runs itself (such as web search) are not offered to the model and are listed as ignored.
"""

from __future__ import annotations

import binascii
import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import groupby
from typing import Literal, NamedTuple, TypeAlias

import msgspec

from contextinfinity.dialects.openai_chat.reading import arguments_in, image_at
from contextinfinity.dialects.openai_chat.value_checks import (
    InvalidValue,
    a_name,
    a_schema,
    a_text,
    an_object,
    can_be_kept,
    each,
    expected,
    field,
    optional,
    word_of,
)
from contextinfinity.domain.ids import SessionId, TurnId, is_id
from contextinfinity.domain.message import (
    REFUSAL,
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
from contextinfinity.domain.prompt import ToolSpec
from contextinfinity.domain.sent_form import RESPONSES, in_form, joined_name, with_form

OUTPUT = 0x8000
"""The position of a turn's first output item."""
RESPONSE, CONVERSATION = "resp_", "conv_"
ITEM_PREFIXES = {
    "message": "msg_",
    "function_call": "fc_",
    "function_call_output": "fco_",
    "custom_tool_call": "ctc_",
    "custom_tool_call_output": "ctco_",
    "reasoning": "rs_",
}
_ITEM = re.compile(r"[a-z]{2,8}_([0-9a-f]{32})([0-9a-f]{4})")
_HEX = re.compile(r"[0-9a-f]{32}")


def response_id(turn_id: TurnId) -> str:
    """Return the response id of a turn."""
    return RESPONSE + turn_id.replace("-", "")


def conversation_id(session_id: SessionId) -> str:
    """Return the conversation id of a session."""
    return CONVERSATION + session_id.replace("-", "")


def item_id(kind: str, turn_id: TurnId, place: int) -> str:
    """Return the id of an item of a turn."""
    return f"{ITEM_PREFIXES.get(kind, 'item_')}{turn_id.replace('-', '')}{place:04x}"


def turn_of(text: str) -> TurnId | None:
    """Return the turn of a response id, or None if it is none."""
    return _uuid(text.removeprefix(RESPONSE)) if text.startswith(RESPONSE) else None


def session_of(text: str) -> SessionId | None:
    """Return the session of a conversation id or session id, or None if it is neither."""
    if is_id(text):
        return text
    return _uuid(text.removeprefix(CONVERSATION)) if text.startswith(CONVERSATION) else None


def place_of(text: str) -> tuple[TurnId, int] | None:
    """Return the turn and position of an item id, or None if it is none."""
    found = _ITEM.fullmatch(text)
    turn_id = None if found is None else _uuid(found[1])
    return None if found is None or turn_id is None else (turn_id, int(found[2], 16))


def _uuid(text: str) -> str | None:
    if not _HEX.fullmatch(text):
        return None
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


NO_PARAMETERS: Json = {"type": "object", "properties": {}}
TEXT_ONLY: Json = {
    "type": "object",
    "properties": {"input": {"type": "string"}},
    "required": ["input"],
    "additionalProperties": False,
}
_CHOICES = word_of("none", "auto", "required")


class ToolNames:
    """The tools of a request, by the model's and the client's names."""

    def __init__(self, tools: Iterable[Json] = ()) -> None:
        self.offered: list[ToolSpec] = []
        self.hosted: list[str] = []
        """The types of tools that are not offered."""
        self._custom: set[str] = set()
        self._inside: dict[str, tuple[str, str]] = {}
        for tool in tools:
            self.take(tool)

    def take(self, value: Json, namespace: str = "") -> None:
        """Parse one tool."""
        tool = an_object(value)
        if not can_be_kept(tool):
            raise InvalidValue("nested too deeply, or it contains a number that is too large")
        kind = field(tool, "type", a_text)
        if kind == "namespace" and not namespace:
            inner = field(tool, "name", a_name)
            field(tool, "tools", lambda tools: each(tools, lambda one: self.take(one, inner)))
        elif kind in ("function", "custom"):
            name = joined_name(namespace, field(tool, "name", a_name))
            if namespace:
                self._inside[name] = (namespace, tool["name"])
            if kind == "custom":
                self._custom.add(name)
            self.offered.append(_function(tool, name) if kind == "function" else _custom(tool, name))
        else:
            self.hosted.append(kind)

    def call_item(self, call: ToolUseBlock) -> dict[str, Json]:
        """Write a call in terms of the client's tool."""
        namespace, name = self._inside.get(call.name, ("", call.name))
        item: dict[str, Json] = {"type": "function_call", "call_id": call.tool_use_id, "name": name}
        if call.name in self._custom:
            item |= {"type": "custom_tool_call", "input": input_text(call.input)}
        else:
            item["arguments"] = arguments_text(call.input)
        return {**item, "namespace": namespace} if namespace else item

    def chosen(self, value: Json) -> str | None:
        """Parse ``tool_choice``; None for a tool that OpenAI runs itself."""
        names = {tool.name for tool in self.offered}
        if not isinstance(value, dict):
            choice = _CHOICES(value)
            if choice == "required" and not names and not self.hosted:
                raise InvalidValue("no tools are offered", "Send tools, or leave it out.")
            return choice
        kind = field(value, "type", a_text)
        if kind == "allowed_tools":
            return optional(value, "mode", word_of("auto", "required"))
        if kind not in ("function", "custom"):
            if not self.hosted:
                raise expected("function, custom or allowed_tools", kind).inside("type")
            return None
        name = joined_name(optional(value, "namespace", a_name) or "", field(value, "name", a_name))
        if name not in names:
            raise InvalidValue("the named tool is not among the tools")
        return ":" + name


def arguments_text(arguments: Json) -> str:
    """Write arguments as JSON; text of the model that is not JSON stays unchanged."""
    if isinstance(arguments, str) and arguments_of(arguments) == arguments:
        return arguments
    return "{}" if arguments is None else msgspec.json.encode(arguments).decode()


def custom_input(text: str) -> Json:
    """Return the arguments of a call to a custom tool."""
    return {"input": text}


def input_text(arguments: Json) -> str:
    """Return the input of a custom tool; a model may have written other arguments than these."""
    if isinstance(arguments, dict) and arguments.keys() == {"input"} and isinstance(arguments["input"], str):
        return arguments["input"]
    return arguments_text(arguments)


def _function(tool: dict[str, Json], name: str) -> ToolSpec:
    return ToolSpec(
        name=name,
        description=optional(tool, "description", a_text) or "",
        parameters=optional(tool, "parameters", a_schema) or NO_PARAMETERS,
    )


def _custom(tool: dict[str, Json], name: str) -> ToolSpec:
    """Describe a custom tool; the grammar of its input becomes part of the description."""
    description = optional(tool, "description", a_text) or ""
    form = optional(tool, "format", an_object) or {}
    if form.get("type") == "grammar":
        syntax, definition = optional(form, "syntax", a_text) or "", field(form, "definition", a_text)
        description += f"\n\nThe input follows this grammar ({syntax}):\n{definition}"
    return ToolSpec(name=name, description=description.strip(), parameters=TEXT_ONLY)


Blocks: TypeAlias = tuple[ContentBlock, ...]
Item: TypeAlias = dict[str, Json]

VENDOR = "openai"
SEALED = "cix1."
"""The prefix of our own ``encrypted_content``, which holds another vendor's reasoning."""
NUL = b"\\u0000"
_ROLES = ("user", "assistant", "system", "developer")


class InputItems:
    """Parses items one after the other.

    System and developer texts become messages in place once there are ``in_place_from`` messages.
    """

    def __init__(self, *, in_place_from: int) -> None:
        self._in_place_from = in_place_from
        self._said: list[_ReadItems] = []
        self.system: list[str] = []
        self.system_sent: list[Json] = []
        """The items with the first system texts, as sent."""
        self.layout: list[Json] = []
        """The type and the number of blocks of each item since the assistant's last one."""

    @property
    def messages(self) -> list[Message]:
        """The messages, each with its items as sent."""
        return [with_form(said.message, RESPONSES, said.items) for said in self._said]

    def take(self, value: Json) -> None:
        """Parse one item; without a type it is a message, and a string is a message of the user."""
        item = {"role": "user", "content": value} if isinstance(value, str) else an_object(value)
        kind = optional(item, "type", a_text) or "message"
        if not can_be_kept(item):
            raise InvalidValue("nested too deeply, or it contains a number that is too large")
        if kind == "message":
            self._message(item, value)
        elif kind.endswith(("_output", "_response")):
            self._add("user", _KINDS.get(kind, _other_result)(item), value, kind)
        elif kind == "reasoning":
            self._add("assistant", *_reasoning(item))
        else:
            self._add("assistant", _KINDS.get(kind, _as_it_came)(item), value)

    def _message(self, item: Item, sent: Json) -> None:
        role = field(item, "role", a_text)
        if role not in _ROLES:
            raise expected(f"one of {', '.join(_ROLES)}", role).inside("role")
        blocks = _content(item, "content")
        if role == "user":
            self._add("user", blocks, sent, "message")
        elif role == "assistant":
            self._add("assistant", _with_phase(blocks, optional(item, "phase", a_text)), sent)
        else:
            text = "".join(block.text for block in blocks if isinstance(block, TextBlock))
            self.layout.append([role, text])
            if len(self._said) >= self._in_place_from:
                told = Message(role="system", blocks=(TextBlock(text=text),) if text else ())
                self._said.append(_ReadItems(told, [sent], [role, text]))
            else:
                self.system += [text] if text else []
                self.system_sent.append(sent)

    def _add(self, role: Literal["user", "assistant"], blocks: Blocks, sent: Json, kind: str = "") -> None:
        """Add an item; ``sent`` is None if it is not sent on, and ``kind`` its type if it is the user's."""
        said = _ReadItems(Message(role=role, blocks=blocks), [] if sent is None else [sent], [])
        if role == "assistant":
            self.layout.clear()
            if self._said and self._said[-1].message.role == "assistant":
                before = self._said.pop()
                joined = Message(role=role, blocks=before.message.blocks + blocks)
                said = _ReadItems(joined, [*before.items, *said.items], [])
        else:
            said.layout.extend((kind, len(blocks)))
            self.layout.append(said.layout)
        self._said.append(said)

    def rows(self) -> Iterator[tuple[Message, list[Json], list[Message]]]:
        """Join adjacent messages of the same role; yield each with the layout of its items and its messages as sent."""
        for role, group in groupby(self._said, key=lambda said: said.message.role):
            row = list(group)
            blocks = tuple(block for said in row for block in said.message.blocks)
            sent = [with_form(said.message, RESPONSES, said.items) for said in row]
            yield Message(role=role, blocks=blocks), [said.layout for said in row if said.layout], sent


class _ReadItems(NamedTuple):
    """A message of one or more items: as blocks, as sent, and the layout of an item of the user."""

    message: Message
    items: list[Json]
    layout: list[Json]


def sealed(block: ReasoningBlock) -> str | None:
    """Return what a client must send back so that the model gets its reasoning again, or None."""
    if block.raw is None and not block.encrypted_content:
        return None
    return SEALED + b64encode(msgspec.json.encode(block)).decode()


def _reasoning(item: Item) -> tuple[Blocks, Json]:
    """Parse reasoning, and return the item that its vendor gave out; what only we could restore is omitted."""
    written = optional(item, "encrypted_content", a_text)
    if written is None and place_of(str(item.get("id"))) is not None:
        return (), None
    if written is None or not written.startswith(SEALED):
        return (ReasoningBlock(encrypted_content=written, raw=item),), item
    try:
        content = b64decode(written.removeprefix(SEALED), validate=True)
        block = msgspec.json.decode(content, type=ReasoningBlock)
    except (binascii.Error, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        block = None
    if block is None or NUL in content or not can_be_kept(block.raw):
        raise InvalidValue("it differs from the item that was returned", "Send it back unchanged.").inside(
            "encrypted_content"
        )
    return (block,), next(iter(in_form(RESPONSES, Message(role="assistant", blocks=(block,)))), None)


def _call(item: Item) -> Blocks:
    name, arguments = _name(item), arguments_in(item.get("arguments"))
    return (ToolUseBlock(tool_use_id=field(item, "call_id", a_text), name=name, input=arguments),)


def _custom_call(item: Item) -> Blocks:
    written = custom_input(field(item, "input", a_text))
    return (ToolUseBlock(tool_use_id=field(item, "call_id", a_text), name=_name(item), input=written),)


def _name(item: Item) -> str:
    return joined_name(optional(item, "namespace", a_name) or "", field(item, "name", a_name))


def _result(item: Item) -> Blocks:
    call_id = field(item, "call_id", a_text)
    output = item.get("output")
    content = _content(item, "output") if output is not None else ()
    return (ToolResultBlock(tool_use_id=call_id, content=content),)


def _other_result(item: Item) -> Blocks:
    """Parse the output of a tool that only OpenAI's models have; it is kept as it is."""
    call_id = item.get("call_id") or item.get("approval_request_id")
    content = _as_it_came(item)
    return (ToolResultBlock(tool_use_id=call_id, content=content),) if isinstance(call_id, str) else content


def _with_phase(blocks: Blocks, phase: str | None) -> Blocks:
    """Mark the text of an answer with its phase, as in the vendor's own answers."""
    if phase is None:
        return blocks
    mark: Json = {"type": "phase", "phase": phase}
    return tuple(
        TextBlock(text=block.text, annotations=(*block.annotations, mark)) if isinstance(block, TextBlock) else block
        for block in blocks
    )


def item_text(item: Item) -> str:
    """Return the text of a message."""
    return "".join(block.text for block in _content(item, "content") if isinstance(block, TextBlock))


def _content(item: Item, name: str) -> Blocks:
    content = item.get(name)
    if isinstance(content, str):
        return (TextBlock(text=content),) if content else ()
    try:
        if not isinstance(content, list):
            raise expected("a string or a list of parts", content)
        parts = each(content, _part)
    except InvalidValue as wrong:
        raise wrong.inside(name) from None
    return tuple(part for part in parts if not isinstance(part, TextBlock) or part.text)


def _part(value: Json) -> ContentBlock:
    part = an_object(value)
    kind = part.get("type")
    read = _PARTS.get(kind) if isinstance(kind, str) else None
    if read is None:
        raise expected(f"one of {', '.join(_PARTS)}", kind).inside("type")
    return read(part)


def _text(part: Item) -> ContentBlock:
    return TextBlock(text=field(part, "text", a_text))


def _refusal(part: Item) -> ContentBlock:
    return TextBlock(text=field(part, "refusal", a_text), annotations=(REFUSAL,))


def _image(part: Item) -> ContentBlock:
    if part.get("image_url") is None:
        field(part, "file_id", a_name)
        return _as_it_came(part)[0]
    image, detail = field(part, "image_url", image_at), optional(part, "detail", a_text)
    if detail in (None, "auto"):
        return image
    return ImageBlock(media_type=image.media_type, source={**image.source, "detail": detail})


def _as_it_came(part: Item) -> Blocks:
    return (UnknownBlock(provider=VENDOR, raw=part),)


_PARTS: Mapping[str, Callable[[Item], ContentBlock]] = {
    "input_text": _text,
    "output_text": _text,
    "text": _text,
    "refusal": _refusal,
    "input_image": _image,
    "input_file": lambda part: _as_it_came(part)[0],
    "input_audio": lambda part: _as_it_came(part)[0],
}
_KINDS: Mapping[str, Callable[[Item], Blocks]] = {
    "function_call": _call,
    "function_call_output": _result,
    "custom_tool_call": _custom_call,
    "custom_tool_call_output": _result,
}
