"""The layers of the package, and the names that modules may not have.

The contract is in pyproject.toml; import-linter holds it. Here it runs with the tests, and is shown to
refuse what it is there to refuse.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path, PurePath

import pytest

from tests.house import repository
from tests.house.rules import PACKAGE, root_imports, vague_names

MODULES = [path.relative_to(repository.SRC) for path in repository.files("src/*.py")]


def lint(src: Path) -> subprocess.CompletedProcess[str]:
    """Run the contracts over the package in this folder."""
    command = Path(sys.executable).with_name("lint-imports")
    options = ["--no-logo", "--no-cache", "--config", str(repository.ROOT / "pyproject.toml")]
    # A narrow terminal would break the lines of the report where the tests look for words.
    env = {**os.environ, "PYTHONPATH": str(src), "COLUMNS": "200"}
    return subprocess.run([command, *options], cwd=src, env=env, check=False, capture_output=True, text=True)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the source that a test may spoil."""
    return shutil.copytree(repository.SRC, tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))


def test_the_layers_hold() -> None:
    result = lint(repository.SRC)
    assert result.returncode == 0, result.stdout + result.stderr


def test_a_module_outside_the_layers_is_refused(copy: Path) -> None:
    (copy / PACKAGE / "utils.py").touch()
    result = lint(copy)
    assert result.returncode == 1
    assert "utils" in result.stdout


def test_a_step_that_imports_a_step_is_refused(copy: Path) -> None:
    for step in ("rewriting", "retrieval"):
        (copy / PACKAGE / step).mkdir(exist_ok=True)
        (copy / PACKAGE / step / "__init__.py").touch()
    (copy / PACKAGE / "rewriting" / "stray.py").write_text(f"import {PACKAGE}.retrieval\n", encoding="utf-8")
    result = lint(copy)
    assert result.returncode == 1
    assert f"{PACKAGE}.rewriting.stray -> {PACKAGE}.retrieval" in result.stdout


def test_no_module_imports_the_root_package() -> None:
    found = [
        f"{module}:{finding}"
        for module in MODULES
        for finding in root_imports(
            (repository.SRC / module).read_text(encoding="utf-8"), package=".".join(module.parent.parts)
        )
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "statement",
    [
        "import contextinfinity",
        "import contextinfinity as cix",
        "import contextinfinity.errors",
        "from contextinfinity import Settings",
        "from .. import errors",
        "def late():\n    import contextinfinity",
    ],
)
def test_an_import_of_the_root_package_is_seen(statement: str) -> None:
    assert list(root_imports(statement, package="contextinfinity.engine"))


@pytest.mark.parametrize(
    "statement",
    [
        "from contextinfinity.errors import NotFound",
        "import contextinfinity.errors as errors",
        "from . import turn",
        "from ..domain import ids",
    ],
)
def test_an_import_from_a_module_is_not_one_of_the_root(statement: str) -> None:
    assert not list(root_imports(statement, package="contextinfinity.engine"))


def test_every_module_has_a_name_that_says_something() -> None:
    vague = [str(module) for module in MODULES if vague_names(module)]
    assert not vague, f"name these after what they hold: {vague}"


@pytest.mark.parametrize(
    "path", ["engine/base.py", "core/turn.py", "helpers.py", "engine/turn_utils.py", "services.py"]
)
def test_a_vague_name_is_seen(path: str) -> None:
    assert vague_names(PurePath(path))


@pytest.mark.parametrize("path", ["workspace/context_manager.py", "engine/turn.py", "storage/sqlite/__init__.py"])
def test_a_plain_name_is_no_vague_one(path: str) -> None:
    assert not vague_names(PurePath(path))
