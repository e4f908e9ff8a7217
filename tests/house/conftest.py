"""The house rules read the whole checkout: one worker does, and parses each file once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.house.rules import nodes, parsed

HERE = Path(__file__).parent


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Assign all tests of this folder to the same worker."""
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.xdist_group("house"))


@pytest.fixture(scope="package", autouse=True)
def parsed_sources() -> Iterator[None]:
    """Drop the parsed files after the last rule: they are 200 MB that the garbage collector would keep visiting."""
    yield
    parsed.cache_clear()
    nodes.cache_clear()
