"""Backups from the command line: checked without restoring, restored without losing what was there, pruned."""

from __future__ import annotations

from pathlib import Path

import pytest

from contextinfinity.storage.encryption import HEADER
from contextinfinity.storage.encryption.key_sources import VARIABLE
from tests.doors.cix import Cix

KEY = "a passphrase that is long enough"


@pytest.fixture
def outside(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that is not in the data_dir of ``cix``."""
    return tmp_path_factory.mktemp("outside")


@pytest.fixture
def backup(cix: Cix, outside: Path) -> Path:
    """A backup outside of a data_dir in which one more question was asked since."""
    cix.echo()
    cix.ask("before")
    file = outside / "copy.db"
    assert cix("backup", str(file)).exit_code == 0
    cix.ask("after", "--session", "last")
    return file


def empty(outside: Path) -> Cix:
    (folder := outside / "other").mkdir(mode=0o700)
    return Cix(folder)


@pytest.mark.req("CLI-1")
def test_a_backup_is_restored_into_an_empty_data_dir(backup: Path, outside: Path) -> None:
    other = empty(outside)
    before = backup.read_bytes()
    done = other.json("restore", str(backup))
    assert (done["turns"], done["kept"]) == (1, None)
    assert [user for user, _ in other.said()] == ["before"]
    assert other("doctor").exit_code == 0
    assert backup.read_bytes() == before


@pytest.mark.req("CLI-1")
def test_a_ledger_is_replaced_only_when_told_to_and_is_backed_up_first(cix: Cix, backup: Path) -> None:
    refused = cix("restore", str(backup))
    assert (refused.exit_code, "--replace" in refused.stderr) == (1, True)
    assert [user for user, _ in cix.said()] == ["before", "after"]
    kept = cix.json("restore", str(backup), "--replace")["kept"]
    assert [user for user, _ in cix.said()] == ["before"]
    assert cix("restore", kept, "--replace").exit_code == 0
    assert [user for user, _ in cix.said()] == ["before", "after"]


@pytest.mark.req("CLI-1")
def test_the_backup_of_another_ledger_and_a_lost_ledger_are_restored(cix: Cix, backup: Path, outside: Path) -> None:
    other = empty(outside)
    other.echo()
    other.ask("elsewhere")
    other.json("restore", str(backup), "--replace")
    assert [user for user, _ in other.said()] == ["before"]
    for path in cix.folder.glob("ledger.db*"):
        if path.is_file():
            path.unlink()
    cix.json("restore", str(backup))
    assert [user for user, _ in cix.said()] == ["before"]


@pytest.mark.req("CLI-1")
def test_a_damaged_backup_is_found_and_nothing_is_changed(cix: Cix, backup: Path, outside: Path) -> None:
    whole = backup.read_bytes()
    report = cix.json("doctor", str(backup))
    assert (report["ok"], report["turns"]) == (True, 1)
    assert backup.read_bytes() == whole
    for name, damaged in {
        "torn": whole[: len(whole) // 2],
        "noise": whole[:4096] + b"\x99" * (len(whole) - 4096),
        "text": b"no database" * 400,
        "empty": b"",
    }.items():
        (file := outside / name).write_bytes(damaged)
        assert cix.json("doctor", str(file), code=1)["ok"] is False, name
        refused = cix("restore", str(file), "--replace")
        assert (refused.exit_code, "Nothing was changed" in refused.stderr) == (1, True), name
    assert [user for user, _ in cix.said()] == ["before", "after"]
    assert not list(cix.folder.glob("backups/*.db"))
    assert "There is no file" in cix("doctor", str(outside / "none")).stderr


@pytest.mark.req("CLI-1")
def test_a_damaged_ledger_is_kept_when_a_backup_replaces_it(cix: Cix, backup: Path) -> None:
    ledger = cix.folder / "ledger.db"
    ledger.write_bytes(b"\x99" * ledger.stat().st_size)
    damaged = ledger.read_bytes()
    kept = Path(cix.json("restore", str(backup), "--replace")["kept"])
    assert kept.read_bytes() == damaged
    assert [user for user, _ in cix.said()] == ["before"]


@pytest.mark.req("SAFE-2")
def test_an_encrypted_backup_needs_its_key_and_is_never_written_in_plain_text(
    cix: Cix, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, KEY)
    cix.echo()
    cix.ask("the quagga sleeps")
    assert cix("encrypt").exit_code == 0
    file = outside / "sealed.db"
    assert cix("backup", str(file)).exit_code == 0
    assert cix.json("doctor", str(file))["turns"] == 1
    plain = empty(outside)
    plain.echo()
    monkeypatch.setenv(VARIABLE, "another passphrase, as long")
    assert "does not decrypt" in _in_a_new_process(plain, "restore", str(file))
    assert not (plain.folder / "ledger.db").exists()
    monkeypatch.setenv(VARIABLE, KEY)
    assert plain.json("restore", str(file))["turns"] == 1
    assert [user for user, _ in plain.said()] == ["the quagga sleeps"]
    assert (plain.folder / HEADER).is_file()
    assert not [path for path in plain.folder.rglob("*") if path.is_file() and b"quagga" in path.read_bytes()]
    (outside / "readable").mkdir()
    readable = Cix(outside / "readable")
    readable.echo()
    readable.ask("in plain text")
    assert "cix encrypt" in readable("restore", str(file), "--replace").stderr


def _in_a_new_process(cix: Cix, *arguments: str) -> str:
    """Run a command in a process that has read no key yet, and return what it says on stderr."""
    with cix.start(*arguments) as process:
        return process.end()[2]


@pytest.mark.req("CLI-1")
def test_only_as_many_backups_as_set_are_kept(cix: Cix, backup: Path) -> None:
    with (cix.folder / "config.toml").open("a") as file:
        file.write("[retention]\nbackups_kept = 2\n")
    kept = [Path(cix.json("restore", str(backup), "--replace")["kept"]) for _ in range(4)]
    assert [path.exists() for path in kept] == [False, False, True, True]
