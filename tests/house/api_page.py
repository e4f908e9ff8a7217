"""The reference page of the Python API, made from the signatures and docstrings of the public names."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any

import contextinfinity
from contextinfinity import threads
from contextinfinity.domain import events
from contextinfinity.engine.engine import TurnTarget
from contextinfinity.engine.running_turn import SendFields
from tests.house.repository import ROOT

PAGE = ROOT / "docs" / "reference" / "python.md"
NAMES = (ROOT / "tests" / "house" / "public_names.txt").read_text(encoding="utf-8").split()
ELSEWHERE = {"Settings": "configuration.md", "ContextInfinityError": "errors.md", "threads": "#contextinfinitythreads"}
"""Names that another page or section describes."""
THREADS = ("Turn", "Thread", "get_thread", "get_or_create_thread", "get_history", "add_turn", "clear_thread")

_INTRODUCTION = """\
# Python API

<!-- Made from the code by `python -m tests.house.pages`; change the docstrings, not this page. -->

The names that `import contextinfinity` offers, and what they take. The methods of `Engine` are asynchronous; `threads`,
`ConversationMemory`, `ContextManager`, `FileContext` and `HistoryStore` are synchronous. Tutorials:
[a durable assistant](../tutorials/durable-assistant.md), [the history of your own loop](../howto/own-loop.md).
[Settings](configuration.md) and [errors](errors.md) have pages of their own.
"""


def api_page() -> str:
    """Return the page, in Markdown."""
    own = [name for name in NAMES if name not in {*ELSEWHERE, "__version__"}]
    lines = [_INTRODUCTION]
    for name in own:
        lines += _entry(name, getattr(contextinfinity, name), "##")
    lines += ["## contextinfinity.threads\n", _text(threads)]
    for name in THREADS:
        lines += _entry(name, getattr(threads, name), "###")
    lines += ["## Events\n", "`Engine.send` yields them; import them from `contextinfinity.domain.events`.\n"]
    lines += ["| event | fields | |", "| --- | --- | --- |"]
    lines += [_event(name, kind) for name, kind in vars(events).items() if _is_event(kind)]
    return "\n".join(lines) + "\n"


def _entry(name: str, value: Any, heading: str) -> Iterator[str]:
    yield f"{heading} {name}\n"
    signature = str(inspect.signature(value, eval_str=False)).replace("'", "")
    yield f"```text\n{name}{_shortened(signature)}\n```\n"
    yield _text(value)
    if inspect.isclass(value):
        rows = [_method(each, member) for each, member in inspect.getmembers(value) if _is_public_method(each, member)]
        if rows:
            yield from ("| method | |", "| --- | --- |", *rows, "")
    if name == "Engine":
        yield f"{_fields(SendFields)} {_fields(TurnTarget)}\n"


def _method(name: str, member: Any) -> str:
    if isinstance(member, property):
        return f"| `{name}` | {_sentence(member)} |"
    parameters = [each for each in inspect.signature(member).parameters.values() if each.name != "self"]
    shown = ", ".join(map(_parameter, parameters))
    return f"| `{name}({shown})` | {_sentence(member)} |".replace("|None", "\\|None")


def _parameter(parameter: inspect.Parameter) -> str:
    if parameter.kind is parameter.VAR_KEYWORD:
        return f"**{str(parameter.annotation).removeprefix('Unpack[').removesuffix(']')}"
    return parameter.name if parameter.default is parameter.empty else f"{parameter.name}={parameter.default!r}"


def _fields(kind: type) -> str:
    names = ", ".join(f"`{name}`" for name in kind.__annotations__)
    return f"`{kind.__name__}` are the keyword arguments {names}."


def _event(name: str, kind: Any) -> str:
    fields = ", ".join(f"`{field}`" for field in kind.__struct_fields__)
    return f"| `{name}` | {fields} | {_sentence(kind)} |"


def _is_event(value: Any) -> bool:
    return inspect.isclass(value) and value.__module__ == events.__name__ and hasattr(value, "__struct_fields__")


def _is_public_method(name: str, member: Any) -> bool:
    owner = inspect.unwrap(member.fget if isinstance(member, property) and member.fget else member)
    return (
        not name.startswith("_")
        and (inspect.isfunction(member) or inspect.ismethod(member) or isinstance(member, property))
        and getattr(owner, "__module__", "").startswith("contextinfinity")
        and bool(inspect.getdoc(member))
    )


def _text(value: Any) -> str:
    paragraphs = (inspect.getdoc(value) or "").split("\n\n")
    return "\n\n".join(each if each.startswith("    ") else _plain(each) for each in paragraphs) + "\n"


def _sentence(value: Any) -> str:
    return _plain((inspect.getdoc(value) or "").partition("\n\n")[0]).replace("|", "\\|")


def _plain(text: str) -> str:
    return " ".join(text.replace("``", "`").split())


def _shortened(signature: str) -> str:
    return re.sub(r"\b(?:[a-z_]+\.)+(?=[A-Z])", "", signature)
