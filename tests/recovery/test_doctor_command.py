"""``cix doctor`` as people and programs meet it: exit codes, the table, the JSON, the progress bar."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from contextinfinity.storage.sqlite.migrate import migrations
from contextinfinity.storage.sqlite.store import SqliteStore
from tests.doors.forked import run
from tests.recovery.breaking import BAD_CONFIG, FAILED_JOB, flip, healthy, sql, write

pytestmark = pytest.mark.sqlite_file("it examines the file")


def command(*arguments: str | Path) -> tuple[list[str], dict[str, str]]:
    """The command line, and an environment without the settings of the user who runs the tests."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("CONTEXTINFINITY_")}
    return [sys.executable, "-m", "contextinfinity", "doctor", *map(str, arguments)], environ


def doctor(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return run("doctor", *map(str, arguments))


@pytest.fixture
async def home(tmp_path: Path) -> Path:
    await healthy(tmp_path)
    return tmp_path


@pytest.mark.req("LEDGER-6", "CLI-1")
def test_a_ledger_that_is_well_ends_with_0(home: Path) -> None:
    done = doctor("--data-dir", home)
    assert (done.returncode, done.stderr) == (0, "")
    first, encryption, last = done.stdout.splitlines()
    assert encryption == "encryption: off; `cix encrypt` turns it on"
    assert first.startswith(f"ledger: {home / 'ledger.db'} (schema {migrations()[-1].version}, ")
    assert last == "No problems found."


@pytest.mark.req("LEDGER-6", "CLI-1")
def test_a_fresh_machine_is_told_that_there_is_no_ledger_yet(tmp_path: Path) -> None:
    done = doctor("--data-dir", tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "none yet" in done.stdout
    assert "No problems" not in done.stdout
    assert f"There is no ledger in {tmp_path}: nothing was checked." in done.stdout
    assert not [*tmp_path.iterdir()]


@pytest.mark.req("LEDGER-6", "CLI-1")
def test_what_is_amiss_ends_with_1_and_a_table_of_what_to_do(home: Path) -> None:
    flip(b"word is heron", b"word is egret")(home)
    sql(FAILED_JOB)(home)
    done = doctor("--data-dir", home)
    assert (done.returncode, done.stderr) == (1, "")
    rows = [line.split("  ") for line in done.stdout.splitlines()]
    told = {row[0]: [cell.strip() for cell in row[1:] if cell.strip()] for row in rows}
    assert told["broken"][:2] == ["message_hash", "A message does not match its hash."]
    assert told["broken"][-1].startswith("Restore the newest intact backup")
    assert told["warning"][:2] == ["job_failed", "A job failed permanently."]
    assert "no such model" in told["warning"][2]
    assert told["warning"][-1] == "cix doctor --repair: Queues failed jobs again."


@pytest.mark.req("LEDGER-6", "CLI-1")
def test_what_a_crash_left_for_the_next_start_is_information(home: Path) -> None:
    sql("INSERT INTO worker (id, host, pid, started_at) VALUES ('gone', 'here', 1, 0)")(home)
    sql("UPDATE job SET state = 'running', owner = 'gone' WHERE id = 1")(home)
    done = doctor("--data-dir", home)
    assert (done.returncode, done.stderr) == (0, "")
    assert "No action needed: the next start of an engine removes it and recovers its turns." in done.stdout
    report = json.loads(doctor("--json", "--data-dir", home).stdout)
    assert report["ok"]
    assert {finding["code"]: finding["severity"] for finding in report["findings"]} == {
        "worker_dead": "info",
        "job_stuck": "info",
    }


@pytest.mark.req("LEDGER-6", "CLI-1")
def test_a_repair_says_what_it_did_and_where_the_backup_is(home: Path) -> None:
    sql(FAILED_JOB)(home)
    done = doctor("--repair", "--data-dir", home)
    assert (done.returncode, done.stderr) == (0, "")
    (backup,) = (home / "backups").iterdir()
    assert done.stdout.splitlines()[2:] == [
        f"backup: {backup}",
        "repaired (1 × job_failed): Queues failed jobs again.",
        "No problems found.",
    ]


@pytest.mark.req("LEDGER-6", "CLI-1")
def test_the_json_has_the_agreed_shape(home: Path) -> None:
    sql(FAILED_JOB)(home)
    write("config.toml", BAD_CONFIG)(home)
    done = doctor("--json", "--repair", "--data-dir", home)
    assert (done.returncode, done.stderr) == (1, "")
    report = json.loads(done.stdout)
    (backup,) = (home / "backups").iterdir()
    turns = report.pop("turns")
    assert turns > 10
    assert report == {
        "ok": False,
        "ledger": str(home / "ledger.db"),
        "encryption": "off; `cix encrypt` turns it on",
        "schema": migrations()[-1].version,
        "findings": [
            {
                "code": "config_wrong",
                "severity": "broken",
                "what": "The settings are not valid; the defaults were used instead.",
                "where": f'{home / "config.toml"}:2: server.port is "many"; it must be an integer from 0 to 65,535.',
                "count": 1,
                "repair": None,
            }
        ],
        "repaired": [{"code": "job_failed", "what": "Queues failed jobs again.", "count": 1}],
        "backup": str(backup),
    }


@pytest.mark.req("LEDGER-6", "CLI-1", "SAFE-1")
def test_a_postgresql_ledger_is_named_without_its_password(tmp_path: Path) -> None:
    write("config.toml", "[storage]\nurl = 'postgresql://me:secret@h/db'\n")(tmp_path)
    done = doctor("--json", "--data-dir", tmp_path)
    assert (done.returncode, done.stderr) == (1, "")
    assert "secret" not in done.stdout
    report = json.loads(done.stdout)
    assert [finding["code"] for finding in report["findings"]] == ["ledger_unsupported"]
    assert (report["ledger"], report["schema"], report["turns"]) == ("postgresql://me:***@h/db", None, 0)


@pytest.mark.req("LEDGER-6", "CLI-1")
def test_on_a_terminal_a_bar_shows_the_progress(home: Path) -> None:
    line, environ = command("--json", "--data-dir", home)
    ours, theirs = pty.openpty()
    done = subprocess.run(
        line, env=environ | {"TERM": "xterm"}, stdout=subprocess.PIPE, stderr=theirs, timeout=60, check=False
    )
    os.close(theirs)
    shown = os.read(ours, 100_000).decode()
    os.close(ours)
    assert done.returncode == 0
    assert json.loads(done.stdout)["ok"]
    assert "━" in shown
    assert "%" in shown


@pytest.mark.req("LEDGER-6")
async def test_the_ledger_may_be_elsewhere(home: Path, tmp_path: Path) -> None:
    """Its locks are beside it, and journals and backups stay in the data_dir."""
    elsewhere = tmp_path / "elsewhere" / "mine.db"
    write("config.toml", f"[storage]\nurl = 'sqlite:///{elsewhere}'\n")(home)
    store = SqliteStore(elsewhere)
    await store.close()
    write("workers/gone.lock")(elsewhere.parent)
    done = doctor("--json", "--repair", "--data-dir", home)
    report = json.loads(done.stdout)
    assert done.returncode == 0, report
    assert report["ledger"] == str(elsewhere)
    assert [entry["code"] for entry in report["repaired"]] == ["lock_stray"]
    assert Path(report["backup"]).parent == home / "backups"
