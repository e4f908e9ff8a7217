"""Validate the values of a request; ``InvalidValue`` says what is expected.

The path of an invalid value is assembled while the exception propagates, so that valid requests are not slowed down.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias, TypeVar

import msgspec

from contextinfinity.domain.message import Json
from contextinfinity.domain.wire import unreadable
from contextinfinity.errors import InvalidInput

T = TypeVar("T")
Read: TypeAlias = Callable[[Json], T]
_Found: TypeAlias = tuple["_Found | None", str | int, Json]
"""A value, its key, and its parent; writing out the path of each value would take more memory than the body."""

LONGEST_NAME = 128
DEEPEST = 100
"""The maximum nesting depth of a value that is kept unchanged; the ledger stores no deeper ones."""
WIDEST_INT = 4096
LONGEST_SHOWN = 40
LONGEST_PATH = 200
_NUL = b"\\u0000"
_KINDS = {dict: "an object", list: "a list", str: "a string", bool: "true or false", int: "a number", float: "a number"}


class InvalidValue(Exception):
    """An invalid value: its path, the problem, and a hint."""

    def __init__(self, said: str, hint: str = "") -> None:
        super().__init__(said)
        self.said = said
        self.hint = hint
        self.path = ""

    def inside(self, place: str | int) -> InvalidValue:
        """Prepend a field name or list index to the path."""
        if len(self.path) < LONGEST_PATH:
            self.path = (f"[{place}]" if isinstance(place, int) else f".{place[:LONGEST_SHOWN]}") + self.path
        return self

    def error(self) -> InvalidInput:
        """Return the error for the caller."""
        return InvalidInput(f"{self.path.removeprefix('.') or 'the body'}: {self.said}.", hint=self.hint)


def expected(right: str, value: Json) -> InvalidValue:
    """Return the error for a value that is not what was expected."""
    return InvalidValue(f"expected {right}, got {shown(value)}")


def shown(value: Json) -> str:
    """Describe a value in a few words."""
    if isinstance(value, str):
        return f"the text {value[:LONGEST_SHOWN]!r}{'…' if len(value) > LONGEST_SHOWN else ''}"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) or (isinstance(value, int) and value.bit_length() < 64):
        return str(value)
    return _KINDS.get(type(value), "nothing")


def body_object(body: bytes) -> dict[str, Json]:
    """Decode the JSON object of a request; raise ``InvalidInput`` if it is none."""
    try:
        asked = msgspec.json.decode(body)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        said = "it is nested too deeply" if isinstance(error, RecursionError) else unreadable(body, error)
        raise InvalidInput(f"The body is not valid JSON: {said}.", hint="Send a JSON object.") from None
    if not isinstance(asked, dict):
        raise InvalidInput(f"The body is {shown(asked)}.", hint="Send a JSON object.")
    if _NUL in body:
        _check_no_nul(asked)
    return asked


def field(owner: Mapping[str, Json], name: str, read: Read[T]) -> T:
    """Read a required field; a missing one is read as null."""
    try:
        return read(owner.get(name))
    except InvalidValue as wrong:
        raise wrong.inside(name) from None


def optional(owner: Mapping[str, Json], name: str, read: Read[T]) -> T | None:
    """Read an optional field; return None if it is missing or null."""
    return None if owner.get(name) is None else field(owner, name, read)


def each(values: Json, read: Read[T]) -> list[T]:
    """Read a list."""
    if not isinstance(values, list):
        raise expected("a list", values)
    done: list[T] = []
    try:
        for value in values:
            done.append(read(value))
    except InvalidValue as wrong:
        raise wrong.inside(len(done)) from None
    return done


def an_object(value: Json) -> dict[str, Json]:
    """Return an object, or raise ``InvalidValue``."""
    if not isinstance(value, dict):
        raise expected("an object", value)
    return value


def a_text(value: Json) -> str:
    """Return a text, or raise ``InvalidValue``."""
    if not isinstance(value, str):
        raise expected("a string", value)
    return value


def a_name(value: Json) -> str:
    """Return a name of limited length, or raise ``InvalidValue``."""
    if not isinstance(value, str) or not 0 < len(value) <= LONGEST_NAME:
        raise expected(f"a string of 1 to {LONGEST_NAME} characters", value)
    return value


def a_flag(value: Json) -> bool:
    """Return a boolean, or raise ``InvalidValue``."""
    if not isinstance(value, bool):
        raise expected("true or false", value)
    return value


def whole_number(least: int, most: int) -> Read[int]:
    """Return a reader for integers from ``least`` to ``most``."""

    def read(value: Json) -> int:
        if type(value) is not int or not least <= value <= most:
            raise expected(f"an integer from {least} to {most}", value)
        return value

    return read


def number(least: float, most: float) -> Read[float]:
    """Return a reader for numbers from ``least`` to ``most``."""

    def read(value: Json) -> float:
        if type(value) not in (int, float) or not least <= value <= most:
            raise expected(f"a number from {least:g} to {most:g}", value)
        return float(value)

    return read


def word_of(*words: str) -> Read[str]:
    """Return a reader for one of the given words."""

    def read(value: Json) -> str:
        if not isinstance(value, str) or value not in words:
            raise expected(f"one of {', '.join(words)}", value)
        return value

    return read


def a_schema(value: Json) -> Json:
    """Return a JSON schema unchanged; raise ``InvalidValue`` if it cannot be stored."""
    if not can_be_kept(an_object(value)):
        raise InvalidValue(f"nested over {DEEPEST} levels, or it holds a number that is too large")
    return value


def can_be_kept(value: Json) -> bool:
    """Return whether a value can be stored: not nested too deeply, and without oversized integers."""
    level = [value]
    for _ in range(DEEPEST):
        inner: list[Json] = []
        for one in level:
            if isinstance(one, dict):
                inner.extend(one.values())
            elif isinstance(one, list):
                inner.extend(one)
            elif type(one) is int and one.bit_length() > WIDEST_INT:
                return False
        if not inner:
            return True
        level = inner
    return False


def _check_no_nul(asked: dict[str, Json]) -> None:
    """Raise ``InvalidInput`` if a NUL character is anywhere in the request, at any depth."""
    left: list[_Found] = [(None, "", asked)]
    while left:
        found = left.pop()
        value = found[2]
        if isinstance(value, list):
            left += [(found, place, one) for place, one in enumerate(value)]
        elif isinstance(value, dict):
            if any("\0" in name for name in value):
                raise _no_text(found)
            left += [(found, name, one) for name, one in value.items()]
        elif isinstance(value, str) and "\0" in value:
            raise _no_text(found)


def _no_text(found: _Found | None) -> InvalidInput:
    wrong = InvalidValue("it holds a NUL character, which is not allowed", "Leave it out.")
    while found is not None and found[0] is not None:
        wrong, found = wrong.inside(found[1]), found[0]
    return wrong.error()
