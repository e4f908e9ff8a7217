"""A deletion ends whatever happens to its process, and reaches every file of the data_dir."""

from __future__ import annotations

import asyncio
import json
import os
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path

import apsw
import pytest

from contextinfinity.domain.ids import new_id, now
from contextinfinity.domain.message import say
from contextinfinity.domain.session import NewSession, Owner
from contextinfinity.domain.turn import NewTurn, TurnEnd
from contextinfinity.engine.deleting import STILL_THERE
from contextinfinity.settings import load_settings
from contextinfinity.storage.copies import note_external_backup
from contextinfinity.storage.ledger.replay import ReplayedTurn
from contextinfinity.storage.sqlite.connection import connect
from contextinfinity.storage.standby.spool import Spool, Spooled, rewrite, written
from contextinfinity.upkeep.safe_repair import examine_and_repair
from tests.recovery.deleting import DOOMED, KEPT, engine_on, holding, prepare, start
from tests.recovery.doomed import ROOT

TRIALS = 8
KINDS = {"backups", "chat_history", "ledger.db", "ledger.db-spool", "streams"}


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A data_dir with every kind of copy of two conversations, and the id of the one that is to go."""
    folder = tmp_path_factory.mktemp("deleting") / "data"
    return folder, asyncio.run(prepare(folder))[0]


@pytest.fixture
def folder(template: tuple[Path, str], tmp_path: Path) -> Path:
    shutil.copytree(template[0], tmp_path / "data")
    return tmp_path / "data"


@pytest.fixture
def doomed(template: tuple[Path, str]) -> str:
    return template[1]


def kinds(names: list[str]) -> set[str]:
    return {Path(name).parts[0] for name in names}


@pytest.mark.timeout(300)  # many processes, on a machine that may be busy
@pytest.mark.req("SAFE-8", "SAFE-4")
def test_a_start_finishes_what_a_killed_process_began_to_delete(quick_folder: Path) -> None:
    seed = str(random.randrange(1_000_000))
    command = [sys.executable, "-m", "tests.recovery.deleting", str(quick_folder), seed, str(TRIALS)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    trials = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(trials) == TRIALS, done.stderr
    for trial in trials:
        assert trial["untouched"] or trial["left"] == [], f"seed {seed}: {trial}"
        assert kinds(trial["kept"]) == KINDS, f"seed {seed}: {trial}"
    assert sum(trial["died"] and not trial["untouched"] for trial in trials) > TRIALS / 2


@pytest.mark.req("SAFE-8", "SAFE-4")
async def test_a_deletion_reaches_every_file_and_leaves_what_belongs_to_others(folder: Path, doomed: str) -> None:
    assert kinds(holding(folder, DOOMED)) == KINDS
    async with engine_on(folder) as engine:
        deleted = await engine.delete(doomed)
        assert (deleted.turns, deleted.remaining) == (2, ())
        assert holding(folder, DOOMED) == []
        assert kinds(holding(folder, KEPT)) == KINDS
    (backup,) = (folder / "backups").glob("ledger-*.db")
    assert [path.name for path in backup.parent.glob("ledger-*.db-*")] == []


@pytest.mark.req("SAFE-8")
async def test_the_log_is_wiped_when_a_foreign_reader_ends_and_the_report_says_so_before(
    folder: Path, doomed: str
) -> None:
    reader = apsw.Connection(str(folder / "ledger.db"))
    async with engine_on(folder) as engine:
        reader.execute("BEGIN; SELECT count(*) FROM message").fetchall()
        deleted = await engine.delete(doomed)
        assert deleted.remaining == (STILL_THERE,)
        assert kinds(holding(folder, DOOMED)) <= {"ledger.db", "ledger.db-wal"}
        reader.execute("ROLLBACK")
        assert (await engine.clean_up()).errors == ()
        assert holding(folder, DOOMED) == []
    reader.close()


@pytest.mark.req("SAFE-8")
async def test_the_next_start_wipes_a_log_that_a_foreign_reader_kept(folder: Path, doomed: str) -> None:
    reader = apsw.Connection(str(folder / "ledger.db"))
    async with engine_on(folder) as engine:
        reader.execute("BEGIN; SELECT count(*) FROM message").fetchall()
        await engine.delete(doomed)
    reader.execute("ROLLBACK")  # it stays connected, so that no closing connection empties the log
    assert await start(folder, (DOOMED,)) == [[]]
    reader.close()


@pytest.mark.req("SAFE-8")
async def test_a_repair_after_a_kill_copies_nothing_that_was_being_deleted(folder: Path, doomed: str) -> None:
    raw = connect(str(folder / "ledger.db"))
    raw.execute("INSERT INTO deletion SELECT id, 'deleted', 0 FROM session WHERE uuid = ?", (doomed,))
    raw.close()
    (folder / "streams").chmod(0o755)  # something to repair
    report = examine_and_repair(load_settings(data_dir=folder).settings, least_free=0)
    assert (report.backup is not None, [finding.code for finding in report.findings]) == (True, ["spool_refused"])
    assert holding(folder, DOOMED) == []
    assert kinds(holding(folder, KEPT)) == KINDS


@pytest.mark.req("SAFE-8")
async def test_a_journal_that_an_older_release_left_behind_goes_at_the_next_start(folder: Path, doomed: str) -> None:
    journals = [folder / name for name in holding(folder, DOOMED) if name.startswith("streams")]
    async with engine_on(folder) as engine:
        saved = {path: path.read_bytes() for path in journals}
        await engine.delete(doomed)
    for path, content in saved.items():
        path.write_bytes(content)
    assert await start(folder, (DOOMED,)) == [[]]


@pytest.mark.req("SAFE-4", "SAFE-8")
async def test_an_upload_that_a_killed_server_left_goes_when_it_is_a_day_old(folder: Path) -> None:
    left = {folder / ".cix-import-old": 86_401, folder / "chat_history.old.md": 86_401, folder / ".cix-import-new": 0}
    for path, age in left.items():
        path.write_text("my secret", encoding="utf-8")
        os.utime(path, (time.time() - age,) * 2)
    async with engine_on(folder):
        assert [path.name for path in left if path.exists()] == [".cix-import-new"]


@pytest.mark.req("SAFE-8")
async def test_backups_that_were_written_elsewhere_are_named_and_not_changed(folder: Path, doomed: str) -> None:
    elsewhere = folder.with_name("my backup.db")
    shutil.copy(folder / "ledger.db", elsewhere)
    note_external_backup(folder / "backups", elsewhere)
    note_external_backup(folder / "backups", folder / "gone.db")
    before = elsewhere.read_bytes()
    async with engine_on(folder) as engine:
        (told,) = (await engine.delete(doomed)).remaining
    assert str(elsewhere) in told
    assert elsewhere.read_bytes() == before


@pytest.mark.req("SAFE-8")
async def test_a_damaged_backup_does_not_keep_deleted_text(folder: Path, doomed: str) -> None:
    (backup,) = (folder / "backups").glob("ledger-*.db")
    content = backup.read_bytes()
    backup.write_bytes(b"no database" + content[11:])
    async with engine_on(folder) as engine:
        await engine.delete(doomed)
    assert holding(folder, DOOMED) == []


@pytest.mark.req("SAFE-8", "CHATMEM-4")
async def test_what_expires_goes_from_every_file(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    await prepare(folder, ttl_hours=24)
    for ledger in (folder / "ledger.db", *(folder / "backups").glob("ledger-*.db")):
        raw = connect(str(ledger))
        guard = raw.execute("SELECT sql FROM sqlite_schema WHERE name = 'turn_content_is_immutable'").get
        raw.execute("DROP TRIGGER turn_content_is_immutable")
        raw.execute(
            "UPDATE turn SET created_at = created_at - 2 * 86400000 WHERE session_id IN (SELECT session_id FROM expiry)"
        )
        raw.execute("UPDATE session SET created_at = 0, updated_at = 0 WHERE id IN (SELECT session_id FROM expiry)")
        raw.execute("UPDATE expiry SET due = 0")
        raw.execute(guard)
        raw.close()
    aged = (folder / "chat_history").read_text().splitlines()
    lines = [json.loads(line) for line in aged[1:]]
    lines[0]["at"] -= 2 * 86_400_000
    (folder / "chat_history").write_text("".join(json.dumps(line) + "\n" for line in lines))
    shutil.rmtree(folder / "ledger.db-spool")
    assert await start(folder, (DOOMED,)) == [[]]
    assert kinds(holding(folder, KEPT)) == KINDS - {"ledger.db-spool"}


@pytest.mark.req("SAFE-8")
async def test_a_forgotten_memory_is_wiped_when_a_foreign_reader_ends(folder: Path) -> None:
    reader = apsw.Connection(str(folder / "ledger.db"))
    async with engine_on(folder) as engine:
        owner = Owner()
        added = await engine.memories.add(owner, "likes quokkas")
        reader.execute("BEGIN; SELECT count(*) FROM memory").fetchall()
        await engine.memories.forget(owner, added.id)
    reader.execute("ROLLBACK")
    assert await start(folder, ("quokkas",)) == [[]]
    reader.close()


@pytest.mark.req("SAFE-8")
async def test_a_spool_that_lands_after_its_conversation_was_deleted_leaves_nothing(folder: Path, doomed: str) -> None:
    async with engine_on(folder) as engine:
        branch = (await engine.session(doomed)).active_branch
        await engine.delete(doomed)
    turn = NewTurn(id=new_id(), branch_id=branch, message=say("user", DOOMED))
    new = NewSession(id=doomed, branch_id=branch, title=DOOMED)
    landing = ReplayedTurn(turn_id=turn.id or "", new=turn, said_at=now())
    spooled = Spooled(sessions={doomed: new}, turns={landing.turn_id: landing})
    rewrite(folder / "ledger.db-spool" / f"{new_id()}.spool", spooled)
    assert await start(folder, (DOOMED,)) == [[]]
    assert [path.name for path in (folder / "ledger.db-spool").iterdir()] == ["left.refused"]
    async with engine_on(folder) as engine:
        assert await engine.store.sessions.get(doomed) is None


@pytest.mark.req("SAFE-8")
async def test_what_another_process_holds_of_a_conversation_is_deleted_and_its_spool_named(
    folder: Path, doomed: str
) -> None:
    async with engine_on(folder) as engine:
        branch = (await engine.session(doomed)).active_branch
        turn = NewTurn(id=new_id(), branch_id=branch, message=say("user", DOOMED))
        landing = ReplayedTurn(turn_id=turn.id or "", new=turn, said_at=now())
        end = ReplayedTurn(turn_id=turn.id or "", end=TurnEnd(outcome="failed"), failed=True)
        before = len(await engine.store.turns.history(branch))
        spool = Spool(folder / "ledger.db-spool", new_id())
        await spool.append([written(landing), written(end)])
        deleted = await engine.delete(doomed)
        assert deleted.turns == before + 1
        (told,) = deleted.remaining
        assert str(spool.path) in told
        spool.close()
    assert await start(folder, (DOOMED,)) == [[]]


@pytest.mark.req("SAFE-8")
async def test_a_backup_that_somebody_reads_is_named_and_cleared_at_the_next_start(folder: Path, doomed: str) -> None:
    (backup,) = (folder / "backups").glob("ledger-*.db")
    reader = apsw.Connection(str(backup))
    reader.execute("BEGIN; SELECT count(*) FROM message").fetchall()
    async with engine_on(folder) as engine:
        (told,) = (await engine.delete(doomed)).remaining
    assert str(backup) in told
    reader.close()
    assert await start(folder, (DOOMED,)) == [[]]
