from __future__ import annotations

import json

import pytest

from tests.doors.cix import Cix


@pytest.fixture
def echo(cix: Cix) -> Cix:
    cix.echo()
    return cix


def facts(cix: Cix, *options: str) -> list[str]:
    return [memory["content"] for memory in cix.json("memories", "list", *options)["memories"]]


def settled(cix: Cix) -> list[str]:
    """Wait until something is remembered; every command takes on work that waits."""
    return next(found for _ in range(50) if (found := facts(cix)))


@pytest.mark.req("MEMORY-5", "CLI-1")
def test_memories_are_listed_edited_exported_audited_and_forgotten(echo: Cix) -> None:
    cix = echo
    cix.ask("I live in Leeds. I love chess.")
    assert sorted(settled(cix)) == ["The user likes chess.", "The user lives in Leeds."]
    kept = cix.json("remember", "The user is left-handed.")["memories"][0]
    assert (kept["tags"], kept["origin"]) == (["user:local"], "person")
    edited = cix.json("memories", "edit", kept["id"][-8:], "The user is right-handed.")["memories"][0]
    assert (edited["id"], edited["content"]) == (kept["id"], "The user is right-handed.")
    exported = [json.loads(line) for line in cix("memories", "export").stdout.splitlines()]
    assert {memory["content"] for memory in exported} == {*facts(cix)}
    assert "No problems" in cix("memories", "audit").stderr
    assert cix.json("memories", "audit") == {"findings": []}
    assert cix.json("forget", kept["id"]) == {"forgotten": kept["id"]}
    assert "The user is right-handed." not in facts(cix)
    assert facts(cix, "--about", "chess")[0] == "The user likes chess."


@pytest.mark.req("MEMORY-6")
def test_memories_of_another_user_are_not_there(echo: Cix) -> None:
    cix = echo
    kept = cix.json("remember", "Ann likes tea.", "--tag", "user:ann")["memories"][0]
    assert (facts(cix), facts(cix, "--user", "ann")) == ([], ["Ann likes tea."])
    gone = cix("forget", kept["id"])
    assert (gone.exit_code, "There is no memory" in gone.stderr) == (1, True)
    wrong = cix("remember", "x y", "--tag", "project:x")
    assert (wrong.exit_code, "user:ID or thread:ID" in wrong.stderr) == (2, True)
    assert "There are no memories." in cix("memories", "list").stderr
