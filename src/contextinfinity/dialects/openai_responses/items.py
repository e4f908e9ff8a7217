"""Parse the input items of a request into messages.

Adjacent items of the assistant (reasoning, text, calls) become one message. Tool results become user messages. Items of
other types are kept unchanged for the vendor. System and developer texts are collected separately.
"""

from __future__ import annotations

import binascii
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator, Mapping
from itertools import groupby
from typing import TypeAlias

import msgspec

from contextinfinity.dialects.openai_chat.conversation import arguments_in, image_at
from contextinfinity.dialects.openai_chat.value_checks import (
    InvalidValue,
    a_name,
    a_text,
    an_object,
    can_be_kept,
    each,
    expected,
    field,
    wanted,
)
from contextinfinity.dialects.openai_responses.tools import custom_input, joined_name
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
)

Blocks: TypeAlias = tuple[ContentBlock, ...]
Item: TypeAlias = dict[str, Json]

VENDOR = "openai"
SEALED = "cix1."
"""The prefix of our own ``encrypted_content``, which holds another vendor's reasoning."""
NUL = b"\\u0000"
_ROLES = ("user", "assistant", "system", "developer")


class InputItems:
    """Parses items one after the other.

    System and developer texts become messages in place once there are ``in_place_from`` messages; None: never.
    """

    def __init__(self, *, in_place_from: int | None) -> None:
        self._in_place_from = in_place_from
        self._layouts: list[list[Json]] = []
        self.system: list[str] = []
        self.messages: list[Message] = []
        self.layout: list[Json] = []
        """The type and the number of blocks of each item since the assistant's last one."""

    def take(self, value: Json) -> None:
        """Parse one item; without a type it is a message."""
        item = an_object(value)
        kind = wanted(item, "type", a_text) or "message"
        read = _KINDS.get(kind)
        if kind == "message":
            self._message(item)
        elif read is None:
            if kind == "item_reference":
                raise InvalidValue(f"there is no item {item.get('id')!r}", "Send the item itself.").inside("id")
            self._answer((_as_it_came(item),))
        elif kind.endswith("_output"):
            self._said(kind, read(item))
        else:
            self._answer(read(item))

    def _message(self, item: Item) -> None:
        role = field(item, "role", a_text)
        if role not in _ROLES:
            raise expected(f"one of {', '.join(_ROLES)}", role).inside("role")
        blocks = _content(item, "content")
        if role == "user":
            self._said("message", blocks)
        elif role == "assistant":
            self._answer(_with_phase(blocks, wanted(item, "phase", a_text)))
        else:
            text = "".join(block.text for block in blocks if isinstance(block, TextBlock))
            if text and self._in_place_from is not None and len(self.messages) >= self._in_place_from:
                self.messages.append(Message(role="system", blocks=(TextBlock(text=text),)))
                self._layouts.append([role, text])
                self.layout.append([role, text])
            elif text:
                self.system.append(text)
                self.layout.append([role, text])

    def _said(self, kind: str, blocks: Blocks) -> None:
        self.messages.append(Message(role="user", blocks=blocks))
        self.layout.append([kind, len(blocks)])
        self._layouts.append([kind, len(blocks)])

    def _answer(self, blocks: Blocks) -> None:
        self.layout.clear()
        if self.messages and self.messages[-1].role == "assistant":
            blocks = self.messages.pop().blocks + blocks
            self._layouts.pop()
        self.messages.append(Message(role="assistant", blocks=blocks))
        self._layouts.append([])

    def rows(self) -> Iterator[tuple[Message, list[Json]]]:
        """Join adjacent messages of the same role; yield each with the layout of its items."""
        both = zip(self.messages, self._layouts, strict=True)
        for role, group in groupby(both, key=lambda one: one[0].role):
            row = list(group)
            blocks = tuple(block for message, _ in row for block in message.blocks)
            yield Message(role=role, blocks=blocks), [layout for _, layout in row if layout]


def sealed(block: ReasoningBlock) -> str | None:
    """Return what a client must send back so that the model gets its reasoning again, or None."""
    if block.raw is None and not block.encrypted_content:
        return None
    return SEALED + b64encode(msgspec.json.encode(block)).decode()


def _reasoning(item: Item) -> Blocks:
    """Parse reasoning; without encrypted content it cannot be restored and is omitted."""
    written = wanted(item, "encrypted_content", a_text)
    if written is None:
        return ()
    if not written.startswith(SEALED):
        return (ReasoningBlock(encrypted_content=written, raw=item),)
    try:
        content = b64decode(written.removeprefix(SEALED), validate=True)
        block = msgspec.json.decode(content, type=ReasoningBlock)
    except (binascii.Error, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        block = None
    if block is None or NUL in content or not can_be_kept(block.raw):
        raise InvalidValue("it differs from the item that was returned", "Send it back unchanged.").inside(
            "encrypted_content"
        )
    return (block,)


def _call(item: Item) -> Blocks:
    name, arguments = _name(item), arguments_in(item.get("arguments"))
    return (ToolUseBlock(tool_use_id=field(item, "call_id", a_text), name=name, input=arguments),)


def _custom_call(item: Item) -> Blocks:
    written = custom_input(field(item, "input", a_text))
    return (ToolUseBlock(tool_use_id=field(item, "call_id", a_text), name=_name(item), input=written),)


def _name(item: Item) -> str:
    return joined_name(wanted(item, "namespace", a_name) or "", field(item, "name", a_name))


def _result(item: Item) -> Blocks:
    call_id = field(item, "call_id", a_text)
    output = item.get("output")
    content = _content(item, "output") if output is not None else ()
    return (ToolResultBlock(tool_use_id=call_id, content=content),)


def _with_phase(blocks: Blocks, phase: str | None) -> Blocks:
    """Mark the text of an answer with its phase, as in the vendor's own answers."""
    if phase is None:
        return blocks
    mark: Json = {"type": "phase", "phase": phase}
    return tuple(
        TextBlock(text=block.text, annotations=(*block.annotations, mark)) if isinstance(block, TextBlock) else block
        for block in blocks
    )


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
    read = _PARTS.get(part.get("type", ""))
    if read is None:
        raise expected(f"one of {', '.join(_PARTS)}", part.get("type")).inside("type")
    return read(part)


def _text(part: Item) -> ContentBlock:
    return TextBlock(text=field(part, "text", a_text))


def _refusal(part: Item) -> ContentBlock:
    return TextBlock(text=field(part, "refusal", a_text), annotations=(REFUSAL,))


def _image(part: Item) -> ContentBlock:
    if part.get("image_url") is None:
        raise InvalidValue("file ids are not supported", "Send the image as a data URL.").inside("file_id")
    image, detail = field(part, "image_url", image_at), wanted(part, "detail", a_text)
    if detail in (None, "auto"):
        return image
    return ImageBlock(media_type=image.media_type, source={**image.source, "detail": detail})


def _as_it_came(part: Item) -> ContentBlock:
    if not can_be_kept(part):
        raise InvalidValue("nested too deeply, or it contains a number that is too large")
    return UnknownBlock(provider=VENDOR, raw=part)


_PARTS: Mapping[str, Callable[[Item], ContentBlock]] = {
    "input_text": _text,
    "output_text": _text,
    "text": _text,
    "refusal": _refusal,
    "input_image": _image,
    "input_file": _as_it_came,
    "input_audio": _as_it_came,
}
_KINDS: Mapping[str, Callable[[Item], Blocks]] = {
    "message": lambda item: (),
    "function_call": _call,
    "function_call_output": _result,
    "custom_tool_call": _custom_call,
    "custom_tool_call_output": _result,
    "reasoning": _reasoning,
}
