"""OpenAI's errors for invalid requests, for both of its protocols."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

import msgspec

from contextinfinity.domain.message import Json
from contextinfinity_testing.vendors.troubles import openai_error
from contextinfinity_testing.vendors.wire import IMAGE_TYPES, Refused, is_base64

REASONS = re.compile(r"^(o\d|gpt-[56](?!\S*-chat))")
EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
NAME = re.compile(r"^[a-zA-Z0-9_-]{1,64}$")
FUTURE = "future_"
"""Fields of a later version of the API begin so; they are accepted."""
KINDS = {str: "a string", list: "an array", dict: "an object", int: "an integer", type(None): "null", bool: "a boolean"}


def invalid(message: str, param: str | None, code: str | None = None) -> Refused:
    """Return a refusal with status 400."""
    return Refused(400, openai_error(message, param=param, code=code))


def known(value: Json, allowed: Collection[str], path: str) -> None:
    """Refuse a parameter that does not exist."""
    for key in value:
        if key not in allowed and not key.startswith(FUTURE):
            where = _under(path, key)
            raise invalid(f"Unknown parameter: '{where}'.", where, "unknown_parameter")


def need(value: Json, key: str, path: str) -> None:
    """Refuse an object that lacks a field."""
    if key not in value:
        where = _under(path, key)
        raise invalid(f"Missing required parameter: '{where}'.", where, "missing_required_parameter")


def one_of(value: Json, allowed: Sequence[str], path: str) -> None:
    """Refuse a value that is not one of the allowed ones."""
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
    """Refuse parameters that only reasoning models, or only other models, accept."""
    if effort is not None:
        one_of(effort, EFFORTS, path)
        if not REASONS.match(model):
            said = f"Unsupported parameter: '{path}' is not supported with this model."
            raise invalid(said, path, "unsupported_parameter")
    if temperature not in (None, 1) and REASONS.match(model) and effort != "none":
        said = "Unsupported parameter: 'temperature' is not supported with this model."
        raise invalid(said, "temperature", "unsupported_parameter")


def check_schema(schema: Json, strict: Json, name: str, param: str) -> None:
    """Refuse a strict schema that leaves something open."""
    if schema is None or not strict:
        return
    problem = _open(schema, ())
    if problem is not None:
        raise invalid(f"Invalid schema for {name}: {problem}", param, "invalid_json_schema")


def check_name(name: Json, path: str) -> None:
    """Refuse the name of a tool that no tool can have."""
    typed(name, str, path, "a string")
    if not NAME.match(name):
        said = f"Expected a string that matches the pattern '{NAME.pattern}'."
        raise invalid(f"Invalid '{path}': string does not match pattern. {said}", path, "invalid_value")


def check_arguments(arguments: Json, path: str) -> None:
    """Refuse arguments that are no JSON object in a text."""
    typed(arguments, str, path, "a string")
    try:
        value = msgspec.json.decode(arguments)
    except msgspec.DecodeError:
        value = None
    if not isinstance(value, dict):
        raise invalid(f"Invalid '{path}': expected a JSON object.", path, "invalid_value")


def check_picture(url: Json, path: str) -> None:
    """Refuse a picture of an unsupported type, or a broken one."""
    typed(url, str, path, "a string")
    if not url.startswith("data:"):
        return
    media_type, _, data = url.removeprefix("data:").partition(";base64,")
    said = f"Invalid '{path}'. Expected a base64-encoded data URL with an image MIME type"
    if media_type not in IMAGE_TYPES:
        raise invalid(f"{said}, but got unsupported MIME type '{media_type}'.", path, "invalid_value")
    if not is_base64(data):
        raise invalid(f"{said}, but got an invalid base64-encoded value.", path, "invalid_value")


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
