"""The repository holds two distributions: the package, and what its users need to test against it."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from typing import Any

import contextinfinity
from tests.house import repository

UNINSTALLED = """
import pkgutil, sys
from importlib import import_module

sys.modules["contextinfinity_testing"] = None  # an import of it fails
import contextinfinity

for module in pkgutil.walk_packages(contextinfinity.__path__, "contextinfinity."):
    if not module.name.endswith("__main__"):
        import_module(module.name)
"""


def project(path: str) -> dict[str, Any]:
    """Return the ``[project]`` table of a distribution."""
    table: dict[str, Any] = tomllib.loads((repository.ROOT / path).read_text(encoding="utf-8"))["project"]
    return table


def test_both_distributions_have_one_version() -> None:
    package, testing = project("pyproject.toml"), project("testing/pyproject.toml")
    assert testing["version"] == package["version"] == contextinfinity.__version__
    assert f"contextinfinity=={package['version']}" in testing["dependencies"]


def test_the_package_runs_without_the_test_distribution() -> None:
    subprocess.run([sys.executable, "-c", UNINSTALLED], check=True, capture_output=True)


def test_every_dependency_is_on_the_page_of_licences() -> None:
    page = (repository.ROOT / "docs" / "reference" / "licences.md").read_text(encoding="utf-8")
    extras: dict[str, list[str]] = project("pyproject.toml")["optional-dependencies"]
    needed = [
        *project("pyproject.toml")["dependencies"],
        *(one for name in extras if name != "dev" for one in extras[name]),
    ]
    names = {re.split(r"[^\w.-]", line, maxsplit=1)[0].lower().replace("_", "-") for line in needed}
    licences = dict(re.findall(r"^\| ([\w.-]+) \| (.+) \|$", page, re.M))
    assert sorted(names - licences.keys()) == [], "run `make dist-check`"
    assert [name for name, licence in licences.items() if licence == "not stated"] == []


def test_the_wheel_holds_the_package_only() -> None:
    build = tomllib.loads((repository.ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"]["build"]
    assert build["targets"]["wheel"]["packages"] == ["src/contextinfinity"]
    assert not repository.files("src/contextinfinity/testing/*")
