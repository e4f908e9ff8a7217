"""Parse OpenAI's messages into ours.

System texts at the start are removed from the list; later ones keep their place. Tool results become results in user
messages. Empty texts make no block, so that a message is the same whether its content is null, empty or missing.
"""

from __future__ import annotations

import binascii
from collections.abc import Callable, Mapping
from typing import TypeAlias

from contextinfinity.dialects.openai_chat.value_checks import (
    InvalidValue,
    a_name,
    a_text,
    an_object,
    can_be_kept,
    each,
    expected,
    field,
    optional,
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
    if (call := optional(said, "function_call", _function)) is not None:
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
    return field(call, "function", lambda function: _function(function, call_id))


def _function(value: Json, call_id: str | None = None) -> ToolUseBlock:
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
