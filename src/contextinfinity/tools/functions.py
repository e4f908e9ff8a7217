"""From a Python function to a tool: its type hints and its docstring tell a model how to call it.

    def weather(city: str, days: int = 1) -> str:
        '''Tell the weather of a city.

        Args:
            city: Its name, in English.
            days: How many days ahead to look.
        '''

The first paragraph describes the tool, the lines under ``Args:`` its parameters. Arguments that a model sends are
checked against the hints and turned into the values they name before the function is called.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Annotated, Any, get_type_hints

import msgspec
from msgspec import Meta

from contextinfinity.domain.message import Json
from contextinfinity.domain.prompt import ToolSpec
from contextinfinity.errors import InvalidInput

Function = Callable[..., Any]

NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
"""What every vendor takes as the name of a tool."""

_ARGUMENTS = re.compile(r"^(?:Args|Arguments|Parameters):\s*$(.*?)(?=^\S|\Z)", re.MULTILINE | re.DOTALL)
_ONE = re.compile(
    r"^\s+\*{0,2}(\w+)(?:\s*\([^)]*\))?:\s*(.+?)(?=^\s+\*{0,2}\w+(?:\s*\([^)]*\))?:|\Z)", re.MULTILINE | re.DOTALL
)


class Tool:
    """A function as a model sees it, and the way to call it with what the model sends."""

    def __init__(self, function: Function, *, name: str | None = None, description: str | None = None) -> None:
        self.function = function
        self._arguments = _arguments_of(function)
        summary, _ = _documentation(function)
        named = str(name or getattr(function, "__name__", ""))
        if not NAME.fullmatch(named):
            raise InvalidInput(
                f"{named!r} cannot be the name of a tool.",
                hint="Letters, digits, _ and - only, at most 64; give one with name=….",
            )
        self.spec = ToolSpec(name=named, description=description or summary, parameters=_schema(self._arguments))

    def bind(self, arguments: Json) -> dict[str, Any]:
        """Turn what a model sent into the function's arguments. ``InvalidInput`` says what does not fit."""
        try:
            values = msgspec.convert({} if arguments is None else arguments, self._arguments, strict=False)
        except msgspec.ValidationError as error:
            raise InvalidInput(f"The arguments of {self.spec.name} do not fit: {error}.") from error
        return {
            field: value
            for field in self._arguments.__struct_fields__
            if (value := getattr(values, field)) is not msgspec.UNSET
        }


def _arguments_of(function: Function) -> type[msgspec.Struct]:
    """Make a type that holds a function's arguments, each with its hint, its default and what is said about it."""
    _, about = _documentation(function)
    hints = get_type_hints(function, include_extras=True)
    fields: list[tuple[str, Any, Any]] = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise InvalidInput(
                f"A model cannot be told about the parameter {parameter} of {function.__name__}.",
                hint="Give every parameter a name and a type.",
            )
        kind = hints.get(parameter.name, Any)
        if parameter.name in about:
            kind = Annotated[kind, Meta(description=about[parameter.name])]
        if parameter.default is parameter.empty:
            fields.append((parameter.name, kind, msgspec.NODEFAULT))
        else:  # left out: the function's own default counts, whatever it is
            fields.append((parameter.name, kind | msgspec.UnsetType if kind is not Any else Any, msgspec.UNSET))
    return msgspec.defstruct("Arguments", fields, kw_only=True, forbid_unknown_fields=True)


def _schema(arguments: type[msgspec.Struct]) -> Json:
    """Describe arguments as the JSON schema of an object."""
    try:
        _, others = msgspec.json.schema_components([arguments], ref_template="#/$defs/{name}")
    except TypeError as error:
        raise InvalidInput(f"A model cannot be told about a parameter: {error}") from error
    parameters = {key: value for key, value in others.pop("Arguments").items() if key != "title"}
    return {**parameters, "$defs": others} if others else parameters


def _documentation(function: Function) -> tuple[str, dict[str, str]]:
    """Read a docstring: its first paragraph, and what it says of each parameter."""
    text = inspect.getdoc(function) or ""
    section = _ARGUMENTS.search(text)
    about = {name: " ".join(said.split()) for name, said in _ONE.findall(section.group(1))} if section else {}
    summary = " ".join(text.split("\n\n", 1)[0].split())
    return ("" if section and text.startswith(section.group(0)) else summary), about
