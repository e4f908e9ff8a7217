"""Importing at the command line."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.doors.cix import Cix

LONG = "What was said about the harbour and the ships in it. " * 40


def talk(size: int, text: str = "message") -> list[dict[str, Any]]:
    roles = ("user", "assistant")
    return [
        {"role": roles[n % 2], "content": f"{text} {n}", "id": f"m{n}", "created_at": 1_683_554_160 + n}
        for n in range(size)
    ]


def lines(path: Path, records: list[Any]) -> str:
    path.write_text("".join((r if isinstance(r, str) else json.dumps(r)) + "\n" for r in records), "utf-8")
    return str(path)


@pytest.mark.req("CLI-1", "LEDGER-6")
def test_an_import_prints_what_became_of_the_file_and_twice_adds_nothing(cix: Cix, tmp_path: Path) -> None:
    file = lines(tmp_path / "talk.jsonl", [*talk(4), "{broken", {"role": "robot", "content": "x"}])
    (done,) = cix.json("import", file, code=1)["sessions"]
    assert set(done) == {"thread_id", "messages", "added", "skipped", "bad", "title"}
    assert (done["messages"], done["added"], done["skipped"], done["title"]) == (4, 4, 0, "talk")
    assert [(bad["line"], set(bad)) for bad in done["bad"]] == [(5, {"line", "reason"}), (6, {"line", "reason"})]
    (again,) = cix.json("import", file, "--format", "jsonl", code=1)["sessions"]
    assert (again["thread_id"], again["added"], again["skipped"]) == (done["thread_id"], 0, 4)
    turns = cix.turns(session=done["thread_id"])
    assert [(turn["user"], turn["assistant"]) for turn in turns] == [
        ("message 0", "message 1"),
        ("message 2", "message 3"),
    ]
    assert turns[0]["created_at"].startswith("2023-05-08T13:56:00")
    assert "imported or added by a program" in cix("context", turns[0]["turn_id"]).stderr


@pytest.mark.req("CLI-1")
def test_people_see_a_table_and_the_lines_that_were_left_out(cix: Cix, tmp_path: Path) -> None:
    done = cix("import", lines(tmp_path / "file", [*talk(2), "{broken"]))
    assert done.exit_code == 1, "lines were left out"
    assert done.stdout.splitlines()[0].split() == [
        "conversation",
        "messages",
        "added",
        "there",
        "before",
        "bad",
        "title",
    ]
    assert done.stdout.splitlines()[1].split()[1:] == ["2", "2", "0", "1", "file"]
    assert "line 3: left out, it is not JSON" in done.stderr
    assert "holds no messages" in cix("import", lines(tmp_path / "empty", [])).stderr
    much = cix("import", lines(tmp_path / "much", [*talk(2), *["{broken"] * 150])).stderr.splitlines()
    assert (len(much), much[-1]) == (101, "50 more were left out; `--json` lists them.")


@pytest.mark.req("CLI-3")
def test_names_in_a_file_cannot_control_the_terminal(cix: Cix, tmp_path: Path) -> None:
    def export(name: str, title: str) -> str:
        nodes = {"q": {"message": {"author": {"role": "user"}, "content": {"parts": ["hello"]}}}}
        (tmp_path / "x.json").write_text(json.dumps([{"id": name, "title": title, "mapping": nodes}]), "utf-8")
        return str(tmp_path / "x.json")

    refused = cix("import", export("\x1b]0;owned\x07" * 40, "long id"))
    assert (refused.exit_code, "may have 1 to" in refused.stderr) == (2, True)
    table = cix("import", export("one", "\x1b]0;owned\x07 a\nforged row"))
    assert "owned\N{REPLACEMENT CHARACTER} a forged row" in table.stdout
    assert "\x1b" not in refused.stderr + table.stdout + table.stderr


@pytest.mark.req("CLI-1")
def test_an_import_is_folded_and_answered_like_any_conversation(cix: Cix, tmp_path: Path) -> None:
    cix.script("Noted.")
    (done,) = cix.json("import", lines(tmp_path / "file", talk(40, LONG)))["sessions"]
    answered = cix.ask("And now?", "--session", done["thread_id"])
    assert (answered["turn_seq"], answered["text"]) == (21, "Noted.")
    folded = cix.json("fold", done["thread_id"])
    assert folded["committed"]
    assert folded["covers_turn_seq"] > 0
    fork = cix.json("fork", done["thread_id"], "--at", "3")
    assert fork["last_turn_seq"] == 3
    assert cix.json("doctor")["ok"]


@pytest.mark.req("CLI-1")
def test_messages_go_to_the_conversation_that_is_named(cix: Cix, tmp_path: Path) -> None:
    thread = cix.ask("Hello")["thread_id"]
    file = lines(tmp_path / "file", talk(2))
    assert cix.json("import", file, "--session", "last")["sessions"][0]["thread_id"] == thread
    (named,) = cix.json("import", file, "--session", "from-work")["sessions"]
    assert [one["external_id"] for one in cix.json("sessions")["sessions"]] == ["from-work", None]
    assert named["thread_id"] != thread
    assert cix("import", file, "--session", "new").exit_code == 1


@pytest.mark.req("CLI-1")
@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("diary",), "holds no messages that could be read; line 1: it is not JSON"),
        (("missing",), "cannot be read"),
        (("diary", "--format", "csv"), "There is no format 'csv'"),
    ],
)
def test_what_cannot_be_imported_is_said_in_one_message(
    cix: Cix, tmp_path: Path, options: tuple[str, ...], words: str
) -> None:
    lines(tmp_path / "diary", ["Dear diary"])
    done = cix("import", str(tmp_path / options[0]), *options[1:])
    assert (done.exit_code, done.stdout) == (2, "")
    assert words in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.req("CLI-1")
def test_a_terminal_sees_how_far_it_is_and_a_pipe_does_not(cix: Cix, tmp_path: Path) -> None:
    file = lines(tmp_path / "file", talk(600))
    with cix.start("import", file, terminal=True) as process:
        code, shown, _ = process.end()
    assert code == 0
    assert "messages" in shown
    piped = cix("import", file)
    assert piped.stderr == ""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_import_that_is_stopped_ends_in_an_orderly_way_and_can_be_done_again(
    cix: Cix, tmp_path: Path, number: int
) -> None:
    whole = Path(lines(tmp_path / "whole", talk(2_500)))
    file = tmp_path / "file"
    os.mkfifo(file)
    with cix.start("import", str(file)) as process, file.open("wb") as pipe:  # a file that is still being written
        pipe.write(whole.read_bytes()[:-1])
        pipe.flush()
        while not _some(cix):
            pass
        process.signal(number)
        code, _, _ = process.end()
    assert code == 1
    (done,) = cix.json("import", str(whole.replace(file)))["sessions"]
    assert done["messages"] == 2_500
    assert 0 < done["skipped"] < 2_500


@pytest.mark.req("CLI-1")
def test_what_is_piped_in_is_imported(cix: Cix) -> None:
    with cix.start("import", "-") as process:
        process.type("".join(json.dumps(each) + "\n" for each in talk(2)))
        code, _, _ = process.end()
    assert (code, cix.said()) == (0, [("message 0", "message 1")])


@pytest.mark.parametrize("said", ["", '{"role": "user", "content": "one"}\n'])
def test_an_import_from_a_silent_pipe_can_be_stopped(cix: Cix, said: str) -> None:
    with cix.start("import", "-") as process:
        while not (cix.folder / "ledger.db").exists():
            pass
        process.type(said)
        process.until_it_waits()
        process.signal(signal.SIGINT)
        assert process.wait() == 1


def _some(cix: Cix) -> bool:
    """Return whether the first messages have come in."""
    return (cix.folder / "ledger.db").exists() and bool(cix.json("sessions")["sessions"])
