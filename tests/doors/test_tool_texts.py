"""An answer in several steps: what is said before tools run and what is said after are two paragraphs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.doors.cix import CONFIG, Cix
from tests.doors.server import Server, words

TOOLS = '[tools]\nmode = "enabled"\n'
ROUNDS = (
    {"text": "Let me look.", "tools": [{"name": "look", "arguments": {}}]},
    {"text": "", "tools": [{"name": "look", "arguments": {}}]},
    "Answer 2.",
)
WHOLE = "Let me look.\n\nAnswer 2."


@pytest.mark.req("CLI-1")
def test_texts_of_tool_rounds_are_paragraphs_at_the_command_line(cix: Cix) -> None:
    cix.script(*ROUNDS)
    (cix.folder / "config.toml").write_text(CONFIG + TOOLS, encoding="utf-8")
    assert cix("ask", "one").stdout == f"{WHOLE}\n"
    assert cix.ask("two")["text"] == WHOLE
    assert cix.said() == [("two", WHOLE)]
    assert cix("chat", stdin="three\n").stdout == f"{WHOLE}\n"


@pytest.mark.req("API-1")
def test_the_deltas_of_tool_rounds_add_up_to_the_text_of_the_turn(tmp_path: Path) -> None:
    (tmp_path / "rounds.json").write_text(json.dumps({"replies": ROUNDS, "loop": True}), encoding="utf-8")
    server = Server(tmp_path, TOOLS + '[models.rounds]\nprovider = "scripted"\npath = "rounds.json"\n')
    try:
        with server.stream("one", model="rounds") as events:
            heard = [event for event in events if event.name]
        turn = heard[-1].data
        assert (turn["text"], words(heard)) == (WHOLE, WHOLE)
        last = next(event.id for event in heard if event.name == "delta")
        assert words(server.resume(turn, after=last)).endswith("\n\nAnswer 2.")
        messages = server.http.get(f"/threads/{turn['thread_id']}/messages").json()["messages"]
        assert [message["content"] for message in messages] == ["one", WHOLE]
    finally:
        server.stop()
