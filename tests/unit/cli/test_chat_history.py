"""What was typed, kept for the next start: for its owner only, and not without end."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from contextinfinity.cli.chat.input import LONGEST, MOST, KeptHistory

pytestmark = pytest.mark.req("CLI-1")


def test_entries_survive_newest_first_for_their_owner_only(tmp_path: Path) -> None:
    file = tmp_path / "chat_history"
    file.touch(0o644)
    for entry in ("one", "two\nlines", "x" * (LONGEST + 1), "ünï \ud83d"):
        history = KeptHistory(file)
        history.store_string(entry)
        history.keep(None)
    assert list(KeptHistory(file).load_history_strings()) == ["ünï \ud83d", "two\nlines", "one"]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_the_file_does_not_grow_without_end(tmp_path: Path) -> None:
    file = tmp_path / "chat_history"
    file.write_text("".join(f"{json.dumps(str(number))}\n" for number in range(MOST + 50)) + "no json\n[1]\n")
    loaded = list(KeptHistory(file).load_history_strings())
    assert (loaded[0], len(loaded)) == (str(MOST + 49), MOST - 2)
    assert len(file.read_text().splitlines()) == MOST
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [one.name for one in tmp_path.iterdir()] == ["chat_history"]


def test_a_file_that_cannot_be_written_is_no_trouble(tmp_path: Path) -> None:
    history = KeptHistory(tmp_path / "nowhere" / "chat_history")
    history.store_string("lost")
    history.keep(None)
    assert list(history.load_history_strings()) == []
