"""Collect and validate settings, value by value.

A ``SettingsReader`` takes one source after the other, the one with the lowest precedence first. It keeps the value and
the location of every key and collects all problems, so that a user can fix a file in one pass.

Tables inside a key, ``[[router.rules]]`` or ``[router.users.NAME]``, are validated like sections. Messages identify
such a table by its number, from 1, or by its name: ``router.rules[2].model``, ``router.users.anna.model``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct

from contextinfinity.errors import SettingsError
from contextinfinity.settings.field_types import AUTO, BUILT_IN, OFFLINE
from contextinfinity.settings.keys import (
    MODELS,
    SECRETS,
    Key,
    alternatives,
    clipped,
    dotted,
    keys_of,
    looks_secret,
    model_keys,
    nearest,
    plain,
    section_classes,
    sections,
    shown,
)
from contextinfinity.settings.sections import ModelSettings, Settings, Storage, whole_path

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


_MODEL_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class SettingsReader:
    """The values read so far, their locations, and the problems found."""

    def __init__(self) -> None:
        self.values: dict[str, dict[str, object]] = {section: {} for section in sections()}
        self.models: dict[str, dict[str, object]] = {}
        self.places: dict[str, str] = {}
        self._problems: list[tuple[str, str]] = []

    def take(
        self,
        path: tuple[str, ...],
        value: object,
        *,
        place: str,
        folder: Path,
        is_text: bool = False,
        locate: Locate | None = None,
    ) -> None:
        """Store the value of one key of a known section or model, or record a problem.

        A relative path starts from ``folder``; with ``is_text`` "12" is also a number. ``locate`` returns the location
        of a part of the value; without it, all parts are located at ``place``.
        """
        *owner, name = path
        key = next((key for key in keys_under(owner[0]) if key.name == name), None)
        if key is None:
            self._refuse_key(tuple(owner), name, place)
            return
        self.places[dotted(*path)] = place
        if key.tables is not None:
            value, is_text = plain(value) if is_text else value, False
            if self._refuses_inside(path, value, key, locate or (lambda *_: place)):
                return
        try:
            judged = key.read(value, is_text=is_text)
            if key.is_path:
                judged = str(whole_path(str(judged), folder))
        except (msgspec.ValidationError, SettingsError):
            self.complain(place, key.complaint(dotted(*path), value))
            return
        if any(self.refuses_secret((*path, inner), place) for inner in _names_inside(judged)):
            return
        said = self.models[owner[1]] if owner[0] == MODELS else self.values[owner[0]]
        said[name] = judged

    def declare_model(self, name: str, place: str) -> bool:
        """Declare [models.NAME]; return False and record a problem if the name is not allowed."""
        if name in (BUILT_IN, OFFLINE, AUTO):
            self.complain(place, f'a model cannot be called "{name}", which is reserved.')
        elif not _MODEL_NAME.fullmatch(name):
            rule = "up to 64 letters, digits, dots, dashes and underscores are allowed"
            self.complain(place, f"a model cannot be called {clipped(shown(name))}; {rule}.")
        else:
            self.models.setdefault(name, {})
            self.places.setdefault(dotted(MODELS, name), place)
            return True
        return False

    def complain(self, place: str, what: str) -> None:
        """Record a problem."""
        self._problems.append((place, what))

    def problems(self) -> list[str]:
        """Return the problems: those of the file by line, then the others."""

        def line(problem: tuple[str, str]) -> float:
            number = problem[0].rpartition(":")[2]
            return int(number) if number.isdecimal() else float("inf")

        return [f"{place}: {what}" for place, what in sorted(self._problems, key=line)]

    def refuses_secret(self, path: tuple[str, ...], place: str) -> bool:
        """Record a problem and return True if a key of this name would hold a secret."""
        secret = looks_secret(path[-1])
        if secret:
            self.complain(place, f"{clipped(dotted(*path))} is refused: {SECRETS}.")
        return secret

    def check_together(self) -> None:
        """Record problems that involve several keys; called when everything is read."""
        for model in self.models:
            if dotted(MODELS, model, "provider") not in self.places:
                (provider,) = (key for key in model_keys() if key.name == "provider")
                path = dotted(MODELS, model)
                self.complain(self.places[path], f"{path} has no provider; it must be {provider.allowed}.")
        for section, keys in sections().items():
            for key in keys:
                value = self.values[section].get(key.name, key.default)
                for path, name, instead in named_models((section, key.name), key, value):
                    self._check_model(path, name, instead)
        shadow = self.values["storage"].get("threads_shadow")
        if shadow == self.values["storage"].get("threads", Storage().threads):
            place = self.places["storage.threads_shadow"]
            self.complain(place, f"storage.threads_shadow is {shown(shadow)}, and so is storage.threads.")

    def settings(self) -> Settings:
        """Build the settings; call it only if there are no problems."""
        parts: dict[str, Any] = {name: cls(**self.values[name]) for name, cls in section_classes().items()}
        models = {name: msgspec.convert(said, ModelSettings) for name, said in self.models.items()}
        return Settings(**parts, models=models)

    def _refuses_inside(self, path: tuple[str, ...], value: object, key: Key, locate: Locate) -> bool:
        """Record the problems in the tables of a key, each at its own location."""
        self.places |= inner_places(path, value, locate)
        found = list(faults(path, value, key))
        for where, what in found:
            self.complain(self.places[where], what)
        return bool(found)

    def _check_model(self, path: str, value: object, instead: str | tuple[str, ...]) -> None:
        words = (instead,) if isinstance(instead, str) else instead
        if value in words or value in self.models:
            return
        have = alternatives(f'"{name}"' for name in [*words, *sorted(self.models)])
        wrong = f"{path} is {clipped(shown(value))}; it must be {have}, or a [models.NAME] that you add."
        self.complain(self.places[path], wrong)

    def _refuse_key(self, owner: tuple[str, ...], name: str, place: str) -> None:
        if self.refuses_secret((*owner, name), place):
            return
        section, path = dotted(*owner), clipped(dotted(*owner, name))
        near = [dotted(*owner, other) for other in nearest(name, [key.name for key in keys_under(owner[0])])]
        if near or (near := sections_with(name)):
            self.complain(place, f"{path} is not a setting; did you mean {near[0]}?")
            return
        takes = ", ".join(key.name for key in keys_under(owner[0])) or "no keys"
        self.complain(place, f"{path} is not a setting; [{section}] takes {takes}.")


def _names_inside(value: object) -> Iterator[str]:
    """Yield the names in a table, at any depth."""
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    yield from value if isinstance(value, dict) else ()
    for part in parts:
        yield from _names_inside(part)


def keys_under(section: str) -> tuple[Key, ...]:
    """Return the keys of a section, or of any [models.NAME]."""
    return model_keys() if section == MODELS else sections()[section]


def sections_with(name: str) -> list[str]:
    """Return the dotted keys with this name."""
    return [dotted(section, name) for section, keys in sections().items() if any(key.name == name for key in keys)]
