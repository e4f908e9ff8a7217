"""Small commands of every day: copy an answer, save a conversation, complete a command."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from tests.doors.cix import Cix
from tests.doors.terminal import CTRL_D, Terminal

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


@pytest.fixture
def clipboard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A desktop with a clipboard that is a file."""
    taken = tmp_path / "clipboard"
    (program := tmp_path / "wl-copy").write_text(f"#!/bin/sh\ncat > {taken}\n")
    program.chmod(0o700)
    monkeypatch.setenv("WAYLAND_DISPLAY", "wayland-0")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return taken


def test_a_measurement_of_this_machine_leaves_nothing_behind(cix: Cix, tmp_path: Path) -> None:
    figures = cix.json("bench", "--turns", "20")
    assert figures["turns"] == 20
    assert figures["bytes_a_turn"] > 0
    for measured in ("sync", "exchange", "context", "load", "search"):
        assert 0 < figures[measured]["median_ms"] <= figures[measured]["p95_ms"], measured
    assert figures["context"]["median_ms"] <= figures["exchange"]["median_ms"]
    assert not list(tmp_path.rglob(".cix-bench-*"))
    assert not list(tmp_path.rglob("ledger.db"))


@pytest.mark.req("CLI-1")
def test_an_answer_is_copied_to_the_clipboard(cix: Cix, clipboard: Path) -> None:
    cix.ask("first ✓")
    cix.ask("second", "--session", "last")
    first, second = (answer for _, answer in cix.said())
    assert cix.json("copy") == {"turn_seq": 2, "characters": len(second), "clipboard": "wl-copy"}
    assert clipboard.read_text("utf-8") == second
    assert cix("copy", "last", "--turn", "1").exit_code == 0
    assert clipboard.read_text("utf-8") == first
    assert "no such answer" in cix("copy", "last", "--turn", "7").stderr


@pytest.mark.req("CLI-1")
def test_the_chat_copies_through_the_terminal_and_saves_the_conversation(
    cix: Cix, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("WAYLAND_DISPLAY", "DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    file = tmp_path / "notes.md"
    with Terminal(cix.folder, "chat") as terminal:
        terminal.until(terminal.waits)
        terminal.say("the heron")
        assert "There is no title" in terminal.say("/rename")
        assert "is called 'Birds of the bay' now" in terminal.say("/rename Birds of the bay")
        assert cix.json("sessions")["sessions"][0]["title"] == "Birds of the bay"
        assert "Copied the answer of turn 1" in terminal.say("/copy")
        assert "Wrote" in terminal.say(f"/save {file}")
        assert "exists already" in terminal.say(f"/save {file}")
        terminal.type(CTRL_D)
        assert terminal.end() == 0
    ((_, answer),) = cix.said()
    assert b"\x1b]52;c;" + base64.b64encode(answer.encode()) + b"\x07" in terminal.printed
    assert "the heron" in file.read_text("utf-8")
    assert file.stat().st_mode & 0o777 == 0o600


@pytest.mark.req("CLI-2")
@pytest.mark.parametrize(
    ("shell", "asked"),
    [
        ("bash", {"COMP_WORDS": "cix res", "COMP_CWORD": "1"}),
        ("zsh", {"_TYPER_COMPLETE_ARGS": "cix res"}),
        ("fish", {"_TYPER_COMPLETE_ARGS": "cix res", "_TYPER_COMPLETE_FISH_ACTION": "get-args"}),
    ],
)
def test_a_shell_completes_commands(
    cix: Cix, monkeypatch: pytest.MonkeyPatch, shell: str, asked: dict[str, str]
) -> None:
    script = cix("completion", shell).stdout
    assert all(word in script for word in (f"_CIX_COMPLETE=complete_{shell}", *asked))
    assert cix("completion", "tcsh").exit_code == 2
    for name, value in {"_CIX_COMPLETE": f"complete_{shell}", **asked}.items():
        monkeypatch.setenv(name, value)
    with cix.start() as process:
        told = process.end()[1]
    assert ("restore" in told, "reindex" in told) == (True, False)


@pytest.mark.req("CLI-2")
def test_a_chat_from_a_pipe_takes_images_files_and_instructions(cix: Cix, tmp_path: Path) -> None:
    (image := tmp_path / "heron.png").write_bytes(PIXEL)
    (notes := tmp_path / "notes.txt").write_text("the gnomon", "utf-8")
    attached = ("--image", str(image), "--file", str(notes), "--system", "Be brief.")
    assert cix("chat", *attached, stdin="what is this\nand then\n").exit_code == 0
    first, second = cix.turns()
    assert [first["user"], second["user"]] == ["what is this\n\nnotes.txt:\nthe gnomon", "and then"]
    sent = str(cix.json("context", first["turn_id"]))
    assert "image/png" in sent
    assert "Be brief." in sent
    assert first["thread_id"] in cix("sessions").stdout, "a pipe gets whole ids"


@pytest.mark.req("CLI-2")
def test_a_question_takes_images_files_and_instructions(cix: Cix, tmp_path: Path) -> None:
    (image := tmp_path / "heron.png").write_bytes(PIXEL)
    (notes := tmp_path / "notes.txt").write_text("the gnomon", "utf-8")
    turn = cix.json("ask", "what is this", "--image", str(image), "--file", str(notes), "--system", "Be brief.")
    shown = cix.json("context", turn["turn_id"])
    request = str(shown)
    assert "Be brief." in request
    assert "the gnomon" in request
    assert "image" in request
    assert "is not an image format" in cix("ask", "and this", "--image", str(notes)).stderr
    refused = cix("ask", "more", "--session", "last", "--system", "Be long.")
    assert (refused.exit_code, "work for new conversations only" in refused.stderr) == (2, True)


@pytest.mark.req("CLI-2")
def test_a_persona_gives_a_new_conversation_its_instructions(cix: Cix) -> None:
    with (cix.folder / "config.toml").open("a") as file:
        file.write('\n[general.personas.pirate]\nsystem = "Answer as a pirate."\n')
    turn = cix.json("ask", "hello", "--persona", "pirate")
    assert "Answer as a pirate." in str(cix.json("context", turn["turn_id"]))
    assert "pirate" in cix("ask", "hello", "--persona", "parrot").stderr
    cix("chat", "--persona", "pirate", stdin="ahoy\n")
    assert "Answer as a pirate." in str(cix.json("context", cix.turns()[-1]["turn_id"]))


@pytest.mark.req("CLI-1", "CLI-2", "SAFE-3", "SAFE-4")
def test_the_chat_takes_dropped_files_and_messages_from_an_editor(
    cix: Cix, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "my notes.txt").write_text("the gnomon", "utf-8")
    (tmp_path / "heron.png").write_bytes(PIXEL)
    (editor := tmp_path / "editor").write_text(
        '#!/bin/sh\nprintf "%s and more\\nlines" "$(cat "$1")" > "$1.new"\nmv "$1.new" "$1"\n'
    )
    editor.chmod(0o700)
    monkeypatch.setenv("VISUAL", str(editor))
    with Terminal(cix.folder, "chat") as terminal:
        terminal.until(terminal.waits)
        assert "my notes.txt is attached to your next message." in terminal.say(f"'{tmp_path}/my notes.txt'")
        assert "heron.png is attached to your next message." in terminal.say(f"/attach {tmp_path}/heron.png")
        assert "cannot be read" in terminal.say("/attach /nowhere/at/all.txt")
        terminal.say("what are these")
        terminal.say("/editor begun")
        terminal.type(CTRL_D)
        assert terminal.end() == 0
    first, second = (question for question, _ in cix.said())
    assert first.startswith("what are these")
    assert "the gnomon" in first
    assert "image" in str(cix.json("context", cix.turns()[0]["turn_id"]))
    assert second == "begun and more\nlines"
    assert list(cix.folder.glob("chat_history.*")) == []
    typed = cix.folder / "chat_history"
    assert b"what are these" in typed.read_bytes()
    for turn in (1, 2):
        cix.json("delete", "last", "--turn", str(turn), "--yes")
    assert not [words for words in (b"what are these", b"begun") if words in typed.read_bytes()]
    assert b"/nowhere/at/all.txt" in typed.read_bytes(), "lines that are in no deleted message stay"
