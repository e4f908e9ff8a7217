"""Turn a Python function into a tool; its type hints and docstring describe it to the model.

    def weather(city: str, days: int = 1) -> str:
        '''Return the weather of a city.

        Args:
            city: Its name, in English.
            days: How many days ahead to look.
        '''

The first paragraph describes the tool, the lines under ``Args:`` its parameters. The model's arguments are validated
against the hints and converted before the function is called.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection
from functools import partial
from textwrap import dedent
from typing import Annotated, Any, get_type_hints

import msgspec
from msgspec import Meta

from contextinfinity.domain.message import Json
from contextinfinity.domain.prompt import ToolSpec
from contextinfinity.errors import InvalidInput

Function = Callable[..., Any]

NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
"""The tool names that every vendor accepts."""

_ARGUMENTS = re.compile(r"^(?:Args|Arguments|Parameters):\s*$(.*?)(?=^\S|\Z)", re.MULTILINE | re.DOTALL)
_ONE = re.compile(r"\*{0,2}(\w+)\s*(?:\(.*?\))?\s*:(.*)")


class Tool:
    """A function with its description for models, and the conversion of their arguments."""

    def __init__(self, function: Function, *, name: str | None = None, description: str | None = None) -> None:
        self.function = function
        named = str(name or getattr(_inner(function), "__name__", ""))
        if not NAME.fullmatch(named):
            raise InvalidInput(
                f"{named!r} cannot be the name of a tool.",
                hint="Letters, digits, _ and - only, at most 64; give one with name=….",
            )
        self._arguments = _arguments_of(function, named)
        summary = _summary(_documentation(function))
        self.spec = ToolSpec(name=named, description=description or summary, parameters=_schema(self._arguments, named))

    def bind(self, arguments: Json) -> dict[str, Any]:
        """Convert a model's arguments to those of the function; raise ``InvalidInput`` if they do not fit."""
        try:
            values = msgspec.convert({} if arguments is None else arguments, self._arguments, strict=False)
        except msgspec.ValidationError as error:
            raise InvalidInput(f"The arguments of {self.spec.name} do not fit: {error}.") from error
        return {
            field: value
            for field in self._arguments.__struct_fields__
            if (value := getattr(values, field)) is not msgspec.UNSET
        }


def _arguments_of(function: Function, name: str) -> type[msgspec.Struct]:
    """Build a type for a function's arguments, each with its hint, default and description."""
    parameters, hints = _parameters(function, name)
    about = _about(_documentation(function), parameters)
    fields: list[tuple[str, Any, Any]] = []
    for parameter in parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise InvalidInput(
                f"No schema can be made for the parameter {parameter} of {name}.",
                hint="Give every parameter a name and a type.",
            )
        kind = hints.get(parameter.name, Any)
        if parameter.name in about:
            kind = Annotated[kind, Meta(description=about[parameter.name])]
        if parameter.default is parameter.empty:
            fields.append((parameter.name, kind, msgspec.NODEFAULT))
        else:  # if omitted, the function's own default applies
            fields.append((parameter.name, kind | msgspec.UnsetType, msgspec.UNSET))
    return msgspec.defstruct("Arguments", fields, kw_only=True, forbid_unknown_fields=True)


def _parameters(function: Function, name: str) -> tuple[dict[str, inspect.Parameter], dict[str, Any]]:
    """Return the parameters that a model can set, and their types; those that a partial sets by name are excluded."""
    try:
        parameters = inspect.signature(function).parameters
        hints = get_type_hints(_code(function), include_extras=True)
    except (TypeError, ValueError, NameError, AttributeError, SyntaxError) as error:
        raise InvalidInput(
            f"No schema can be made for the parameters of {name}: {error}.",
            hint="A tool is a Python function with type annotations that its module can resolve.",
        ) from error
    settled = function.keywords if isinstance(function, partial) else {}
    return {name: parameter for name, parameter in parameters.items() if name not in settled}, hints


def _schema(arguments: type[msgspec.Struct], name: str) -> Json:
    """Return the arguments as the JSON schema of an object."""
    try:
        (whole,), others = msgspec.json.schema_components([arguments], ref_template="#/$defs/{name}")
    except TypeError as error:
        reason = str(error).splitlines()[-1]
        raise InvalidInput(f"No schema can be made for the parameters of {name}: {reason}.") from error
    own = others.pop(whole["$ref"].removeprefix("#/$defs/"))
    parameters = {key: value for key, value in own.items() if key != "title"}
    return {**parameters, "$defs": others} if others else parameters


def _inner(function: Function) -> Function:
    return function.func if isinstance(function, partial) else function


def _code(function: Function) -> Function:
    """Return the object with the hints and the docstring: inside a partial, or of a callable object."""
    inner: Any = _inner(function)
    return inner if inspect.isroutine(inner) or inspect.isclass(inner) else inner.__call__


def _documentation(function: Function) -> str:
    code = _code(function)
    return inspect.getdoc(code if code.__doc__ else _inner(function)) or ""


def _summary(text: str) -> str:
    """Return the first paragraph of a docstring."""
    section = _ARGUMENTS.search(text)
    before = text[: section.start()] if section else text
    return " ".join(before.split("\n\n", 1)[0].split())


def _about(text: str, names: Collection[str]) -> dict[str, str]:
    """Return the description of each parameter in a docstring; lines without a name continue the one above."""
    section = _ARGUMENTS.search(text)
    said: dict[str, list[str]] = {}
    for line in dedent(section.group(1)).splitlines() if section else ():
        one = _ONE.match(line)
        if one and one.group(1) in names:
            said[one.group(1)] = [one.group(2)]
        elif said:
            said[next(reversed(said))].append(line)
    return {name: words for name, lines in said.items() if (words := " ".join(" ".join(lines).split()))}
