"""Folding at the command line: looked at first, done, undone."""

from __future__ import annotations

import pytest

from tests.doors.cix import Cix

LONG = "What was said about the harbour and the ships in it. " * 40


@pytest.fixture
def thread(cix: Cix) -> str:
    """A conversation longer than what a fold leaves."""
    cix.script("Noted. " * 30)
    thread: str = cix.ask("We decided to use harbour.toml for the settings.")["thread_id"]
    cix("chat", "--session", thread, stdin="".join(f"{number}: {LONG}\n" for number in range(15)))
    return thread


@pytest.mark.req("CLI-1", "COMPACT-4")
def test_a_fold_is_previewed_done_and_undone(cix: Cix, thread: str) -> None:
    seen = cix.json("fold", thread, "--preview")
    assert (seen["committed"], seen["covered"], seen["thread_id"]) == (False, 0, thread)
    assert "harbour.toml" in seen["summary"]
    made = cix.json("fold", "last")
    assert (made["committed"], made["summary"]) == (True, seen["summary"])
    cix.ask("And now?", "--session", thread)
    assert cix.json("context", "last")["plan"]["sections"][1]["name"] == "summary"
    undone = cix.json("fold", thread, "--undo")
    assert (undone["case"], undone["covers_turn_seq"]) == ("unfold", 0)
    assert len(cix.turns(session=thread)) == 17


@pytest.mark.req("CLI-1")
def test_people_see_what_leaves_what_stays_and_how_the_summary_changes(cix: Cix, thread: str) -> None:
    done = cix("fold", thread, "--preview")
    lines = done.stdout.splitlines()
    assert any(line.startswith("leaves  #") for line in lines)
    assert any(line.startswith("stays  #16 ") for line in lines)
    assert any(line.startswith("+ #1 user: ") and "harbour.toml" in line for line in lines), "a pipe gets one column"
    assert "`cix fold` applies it." in done.stderr
    assert "`cix fold --undo` undoes it." in cix("fold", thread).stderr
    assert "are verbatim again" in cix("fold", thread, "--undo").stderr


@pytest.mark.req("CLI-1")
def test_what_cannot_be_folded_or_undone_is_said(cix: Cix) -> None:
    cix.script("Hello!")
    cix.ask("Hello")
    assert "Nothing to fold" in cix("fold", "last").stderr
    undone = cix("fold", "last", "--undo")
    assert (undone.exit_code, "Nothing is folded on this branch." in undone.stderr) == (1, True)
    both = cix("fold", "last", "--undo", "--preview")
    assert both.exit_code == 2
    assert "cannot be used together" in both.stderr
