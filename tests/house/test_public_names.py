"""``public_names.txt`` lists what users may rely on: a name more or less is a decision."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import contextinfinity
from tests.cases import each

NAMES = Path(__file__).with_name("public_names.txt").read_text(encoding="utf-8").split()

# Each costs more to import than the package may take in all.
HEAVY = ("apsw", "asyncio", "msgspec", "numpy", "pydantic", "rich", "tokenizers", "typer")

PROBE = f"import sys; before = set(sys.modules); {{}}; print(*sorted((set(sys.modules) - before) & set({HEAVY!r})))"


def loaded_by(statement: str) -> list[str]:
    """The heavy modules that a fresh interpreter holds after the statement."""
    done = subprocess.run([sys.executable, "-c", PROBE.format(statement)], check=True, capture_output=True, text=True)
    return done.stdout.split()


def test_the_public_names_are_the_ones_on_the_list() -> None:
    assert sorted(contextinfinity.__all__) == sorted(NAMES)


@each("name", NAMES)
def test_a_public_name_can_be_loaded(name: str) -> None:
    assert getattr(contextinfinity, name) is not None


def test_dir_shows_the_public_names() -> None:
    assert set(NAMES) <= set(dir(contextinfinity))


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = contextinfinity.no_such_name


def test_importing_the_package_loads_nothing_heavy() -> None:
    assert loaded_by("import contextinfinity") == []


def test_a_command_does_not_wait_for_pydantic() -> None:
    assert "pydantic" not in loaded_by("import contextinfinity.cli.main")


def test_a_server_starts_before_it_loads_what_folds_and_files_need() -> None:
    assert "numpy" not in loaded_by("import contextinfinity.server.app, contextinfinity.server.serving")


def test_a_heavy_import_would_be_noticed() -> None:
    assert loaded_by("import asyncio") == ["asyncio"]
