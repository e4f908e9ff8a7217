"""The house rules for pages: markdown in, what it holds out; and the error page, made from the code.

``python -m tests.house.pages`` writes the pages that are made from the code.
"""

from __future__ import annotations

import ast
import inspect
import json
import re
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from contextinfinity import errors
from contextinfinity.errors import ContextInfinityError
from contextinfinity.settings.loading import load_settings
from contextinfinity.settings.sections import Settings
from tests.house.repository import ROOT

ERRORS_PAGE = ROOT / "docs" / "reference" / "errors.md"
DECISION_HEADINGS = ("Context", "Decision", "Consequences", "How we would notice it was wrong")

LANGUAGES = {"console", "ini", "js", "json", "py", "python", "sh", "sql", "text", "toml", "yaml"}
"""``python`` and ``console`` run in ``tests/doors/test_pages.py``; the others cannot run there."""
MODELS = {"gpt", "large", "sonar", "sonnet"}
"""Models that a block of settings may name without defining them."""

ErrorType = type[ContextInfinityError]


# --- Markdown --------------------------------------------------------------------------------------


def headings(page: str, level: int) -> list[str]:
    """The headings of one level, as written."""
    return re.findall(rf"^{'#' * level} (.+?)\s*$", _without_code(page), re.M)


def relative_links(page: str) -> list[str]:
    """Where the page points inside the checkout, anchors cut off."""
    prose = _without_code(page)
    targets = re.findall(r"\]\(\s*<?([^)>\s]+)", prose) + re.findall(r"^\[[^\]]+\]:\s*(\S+)", prose, re.M)
    return [target.partition("#")[0] for target in targets if not re.match(r"[a-z][a-z+.-]*:|#", target)]


def missing_headings(page: str) -> Iterator[str]:
    """The parts that a decision record lacks, or has in another order."""
    found = headings(page, 2)
    if found != list(DECISION_HEADINGS):
        yield f"1: the headings are {found}, a decision record has {list(DECISION_HEADINGS)}"


def requirements(page: str) -> list[str]:
    """The IDs that the page states, in order."""
    return re.findall(r"^- \*\*([A-Z]+-\d+)\*\* \S", page, re.M)


def code_blocks(page: str) -> list[tuple[str, str]]:
    """The code blocks as (language, text), without their indentation."""
    found = re.findall(r"^( *)```(\w*)\n(.*?)^ *```$", page, re.M | re.S)
    return [(language, re.sub(rf"^{indent}", "", text, flags=re.M)) for indent, language, text in found]


def broken_blocks(page: str) -> Iterator[str]:
    """The code blocks without a language that a reader knows, and those that are not valid in their language."""
    for language, text in code_blocks(page):
        first = text.split("\n")[0]
        if language not in LANGUAGES:
            yield f" a block of the language {language!r}: {first}"
            continue
        try:
            if language in {"python", "py"}:
                compile(text, "block", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
            elif language == "json":
                json.loads(text)
            elif language == "toml" and {*(table := tomllib.loads(text))} <= {*Settings.__struct_fields__}:
                others = MODELS - {*table.get("models", ())}
                with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
                    file.write(text + "".join(f'\n[models.{name}]\nprovider = "scripted"\n' for name in others))
                    file.flush()
                    load_settings(Path(file.name), environ={})
        except (SyntaxError, ValueError, errors.SettingsError) as error:
            yield f" {language}: {first}: {error}"


def make_targets(makefile: str) -> list[str]:
    """The targets that say what they do."""
    return re.findall(r"^([\w-]+):[^#\n]*## ", makefile, re.M)


def _without_code(page: str) -> str:
    return re.sub(r"`[^`\n]+`", "", re.sub(r"^(```|~~~).*?^\1", "", page, flags=re.M | re.S))


# --- Errors ----------------------------------------------------------------------------------------


def error_types(module: ModuleType) -> list[ErrorType]:
    """The errors that a module defines, in the order it defines them."""
    defined = [value for value in vars(module).values() if inspect.isclass(value)]
    return [kind for kind in defined if issubclass(kind, ContextInfinityError) and kind.__module__ == module.__name__]


def parents(kinds: list[ErrorType]) -> dict[str, str]:
    """Return each error with its parent; the root has none."""
    return {kind.__name__: next((base.__name__ for base in kind.__bases__ if base in kinds), "") for kind in kinds}


def drawn_parents(drawing: str) -> dict[str, str]:
    """The same, read off a drawn tree."""
    found: dict[str, str] = {}
    above: list[str] = []
    for branches, name in re.findall(r"^    ((?:│   |    |├── |└── )*)([A-Z]\w+)(?:  .*)?$", drawing, re.M):
        del above[len(branches) // 4 :]
        found[name] = above[-1] if above else ""
        above.append(name)
    return found


def errors_page(kinds: list[ErrorType]) -> str:
    """The reference page of the errors."""
    above = parents(kinds)
    rows = [
        _row(f"`{kind.code}`", f"`{kind.__name__}`", above[kind.__name__], _idea(kind), kind.default_hint)
        for kind in kinds
    ]
    return "\n".join([_ERRORS_INTRODUCTION, *rows, ""])


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _idea(kind: ErrorType) -> str:
    """The first paragraph of the docstring, as markdown."""
    paragraph = (inspect.getdoc(kind) or "").partition("\n\n")[0]
    return " ".join(paragraph.replace("``", "`").split())


_ERRORS_INTRODUCTION = """\
# Errors

Every error is a `ContextInfinityError`. It carries a `code` that stays the same between releases, a
`message` that says what happened, and a `hint` that says what to do about it. Catch a parent to catch
all of its kind. An empty hint column: the hint depends on the case, or there is none.

<!-- Made from src/contextinfinity/errors.py by `python -m tests.house.pages`. -->

| code | error | kind of | when | hint |
| --- | --- | --- | --- | --- |"""


if __name__ == "__main__":
    from tests.house import api_page, command_page, route_page, settings_page

    ERRORS_PAGE.write_text(errors_page(error_types(errors)), encoding="utf-8")
    api_page.PAGE.write_text(api_page.api_page(), encoding="utf-8")
    for name, page in (("commands", command_page), ("http", route_page), ("configuration", settings_page)):
        (ERRORS_PAGE.parent / f"{name}.md").write_text(page.reference(), encoding="utf-8")
