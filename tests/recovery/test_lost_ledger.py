"""A ledger that is removed, emptied or replaced is an error, and never silently begun again (LEDGER-11)."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from contextinfinity.errors import LedgerLost
from contextinfinity.settings import General, Settings, Storage
from contextinfinity.storage.sqlite.backup import back_up
from contextinfinity.storage.sqlite.identity import begin_new, mark_of
from contextinfinity.storage.sqlite.store import SqliteStore
from contextinfinity.upkeep.examine import examine
from contextinfinity.wiring import begin_new as begin_anew
from contextinfinity.wiring import holds_ledger, open_store
from contextinfinity_testing.builders import new_branch
from tests.recovery.outages import back, engine_on, said

THREAD = "a conversation"


def remove(ledger: Path) -> None:
    ledger.unlink()


def empty(ledger: Path) -> None:
    ledger.write_bytes(b"")


def empty_database(ledger: Path) -> None:
    ledger.unlink()
    connection = apsw.Connection(str(ledger))
    connection.execute("PRAGMA user_version = 1")
    connection.close()


def replace(ledger: Path) -> None:
    other = ledger.with_name("other") / "ledger.db"
    SqliteStore(other).database.close()
    shutil.copy(other, ledger)
    shutil.rmtree(other.parent)


def overwrite(ledger: Path) -> None:
    ledger.write_bytes(b"<html>" * 1000)


def of_another_program(ledger: Path) -> None:
    ledger.unlink()
    connection = apsw.Connection(str(ledger))
    connection.execute("CREATE TABLE invoice (id INTEGER)")
    connection.close()


def content(ledger: Path) -> bytes | None:
    return ledger.read_bytes() if ledger.exists() else None


def restore(backup: Path, ledger: Path) -> None:
    """Do what the page on restoring says."""
    for end in ("", "-wal", "-shm"):
        Path(f"{ledger}{end}").unlink(missing_ok=True)
    shutil.copy(backup, ledger)


LOSSES = [remove, empty, empty_database, replace, overwrite, of_another_program]
Loss = Callable[[Path], None]


async def made(folder: Path) -> Path:
    """A data_dir with one conversation."""
    async with engine_on(folder) as engine:
        await engine.ask(THREAD, "before")
    return folder / "ledger.db"


@pytest.mark.req("LEDGER-11")
@pytest.mark.parametrize("lose", LOSSES)
async def test_a_lost_ledger_is_refused_until_somebody_says_to_begin_a_new_one(tmp_path: Path, lose: Loss) -> None:
    ledger = await made(tmp_path)
    lose(ledger)
    before = content(ledger)
    for _ in range(2):
        with pytest.raises(LedgerLost) as lost:
            SqliteStore(ledger)
        assert str(ledger) in lost.value.message
        assert "--begin-new" in lost.value.hint
        assert "cix doctor" in lost.value.hint
    report = examine(Settings(general=General(data_dir=str(tmp_path))))
    assert "ledger_lost" in [finding.code for finding in report.findings]
    assert content(ledger) == before
    begin_new(ledger)
    async with engine_on(tmp_path) as engine:
        assert (await engine.ask(THREAD, "again")).turn_seq == 1
    assert begin_new(ledger) == []
    async with engine_on(tmp_path) as engine:
        assert len(await said(engine, THREAD)) == 1, "a ledger in its place stays"


@pytest.mark.req("LEDGER-11")
async def test_the_log_of_an_emptied_ledger_is_kept(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "here" / "ledger.db")
    await new_branch(store)
    shutil.copytree(tmp_path / "here", tmp_path / "copy")  # with its log, as a killed process leaves it
    await store.close()
    copy, log = tmp_path / "copy" / "ledger.db", tmp_path / "copy" / "ledger.db-wal"
    content = log.read_bytes()
    assert content
    empty(copy)
    mark_of(copy).unlink()  # a log alone proves that there was a ledger
    with pytest.raises(LedgerLost):
        SqliteStore(copy)
    examine(Settings(general=General(data_dir=str(copy.parent))))
    assert log.read_bytes() == content
    aside = {path.name.rpartition(".lost-")[0]: path for path in begin_new(copy)}
    assert aside["ledger.db-wal"].read_bytes() == content


@pytest.mark.req("LEDGER-11")
async def test_a_data_dir_of_the_release_before_opens_and_is_remembered_from_then_on(tmp_path: Path) -> None:
    ledger = await made(tmp_path)
    mark_of(ledger).unlink()
    async with engine_on(tmp_path) as engine:
        assert len(await said(engine, THREAD)) == 1
    remove(ledger)
    with pytest.raises(LedgerLost):
        SqliteStore(ledger)


@pytest.mark.req("LEDGER-11")
@pytest.mark.parametrize("lose", LOSSES)
async def test_a_backup_that_is_copied_to_the_place_of_the_ledger_is_opened(tmp_path: Path, lose: Loss) -> None:
    ledger = await made(tmp_path)
    backup = back_up(ledger, tmp_path / "backups", lambda part: None)
    lose(ledger)
    restore(backup, ledger)
    async with engine_on(tmp_path) as engine:
        assert [asked for _, asked, _ in await said(engine, THREAD)] == ["before"]


@pytest.mark.req("LEDGER-11")
@pytest.mark.parametrize(
    ("name", "why"), [("ledger.db", "moved, deleted or replaced"), ("ledger.db-wal", "was deleted while it was open")]
)
async def test_a_ledger_that_is_removed_while_it_is_open_acknowledges_nothing_as_durable(
    tmp_path: Path, name: str, why: str
) -> None:
    async with engine_on(tmp_path) as engine:
        await engine.ask(THREAD, "before")
        (tmp_path / name).rename(tmp_path / "elsewhere")
        held = await engine.ask(THREAD, "held")
        assert (held.durability, held.outcome) == ("local", "completed")
        health = engine.health()
        assert (health.status, health.spool_depth) == ("degraded", 1)
        assert why in health.reason
        assert not (tmp_path / name).exists(), "nothing is begun in its place"
        (tmp_path / "elsewhere").rename(tmp_path / name)
        await back(engine)
        assert [asked for _, asked, _ in await said(engine, THREAD)] == ["before", "held"]


@pytest.mark.req("LEDGER-11")
async def test_a_ledger_that_is_overwritten_in_place_while_it_is_open_acknowledges_nothing_as_durable(
    tmp_path: Path,
) -> None:
    other = await made(tmp_path / "other")
    async with engine_on(tmp_path) as engine:
        await engine.ask(THREAD, "before")
        inode = (tmp_path / "ledger.db").stat().st_ino
        shutil.copyfile(other, tmp_path / "ledger.db")
        assert (tmp_path / "ledger.db").stat().st_ino == inode
        held = await engine.ask(THREAD, "held")
        assert (held.durability, held.outcome) == ("local", "completed")
        assert "is not the ledger of this data_dir" in engine.health().reason
    assert (tmp_path / "ledger.db").read_bytes() == other.read_bytes(), "nothing of ours went into the other ledger"


@pytest.mark.req("LEDGER-11", "TURN-13")
async def test_what_was_said_after_a_ledger_was_lost_goes_into_the_backup_that_replaces_it(tmp_path: Path) -> None:
    ledger = await made(tmp_path)
    backup = back_up(ledger, tmp_path / "backups", lambda part: None)
    async with engine_on(tmp_path) as engine:
        assert await said(engine, THREAD)  # a conversation of which nothing was read could not continue
        ledger.unlink()
        assert (await engine.ask(THREAD, "held")).durability == "local"
        restore(backup, ledger)
        assert (await engine.ask(THREAD, "held too")).durability == "local", "the open file is still another one"
    restore(backup, ledger)
    async with engine_on(tmp_path) as engine:
        assert [asked for _, asked, _ in await said(engine, THREAD)] == ["before", "held", "held too"]


@pytest.mark.req("LEDGER-11")
async def test_a_data_dir_that_is_deleted_while_it_is_used_is_not_begun_again(tmp_path: Path) -> None:
    home = tmp_path / "home"
    async with engine_on(home) as engine:
        await engine.ask(THREAD, "before")
        shutil.rmtree(home)
        assert (await engine.ask(THREAD, "held")).durability == "local"
        assert engine.health().status == "degraded"
    with pytest.raises(LedgerLost):
        SqliteStore(home / "ledger.db")
    aside = begin_new(home / "ledger.db")
    assert [path.name.rpartition(".lost-")[0] for path in aside] == ["ledger.db-spool"]
    async with engine_on(home) as engine:
        assert (await engine.ask(THREAD, "again")).turn_seq == 1


@pytest.mark.req("LEDGER-11")
@pytest.mark.parametrize("pattern", ["ledger.db*", "*"])
def test_a_ledger_that_is_lost_with_everything_beside_it_is_refused(tmp_path: Path, pattern: str) -> None:
    volume = tmp_path / "volume"
    volume.mkdir()
    settings = Settings(
        general=General(data_dir=str(tmp_path / "data")), storage=Storage(url=f"sqlite:///{volume / 'ledger.db'}")
    )
    opened(settings)
    for path in list(volume.glob(pattern)):
        path.unlink() if path.is_file() else shutil.rmtree(path)
    assert holds_ledger(settings)
    with pytest.raises(LedgerLost):
        open_store(settings)
    assert [finding.code for finding in examine(settings).findings if finding.code == "ledger_lost"]
    begin_anew(settings)
    opened(settings)
    opened(settings)


@pytest.mark.req("LEDGER-11")
def test_another_ledger_that_comes_with_its_own_mark_is_refused(tmp_path: Path) -> None:
    settings = Settings(general=General(data_dir=str(tmp_path / "data")))
    opened(settings)
    other = tmp_path / "other" / "ledger.db"
    SqliteStore(other).database.close()
    for path in (other, mark_of(other)):
        shutil.copy(path, tmp_path / "data")
    with pytest.raises(LedgerLost):
        open_store(settings)


@pytest.mark.req("LEDGER-11")
def test_a_data_dir_that_was_moved_holds_its_ledger(tmp_path: Path) -> None:
    opened(Settings(general=General(data_dir=str(tmp_path / "data"))))
    settings = Settings(general=General(data_dir=str((tmp_path / "data").rename(tmp_path / "moved"))))
    opened(settings)
    assert len(list((tmp_path / "moved").glob("identity-*"))) == 1


def opened(settings: Settings) -> None:
    """Open the ledger and close it again."""
    store = open_store(settings)
    assert isinstance(store, SqliteStore)
    store.database.close()


@pytest.mark.req("LEDGER-11")
def test_messages_that_wait_for_a_lost_ledger_are_proof_of_it(tmp_path: Path) -> None:
    settings = Settings(general=General(data_dir=str(tmp_path)))
    assert not holds_ledger(settings)
    spool = tmp_path / "ledger.db-spool" / "01a1e566-169c-7000-afb0-b64edf768357.spool"
    spool.parent.mkdir()
    spool.write_bytes(b"held")
    assert holds_ledger(settings), "a command that reads must not say that nothing was ever said here"
    with pytest.raises(LedgerLost):
        open_store(settings)
