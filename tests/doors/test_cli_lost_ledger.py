"""The command line of a data_dir that lost its ledger."""

from __future__ import annotations

import pytest

from tests.doors.cix import Cix


@pytest.mark.req("LEDGER-11", "CLI-1")
def test_no_command_begins_a_new_ledger_in_place_of_a_lost_one_unless_it_is_told_to(cix: Cix) -> None:
    cix.echo()
    cix.ask("Remember the heron.")
    cix("token", "create", "--user", "ada")
    (cix.folder / "ledger.db").write_bytes(b"")
    for command in (["ask", "hello"], ["sessions"], ["serve", "--port", "0"], ["token", "list"], ["show", "last"]):
        done = cix(*command)
        assert done.exit_code == 1, command
        assert "is empty, but this data_dir had one" in done.stderr
        assert "--begin-new" in done.stderr
    assert cix("doctor").exit_code == 1
    assert (cix.folder / "ledger.db").read_bytes() == b""
    done = cix("ask", "hello", "--begin-new")
    assert (done.exit_code, "Kept what was left" in done.stderr) == (0, True)
    assert [user for user, _ in cix.said()] == ["hello"]
    assert cix("ask", "once more", "--session", "last", "--begin-new").exit_code == 0
    assert [user for user, _ in cix.said()] == ["hello", "once more"], "a ledger in its place stays"
