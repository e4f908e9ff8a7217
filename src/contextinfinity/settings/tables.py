"""Validate tables inside a key, ``[[router.rules]]`` or ``[router.users.NAME]``, like sections.

Messages identify such a table by its number, from 1, or by its name: ``router.rules[2].model``,
``router.users.anna.model``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct

from contextinfinity.settings.keys import SECRETS, Key, clipped, dotted, keys_of, looks_secret, nearest, shown

Locate: TypeAlias = Callable[..., str]
"""Returns the location of a path: names of keys, and indexes of tables in a list, from 0."""


def inside(path: tuple[str, ...], value: Any) -> Iterator[tuple[str, str | int, Any]]:
    """Yield every table of a value: its displayed name, its key or index, and the table."""
    if isinstance(value, dict):
        for name, table in value.items():
            yield clipped(dotted(*path, name)), name, table
    elif isinstance(value, list | tuple):
        for number, table in enumerate(value):
            yield f"{dotted(*path)}[{number + 1}]", number, table


def inner_places(path: tuple[str, ...], value: object, locate: Locate) -> dict[str, str]:
    """Return the location of every table and every key in it."""
    places: dict[str, str] = {}
    for at, step, table in inside(path, value):
        places[at] = locate(*path, step)
        for name in table if isinstance(table, dict) else ():
            places[_inner(at, name)] = locate(*path, step, name)
    return places


def faults(path: tuple[str, ...], value: object, key: Key) -> Iterator[tuple[str, str]]:
    """Yield the problems in the tables of a value: the table or key, and the message.

    Yields nothing if the value is not a list or a table as the key requires: then the whole value is invalid.
    """
    if key.tables is None or isinstance(value, dict) != isinstance(key.default, dict):
        return
    for at, _, table in inside(path, value):
        if isinstance(table, dict):
            yield from _faults_in(at, table, key.tables)
        else:
            yield at, f"{at} is {clipped(shown(table))}; it must be a table."


def named_models(path: tuple[str, ...], key: Key, value: Any) -> Iterator[tuple[str, object, str | tuple[str, ...]]]:
    """Yield every model name in a key and its tables: its dotted key, the name, and the other words allowed."""
    if key.model_or is not None:
        for name in value if isinstance(value, tuple) else (value,):
            yield dotted(*path), name, key.model_or
    if key.tables is not None:
        for at, _, table in inside(path, value):
            for inner in keys_of(key.tables):
                if inner.model_or is not None and getattr(table, inner.name) is not None:
                    yield f"{at}.{inner.name}", getattr(table, inner.name), inner.model_or


def _faults_in(at: str, table: dict[str, object], cls: type[Struct]) -> Iterator[tuple[str, str]]:
    found, keys = False, {key.name: key for key in keys_of(cls)}
    for name, value in table.items():
        if wrong := _fault(_inner(at, name), keys.get(name), name, value, keys):
            found = True
            yield _inner(at, name), wrong
    for name in [name for name, key in keys.items() if key.required and name not in table]:
        found = True
        yield at, f"{at} has no {name}; it must be {keys[name].allowed}."
    complaint = getattr(cls, "complaint", None)
    if complaint and not found and (wrong := complaint(msgspec.convert(table, cls))):
        yield at, f"{at} {wrong}."


def _fault(path: str, key: Key | None, name: str, value: object, keys: dict[str, Key]) -> str:
    if key is not None:
        try:
            key.read(value)
        except msgspec.ValidationError:
            return key.complaint(path, value)
        return ""
    if looks_secret(name):
        return f"{path} is refused: {SECRETS}."
    near = nearest(name, keys)
    return f"{path} is not a setting; " + (f"did you mean {near[0]}?" if near else f"there are {', '.join(keys)}.")


def _inner(at: str, name: str) -> str:
    return f"{at}.{clipped(dotted(name))}"
