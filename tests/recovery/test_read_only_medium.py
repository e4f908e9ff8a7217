"""A data_dir on a read-only medium or a full disk can be read: real ones, mounted for one process."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from contextinfinity.storage.sqlite.connection import connect
from contextinfinity.storage.sqlite.store import SqliteStore
from tests.doors.cix import Cix

ROOT = Path(__file__).resolve().parents[2]
READING = (["sessions"], ["show", "last"], ["search", "heron"], ["context", "last"])
COMMANDS = (*READING, ["ask", "hello"], ["pin", "last", "a fact"], ["doctor"])
PROGRAM = """
import json, sys
from typer.testing import CliRunner
from contextinfinity.cli.main import app
for command in json.loads(sys.argv[2]):
    done = CliRunner().invoke(app, [*command, "--json", "--data-dir", sys.argv[1]])
    print(json.dumps([done.exit_code, done.stdout, done.stderr]))
"""
FILL = """
import sys
from contextlib import suppress
from pathlib import Path
from contextinfinity.storage.sqlite.store import SqliteStore
folder = Path(sys.argv[1])
held = SqliteStore(folder / "ledger.db") if (folder / "is open").exists() else None
with suppress(OSError), (folder / "filler").open("wb", buffering=0) as filler:
    while filler.write(bytes(512)):
        pass
"""
ROOM_AGAIN = """
import asyncio, json
import contextinfinity
from contextinfinity.errors import LedgerFull
async def main():
    async with contextinfinity.open(data_dir=folder) as engine:
        try:
            await engine.ask(sys.argv[2], "no room")
        except LedgerFull as error:
            refused, status = error.message, engine.health().status
        (folder / "filler").unlink()
        print(json.dumps([refused, status, (await engine.ask(sys.argv[2], "room again")).turn_seq]))
asyncio.run(main())
"""
FULL = 'mount -t tmpfs -o size=6m none "$5" && cp -a "$1"/. "$5" && exec "$2" -c "$3" "$5" "$4"'
MOUNTED = 'mount --bind "$1" "$1" && mount -o remount,bind,ro "$1" && exec "$2" -c "$3" "$1" "$4"'


def run_read_only(folder: Path) -> list[tuple[int, str, str]]:
    """Run the commands where the folder is mounted read-only, seen by them alone."""
    return run(MOUNTED, str(folder), sys.executable, PROGRAM, json.dumps(COMMANDS))


def run(script: str, *arguments: str) -> list[tuple[Any, str, str]]:
    """Run a script that may mount, with a view of the file system of its own."""
    given = ["sh", "-c", script, "sh", *arguments]
    done = subprocess.run(["unshare", "--mount", *given], cwd=ROOT, capture_output=True, text=True, check=False)
    if "Operation not permitted" in done.stderr or "must be superuser" in done.stderr:
        pytest.skip("mounting needs rights that this process does not have")
    assert done.returncode == 0, done.stderr
    return [tuple(json.loads(line)) for line in done.stdout.splitlines()]


@pytest.mark.skipif(shutil.which("unshare") is None, reason="a read-only mount needs unshare(1)")
@pytest.mark.parametrize("left", ["closed", "with a log", "with a log, without its index"])
def test_a_read_only_data_dir_is_listed_shown_and_searched(tmp_path: Path, left: str) -> None:
    cix = Cix(tmp_path / "home")
    cix.folder.mkdir(mode=0o700)
    cix.echo()
    thread = cix.ask("Where does the heron nest?")["thread_id"]
    folder = cix.folder
    if left != "closed":
        store = SqliteStore(folder / "ledger.db")
        store.database.writing(lambda connection: connection.raw.execute("UPDATE session SET title = title")).result()
        folder = shutil.copytree(folder, tmp_path / "copy")  # as a killed process leaves it
        store.database.close()
    if left == "with a log, without its index":
        (folder / "ledger.db-shm").unlink()
    before = sorted(folder.iterdir())
    listed, shown, found, context, asked, pinned, looked = run_read_only(folder)
    assert [one["thread_id"] for one in json.loads(listed[1])["sessions"]] == [thread]
    assert json.loads(shown[1])["turns"][0]["user"] == "Where does the heron nest?"
    assert "heron" in json.loads(found[1])["hits"][0]["text"]
    assert "failed" not in found[2]
    assert [one[0] for one in (listed, shown, found, context, asked, pinned)] == [0, 0, 0, 0, 1, 1]
    assert "cannot be written (Read-only file system)" in asked[2]
    assert "cannot be written" in pinned[2]
    assert "ledger_unreadable" not in looked[1]
    assert sorted(folder.iterdir()) == before


@pytest.mark.req("SAFE-8", "CLI-4")
@pytest.mark.skipif(shutil.which("unshare") is None, reason="a read-only mount needs unshare(1)")
def test_no_command_shows_a_conversation_whose_deletion_was_interrupted(tmp_path: Path) -> None:
    cix = Cix(tmp_path / "home")
    cix.folder.mkdir(mode=0o700)
    cix.echo()
    doomed = cix.ask("I live in Oslo. Where does the heron nest?")
    kept = cix.ask("I have two cats. Where does the stork nest?")["thread_id"]
    with closing(connect(str(cix.folder / "ledger.db"))) as ledger:  # as after a kill in a deletion
        session = bytes.fromhex(doomed["thread_id"].replace("-", ""))
        ledger.execute("INSERT INTO deletion (session_id, reason, created_at) VALUES (?, 'session', 0)", (session,))
    thread, turn = doomed["thread_id"], doomed["turn_id"]
    named = [[name, thread] for name in ("show", "branches", "pins")]
    named += [["search", "heron", "--session", thread], ["context", turn], ["export", "--session", thread, "-"]]
    every = [
        ["sessions"],
        ["show", "last"],
        ["search", "nest"],
        ["memories", "list"],
        ["memories", "export"],
        ["export", "-"],
    ]
    commands = [*named, *every]
    done = run(MOUNTED, str(cix.folder), sys.executable, PROGRAM, json.dumps(commands))
    for command, (code, out, err) in zip(commands, done, strict=True):
        assert "heron" not in out + err, command
        assert "Oslo" not in out + err, command
        assert code == (1 if command in named else 0), (command, out, err)
    assert [one["thread_id"] for one in json.loads(done[len(named)][1])["sessions"]] == [kept]
    assert thread not in [one["thread_id"] for one in cix.json("sessions")["sessions"]]
    assert cix("cleanup").exit_code == 0
    assert [file.name for file in cix.folder.rglob("*") if file.is_file() and b"heron" in file.read_bytes()] == []


@pytest.mark.skipif(shutil.which("unshare") is None, reason="a full disk needs unshare(1)")
@pytest.mark.parametrize("is_open", [False, True], ids=["closed", "open elsewhere"])
def test_a_full_disk_can_be_read(tmp_path: Path, is_open: bool) -> None:
    cix = Cix(tmp_path / "home")
    cix.folder.mkdir(mode=0o700)
    cix.echo()
    thread = cix.ask("Where does the heron nest?")["thread_id"]
    if is_open:
        (cix.folder / "is open").touch()
    full = tmp_path / "full"
    full.mkdir()
    done = run(FULL, str(cix.folder), sys.executable, FILL + PROGRAM, json.dumps(COMMANDS), str(full))
    listed, shown, found, context, asked, pinned, _ = done
    assert [one["thread_id"] for one in json.loads(listed[1])["sessions"]] == [thread]
    assert json.loads(shown[1])["turns"][0]["user"] == "Where does the heron nest?"
    assert "heron" in json.loads(found[1])["hits"][0]["text"]
    assert [one[0] for one in (listed, shown, found, context, asked, pinned)] == [0, 0, 0, 0, 1, 1]
    assert "the disk is full" in asked[2]
    assert "the disk is full" in pinned[2]
    assert "Make the folder" not in pinned[2]


@pytest.mark.req("METRICS-3")
@pytest.mark.skipif(shutil.which("unshare") is None, reason="a full disk needs unshare(1)")
def test_an_engine_that_starts_on_a_full_disk_writes_once_there_is_room(tmp_path: Path) -> None:
    cix = Cix(tmp_path / "home")
    cix.folder.mkdir(mode=0o700)
    cix.echo()
    thread = cix.ask("Where does the heron nest?")["thread_id"]
    (cix.folder / "is open").touch()
    full = tmp_path / "full"
    full.mkdir()
    ((refused, status, seq),) = run(FULL, str(cix.folder), sys.executable, FILL + ROOM_AGAIN, thread, str(full))
    assert "the disk is full" in str(refused)
    assert [status, seq] == ["degraded", 2]
