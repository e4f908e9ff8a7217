"""An installed package adds a redactor by an entry point."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from contextinfinity.errors import SettingsError
from contextinfinity.prompt.redact import hidden
from contextinfinity.settings.sections import General
from contextinfinity.wiring.redactors import load_redactor


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Install a distribution with a redactor that works and one that is missing."""
    metadata = tmp_path / "badges-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: badges\nVersion: 1.0\n", encoding="utf-8")
    entries = "[contextinfinity.redactors]\nbadges = badges_of_staff:find\nmissing = badges_of_staff:nothing\n"
    (metadata / "entry_points.txt").write_text(entries, encoding="utf-8")
    code = "def find(text):\n    at = text.find('B-')\n    return [(at, at + 5)] if at >= 0 else []\n"
    (tmp_path / "badges_of_staff.py").write_text(code, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "badges_of_staff", raising=False)
    return "badges"


@pytest.mark.req("SAFE-1")
def test_an_entry_point_is_named_like_a_built_in_detector(installed: str) -> None:
    redactor = load_redactor(General(redact=(installed, "emails")))
    assert hidden("B-123 is ann@example.com", redactor) == "[redacted] is [redacted]"
    assert load_redactor(General()) is None


@pytest.mark.req("SAFE-1")
def test_an_entry_point_that_cannot_be_loaded_is_an_error(installed: str) -> None:
    with pytest.raises(SettingsError, match="missing cannot be loaded"):
        load_redactor(General(redact=("missing",)))
