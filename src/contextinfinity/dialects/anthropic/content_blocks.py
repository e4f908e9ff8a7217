"""Parse the content of Anthropic's clients into our blocks.

Cache markers are accepted and removed, also from blocks that are otherwise kept unchanged: clients move them from turn
to turn, and requests to the provider get their own markers.

Values are validated while they are read; ``InvalidField`` gives the location of an invalid one, which is assembled only
when a value is invalid, so that long conversations are parsed fast.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import chain
from typing import TypeVar

from contextinfinity.domain.message import (
    ContentBlock,
    ImageBlock,
    Json,
    ReasoningBlock,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    UnknownBlock,
)
from contextinfinity.errors import InvalidInput

A = TypeVar("A")
B = TypeVar("B")

DEEPEST = 90
"""The maximum nesting depth of a value that is kept unchanged; the ledger stores slightly deeper ones."""
LARGEST = 2**53

_KINDS = {dict: "an object", list: "a list", str: "a string", bool: "true or false", int: "a number", float: "a number"}


class InvalidField(Exception):
    """An invalid value. Each enclosing reader appends to ``steps``; the innermost comes first."""

    def __init__(self, what: str, *steps: str | int, hint: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.steps: list[str | int] = list(steps)
        self.hint = hint

    def error(self) -> InvalidInput:
        """Return the error for the caller, with the path of the value."""
        place = ".".join(map(str, reversed(self.steps)))
        return InvalidInput(f"{place}: {self.what}", hint=self.hint)


def wrong_type(expected: str, value: Json, *steps: str | int) -> InvalidField:
    """Return the error for a value of the wrong type; it does not repeat the value."""
    return InvalidField(f"expected {expected}, found {_KINDS.get(type(value), 'nothing')}.", *steps)


def each(values: Iterable[A], read: Callable[[A], B]) -> list[B]:
    """Read a list of values; add the index to an error."""
    done: list[B] = []
    try:
        for value in values:
            done.append(read(value))
    except InvalidField as wrong:
        wrong.steps.append(len(done))  # the number of finished values is the index of the invalid one
        raise
    return done


def under(name: str | int, read: Callable[[A], B], value: A) -> B:
    """Read a value; add its name to an error."""
    try:
        return read(value)
    except InvalidField as wrong:
        wrong.steps.append(name)
        raise


def object_of(value: Json) -> dict[str, Json]:
    """Return an object, or raise ``InvalidField``."""
    if not isinstance(value, dict):
        raise wrong_type("an object", value)
    return value


def object_in(asked: dict[str, Json], name: str) -> dict[str, Json]:
    """Return the object of that name, or an empty one."""
    value = asked.get(name)
    return {} if value is None else under(name, object_of, value)


def list_in(asked: dict[str, Json], name: str) -> list[Json]:
    """Return the list of that name, or an empty one."""
    value = asked.get(name)
    if value is None:
        return []
    if not isinstance(value, list):
        raise wrong_type("a list", value, name)
    return value


def text_in(asked: dict[str, Json], name: str, *, least: int = 0) -> str:
    """Return the text of that name; it is required."""
    value = asked.get(name)
    if not isinstance(value, str):
        raise wrong_type("a string", value, name)
    if len(value) < least:
        raise InvalidField("expected a string that is not empty.", name)
    return value


def optional_text(asked: dict[str, Json], name: str) -> str:
    """Return the text of that name, or an empty one."""
    return "" if asked.get(name) is None else text_in(asked, name)


def word_in(asked: dict[str, Json], name: str, words: Sequence[str]) -> str:
    """Return the text of that name, which must be one of the given words."""
    value = asked.get(name)
    if not isinstance(value, str) or value not in words:
        found = f'"{value[:40]}"' if isinstance(value, str) else _KINDS.get(type(value), "nothing")
        raise InvalidField(f"expected {' or '.join(words)}, found {found}.", name)
    return value


def flag_in(asked: dict[str, Json], name: str) -> bool | None:
    """Return the boolean of that name, or None if it is missing."""
    value = asked.get(name)
    if value is not None and not isinstance(value, bool):
        raise wrong_type("true or false", value, name)
    return value


def count_in(asked: dict[str, Json], name: str, *, least: int) -> int | None:
    """Return the integer of that name, or None if it is missing."""
    value = asked.get(name)
    if value is None:
        return None
    if type(value) is not int or not least <= value <= LARGEST:
        raise InvalidField(f"expected an integer that is {least} or more.", name)
    return value


def fraction_in(asked: dict[str, Json], name: str) -> float | None:
    """Return the number of that name, from 0 to 1, or None if it is missing."""
    value = asked.get(name)
    if value is None:
        return None
    if type(value) not in (int, float) or not 0 <= value <= 1:
        raise InvalidField("expected a number from 0 to 1.", name)
    return float(value)


def _values(outer: dict[str, Json] | list[Json]) -> Iterable[Json]:
    return outer.values() if isinstance(outer, dict) else outer


def kept(value: dict[str, Json] | list[Json]) -> Json:
    """Return a value that is kept unchanged; raise ``InvalidField`` if it is nested too deeply."""
    level = [value]
    for _ in range(DEEPEST):
        level = [inner for outer in level for inner in _values(outer) if type(inner) in (dict, list)]
        if not level:
            return value
    raise InvalidField(f"expected a value that is at most {DEEPEST} levels deep.")


def kept_object(value: Json) -> Json:
    """Return an object that is kept unchanged."""
    return kept(object_of(value))


PROVIDER = "anthropic"
"""Blocks that are kept unchanged are sent back unchanged to a provider of this name."""
FILES = ("base64", "url", "file")
"""The source types of documents that are files."""
IMAGE_TYPES = ("image/jpeg", "image/png", "image/gif", "image/webp")

_OF_ASSISTANT = frozenset({"thinking", "redacted_thinking", "tool_use"})
_MISPLACED = {
    "a user's message": _OF_ASSISTANT,
    "an assistant's message": frozenset({"tool_result"}),
    "the result of a tool": _OF_ASSISTANT | {"tool_result"},
    "a document": _OF_ASSISTANT | {"tool_result", "document"},
}
"""The block types that are not allowed in each place; this also limits nesting."""
_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")

Blocks = tuple[ContentBlock, ...]


def content_of(content: Json, where: str) -> Blocks:
    """Parse a text or a list of blocks; empty texts are omitted."""
    if isinstance(content, str):
        return (TextBlock(text=content),) if content else ()
    if not isinstance(content, list):
        raise wrong_type("a string or a list of blocks", content)
    return tuple(chain.from_iterable(each(content, partial(_blocks, where))))


user_content = partial(content_of, where="a user's message")
assistant_content = partial(content_of, where="an assistant's message")
_result_content = partial(content_of, where="the result of a tool")
_document_content = partial(content_of, where="a document")


def texts_of(content: Json) -> list[str]:
    """Parse a text or a list of text blocks; blank texts are omitted."""
    if isinstance(content, str):
        texts = [content]
    elif isinstance(content, list):
        texts = each(content, _only_text)
    else:
        raise wrong_type("a string or a list of blocks of text", content)
    return [text for text in texts if text.strip()]


def _only_text(given: Json) -> str:
    block = object_of(given)
    word_in(block, "type", ("text",))
    return text_in(block, "text")


def _blocks(where: str, given: Json) -> Blocks:
    block = object_of(given)
    kind = block.get("type")
    if not isinstance(kind, str):
        raise wrong_type("a string", kind, "type")
    if kind in _MISPLACED[where]:
        raise InvalidField(f"a block of this type is not allowed in {where}.", "type")
    read = _READERS.get(kind)
    return (_as_it_came(block),) if read is None else read(block)


def _text(block: dict[str, Json]) -> Blocks:
    text, citations = text_in(block, "text"), ()
    if block.get("citations") is not None:
        citations = tuple(under("citations", kept, list_in(block, "citations")))
    return (TextBlock(text=text, annotations=citations),) if text else ()


def _image(block: dict[str, Json]) -> Blocks:
    source = block.get("source")
    if isinstance(source, dict) and source.get("type") == "file":
        return (_as_it_came(block),)
    return (under("source", _picture, block.get("source")),)


def _picture(given: Json) -> ImageBlock:
    source = object_of(given)
    kind = word_in(source, "type", ("base64", "url"))
    if kind == "base64":
        media_type = word_in(source, "media_type", IMAGE_TYPES)
        return _pixels(media_type, text_in(source, "data"), "data")
    url = text_in(source, "url")
    if url.startswith("data:"):
        media_type, _, data = url.removeprefix("data:").partition(";base64,")
        if media_type not in IMAGE_TYPES:
            raise InvalidField(f"expected an image of one of the types {', '.join(IMAGE_TYPES)}.", "url")
        return _pixels(media_type, data, "url")
    if not url.startswith(("https://", "http://")):
        raise InvalidField("expected an address that begins with https://.", "url")
    return ImageBlock(media_type="", source={"type": "url", "url": url})


def _pixels(media_type: str, data: str, name: str) -> ImageBlock:
    if not _is_base64(data):
        data = "".join(data.split())  # some clients break lines
        if not _is_base64(data):
            raise InvalidField("expected the bytes of an image in base64.", name)
    return ImageBlock(media_type=media_type, source={"type": "base64", "data": data})


def _is_base64(data: str) -> bool:
    return len(data) % 4 == 0 and _BASE64.fullmatch(data) is not None


def _document(block: dict[str, Json]) -> Blocks:
    """Parse a document into its title, context and text; a file is kept unchanged."""
    source = block.get("source")
    if isinstance(source, dict) and source.get("type") in FILES:
        return (_as_it_came(block),)
    inside = under("source", _source, block.get("source"))
    head = "\n\n".join(filter(None, [optional_text(block, "title"), optional_text(block, "context")]))
    return (TextBlock(text=f"{head}\n\n"), *inside) if head else inside


def _source(given: Json) -> Blocks:
    source = object_of(given)
    kind = text_in(source, "type")
    if kind == "text":
        text = text_in(source, "data")
        return (TextBlock(text=text),) if text else ()
    if kind == "content":
        return under("content", _document_content, source.get("content"))
    raise InvalidField(
        "only documents with a source of type text or content are supported.",
        "type",
        hint="Send the document's text, or its pages as images.",
    )


def _tool_use(block: dict[str, Json]) -> Blocks:
    call, name = text_in(block, "id", least=1), text_in(block, "name", least=1)
    return (ToolUseBlock(tool_use_id=call, name=name, input=under("input", kept_object, block.get("input"))),)


def _tool_result(block: dict[str, Json]) -> Blocks:
    call, content = text_in(block, "tool_use_id", least=1), block.get("content")
    inside = () if content is None else under("content", _result_content, content)
    return (ToolResultBlock(tool_use_id=call, content=inside, is_error=flag_in(block, "is_error") is True),)


def _thinking(block: dict[str, Json]) -> Blocks:
    text_in(block, "thinking")
    return (ReasoningBlock(encrypted_content=optional_text(block, "signature") or None, raw=kept(block)),)


def _redacted(block: dict[str, Json]) -> Blocks:
    return (ReasoningBlock(encrypted_content=text_in(block, "data") or None, raw=kept(block)),)


def _as_it_came(block: dict[str, Json]) -> UnknownBlock:
    raw = {name: value for name, value in block.items() if name != "cache_control"}
    return UnknownBlock(provider=PROVIDER, raw=kept(raw))


_READERS: dict[str, Callable[[dict[str, Json]], Blocks]] = {
    "text": _text,
    "image": _image,
    "document": _document,
    "tool_use": _tool_use,
    "tool_result": _tool_result,
    "thinking": _thinking,
    "redacted_thinking": _redacted,
}
