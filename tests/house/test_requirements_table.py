"""The page that maps the design's test list to tests names only tests that exist."""

from __future__ import annotations

import re

from tests.house.repository import ROOT


def test_every_test_that_the_table_names_exists() -> None:
    page = (ROOT / "docs" / "reference" / "requirements.md").read_text(encoding="utf-8")
    named = re.findall(r"`([\w/.]+)::(\w+)`", page)
    assert len(named) > 40
    missing = [
        name for path, name in named if f"def {name}(" not in (ROOT / "tests" / path).read_text(encoding="utf-8")
    ]
    assert not missing
