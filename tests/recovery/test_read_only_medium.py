"""A data_dir on a read-only medium can be read: a real one, mounted for one process."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from contextinfinity.storage.sqlite.store import SqliteStore
from tests.doors.cix import Cix

ROOT = Path(__file__).resolve().parents[2]
COMMANDS = (["sessions"], ["show", "last"], ["search", "heron"], ["context", "last"], ["ask", "hello"], ["doctor"])
PROGRAM = """
import json, sys
from typer.testing import CliRunner
from contextinfinity.cli.app import app
for command in json.loads(sys.argv[2]):
    done = CliRunner().invoke(app, [*command, "--json", "--data-dir", sys.argv[1]])
    print(json.dumps([done.exit_code, done.stdout, done.stderr]))
"""
MOUNTED = 'mount --bind "$1" "$1" && mount -o remount,bind,ro "$1" && exec "$2" -c "$3" "$1" "$4"'


def run_read_only(folder: Path) -> list[tuple[int, str, str]]:
    """Run the commands where the folder is mounted read-only, seen by them alone."""
    given = ["sh", "-c", MOUNTED, "sh", str(folder), sys.executable, PROGRAM, json.dumps(COMMANDS)]
    done = subprocess.run(["unshare", "--mount", *given], cwd=ROOT, capture_output=True, text=True, check=False)
    if "Operation not permitted" in done.stderr or "must be superuser" in done.stderr:
        pytest.skip("mounting needs rights that this process does not have")
    assert done.returncode == 0, done.stderr
    return [tuple(json.loads(line)) for line in done.stdout.splitlines()]


@pytest.mark.skipif(shutil.which("unshare") is None, reason="a read-only mount needs unshare(1)")
@pytest.mark.parametrize("closed", [True, False], ids=["closed", "with a log"])
def test_a_read_only_data_dir_is_listed_shown_and_searched(tmp_path: Path, closed: bool) -> None:
    cix = Cix(tmp_path / "home")
    cix.folder.mkdir(mode=0o700)
    cix.echo()
    thread = cix.ask("Where does the heron nest?")["thread_id"]
    folder = cix.folder
    if not closed:
        store = SqliteStore(folder / "ledger.db")
        store.database.writing(lambda connection: connection.raw.execute("UPDATE session SET title = title")).result()
        folder = shutil.copytree(folder, tmp_path / "copy")  # as a killed process leaves it
        store.database.close()
    before = sorted(folder.iterdir())
    listed, shown, found, context, asked, looked = run_read_only(folder)
    assert [one["thread_id"] for one in json.loads(listed[1])["sessions"]] == [thread]
    assert json.loads(shown[1])["turns"][0]["user"] == "Where does the heron nest?"
    assert "heron" in json.loads(found[1])["hits"][0]["text"]
    assert "failed" not in found[2]
    assert [one[0] for one in (listed, shown, found, context, asked)] == [0, 0, 0, 0, 1]
    assert "can be read and not written" in asked[2]
    assert "ledger_unreadable" not in looked[1]
    assert sorted(folder.iterdir()) == before
