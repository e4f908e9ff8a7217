"""How OpenAI says that a request is wrong, for both of its protocols."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from contextinfinity.domain.message import Json
from contextinfinity.testing.vendors.troubles import openai_error
from contextinfinity.testing.vendors.wire import Refused

REASONS = re.compile(r"^(o\d|gpt-5)")
EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
KINDS = {str: "a string", list: "an array", dict: "an object", int: "an integer", type(None): "null", bool: "a boolean"}


def invalid(message: str, param: str | None, code: str | None = None) -> Refused:
    """Make a 400."""
    return Refused(400, openai_error(message, param=param, code=code))


def known(value: Json, allowed: Collection[str], path: str) -> None:
    """Refuse a parameter that does not exist."""
    for key in value:
        if key not in allowed:
            where = _under(path, key)
            raise invalid(f"Unknown parameter: '{where}'.", where, "unknown_parameter")


def need(value: Json, key: str, path: str) -> None:
    """Refuse an object that lacks a field."""
    if key not in value:
        where = _under(path, key)
        raise invalid(f"Missing required parameter: '{where}'.", where, "missing_required_parameter")


def one_of(value: Json, allowed: Sequence[str], path: str) -> None:
    """Refuse a value that is not among those that there are."""
    if value not in allowed:
        *most, last = [f"'{name}'" for name in allowed]
        named = f"{', '.join(most)}, and {last}" if most else last
        raise invalid(f"Invalid value: '{value}'. Supported values are: {named}.", path, "invalid_value")


def typed(value: Json, kind: type | tuple[type, ...], path: str, expected: str) -> None:
    """Refuse a value of the wrong kind."""
    if not isinstance(value, kind):
        got = KINDS.get(type(value), "something else")
        said = f"Invalid type for '{path}': expected {expected}, but got {got} instead."
        raise invalid(said, path, "invalid_type")


def check_effort(model: str, effort: Json, temperature: Json, path: str) -> None:
    """Refuse what only models that reason, or only those that do not, can take."""
    if effort is not None:
        one_of(effort, EFFORTS, path)
        if not REASONS.match(model):
            said = f"Unsupported parameter: '{path}' is not supported with this model."
            raise invalid(said, path, "unsupported_parameter")
    if temperature not in (None, 1) and REASONS.match(model):
        said = "Unsupported parameter: 'temperature' is not supported with this model."
        raise invalid(said, "temperature", "unsupported_parameter")


def check_schema(schema: Json, strict: Json, name: str, param: str) -> None:
    """Refuse a strict schema that leaves something open."""
    if schema is None or not strict:
        return
    problem = _open(schema, ())
    if problem is not None:
        raise invalid(f"Invalid schema for {name}: {problem}", param, "invalid_json_schema")


def _open(schema: Json, context: tuple[str, ...]) -> str | None:
    if not isinstance(schema, dict):
        return None
    if schema.get("type") == "object":
        if schema.get("additionalProperties") is not False:
            return f"In context={context}, 'additionalProperties' is required to be supplied and to be false."
        properties = schema.get("properties") or {}
        missing = [key for key in properties if key not in (schema.get("required") or [])]
        if missing:
            return (
                f"In context={context}, 'required' is required to be supplied and to be an array including every key"
                f" in properties. Missing '{missing[0]}'."
            )
        inner = [_open(value, (*context, "properties", key)) for key, value in properties.items()]
        return next((problem for problem in inner if problem), None)
    return _open(schema.get("items"), (*context, "items"))


def _under(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key
