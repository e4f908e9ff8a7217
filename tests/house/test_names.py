"""One name, one meaning: no class name and no module name is used for two things."""

from __future__ import annotations

import ast
from collections import defaultdict

from tests.house import repository
from tests.house.rules import parsed

# Names that may be used twice, because the public contract names both. The lists only shrink.
CLASSES = {"Turn"}
MODULES = {"contract", "threads", "turn"}

PACKAGE = repository.SRC / "contextinfinity"
FILES = tuple(path for path in repository.files("src/*.py") if path.stem not in {"__init__", "__main__"})


def modules_used_twice() -> dict[str, list[str]]:
    """Module names in more than one top-level package. Within one package they implement the same contract."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in FILES:
        found[path.stem].append(path.relative_to(PACKAGE).as_posix())
    return {stem: paths for stem, paths in found.items() if len({path.split("/")[0] for path in paths}) > 1}


def classes_used_twice() -> dict[str, list[str]]:
    """Class names that more than one module defines."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in FILES:
        for node in parsed(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef):
                found[node.name].append(path.relative_to(PACKAGE).as_posix())
    return {cls: paths for cls, paths in found.items() if len(paths) > 1}


def test_a_class_name_is_used_once() -> None:
    twice = classes_used_twice()
    assert set(twice) == CLASSES, twice


def test_a_module_name_is_used_once_unless_it_implements_the_same_contract() -> None:
    twice = modules_used_twice()
    assert set(twice) == MODULES, twice
