"""Convert the tools of the Responses API to functions that every model can call.

A custom tool, whose input is plain text, becomes a function with one argument ``input``; a function in a namespace gets
a combined name. ``ToolNames`` maps calls back to the client's tools. Tools that OpenAI runs itself (such as web search)
are not offered to the model and are listed as ignored.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from contextinfinity.dialects.openai_chat.value_checks import (
    InvalidValue,
    a_name,
    a_schema,
    a_text,
    an_object,
    can_be_kept,
    each,
    expected,
    field,
    optional,
    word_of,
)
from contextinfinity.domain.message import Json, ToolUseBlock, arguments_of
from contextinfinity.domain.prompt import ToolSpec
from contextinfinity.domain.sent_form import joined_name

NO_PARAMETERS: Json = {"type": "object", "properties": {}}
TEXT_ONLY: Json = {
    "type": "object",
    "properties": {"input": {"type": "string"}},
    "required": ["input"],
    "additionalProperties": False,
}
_CHOICES = word_of("none", "auto", "required")


class ToolNames:
    """The tools of a request, by the model's and the client's names."""

    def __init__(self, tools: Iterable[Json] = ()) -> None:
        self.offered: list[ToolSpec] = []
        self.hosted: list[str] = []
        """The types of tools that are not offered."""
        self._custom: set[str] = set()
        self._inside: dict[str, tuple[str, str]] = {}
        for tool in tools:
            self.take(tool)

    def take(self, value: Json, namespace: str = "") -> None:
        """Parse one tool."""
        tool = an_object(value)
        if not can_be_kept(tool):
            raise InvalidValue("nested too deeply, or it contains a number that is too large")
        kind = field(tool, "type", a_text)
        if kind == "namespace" and not namespace:
            inner = field(tool, "name", a_name)
            field(tool, "tools", lambda tools: each(tools, lambda one: self.take(one, inner)))
        elif kind in ("function", "custom"):
            name = joined_name(namespace, field(tool, "name", a_name))
            if namespace:
                self._inside[name] = (namespace, tool["name"])
            if kind == "custom":
                self._custom.add(name)
            self.offered.append(_function(tool, name) if kind == "function" else _custom(tool, name))
        else:
            self.hosted.append(kind)

    def call_item(self, call: ToolUseBlock) -> dict[str, Json]:
        """Write a call in terms of the client's tool."""
        namespace, name = self._inside.get(call.name, ("", call.name))
        item: dict[str, Json] = {"type": "function_call", "call_id": call.tool_use_id, "name": name}
        if call.name in self._custom:
            item |= {"type": "custom_tool_call", "input": input_text(call.input)}
        else:
            item["arguments"] = arguments_text(call.input)
        return {**item, "namespace": namespace} if namespace else item

    def chosen(self, value: Json) -> str | None:
        """Parse ``tool_choice``; None for a tool that OpenAI runs itself."""
        names = {tool.name for tool in self.offered}
        if not isinstance(value, dict):
            choice = _CHOICES(value)
            if choice == "required" and not names and not self.hosted:
                raise InvalidValue("no tools are offered", "Send tools, or leave it out.")
            return choice
        kind = field(value, "type", a_text)
        if kind == "allowed_tools":
            return optional(value, "mode", word_of("auto", "required"))
        if kind not in ("function", "custom"):
            if not self.hosted:
                raise expected("function, custom or allowed_tools", kind).inside("type")
            return None
        name = joined_name(optional(value, "namespace", a_name) or "", field(value, "name", a_name))
        if name not in names:
            raise InvalidValue("the named tool is not among the tools")
        return ":" + name


def arguments_text(arguments: Json) -> str:
    """Write arguments as JSON; text of the model that is not JSON stays unchanged."""
    if isinstance(arguments, str) and arguments_of(arguments) == arguments:
        return arguments
    return "{}" if arguments is None else msgspec.json.encode(arguments).decode()


def custom_input(text: str) -> Json:
    """Return the arguments of a call to a custom tool."""
    return {"input": text}


def input_text(arguments: Json) -> str:
    """Return the input of a custom tool; a model may have written other arguments than these."""
    if isinstance(arguments, dict) and arguments.keys() == {"input"} and isinstance(arguments["input"], str):
        return arguments["input"]
    return arguments_text(arguments)


def _function(tool: dict[str, Json], name: str) -> ToolSpec:
    return ToolSpec(
        name=name,
        description=optional(tool, "description", a_text) or "",
        parameters=optional(tool, "parameters", a_schema) or NO_PARAMETERS,
    )


def _custom(tool: dict[str, Json], name: str) -> ToolSpec:
    """Describe a custom tool; the grammar of its input becomes part of the description."""
    description = optional(tool, "description", a_text) or ""
    form = optional(tool, "format", an_object) or {}
    if form.get("type") == "grammar":
        syntax, definition = optional(form, "syntax", a_text) or "", field(form, "definition", a_text)
        description += f"\n\nThe input follows this grammar ({syntax}):\n{definition}"
    return ToolSpec(name=name, description=description.strip(), parameters=TEXT_ONLY)
