"""Every command of a conversation works as well with a server elsewhere."""

from __future__ import annotations

import json
from pathlib import Path
from uuid import uuid4

import pytest

from tests.doors.cix import Cix
from tests.doors.server import Server


def test_a_conversation_at_a_server_is_had_with_the_same_commands(server: Server, cix: Cix) -> None:
    here = ("--server", server.url)
    turn = cix.json("ask", "The code word is heron.", "--session", "new", *here)
    thread = turn["thread_id"]
    assert server.said(thread) == ["The code word is heron."]
    cix.json("ask", "And again.", "--session", thread[-12:], *here)
    shown = cix.json("show", thread, *here)["turns"]
    assert [one["user"] for one in shown] == ["The code word is heron.", "And again."]
    fork = cix.json("fork", thread, "--at", "1", *here)
    assert cix.json("switch", thread, fork["branch_id"][-8:], *here)["active"]
    assert len(cix.json("branches", thread, *here)["branches"]) == 2
    assert [pin["fact"] for pin in cix.json("pin", thread, "A fact.", *here)["pins"]] == ["A fact."]
    assert cix.json("unpin", thread, "1", *here)["pins"] == []
    assert cix.json("context", turn["turn_id"], *here)["matches"]
    assert cix.json("search", "heron", "--session", thread, *here)["hits"]
    assert cix.json("fold", thread, "--preview", *here)["case"] == "none"
    assert thread in json.dumps(cix.json("sessions", *here))
    assert not (cix.folder / "ledger.db").exists()


@pytest.mark.req("MEMORY-5", "CLI-1")
def test_memories_at_a_server_are_kept_edited_exported_audited_and_forgotten(server: Server, cix: Cix) -> None:
    here = ("--user", f"zoe-{uuid4().hex}", "--server", server.url)
    (kept,) = cix.json("remember", "The user is left-handed.", *here)["memories"]
    assert cix.json("memories", "list", "--about", "hands", *here)["memories"] == [kept]
    (edited,) = cix.json("memories", "edit", kept["id"][-8:], "The user is right-handed.", *here)["memories"]
    assert json.loads(cix("memories", "export", *here).stdout) == edited
    assert cix.json("memories", "audit", *here) == {"findings": []}
    assert cix.json("forget", kept["id"][-8:], *here) == {"forgotten": kept["id"]}
    assert cix.json("memories", "list", *here)["memories"] == []
    gone = cix("forget", kept["id"], *here)
    assert (gone.exit_code, "There is no memory" in gone.stderr) == (1, True)
    assert not (cix.folder / "ledger.db").exists()


def test_lines_from_a_pipe_are_answered_by_a_server(server: Server, cix: Cix) -> None:
    done = cix("chat", "--session", "new", "--server", server.url, stdin="one\ntwo\n")
    assert done.exit_code == 0, done.stderr
    assert "You said: one" in done.stdout
    assert "You said: two" in done.stdout


def test_what_needs_the_ledger_says_where_to_do_it(server: Server, cix: Cix, tmp_path: Path) -> None:
    done = cix("reindex", "--server", server.url)
    assert (done.exit_code, "without --server" in done.stderr) == (1, True)


def test_a_server_that_is_away_is_told_in_words(cix: Cix) -> None:
    done = cix("pin", "x" * 8, "fact", "--server", "http://127.0.0.1:9")
    assert done.exit_code == 1
    assert "cannot be reached" in done.stderr


@pytest.mark.req("SAFE-5")
def test_a_server_with_tokens_asks_for_one(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, cix: Cix
) -> None:
    server = Server(tmp_path_factory.mktemp("with-token"))
    token = Cix(server.folder).json("token", "create", "--user", "ann")["token"]
    refused = cix("sessions", "--server", server.url)
    assert (refused.exit_code, "cix token create" in refused.stderr) == (1, True)
    monkeypatch.setenv("CIX_TOKEN", token)
    turn = cix.json("ask", "Hello", "--server", server.url)
    assert server.http.get(f"/threads/{turn['thread_id']}", headers={"X-Api-Key": token}).json()["user_id"] == "ann"
    server.stop()
