"""Pages that name tests name only tests that exist, and every line of the threat model names one."""

from __future__ import annotations

import re

import pytest

from tests.house.repository import ROOT

THREATS = "explanation/threats.md"


@pytest.mark.parametrize("page", ["reference/requirements.md", THREATS])
def test_every_test_that_a_page_names_exists(page: str) -> None:
    named = re.findall(r"`([\w/.]+)::(\w+)`", (ROOT / "docs" / page).read_text(encoding="utf-8"))
    assert len(named) > 40
    missing = [
        name for path, name in named if f"def {name}(" not in (ROOT / "tests" / path).read_text(encoding="utf-8")
    ]
    assert not missing


def test_every_attack_of_the_threat_model_names_a_test() -> None:
    page = (ROOT / "docs" / THREATS).read_text(encoding="utf-8")
    rows = [row for row in re.findall(r"^\| .+", page, re.M) if not row.startswith(("| attack", "| ---"))]
    assert len(rows) > 30
    assert [row for row in rows if "::test_" not in row] == []
