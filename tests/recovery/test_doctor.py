"""Whatever is broken is found and named, and what is not broken is left in peace."""

from __future__ import annotations

import asyncio
import hashlib
import re
import shutil
import socket
from collections import Counter
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from contextinfinity.domain.ids import new_id, now, to_millis
from contextinfinity.domain.message import say
from contextinfinity.domain.turn import NewTurn, Phase
from contextinfinity.storage.journal import JournalFolder
from contextinfinity.storage.ledger.rows import unpack
from contextinfinity.storage.sqlite.backup import PARTIAL, is_whole
from contextinfinity.storage.sqlite.migrate import migrations
from contextinfinity.storage.sqlite.store import SqliteStore
from contextinfinity.storage.worker_locks import WorkerLocks
from contextinfinity.upkeep.examine import Report, examine, settings_in_force
from contextinfinity.upkeep.findings import KINDS, PLACES
from contextinfinity.upkeep.safe_repair import examine_and_repair
from contextinfinity_testing.builders import (
    commit_turn,
    exchange,
    new_branch,
    new_step,
    turn_end,
    turn_in,
)
from tests.house.repository import ROOT
from tests.recovery.breaking import ASIDE, BREAKS, Break, healthy, sql, step, vandal, write

pytestmark = pytest.mark.sqlite_file("it examines the file")

PAGE = ROOT / "docs" / "reference" / "doctor.md"


@pytest.fixture(scope="session")
def pattern(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A healthy data_dir, made once and copied for every test."""
    folder = tmp_path_factory.mktemp("doctor") / "home"
    (folder / "streams").mkdir(mode=0o700, parents=True)
    folder.chmod(0o700)
    asyncio.run(healthy(folder))
    return folder


@pytest.fixture
def home(pattern: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("CONTEXTINFINITY_CONFIG", "CONTEXTINFINITY_GENERAL__DATA_DIR"):
        monkeypatch.delenv(name, raising=False)
    return shutil.copytree(pattern, tmp_path / "home")


def look(folder: Path, *, repair: bool = False, least_free: int = 0) -> Report:
    settings, already = settings_in_force(None, folder)
    act = examine_and_repair if repair else examine
    return act(settings, already=already, least_free=least_free)


def codes(report: Report) -> set[str]:
    return {finding.code for finding in report.findings}


def rows(path: Path) -> dict[str, list[tuple[object, ...]]]:
    """Everything in a ledger."""
    with closing(apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)) as connection:  # leaves no log behind
        tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
        found: dict[str, list[tuple[object, ...]]] = {
            name: sorted(connection.execute(f"SELECT * FROM {name}").fetchall(), key=repr) for name in tables
        }
        return found | {"schema": connection.execute("SELECT type, name, sql FROM sqlite_schema").fetchall()}


def names(case: Break) -> str:
    number = Counter(other.code for other in BREAKS[: BREAKS.index(case)])[case.code]
    return case.code if not number else f"{case.code}-{number + 1}"


every_break = pytest.mark.parametrize("case", BREAKS, ids=names)


# --- What is broken is found -----------------------------------------------------------------------


@pytest.mark.req("LEDGER-6", "TURN-9")
@every_break
def test_every_break_is_found_and_named(case: Break, home: Path) -> None:
    case.act(home)
    report = look(home, repair=case.repairing, least_free=case.least_free)
    finding = next((finding for finding in report.findings if finding.code == case.code), None)
    assert finding is not None, report.findings
    assert case.what in finding.what
    assert finding.what.endswith(".")
    assert finding.severity == KINDS[case.code].severity
    assert finding.count >= 1
    assert finding.where
    assert finding.advice or finding.repair
    assert report.ok == (finding.severity == "info")


@pytest.mark.req("LEDGER-6")
def test_every_finding_there_is_has_been_provoked() -> None:
    assert {case.code for case in BREAKS} == KINDS.keys()


@pytest.mark.req("LEDGER-6")
def test_the_manual_lists_exactly_the_findings_there_are() -> None:
    listed = re.findall(r"^\| `(\w+)` \| (broken|warning|info) \| .+ \| (.+) \|$", PAGE.read_text("utf-8"), re.M)
    ours = [(code, kind.severity, kind.repair or "–") for code, kind in KINDS.items()]
    assert listed == ours


@pytest.mark.req("LEDGER-6")
def test_a_small_break_is_found_alone(home: Path) -> None:
    """What belongs to a neighbour is not blamed on it."""
    alone = [case for case in BREAKS if case.code in ("message_hash", "chunk_hash", "job_failed", "head_number")]
    for case in alone:
        folder = shutil.copytree(home, home.with_name(f"alone {names(case)}"))
        case.act(folder)
        assert codes(look(folder)) - {"chunk_hash"} == {case.code} - {"chunk_hash"}, case


@pytest.mark.req("LEDGER-6")
def test_many_of_a_kind_are_counted_and_the_first_are_named(home: Path) -> None:
    sql("UPDATE message SET content_hash = x'00'")(home)
    (finding,) = look(home).findings
    assert finding.code == "message_hash"
    assert finding.what == f"{finding.count} messages do not match their hashes."
    assert finding.where.count("message ") == PLACES
    assert finding.where.endswith(f"; and {finding.count - PLACES} more")


@pytest.mark.req("LEDGER-6")
def test_a_hash_of_a_release_that_knew_more_kinds_of_blocks_is_right(home: Path) -> None:
    """A block we do not know is hashed as it was written, not as we wrap it."""
    body = '{"v":1,"is":{"blocks":[{"type":"hologram","beam":[1,2]}]}}'
    digest = hashlib.sha256(b'{"blocks":[{"beam":[1,2],"type":"hologram"}],"role":"user"}').hexdigest()
    which = "(SELECT user_message FROM turn WHERE turn_seq = 4)"
    change = f"UPDATE message SET text = NULL, blocks = '{body}', content_hash = x'%s' WHERE key = {which}"
    sql(change % digest)(home)
    assert codes(look(home)) == set()
    sql(change % "00")(home)
    assert codes(look(home)) == {"message_hash"}


def test_a_gap_that_a_deletion_left_is_none(home: Path) -> None:
    sql(
        "DELETE FROM keyword WHERE rowid IN (SELECT 4 * user_message FROM turn WHERE turn_seq = 4 "
        "UNION ALL SELECT 4 * answer FROM turn WHERE turn_seq = 4)",
        "UPDATE word_state SET messages = messages - 2, indexed = indexed - 2",
    )(home)
    sql("DELETE FROM message WHERE key IN (SELECT user_message FROM turn WHERE turn_seq = 4)")(home)
    sql("DELETE FROM message WHERE key IN (SELECT answer FROM turn WHERE turn_seq = 4)")(home)
    sql(
        "INSERT INTO tombstone (id, session_id, kind, seq, deleted_at)"
        " SELECT id, session_id, 'turn', turn_seq, 0 FROM turn WHERE turn_seq = 4",
        "DELETE FROM turn WHERE turn_seq = 4",
    )(home)
    assert look(home).ok
    sql("UPDATE tombstone SET seq = 5")(home)
    assert codes(look(home)) == {"turn_gap"}


@pytest.mark.req("LEDGER-6")
async def test_no_circle_of_branches_makes_a_walk_endless(home: Path) -> None:
    with closing(vandal(home)) as connection:
        name = unpack(connection.execute("SELECT id FROM branch WHERE label = 'aside'").get)
    for change in (
        "UPDATE branch SET parent_id = id WHERE label = 'aside'",
        f"UPDATE branch SET fork_seq = 0, parent_id = {ASIDE}",
    ):
        sql(change)(home)
        assert "branch_circle" in codes(look(home))
        store = SqliteStore(home / "ledger.db")
        assert (await store.branches.lineage(name)).stretches[-1].branch_id == name
        await store.turns.history(name)
        await store.close()


@pytest.mark.req("LEDGER-6")
def test_what_looks_like_a_break_and_is_none(home: Path) -> None:
    sql(
        "UPDATE state SET covers_turn_seq = 2, reason = 'unfold' WHERE reason = 'record' AND covers_turn_seq = 3",
        f"INSERT INTO deletion VALUES (randomblob(16), 'just now', {to_millis(now())})",
        "UPDATE turn SET owner = NULL WHERE phase = 'Accepted'",
        "UPDATE turn SET metadata = '\"any JSON\"' WHERE turn_seq = 4",
    )(home)
    assert look(home).findings == ()


# --- What is well is left in peace -----------------------------------------------------------------


@pytest.mark.req("LEDGER-6", "TURN-9")
def test_a_ledger_with_something_of_everything_is_well(home: Path) -> None:
    report = look(home)
    assert report.findings == ()
    assert report.ok
    assert (report.ledger, report.schema) == (str(home / "ledger.db"), migrations()[-1].version)
    with closing(vandal(home)) as connection:
        assert report.turns == connection.execute("SELECT count(*) FROM turn").get
        phases = {phase for (phase,) in connection.execute("SELECT DISTINCT phase FROM turn")}
    assert phases == {phase.value for phase in Phase}


@pytest.mark.req("LEDGER-6")
def test_a_fresh_machine_is_well(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "not made yet"):
        report = look(folder)
        assert report.ok
        assert (report.schema, report.turns) == (None, 0)
    assert not (tmp_path / "not made yet").exists()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.req("LEDGER-6")
async def test_an_empty_ledger_is_well(tmp_path: Path) -> None:
    write("ledger.db")(tmp_path)
    assert look(tmp_path).ok
    await SqliteStore(tmp_path / "ledger.db").close()
    report = look(tmp_path)
    assert report.ok
    assert (report.schema, report.turns) == (migrations()[-1].version, 0)


def test_looking_changes_nothing(home: Path) -> None:
    before = {path: path.read_bytes() for path in home.rglob("*") if path.is_file()}
    look(home)
    after = {path: path.read_bytes() for path in home.rglob("*") if path.is_file()}
    assert {path: after[path] for path in before} == before
    assert {path.name for path in after.keys() - before.keys()} <= {"ledger.db-wal", "ledger.db-shm"}


@pytest.mark.req("TURN-9")
def test_what_live_processes_hold_is_no_finding(home: Path) -> None:
    """A worker at work, its job, its journal, and a backup being made."""
    locks = WorkerLocks(home / "workers")
    locks.hold("alive")
    locks.hold("entering")
    journals = JournalFolder(home / "streams")
    journals.open(new_id(), "scripted").append("delta", 1)
    torn = journals.open(step(home, over=False), "scripted")
    torn.append("delta", 1)
    torn.flush()
    with torn.path.open("ab") as file:
        file.write(b'{"half')
    sql(
        f"INSERT INTO worker (id, host, pid, started_at) VALUES ('alive', '{socket.gethostname()}', 1, 0)",
        "UPDATE job SET state = 'running', owner = 'alive' WHERE id = 1",
    )(home)
    try:
        assert look(home).findings == ()
        assert look(home, repair=True).repaired == ()
    finally:
        journals.close()
        locks.release_all()
    assert codes(look(home)) == {"worker_dead", "job_stuck", "journal_stray", "journal_torn"}


@pytest.mark.req("TURN-9")
def test_unfinished_turns_of_a_dead_worker_are_left_to_recovery(home: Path) -> None:
    sql("INSERT INTO worker (id, host, pid, started_at) VALUES ('worker', 'here', 1, 0)")(home)
    before = rows(home / "ledger.db")["turn"]
    assert codes(look(home)) == {"worker_dead"}
    assert look(home, repair=True).ok
    assert rows(home / "ledger.db")["turn"] == before


@pytest.mark.req("LEDGER-6")
async def test_a_turn_that_was_remembered_before_it_was_indexed_is_well(home: Path) -> None:
    store = SqliteStore(home / "ledger.db")
    await turn_in(store, (await new_branch(store)).id, Phase.STATE_COMMITTED)
    await store.close()
    sql("DELETE FROM job WHERE job_type = 'remember_turn'")(home)
    assert look(home).ok


async def talk(store: SqliteStore, journals: JournalFolder, branch_id: str) -> None:
    """One turn, from a worker that enters to one that leaves, with its journal and its jobs."""
    worker = await store.workers.enter()
    new = NewTurn(branch_id=branch_id, message=say("user", "How deep is the lake?"), owner=worker.id)
    turn = await store.turns.accept(new)
    await store.turns.prepare(turn.id, worker.id)
    step = new_step()
    journal = journals.open(step.id, "scripted")
    await store.turns.open_step(turn.id, worker.id, step)
    journal.append("delta", {"text": "Very."})
    journal.finish(None)
    await store.turns.finalise(turn.id, worker.id, turn_end(step, "Very."))
    while (job := await store.jobs.claim(worker.id)) is not None:
        waiting = await store.turns.get(job.turn_id or "")
        assert waiting is not None
        if job.job_type == "summarize_turn":
            await commit_turn(store, waiting)
        elif job.job_type == "index_turn":
            await store.chunks.index(waiting.id, ())
        await store.jobs.complete(job.id, worker.id)
    await store.workers.leave(worker.id)


@pytest.mark.req("LEDGER-6", "TURN-9")
async def test_a_busy_ledger_gives_no_false_findings(home: Path) -> None:
    store = SqliteStore(home / "ledger.db")
    journals = JournalFolder(home / "streams")
    over = asyncio.Event()

    async def speak() -> int:
        branch, spoken = await new_branch(store), 0
        while not over.is_set():
            await talk(store, journals, branch.id)
            spoken += 1
        return spoken

    speakers = [asyncio.create_task(speak()) for _ in range(4)]
    loop = asyncio.get_running_loop()
    reports = [await loop.run_in_executor(None, look, home) for _ in range(20)]
    over.set()
    spoken = await asyncio.gather(*speakers)
    journals.close()
    await store.close()
    assert [report.findings for report in reports] == [()] * 20
    assert all(spoken)
    assert look(home).ok


# --- What can be repaired is repaired --------------------------------------------------------------


REPAIRABLE = [case for case in BREAKS if KINDS[case.code].repair]
HOPELESS = [case for case in BREAKS if not KINDS[case.code].repair]


@pytest.mark.req("LEDGER-6", "TURN-9")
@pytest.mark.parametrize("case", REPAIRABLE, ids=names)
def test_what_can_be_repaired_is_repaired_after_a_backup(case: Break, home: Path) -> None:
    case.act(home)
    before = rows(home / "ledger.db")
    found = {finding.code: finding for finding in look(home).findings}[case.code]
    report = look(home, repair=True)
    assert report.findings == ()
    assert [(done.code, done.count) for done in report.repaired] == [(case.code, found.count)]
    assert report.backup is not None
    assert report.backup.parent == home / "backups"
    assert report.backup.stat().st_mode & 0o777 == 0o600
    assert re.fullmatch(r"ledger-\d{8}T\d{6}\.\d{3}Z\.db", report.backup.name)
    assert is_whole(report.backup)
    assert rows(report.backup) == before
    assert look(home).ok
    again = look(home, repair=True)
    assert (again.ok, again.repaired, again.backup) == (True, (), None), "twice changes nothing"


@pytest.mark.req("LEDGER-6")
@pytest.mark.parametrize("case", HOPELESS, ids=names)
def test_what_cannot_be_repaired_stays_and_says_what_to_do(case: Break, home: Path) -> None:
    case.act(home)
    before = (home / "ledger.db").read_bytes() if (home / "ledger.db").is_file() else None
    report = look(home, repair=True, least_free=case.least_free)
    finding = next(finding for finding in report.findings if finding.code == case.code)
    assert finding.repair is None
    assert finding.advice.endswith((".", "`"))
    assert not report.ok
    if report.backup is None and before is not None:
        assert (home / "ledger.db").read_bytes() == before
        assert report.repaired == ()


@pytest.mark.req("LEDGER-6")
async def test_a_backup_is_a_ledger_that_can_be_used(home: Path, tmp_path: Path) -> None:
    sql("UPDATE job SET state = 'failed' WHERE id = 1")(home)
    backup = look(home, repair=True).backup
    assert backup is not None
    restored = tmp_path / "restored" / "ledger.db"
    restored.parent.mkdir(mode=0o700)
    shutil.copy(backup, restored)
    store = SqliteStore(restored)
    await store.turns.record((await new_branch(store)).id, [exchange("still", "here")])
    await store.close()
    assert codes(look(restored.parent)) == {"job_failed"}


@pytest.mark.req("LEDGER-6")
def test_without_a_backup_nothing_is_repaired(home: Path) -> None:
    write("backups", "a file where the folder should be")(home)
    sql("UPDATE job SET state = 'failed' WHERE id = 1")(home)
    home.chmod(0o755)
    before = rows(home / "ledger.db")
    report = look(home, repair=True)
    assert codes(report) == {"job_failed", "permissions_open", "backup_failed"}
    assert (report.repaired, report.backup) == ((), None)
    assert rows(home / "ledger.db") == before
    assert home.stat().st_mode & 0o777 == 0o755


@pytest.mark.req("LEDGER-6")
def test_a_damaged_ledger_is_not_written_to(home: Path) -> None:
    """What lies around it can still be set right."""
    damage = next(case for case in BREAKS if case.code == "file_damaged")
    sql("UPDATE job SET state = 'failed' WHERE id = 1")(home)
    damage.act(home)
    home.chmod(0o755)
    before = (home / "ledger.db").read_bytes()
    report = look(home, repair=True)
    assert {"file_damaged", "job_failed"} <= codes(report)
    assert [done.code for done in report.repaired] == ["permissions_open"]
    assert (home / "ledger.db").read_bytes() == before


@pytest.mark.req("LEDGER-6")
def test_an_index_that_rows_contradict_is_left_and_the_rest_repaired(home: Path) -> None:
    case = next(case for case in BREAKS if case.code == "turns_open")
    case.act(home)
    sql("DROP VIEW jobs")(home)
    report = look(home, repair=True)
    assert {"turns_open", "schema_derived"} <= codes(report)
    left = next(finding for finding in report.findings if finding.code == "schema_derived")
    assert (left.count, left.where) == (1, "index one_open_turn is missing")
    assert [(done.code, done.count) for done in report.repaired if done.code == "schema_derived"] == [
        ("schema_derived", 1)
    ]


@pytest.mark.req("TURN-9")
def test_what_is_cut_or_moved_is_kept_among_the_backups(home: Path) -> None:
    torn, stray = step(home, over=False), new_id()
    write(f"streams/{torn}.jsonl", b'{"half')(home)
    write(f"streams/{stray}.jsonl", b"whose?")(home)
    write(f"backups/{stray}.jsonl", b"an earlier one")(home)
    assert look(home, repair=True).ok
    assert (home / "streams" / f"{torn}.jsonl").read_bytes() == b""
    assert not (home / "streams" / f"{stray}.jsonl").exists()
    kept = {path.name: path.read_bytes() for path in (home / "backups").glob("*.jsonl")}
    assert kept == {f"{torn}.jsonl": b'{"half', f"{stray}.jsonl": b"an earlier one", f"{stray}.2.jsonl": b"whose?"}
    assert not list((home / "backups").glob(f"*{PARTIAL}"))


async def test_a_repair_of_a_turn_lets_it_go_on(home: Path) -> None:
    store = SqliteStore(home / "ledger.db")
    turn = await turn_in(store, (await new_branch(store)).id, Phase.RESPONSE_FINALIZED)
    await store.close()
    sql("DELETE FROM job")(home)
    assert look(home, repair=True).ok
    store = SqliteStore(home / "ledger.db")
    assert (turn.id, "summarize_turn") in {(job.turn_id, job.job_type) for job in await store.jobs.list()}
    await store.close()
