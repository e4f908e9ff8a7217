"""Every command that the docs, help texts and messages name exists, with the options they give it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Any

import pytest
import typer.main

from contextinfinity.cli.main import app
from tests.house import repository
from tests.house.rules import nodes, parsed

PAGES = [path for path in repository.files("*.md") if path.name != "CHANGELOG.md"]  # which says what was, too
TREE: Any = typer.main.get_command(app)
SOURCES = repository.files("src/contextinfinity/*.py")
CODE = re.compile(r"```.*?```|`[^`\n]+`", re.S)
NAMED = re.compile(
    r"(?<![\w/.\-])cix((?: --?[a-z-]+(?: [A-Z][A-Z_]*)?)*) ([a-z][a-z-]*)\b(?: ([a-z][a-z-]*)\b)?([^`\n|#;&]*)"
)
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")


def mistakes(text: str) -> Iterator[str]:
    """Name what a text says of ``cix`` that is not so."""
    for before, name, second, rest in NAMED.findall(text):
        command = TREE.commands.get(name)
        if command is None:
            yield f"there is no `cix {name}`"
            continue
        inner = getattr(command, "commands", None)
        if inner is not None and second and second not in inner:
            yield f"there is no `cix {name} {second}`"
            continue
        leaves = [inner[second]] if inner and second else [*inner.values()] if inner else [command]
        known = {option for one in [TREE, *leaves] for parameter in one.params for option in parameter.opts} | {
            "--help"
        }
        yield from (f"`cix {name}` has no {option}" for option in OPTION.findall(before + rest) if option not in known)


def strings(source: str) -> Iterator[str]:
    """Return the texts in a module: literals, and the parts of those that are put together."""
    for node in nodes(parsed(source)):
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "X" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


@pytest.mark.req("CLI-1")
def test_pages_name_only_commands_that_exist() -> None:
    def wrong(page: str) -> list[str]:
        return [f" {mistake}" for code in CODE.findall(page) for mistake in mistakes(code)]

    assert not repository.report(PAGES, wrong)


@pytest.mark.req("CLI-1")
def test_messages_and_help_texts_name_only_commands_that_exist() -> None:
    def wrong(source: str) -> list[str]:
        return [f" {mistake}" for text in strings(source) for mistake in mistakes(text)]

    assert not repository.report(SOURCES, wrong)


def test_a_command_that_does_not_exist_is_seen() -> None:
    assert [*mistakes("`cix nothing` and `cix token nothing`")] == [
        "there is no `cix nothing`",
        "there is no `cix token nothing`",
    ]
    assert [*mistakes("`cix ask --wrong`, `cix --data-dir DIR ask`, `cix token list`")] == ["`cix ask` has no --wrong"]
