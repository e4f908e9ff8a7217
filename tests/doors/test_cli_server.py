"""Every command of a conversation works as well with a server elsewhere."""

from __future__ import annotations

import json
from uuid import uuid4

import pytest
from typer.testing import CliRunner

from contextinfinity.cli.main import app
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


def test_line_separators_in_an_answer_do_not_end_an_event(server: Server, cix: Cix) -> None:
    done = cix("chat", "--session", "new", "--server", server.url, stdin="one\u2028two\u2029three\x85four\n")
    assert done.exit_code == 0, done.stderr
    assert "four" in done.stdout


@pytest.mark.req("CLI-1")
@pytest.mark.parametrize(
    "words",
    [
        *(("cleanup",), ("reindex",), ("rebuild",), ("serve",), ("config",)),
        *(("token", "create", "--user", "ann"), ("token", "list"), ("token", "revoke", "x")),
        *(("model", "get"), ("model", "list"), ("model", "remove"), ("doctor", "--repair")),
    ],
)
def test_what_works_where_the_ledger_is_says_so(server: Server, cix: Cix, words: tuple[str, ...]) -> None:
    behind, before = cix(*words, "--server", server.url), cix("--server", server.url, *words)
    assert behind.exit_code == 2
    assert "without --server" in behind.stderr
    assert (before.exit_code, before.stderr) == (behind.exit_code, behind.stderr)


@pytest.mark.req("CLI-1")
def test_a_server_is_asked_how_it_does(server: Server, cix: Cix) -> None:
    assert cix.json("doctor", "--server", server.url) == {"ok": True, "status": "ready", "reasons": []}
    assert cix("doctor", "--server", server.url).stdout == f"{server.url}: ready\n"
    away = cix("doctor", "--server", "http://127.0.0.1:9", "--json")
    told = json.loads(away.stdout)
    assert (away.exit_code, told["ok"], told["status"]) == (1, False, "unready")
    assert "cannot be reached" in told["reasons"][0]
    assert not (cix.folder / "ledger.db").exists()


@pytest.mark.req("CLI-1")
def test_no_command_offers_a_server_it_does_not_work_with(cix: Cix) -> None:
    for words in (("cleanup",), ("reindex",), ("rebuild",), ("token", "list")):
        assert "--server" not in cix(*words, "--help").stdout, words
    assert "--server" in cix("sessions", "--help").stdout


@pytest.mark.req("CLI-1")
def test_what_every_command_takes_may_stand_before_its_name(server: Server, cix: Cix) -> None:
    cix.echo()
    folder = ("--data-dir", str(cix.folder))
    turn = json.loads(CliRunner().invoke(app, [*folder, "--json", "ask", "Here."]).stdout)
    assert cix.said(session=turn["thread_id"])[0][0] == "Here."
    far = json.loads(cix("--json", "--server", server.url, "ask", "Far away.").stdout)
    assert server.said(far["thread_id"]) == ["Far away."]
    there = ("--json", "--server", server.url, "memories", "list", "--user", f"zoe-{uuid4().hex}")
    assert json.loads(cix(*there).stdout) == {"memories": []}
    other = cix.folder / "other.toml"
    other.write_text("[general]\nno_such_key = 1\n")
    refused = CliRunner().invoke(app, ["--config", str(other), "config", *folder])
    assert (refused.exit_code, "no_such_key" in f"{refused.stderr}{refused.exception}") == (1, True)


@pytest.mark.req("CLI-1")
def test_what_stands_behind_a_command_counts_more(server: Server, cix: Cix) -> None:
    away = ("--server", "http://127.0.0.1:9", "--data-dir", "/no/such/place")
    assert cix.json(*away, "sessions", "--server", server.url)["sessions"] is not None


def test_no_model_is_fetched_where_a_server_answers(server: Server, cix: Cix) -> None:
    (cix.folder / "config.toml").unlink()  # here the built-in model would answer
    assert cix.json("ask", "Hello", "--server", server.url)["model"] == "echo"
    assert cix("chat", "--session", "new", "--server", server.url, stdin="one\n").exit_code == 0
    assert not (cix.folder / "models").exists()


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
