"""Every command has its entry in the manual."""

from __future__ import annotations

import pytest

from tests.house.command_page import reference
from tests.house.repository import ROOT


@pytest.mark.req("CLI-1")
def test_the_page_of_the_commands_is_up_to_date() -> None:
    page = (ROOT / "docs" / "reference" / "commands.md").read_text(encoding="utf-8")
    assert page == reference(), "run: python -m tests.house.pages"


@pytest.mark.req("CLI-1")
def test_every_command_takes_what_every_command_takes() -> None:
    entries = reference().split("\n## ")[1:]
    assert len(entries) >= 13
    for entry in entries:
        for option in ("--data-dir", "--config", "--json"):
            assert f"`{option}" in entry, entry.splitlines()[0]
