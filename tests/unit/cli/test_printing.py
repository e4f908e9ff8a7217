"""What goes to the screen cannot do harm there, and can be used."""

from __future__ import annotations

import pytest

from contextinfinity.cli.output import print_table
from contextinfinity.text.terminal.control_characters import printable


@pytest.mark.req("CLI-1")
def test_signs_that_steer_turn_or_hide_are_shown_as_such_and_emoji_stay_whole() -> None:
    assert printable("a\x1b[2Jb\u202egnp.exe\u2066\u200b\ufeff") == "a�[2Jb�gnp.exe���"
    assert printable("👩\u200d🚀 naïve\tשלום\n") == "👩\u200d🚀 naïve\tשלום\n"


@pytest.mark.req("CLI-1")
def test_on_a_narrow_screen_only_the_last_column_gives_way(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    print_table(("id", "last", "about"), [("82f8fc01", "2026-11-15 16:04", "a long story " * 20)])
    row = capsys.readouterr().out.splitlines()[1]
    assert row.startswith("82f8fc01  2026-11-15 16:04  a long")
    assert len(row) <= 40
