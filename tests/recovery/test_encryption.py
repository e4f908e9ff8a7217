"""An encrypted data_dir: nothing readable on disk, nothing lost, and never half."""

from __future__ import annotations

import asyncio
import random
import shutil
from pathlib import Path

import pytest

from contextinfinity.errors import EncryptionKeyMissing, EncryptionKeyWrong, LedgerBusy, LedgerLost, Refused
from contextinfinity.storage import typed_lines
from contextinfinity.storage.encryption import HEADER
from contextinfinity.storage.encryption.key_sources import VARIABLE
from contextinfinity.storage.journal import JournalFolder
from contextinfinity.storage.sqlite.backup import back_up
from contextinfinity.storage.sqlite.store import SqliteStore
from contextinfinity.storage.standby.spool import read as read_spool
from contextinfinity.upkeep.backups import examine_backup
from contextinfinity.upkeep.examine import examine
from tests.recovery import encrypting
from tests.recovery.deleting import DOOMED, KEPT, engine_on, holding, prepare, talked
from tests.recovery.encrypting import KEY, OTHER, settings_of
from tests.sizes import sized

KINDS = {"backups", "chat_history", "ledger.db", "ledger.db-spool", "streams"}


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, tuple[str, str]]:
    """A data_dir with every kind of copy of two conversations."""
    folder = tmp_path_factory.mktemp("encrypting") / "data"
    return folder, asyncio.run(prepare(folder))


@pytest.fixture
def folder(template: tuple[Path, tuple[str, str]], tmp_path: Path) -> Path:
    shutil.copytree(template[0], tmp_path / "data")
    return tmp_path / "data"


def everything_in(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def kinds(names: list[str]) -> set[str]:
    return {Path(name).parts[0] for name in names}


@pytest.mark.req("SAFE-2")
async def test_no_file_of_an_encrypted_data_dir_holds_a_word_that_was_said(
    folder: Path, template: tuple[Path, tuple[str, str]]
) -> None:
    assert kinds(holding(folder, KEPT)) == KINDS  # before
    found = {finding.code for finding in examine(settings_of(folder)).findings}
    encrypting.encrypt(folder)
    assert holding(folder, DOOMED) == holding(folder, KEPT) == []
    async with engine_on(folder) as engine:
        await talked(engine, "quagga")
        assert holding(folder, DOOMED) == holding(folder, KEPT) == holding(folder, "quagga") == []
        assert [hit.text for hit in (await engine.search(KEPT)).hits]
    assert [line.text for line in typed_lines.read(folder / "chat_history")][1] == f"typed {DOOMED}"
    assert read_spool(folder / "ledger.db-spool" / "left.refused").damaged == 0
    journals = JournalFolder(folder / "streams")
    assert all([entry.seq for entry in journals.read(step)] for step in journals.steps())
    assert {finding.code for finding in examine(settings_of(folder)).findings} == found


@pytest.mark.req("SAFE-2")
def test_a_data_dir_that_was_decrypted_is_as_it_was(folder: Path, template: tuple[Path, tuple[str, str]]) -> None:
    before = everything_in(folder)
    encrypting.encrypt(folder)
    encrypting.decrypt(folder)
    after = everything_in(folder)
    databases = {name for name in before if name.endswith(".db")}
    assert {name: data for name, data in after.items() if name not in databases} == {
        name: data for name, data in before.items() if name not in databases and not name.endswith(("-wal", "-shm"))
    }
    assert kinds(holding(folder, KEPT)) == KINDS
    assert encrypting.read(folder, template[1]) == [2, 2]


@pytest.mark.req("SAFE-2")
def test_a_wrong_or_missing_key_is_refused_and_nothing_is_changed(folder: Path) -> None:
    encrypting.encrypt(folder)
    key, before = Path(encrypting.source_in(folder).name), everything_in(folder)
    for content, error in ((OTHER, EncryptionKeyWrong), ("x", EncryptionKeyWrong), ("", EncryptionKeyMissing)):
        key.write_text(content)
        assert encrypting.error_of(folder) == error.__name__
    key.unlink()
    assert encrypting.error_of(folder) == EncryptionKeyMissing.__name__
    assert everything_in(folder) == before


@pytest.mark.req("SAFE-2")
def test_the_environment_variable_goes_before_the_key_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    encrypting.encrypt(folder)
    Path(encrypting.source_in(folder).name).unlink()
    monkeypatch.setenv(VARIABLE, KEY)
    assert encrypting.error_of(folder) is None


@pytest.mark.timeout(300)  # many processes, on a machine that may be busy
@pytest.mark.req("SAFE-2")
@pytest.mark.parametrize("change", encrypting.CHANGES)
def test_a_process_that_is_killed_leaves_the_old_form_or_the_new_one(
    change: str, template: tuple[Path, tuple[str, str]], tmp_path: Path
) -> None:
    start, work, ids = tmp_path / "start", tmp_path / "work", template[1]
    shutil.copytree(template[0], start)
    if change != "encrypt":
        encrypting.in_process(lambda: encrypting.encrypt(start))
    last = encrypting.killed(start, work, change, None)
    assert last is not None
    moments = sized(3, last)
    for die_at in sorted(random.sample(range(1, last + 1), min(moments, last))):
        encrypting.killed(start, work, change, die_at)
        assert encrypting.read(work, ids) == [2, 2], (change, die_at)
        readable = kinds(holding(work, KEPT))
        is_encrypted = (work / HEADER).exists()
        assert readable == (set() if is_encrypted else KINDS), (change, die_at)


@pytest.mark.req("SAFE-2")
async def test_the_key_is_changed_while_an_engine_runs(folder: Path) -> None:
    encrypting.encrypt(folder)
    before = everything_in(folder)
    async with engine_on(folder) as engine:
        encrypting.rekey(folder)
        await talked(engine, "quagga")
    assert everything_in(folder)[HEADER] != before[HEADER]
    assert encrypting.error_of(folder, without="key") is None  # the old key is not needed any more
    with pytest.raises(Refused, match="has that key already"):
        encrypting.rekey(folder)


@pytest.mark.req("SAFE-2")
async def test_files_in_use_are_not_replaced(folder: Path) -> None:
    store = SqliteStore(folder / "ledger.db", data_dir=folder)
    with pytest.raises(LedgerBusy, match="Another process uses"):
        encrypting.encrypt(folder)
    await store.close()
    assert kinds(holding(folder, KEPT)) == KINDS


@pytest.mark.req("SAFE-2")
async def test_a_running_engine_writes_no_plain_text_when_the_header_file_vanishes(folder: Path) -> None:
    encrypting.encrypt(folder)
    async with engine_on(folder) as engine:
        header = (folder / HEADER).read_bytes()
        (folder / HEADER).unlink()
        with pytest.raises(LedgerLost, match="is encrypted"):
            JournalFolder(folder / "streams").open("01a1e5f9-14e2-7001-babe-7ea47bb27888", "p")
        (folder / HEADER).write_bytes(header)
        await talked(engine, "quagga")
    assert holding(folder, "quagga") == []


@pytest.mark.req("SAFE-2")
def test_a_backup_outside_of_the_data_dir_is_encrypted_and_opens_with_the_same_key(
    folder: Path, template: tuple[Path, tuple[str, str]], tmp_path: Path
) -> None:
    encrypting.encrypt(folder)
    made = back_up(folder / "ledger.db", tmp_path / "elsewhere", lambda _: None, name="mine.db")
    assert {path.name for path in made.parent.iterdir()} == {"mine.db", "mine.db-encryption"}
    assert holding(tmp_path / "elsewhere", KEPT) == []
    restored = tmp_path / "restored"
    restored.mkdir()
    shutil.copy(made, restored / "ledger.db")
    shutil.copy(f"{made}-encryption", restored / HEADER)
    assert encrypting.read(restored, template[1]) == [2, 2]
    Path(f"{made}-encryption").unlink()
    (alone,) = examine_backup(made).findings
    assert "…-encryption) is missing" in alone.what
