"""From a Python function to a tool: what a model is sent, and what the function gets."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any, Literal, Optional, TypedDict

import msgspec
import pytest
from msgspec import Meta

from contextinfinity.errors import InvalidInput
from contextinfinity.tools.toolbox import Tool
from tests.cases import each

if TYPE_CHECKING:
    from contextinfinity.nowhere import Unseen  # type: ignore[import-not-found]


@dataclass
class Point:
    x: int
    y: int = 0


class Box(msgspec.Struct):
    points: list[Point]


class Options(TypedDict, total=False):
    loud: bool


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Arguments(msgspec.Struct):
    """Called as the tool's own type is called inside."""

    z: int


def schema(function: Callable[..., Any], **how: Any) -> dict[str, Any]:
    told = Tool(function, **how).spec.parameters
    assert isinstance(told, dict)
    return told


def properties(function: Callable[..., Any]) -> dict[str, Any]:
    return dict(schema(function)["properties"])


def documented(text: str) -> Tool:
    """A tool of three parameters whose docstring says this."""

    def tool(city: str, days: int = 1, unit: str = "C") -> None: ...

    tool.__doc__ = text
    return Tool(tool)


def said_of(tool: Tool) -> dict[str, str]:
    """What a model is sent about each parameter."""
    described = tool.spec.parameters["properties"]
    return {name: told["description"] for name, told in described.items() if "description" in told}


# --- what a model is sent


@pytest.mark.req("TOOLS-1")
def test_hints_become_a_schema() -> None:
    def tool(text: str, number: int, share: float, flag: bool, unit: Literal["C", "F"], colour: Colour) -> None: ...

    told = schema(tool)
    assert told["type"] == "object"
    assert told["properties"] == {
        "text": {"type": "string"},
        "number": {"type": "integer"},
        "share": {"type": "number"},
        "flag": {"type": "boolean"},
        "unit": {"enum": ["C", "F"]},
        "colour": {"$ref": "#/$defs/Colour"},
    }
    assert told["$defs"] == {"Colour": {"title": "Colour", "enum": ["blue", "red"]}}
    assert told["required"] == list(told["properties"]), "in the order of the parameters"
    assert told["additionalProperties"] is False


def test_lists_tables_and_whatever_else_are_told() -> None:
    def tool(names: list[str], weights: dict[str, float], anything: Any, unsaid) -> None: ...  # type: ignore[no-untyped-def]

    assert properties(tool) == {
        "names": {"type": "array", "items": {"type": "string"}},
        "weights": {"type": "object", "additionalProperties": {"type": "number"}},
        "anything": {},
        "unsaid": {},
    }


def test_a_parameter_with_a_default_may_be_left_out() -> None:
    def tool(first: str, second: int = 2, third: Any = None, fourth=4) -> None: ...  # type: ignore[no-untyped-def]

    assert schema(tool)["required"] == ["first"]
    assert properties(tool)["second"] == {"type": "integer"}


def test_what_may_be_nothing_is_told_as_such() -> None:
    def tool(a: Optional[int], b: str | None = None) -> None: ...  # noqa: UP045

    assert properties(tool) == {
        "a": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "b": {"anyOf": [{"type": "string"}, {"type": "null"}]},
    }
    assert schema(tool)["required"] == ["a"]


@pytest.mark.req("TOOLS-1")
def test_types_of_the_callers_own_are_described_beside_the_parameters() -> None:
    def tool(point: Point, box: Box, options: Options) -> None: ...

    told = schema(tool)
    assert told["properties"]["box"] == {"$ref": "#/$defs/Box"}
    assert set(told["$defs"]) == {"Point", "Box", "Options"}
    assert told["$defs"]["Point"]["required"] == ["x"]
    assert told["$defs"]["Box"]["properties"]["points"]["items"] == {"$ref": "#/$defs/Point"}
    assert told["$defs"]["Options"]["required"] == []


def test_a_type_may_have_any_name() -> None:
    def tool(a: Arguments) -> None: ...

    told = schema(tool)
    (name,) = told["$defs"]
    assert told["properties"] == {"a": {"$ref": f"#/$defs/{name}"}}
    assert Tool(tool).bind({"a": {"z": 1}}) == {"a": Arguments(1)}


def test_bounds_and_words_of_an_annotation_are_told() -> None:
    def tool(days: Annotated[int, Meta(ge=1, le=7, description="How far ahead.")] = 1) -> None: ...

    assert properties(tool) == {
        "days": {"type": "integer", "minimum": 1, "maximum": 7, "description": "How far ahead."}
    }


def test_a_function_without_parameters_takes_an_empty_object() -> None:
    def tool() -> None: ...

    assert schema(tool) == {"type": "object", "properties": {}, "required": [], "additionalProperties": False}


# --- docstrings


@pytest.mark.parametrize(
    ("text", "summary"),
    [
        ("", ""),
        ("Tell the weather.", "Tell the weather."),
        ("Tell the weather\n    of a city.\n\n    And more.", "Tell the weather of a city."),
        ("Tell the weather.\n\n    Args:\n        city: Its name.", "Tell the weather."),
        ("Tell the weather.\n    Args:\n        city: Its name.", "Tell the weather."),
        ("\n    Args:\n        city: Its name.\n    ", ""),
    ],
)
def test_the_first_paragraph_describes_the_tool(text: str, summary: str) -> None:
    assert documented(text).spec.description == summary


def test_a_function_without_a_docstring_is_described_by_nothing_or_by_what_is_given() -> None:
    def tool() -> None: ...

    assert Tool(tool).spec.description == ""
    assert Tool(tool, description="Do it.").spec.description == "Do it."
    tool.__doc__ = "Not this."
    assert Tool(tool, description="Do it.").spec.description == "Do it."


@each(
    ("section", "said"),
    [
        ("Args:\n        city: Its name.", {"city": "Its name."}),
        ("Arguments:\n        city: Its name.", {"city": "Its name."}),
        ("Parameters:\n      city: Its name.", {"city": "Its name."}),
        ("Args:\n\n        city: Its name.\n\n        days: How many.", {"city": "Its name.", "days": "How many."}),
        ("Args:\n        city (str): Its name.", {"city": "Its name."}),
        ("Args:\n        city(str): Its name.", {"city": "Its name."}),
        ("Args:\n        days (Optional(int), optional): How many.", {"days": "How many."}),
        ("Args:\n        city : Its name.", {"city": "Its name."}),
        ("Args:\n        city:\n            Its name.", {"city": "Its name."}),
        (
            "Args:\n        city: Its,\n            of it.\n        days: Ahead.",
            {"city": "Its, of it.", "days": "Ahead."},
        ),
        ("Args:\n        city: Its name.\n            Note: in English.", {"city": "Its name. Note: in English."}),
        ("Args:\n        city: Its name,\n            days: no number.", {"city": "Its name, days: no number."}),
        ("Args:\n        city: Its name\n        example: Paris.", {"city": "Its name example: Paris."}),
        ("Args:\n        city: A\n        *days: B\n        **unit: C", {"city": "A", "days": "B", "unit": "C"}),
        ("Args:\n        unit: C or F: one of them.", {"unit": "C or F: one of them."}),
        ("Args:\n        city: Its name.\n\n    Returns:\n        days: none.", {"city": "Its name."}),
        ("Args:\n        nobody: Is here.\n        days: Ahead.", {"days": "Ahead."}),
        ("Args:\n        city:\n        days: Ahead.", {"days": "Ahead."}),
        ("Returns:\n        city: a name.", {}),
        ("Args: are none.", {}),
    ],
)
def test_the_lines_under_args_describe_the_parameters(section: str, said: dict[str, str]) -> None:
    assert said_of(documented(f"Tell the weather.\n\n    {section}\n    ")) == said


def test_words_stand_beside_any_type() -> None:
    def tool(point: Point, anything, some: Any = 1, days: Optional[int] = 2) -> None:  # type: ignore[no-untyped-def] # noqa: UP045
        """Do it.

        Args:
            point: Where.
            anything: What.
            some: More.
            days: When.
        """

    assert said_of(Tool(tool)) == {"point": "Where.", "anything": "What.", "some": "More.", "days": "When."}
    assert Tool(tool).bind({"point": {"x": 1}, "anything": None, "days": None}) == {
        "point": Point(1),
        "anything": None,
        "days": None,
    }


# --- names


@pytest.mark.parametrize("name", ["a b", "größe", "look\n", "a.b", "a" * 65, "<lambda>", "{}"])
def test_a_name_that_a_vendor_would_refuse_is_refused(name: str) -> None:
    def tool() -> None: ...

    with pytest.raises(InvalidInput, match="cannot be the name of a tool") as caught:
        Tool(tool, name=name)
    assert "name=" in caught.value.hint
    tool.__name__ = name
    with pytest.raises(InvalidInput, match="cannot be the name of a tool"):
        Tool(tool)


@pytest.mark.parametrize("name", ["a", "Look-at_it9", "a" * 64])
def test_a_name_that_every_vendor_takes_is_taken(name: str) -> None:
    assert Tool(lambda: None, name=name).spec.name == name


# --- functions of all kinds


@pytest.mark.parametrize(
    "function",
    [lambda *args: None, lambda **options: None, lambda a, /: None],
    ids=["many", "options", "nameless"],
)
def test_a_parameter_that_has_no_name_for_a_model_is_refused(function: Callable[..., Any]) -> None:
    with pytest.raises(InvalidInput, match=r"the parameter \S+ of tool\.") as caught:
        Tool(function, name="tool")
    assert caught.value.hint


@pytest.mark.parametrize("bad", [threading.Lock, object, Callable[[int], int], Point | Box])
def test_a_type_that_json_cannot_say_is_refused_in_one_line(bad: Any) -> None:
    def tool(a: int) -> None: ...

    tool.__annotations__ = {"a": bad}
    with pytest.raises(InvalidInput, match=r"the parameters of tool: .*not supported") as caught:
        Tool(tool)
    assert "\n" not in caught.value.message


def test_a_hint_that_cannot_be_resolved_is_named() -> None:
    def tool(a: Unseen) -> None: ...

    with pytest.raises(InvalidInput, match="the parameters of tool: name 'Unseen' is not defined") as caught:
        Tool(tool)
    assert "module" in caught.value.hint


@pytest.mark.parametrize("function", [max, 3])
def test_what_has_no_signature_is_refused(function: Any) -> None:
    with pytest.raises(InvalidInput, match="the parameters of tool"):
        Tool(function, name="tool")


class Lamp:
    """A lamp."""

    def light(self, colour: Colour) -> str:
        """Light it.

        Args:
            colour: Which.
        """
        return colour.name

    def __call__(self, seconds: int = 1) -> int:
        return seconds


class Horn:
    """A horn."""

    def __call__(self, times: int) -> str:
        """Blow it."""
        return "honk " * times


def test_a_method_is_told_without_its_object() -> None:
    tool = Tool(Lamp().light)
    assert (tool.spec.name, tool.spec.description) == ("light", "Light it.")
    assert list(tool.spec.parameters["properties"]) == ["colour"]
    assert tool.function(**tool.bind({"colour": "red"})) == "RED"


def test_an_object_that_can_be_called_needs_a_name() -> None:
    with pytest.raises(InvalidInput, match="name"):
        Tool(Lamp())
    lamp, horn = Tool(Lamp(), name="lamp"), Tool(Horn(), name="horn")
    assert (lamp.spec.description, horn.spec.description) == ("A lamp.", "Blow it.")
    assert horn.spec.parameters["properties"] == {"times": {"type": "integer"}}
    assert lamp.function(**lamp.bind({})) == 1


def test_what_a_partial_has_settled_is_not_left_to_the_model() -> None:
    def read(folder: str, name: str, lines: int = 10) -> str:
        """Read a file.

        Args:
            folder: Where it is.
            name: What it is called.
        """
        return f"{folder}/{name}:{lines}"

    for settled in (functools.partial(read, "/safe"), functools.partial(read, folder="/safe")):
        tool = Tool(settled)
        assert (tool.spec.name, tool.spec.description) == ("read", "Read a file.")
        assert said_of(tool) == {"name": "What it is called."}
        assert list(tool.spec.parameters["properties"]) == ["name", "lines"]
        assert tool.function(**tool.bind({"name": "a", "lines": 2})) == "/safe/a:2"
        with pytest.raises(InvalidInput, match="folder"):
            tool.bind({"name": "a", "folder": "/etc"})


def test_a_wrapped_function_is_told_as_what_it_wraps() -> None:
    def inner(city: str) -> str:
        """Look."""
        return city

    @functools.wraps(inner)
    def outer(*args: Any, **kwargs: Any) -> str:
        return inner(*args, **kwargs).upper()

    tool = Tool(outer)
    assert (tool.spec.name, tool.spec.description) == ("inner", "Look.")
    assert tool.function(**tool.bind({"city": "Paris"})) == "PARIS"


def test_an_async_function_is_told_like_any_other() -> None:
    async def tool(city: str, *, days: int = 1) -> str:
        """Look."""
        return city

    assert list(properties(tool)) == ["city", "days"]
    assert Tool(tool).spec.description == "Look."


# --- what the function gets


def plan(point: Point, when: date, colour: Colour = Colour.RED, days: int | None = 3, loud: bool = False) -> None:
    """Plan."""


@pytest.mark.req("TOOLS-1")
def test_arguments_become_the_values_that_the_hints_name() -> None:
    sent = {"point": {"x": 1}, "when": "2024-02-29", "colour": "blue", "days": None, "loud": True}
    assert Tool(plan).bind(sent) == {
        "point": Point(1, 0),
        "when": date(2024, 2, 29),
        "colour": Colour.BLUE,
        "days": None,
        "loud": True,
    }


def test_what_is_left_out_is_left_to_the_function() -> None:
    assert Tool(plan).bind({"point": {"x": 1}, "when": "2024-02-29"}) == {"point": Point(1), "when": date(2024, 2, 29)}


def test_numbers_and_switches_may_come_as_text() -> None:
    def tool(days: int, share: float, loud: bool) -> None: ...

    assert Tool(tool).bind({"days": "3", "share": "0.5", "loud": "true"}) == {"days": 3, "share": 0.5, "loud": True}


@pytest.mark.req("TOOLS-1")
@pytest.mark.parametrize(
    ("sent", "said"),
    [
        ({"when": "2024-02-29"}, "missing required field `point`"),
        ({"point": {}, "when": "2024-02-29"}, r"missing required field `x` - at `\$.point`"),
        ({"point": {"x": "one"}, "when": "2024-02-29"}, r"at `\$.point.x`"),
        ({"point": None, "when": "2024-02-29"}, r"got `null` - at `\$.point`"),
        ({"point": {"x": 1}, "when": "2024-02-30"}, "when"),
        ({"point": {"x": 1}, "when": "2024-02-29", "colour": "green"}, "colour"),
        ({"point": {"x": 1}, "when": "2024-02-29", "loud": None}, "loud"),
        ({"point": {"x": 1}, "when": "2024-02-29", "height": 3}, "unknown field `height`"),
        ([1], "Expected `object`, got `array`"),
        ("{oops", "Expected `object`, got `str`"),
    ],
)
def test_arguments_that_do_not_fit_are_refused_in_words(sent: Any, said: str) -> None:
    with pytest.raises(InvalidInput, match=f"The arguments of plan do not fit: .*{said}"):
        Tool(plan).bind(sent)


def test_no_arguments_are_as_good_as_empty_ones() -> None:
    def tool(a: int = 1) -> None: ...

    assert Tool(tool).bind(None) == {}
    assert Tool(tool).bind({}) == {}


def test_the_bounds_of_an_annotation_are_held() -> None:
    def tool(days: Annotated[int, Meta(ge=1)] = 1) -> None: ...

    assert Tool(tool).bind({"days": 1}) == {"days": 1}
    with pytest.raises(InvalidInput, match="days"):
        Tool(tool).bind({"days": 0})
