"""Commands that read create nothing, and say so where there is nothing to read."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.doors.cix import Cix

READING = [
    ["sessions"],
    ["show", "last"],
    ["search", "boat"],
    ["context"],
    ["branches", "last"],
    ["pins", "last"],
    ["memories", "list"],
    ["memories", "export"],
    ["memories", "audit"],
    ["token", "list"],
    ["model", "list"],
    ["config"],
    ["doctor"],
]
CHANGING = [
    ["delete", "last", "--yes"],
    ["unpin", "last", "1"],
    ["forget", "abcdef"],
    ["fork", "last"],
    ["reindex"],
    ["token", "revoke", "abcdef"],
]


@pytest.mark.req("CLI-4")
@pytest.mark.parametrize("arguments", [*READING, *CHANGING], ids=" ".join)
def test_a_folder_without_a_ledger_stays_as_it_is(cix: Cix, arguments: list[str]) -> None:
    before = sorted(cix.folder.rglob("*"))
    done = cix(*arguments)
    assert done.exit_code in (0, 1)
    assert sorted(cix.folder.rglob("*")) == before
    if arguments[0] not in ("config", "model", "doctor"):
        assert f"There is no ledger in {cix.folder} yet." in done.stderr


@pytest.mark.req("CLI-4")
@pytest.mark.parametrize("arguments", [*READING, *CHANGING, ["ask", "x", "--session", "last"]], ids=" ".join)
def test_a_data_dir_that_is_not_there_is_named_and_not_created(tmp_path: Path, arguments: list[str]) -> None:
    done = Cix(tmp_path / "wrong")(*arguments)
    assert (done.exit_code, done.stdout) == (1, "")
    assert f"There is no folder {tmp_path / 'wrong'}, which --data-dir names. Check the path" in done.stderr
    assert not (tmp_path / "wrong").exists()


@pytest.mark.req("CLI-4")
def test_reading_a_ledger_leaves_every_file_as_it_was(cix: Cix) -> None:
    cix.ask("Where is the boat?")

    def files() -> dict[Path, bytes]:
        return {path: path.read_bytes() for path in cix.folder.rglob("*") if path.is_file()}

    before = files()
    for arguments in READING:
        assert cix(*arguments).exit_code == 0
    assert files() == before
