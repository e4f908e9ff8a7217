"""Parse the tools and the tool choice of Anthropic's clients.

Tools that run at Anthropic, or that only its models know, cannot be offered to every model: they are omitted, and
rejected only if the client requires one of them.
"""

from __future__ import annotations

import re

from msgspec import Struct

from contextinfinity.dialects.anthropic.content_blocks import (
    InvalidField,
    each,
    flag_in,
    kept,
    list_in,
    object_in,
    object_of,
    optional_text,
    text_in,
    under,
    word_in,
)
from contextinfinity.domain.message import Json
from contextinfinity.domain.prompt import ToolSpec

CHOICES = {"auto": "auto", "any": "required", "none": "none"}

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_MEANT = frozenset({"type", "name", "description", "input_schema", "cache_control", "eager_input_streaming"})


class OfferedTools(Struct, frozen=True, kw_only=True):
    """The tools of a request: those that can be offered, the names of the others, and ignored parameters."""

    specs: tuple[ToolSpec, ...]
    left_out: frozenset[str]
    ignored: tuple[str, ...]


def offered_in(asked: dict[str, Json]) -> OfferedTools:
    """Parse the tools of a request."""
    given = under("tools", lambda tools: each(tools, _tool), list_in(asked, "tools"))
    specs = [spec for spec, _ in given if isinstance(spec, ToolSpec)]
    names = [spec.name for spec in specs]
    if len(set(names)) != len(names):
        raise InvalidField("tool names must be unique.", "tools")
    return OfferedTools(
        specs=tuple(specs),
        left_out=frozenset(spec for spec, _ in given if isinstance(spec, str)),
        ignored=tuple(dict.fromkeys([f"tools.{name}" for _, ignored in given for name in ignored])),
    )


def _tool(given: Json) -> tuple[ToolSpec | str, list[str]]:
    """Parse a tool, or return the name of an omitted one; also return its ignored parameters."""
    tool = object_of(given)
    if (optional_text(tool, "type") or "custom") != "custom":
        name = optional_text(tool, "name") or tool["type"]
        return name, [name]
    name = text_in(tool, "name")
    if _NAME.fullmatch(name) is None:
        raise InvalidField("expected 1 to 128 letters, digits, hyphens and underscores.", "name")
    schema = under("input_schema", _parameters, tool.get("input_schema"))
    spec = ToolSpec(name=name, description=optional_text(tool, "description"), parameters=schema)
    return spec, [key for key, value in tool.items() if value and key not in _MEANT]


def _parameters(given: Json) -> Json:
    schema = object_of(given)
    if schema.get("type", "object") != "object":
        raise InvalidField("expected type object: a tool takes named arguments.", "type")
    return kept(schema)


def choice_of(asked: dict[str, Json], tools: OfferedTools) -> tuple[str | None, bool | None]:
    """Return the tool choice in the form of ``RequestOptions``, and whether parallel calls are allowed."""
    return under("tool_choice", lambda choice: _choice(choice, tools), object_in(asked, "tool_choice"))


def _choice(choice: dict[str, Json], tools: OfferedTools) -> tuple[str | None, bool | None]:
    if not choice:
        return None, None
    kind = word_in(choice, "type", ("auto", "any", "tool", "none"))
    alone = flag_in(choice, "disable_parallel_tool_use")
    parallel = None if alone is None else not alone
    if kind == "tool":
        return f":{_named(text_in(choice, 'name'), tools)}", parallel
    if kind == "any" and not tools.specs:
        raise InvalidField("no tool is offered.", "type", hint=_hint(tools))
    return (CHOICES[kind], parallel) if tools.specs else (None, None)


def _named(name: str, tools: OfferedTools) -> str:
    if any(spec.name == name for spec in tools.specs):
        return name
    if name in tools.left_out:
        raise InvalidField("this tool cannot be called here.", "name", hint=_hint(tools))
    raise InvalidField("expected the name of one of the tools.", "name")


def _hint(tools: OfferedTools) -> str:
    return "Tools that Anthropic runs or defines are not supported; offer one of your own." if tools.left_out else ""
