"""``cix encrypt``, ``cix rekey``, ``cix decrypt`` and ``cix doctor`` on an encrypted data_dir."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.doors.cix import Cix
from tests.doors.terminal import CTRL_D, Terminal

WORD = "zygomorphic"


def holding(folder: Path) -> list[str]:
    return [file.name for file in folder.rglob("*") if file.is_file() and WORD.encode() in file.read_bytes()]


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    """A folder outside of the data_dir."""
    (folder := tmp_path.parent / f"{tmp_path.name}-keys").mkdir()
    return folder


@pytest.mark.req("SAFE-2", "CLI-1")
def test_a_data_dir_is_encrypted_rekeyed_and_decrypted_at_the_command_line(cix: Cix, keys: Path) -> None:
    cix.ask(f"a {WORD} heron")
    assert holding(cix.folder)
    assert "off" in cix.json("doctor")["encryption"]
    assert cix("encrypt", "--key-file", str(cix.folder / "key")).exit_code == 2
    assert cix("encrypt", "--key-file", str(keys / "one")).exit_code == 0
    assert (keys / "one").stat().st_mode & 0o777 == 0o600
    assert holding(cix.folder) == []
    assert str(keys / "one") in cix.json("doctor")["encryption"]
    assert [question for question, _ in cix.said()] == [f"a {WORD} heron"]
    assert cix("rekey", "--key-file", str(keys / "two")).exit_code == 0
    (keys / "one").unlink()
    assert len(cix.said()) == 1
    key = (keys / "two").read_text()
    (keys / "two").write_text("another passphrase, as long\n")
    with cix.start("show", "last") as process:
        code, _, told = process.end()
    assert (code, "does not decrypt" in told) == (1, True)
    (keys / "two").write_text(key)
    assert cix("decrypt").exit_code == 2
    assert holding(cix.folder) == []
    assert cix("decrypt", "--yes").exit_code == 0
    assert holding(cix.folder)


@pytest.mark.req("SAFE-2")
def test_a_killed_chat_in_an_encrypted_data_dir_leaves_no_readable_byte(cix: Cix, keys: Path) -> None:
    cix.ask("hello")
    assert cix("encrypt", "--key-file", str(keys / "one")).exit_code == 0
    with Terminal(cix.folder, "chat") as terminal:
        terminal.until(terminal.waits)
        terminal.say(f"the {WORD} heron")
        os.kill(terminal.pid, signal.SIGKILL)
    assert holding(cix.folder) == []
    assert (cix.folder / "chat_history").stat().st_size > 0
    with Terminal(cix.folder, "chat") as terminal:
        terminal.until(terminal.waits)
        terminal.type(CTRL_D)
        assert terminal.end() == 0
    assert [question for question, _ in cix.said()] == [f"the {WORD} heron"]
    deleted = cix.json("delete", "--everything", "--yes")
    assert all("Encrypted" in one["note"] for one in deleted["places"] if one["place"] == "ledger file")
    assert deleted["conversations"] == 2
