"""Read validated values from JSON; ``InvalidField`` gives the location of an invalid one.

The location is assembled only when a value is invalid, so that long conversations are parsed fast.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from contextinfinity.domain.message import Json
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
