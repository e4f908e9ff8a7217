"""``cix chat`` at a real terminal, the way a person sits at it."""

from __future__ import annotations

import json
import os
import signal
import stat
from pathlib import Path

import pytest

from tests.doors.cix import CONFIG, Cix
from tests.doors.terminal import BRACKETED_PASTE, CTRL_C, CTRL_D, CTRL_R, ENTER, TAB, UP, Terminal

pytestmark = pytest.mark.req("CLI-1")

HANGS = {"when": "go on", "pieces": ["one", " two", " **three"], "hang": True}
FAILS = {"when": "^fail", "error": {"code": "quota", "message": "Out of credit.", "hint": "Wait until tomorrow."}}
CUT = {"when": "^cut", "pieces": ["half", " of it"], "cut_after": 2}
PRICED = {"text": "Paid.", "usage": {"input_tokens": 1204, "cached_tokens": 1100, "output_tokens": 56, "cost": 0.0031}}
MARKDOWN = """\
# The harbour

Ships **arrive** and `leave`
at *noon*, <b>or so</b>: see [the list](http://ships.example).

- coal
- 日本 🎉 wool
  - fine

1. one
2. two

> A quote.

| ship | tons |
| --- | ---: |
| Anna | 12 |

```python
def sail(to):
    return f"to {to}"
```

The end.
"""
SHOWN = """\
The harbour

Ships arrive and leave
at noon, <b>or so</b>: see the list (http://ships.example).

• coal
• 日本 🎉 wool
  • fine

1. one
2. two

│ A quote.

ship   tons
───────────
Anna     12

  def sail(to):
      return f"to {to}"

The end.
✓ """


def talk(cix: Cix, *arguments: str, **how: object) -> Terminal:
    """Sit down at a terminal and wait for the prompt."""
    terminal = Terminal(cix.folder, "chat", *arguments, **how)  # type: ignore[arg-type]
    terminal.until(terminal.waits)
    return terminal


def test_markdown_is_drawn_and_nothing_of_it_is_lost(cix: Cix) -> None:
    long = "\n".join(f"{number}. Item **{number}**" for number in range(1, 61))
    cix.script({"text": MARKDOWN, "pieces": [MARKDOWN[i : i + 3] for i in range(0, len(MARKDOWN), 3)]}, long)
    with talk(cix) as chat:
        shown = chat.say("Tell me.")
        assert "\n".join(line.replace("🎉  wool", "🎉 wool") for line in shown.splitlines()).startswith(SHOWN)
        rows = dict(zip((line.strip() for line in chat.screen.display), chat.screen.buffer.values(), strict=False))
        assert rows["ship   tons"][0].bold
        assert rows["def sail(to):"][2].fg not in ("default", rows["The end."][0].fg)
        listed = chat.say("List them.").splitlines()
        assert listed[:60] == [f"{number}. Item {number}" for number in range(1, 61)]
        assert b"\x1b[?1049h" not in chat.printed, "what was said stays to be scrolled back to"


def test_a_model_cannot_steer_the_terminal(cix: Cix) -> None:
    cix.script("safe\x1b]0;title\x07\x9b2J \x1b[2J\x1b[8mred &#27;[2J&#13;&#12; `\x1b[31m`\r\nnext\rline")
    with talk(cix) as chat:
        before = chat.text()
        shown = chat.say("Hello")
        assert "title" in shown
        assert "next\N{REPLACEMENT CHARACTER}line" in shown
        assert chat.text().startswith(before.rstrip("> \n"))
        assert chat.screen.title == ""
        for steering in (b"\x1b]0;", b"\x1b[2J", b"\x1b[8m", b"\xc2\x9b", b"\x07"):
            assert steering not in chat.printed


def test_each_answer_tells_what_it_took_and_while_it_runs_what_is_safe(cix: Cix) -> None:
    cix.script({"when": "slow", "text": "a b c d e f g h", "delay": 0.15}, PRICED)
    (cix.folder / "config.toml").write_text(f"{CONFIG}[stream]\nfsync_ms = 1\nflush_ms = 1\n")
    with talk(cix) as chat:
        assert chat.say("Hello").startswith("Paid.\n✓ 1,204 tokens in (1,100 cached), 56 out, $0.0031, main, ")
        chat.type("slow" + ENTER)
        chat.until(lambda: any(mark in chat.text() for mark in "○◔◑"))
        chat.until(lambda: any(mark in chat.text() for mark in "◕●"))
        chat.until(chat.waits)
        assert "a b c d e f g h\n✓ " in chat.text()


@pytest.mark.req("TURN-11", "CLI-1")
def test_ctrl_c_stops_the_answer_and_not_the_chat(cix: Cix) -> None:
    cix.script(HANGS, "Still here.")
    with talk(cix) as chat:
        chat.type("go on and on" + ENTER)
        chat.until("one two three")
        chat.type(CTRL_C)
        chat.until("[stopped]")
        chat.until(chat.waits)
        assert chat.say("Are you there?").startswith("Still here.")
        chat.type("half a line")
        chat.until("half a line")
        chat.type(CTRL_C)
        chat.until("Press Ctrl-C again")
        assert chat.leave() == 1
    assert [(turn["outcome"], turn["assistant"]) for turn in cix.turns()] == [
        ("cancelled", "one two **three"),
        ("completed", "Still here."),
    ]


def test_what_is_typed_during_an_answer_waits_for_the_prompt(cix: Cix) -> None:
    cix.script({"when": "first", "text": "a b c d e f", "delay": 0.1}, "Second.")
    with talk(cix) as chat:
        chat.type("first" + ENTER)
        chat.until("a b")
        chat.type("second")
        chat.until("> second")
        assert "a b c d e f\n✓" in chat.text()
        assert chat.printed.index("✓".encode()) < chat.printed.index(b"second")
        chat.type(ENTER)
        chat.until("Second.")
    assert [user for user, _ in cix.said()] == ["first", "second"]


@pytest.mark.parametrize("arguments", [[], ["--plain"]])
def test_a_paste_during_an_answer_is_one_message_and_runs_nothing(cix: Cix, arguments: list[str]) -> None:
    cix.script({"when": "first", "text": "a b c d e f", "delay": 0.1}, "Second.", "Third.")
    pasted = "look at\n/quit\n/help\nthis"
    with talk(cix, *arguments) as chat:
        chat.type("first" + ENTER)
        chat.until("a b")
        chat.paste(pasted)
        chat.until("this")
        assert "a b c d e f\n" in chat.text()
        chat.type(" and that" + ENTER)
        chat.until("Second.")
        assert "list the commands" not in chat.text()
        chat.until(chat.waits)
        chat.type(CTRL_D)
        assert chat.end() == 0
    assert [user for user, _ in cix.said()] == ["first", f"{pasted} and that"]


def test_a_paste_before_the_first_prompt_is_one_message(cix: Cix) -> None:
    with Terminal(cix.folder, "chat") as chat:
        chat.until(lambda: BRACKETED_PASTE in chat.screen.mode)
        chat.paste("one\n/quit\ntwo")
        chat.until("two")
        chat.say("")
    assert [user for user, _ in cix.said()] == ["one\n/quit\ntwo"]


def test_a_long_paste_during_an_answer_does_not_hold_a_ctrl_c_back(cix: Cix) -> None:
    cix.script(HANGS, "Fine.")
    pasted = "\n".join(f"line {number} of a log" for number in range(1000))
    with talk(cix) as chat:
        chat.type("go on and on" + ENTER)
        chat.until("one two three")
        chat.paste(pasted)
        chat.type(CTRL_C)
        chat.until("[stopped]")
        chat.until("line 999 of a log")
        chat.type(ENTER)
        chat.until("Fine.")
    assert [(turn["user"], turn["outcome"]) for turn in cix.turns()] == [
        ("go on and on", "cancelled"),
        (pasted, "completed"),
    ]


def test_a_line_sent_during_an_answer_waits_for_its_end(cix: Cix) -> None:
    cix.script({"when": "first", "text": "a b c d e f", "delay": 0.1}, "Second.", "Third.")
    with talk(cix) as chat:
        chat.type("first" + ENTER)
        chat.until("a b")
        chat.type("second" + ENTER + "third" + ENTER)
        chat.until("Third.")
        assert chat.printed.index("✓".encode()) < chat.printed.index(b"second")
    assert [(turn["user"], turn["outcome"]) for turn in cix.turns()][:2] == [
        ("first", "completed"),
        ("second", "completed"),
    ]


@pytest.mark.parametrize("arguments", [[], ["--plain"]])
def test_ctrl_c_after_typing_clears_the_line_and_does_not_leave(cix: Cix, arguments: list[str]) -> None:
    with talk(cix, *arguments) as chat:
        chat.interrupt()
        chat.until("Press Ctrl-C again")
        chat.until(chat.waits)
        chat.type("a question")
        chat.until("> a question")
        chat.type(CTRL_C)
        chat.until(lambda: chat.text().count("Press Ctrl-C again") == 2)
        assert chat.leave() == 1


def test_messages_of_several_lines_history_and_completion(cix: Cix) -> None:
    cix.script("Yes.")
    with talk(cix) as chat:
        chat.type("one\\" + ENTER + "two\x1b" + ENTER)
        chat.paste("three\nfour")
        chat.say("")
        chat.say("/mod" + TAB + "ec" + TAB)
        assert "echo answers from now on." in chat.text()
        chat.type("/fold " + TAB)
        chat.until("preview")
        chat.type(CTRL_C)
        chat.until("Press Ctrl-C again")
        chat.until(chat.waits)
        chat.type(CTRL_D)
        assert chat.end() == 0
    assert cix.said() == [("one\ntwo\nthree\nfour", "Yes.")]
    kept = cix.folder / "chat_history"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    lines = [json.loads(line) for line in kept.read_text().splitlines()]
    assert [line["text"] for line in lines] == ["one\ntwo\nthree\nfour", "/model echo"]
    assert {line["session"] for line in lines} == {thread["thread_id"] for thread in cix.json("sessions")["sessions"]}
    with talk(cix) as chat:
        chat.type(CTRL_R + "two")
        chat.until("three")
        chat.type(CTRL_C)
        chat.until(chat.waits)
        chat.type(UP)
        chat.until("> /model echo")


def test_a_resumed_session_shows_where_it_was_and_offers_a_retry(cix: Cix) -> None:
    cix.script(CUT, "Fine **indeed**.")
    thread = cix.ask("first")["thread_id"]
    for question in ("second", "cut"):
        cix("chat", "--session", thread, stdin=f"{question}\n")
    with talk(cix, "--session", "last") as chat:
        shown = chat.text()
        assert f"Conversation {thread[-8:]}: 3 turns, branch main." in shown
        assert "first" not in shown
        assert "\n> second\nFine indeed.\n" in shown
        assert "\n> cut\nhalf of it\n" in shown
        assert "/retry asks again." in shown
        chat.say("/retry")
        chat.type("/quit" + ENTER)
        assert chat.end() == 0
        assert f"Conversation {thread}; continue with --session last" in chat.text()
    assert [turn["user"] for turn in cix.turns()] == ["first", "second", "cut", "cut"]
    assert len(cix.json("branches", thread)["branches"]) == 1, "an answer that was cut is asked for again in its place"


def test_questions_are_asked_again_changed_and_taken_back(cix: Cix) -> None:
    cix.script("A.", "B.", "C.", "D.", "E.", "F.")
    with talk(cix) as chat:
        chat.say("one")
        chat.say("two")
        assert "C." in chat.say("/retry")
        assert cix.said() == [("one", "A."), ("two", "C.")]
        chat.type("/edit 1" + ENTER)
        chat.until("> one")
        chat.say(" more")
        assert cix.said() == [("one more", "D.")]
        chat.say("three")
        assert "Back after turn 1" in chat.say("/rollback 1")
        assert "after turn 1" in chat.say("/fork 1")
        assert "E." not in chat.say("/branches")
        chat.say("four")
        assert cix.said() == [("one more", "D.")], "a fork leaves the active branch as it is"
        assert "branch main." in chat.say("/branches main")
        assert cix.said() == [("one", "A."), ("two", "B.")]
        assert "There is no turn 9 here." in chat.say("/edit 9")
        assert "Write /rollback 3." in chat.say("/rollback")


@pytest.mark.req("TURN-15")
def test_pins_are_in_the_prompt_after_a_retry_an_edit_and_a_fork(cix: Cix) -> None:
    cix.script("A.", "B.", "C.", "D.")
    with talk(cix) as chat:
        chat.say("one")
        chat.say("/pin Answer in German.")
        chat.say("/retry")
        assert "pins" in chat.say("/context")
        chat.type("/edit" + ENTER)
        chat.until("> one")
        chat.say(" more")
        assert "pins" in chat.say("/context")
        chat.say("/fork 0")
        assert "1  Answer in German." in chat.say("/pins")


def test_commands_say_what_is_and_what_cannot_be(cix: Cix) -> None:
    cix.script("Noted.", FAILS)
    with talk(cix) as chat:
        assert "Say something first." in chat.say("/pins")
        assert "1  Answer in German." in chat.say("/pin Answer in German.")
        chat.say("one")
        assert "pins" in chat.say("/context")
        assert "Nothing is pinned." in chat.say("/unpin 1")
        assert "Nothing to fold" in chat.say("/fold")
        assert "* main" in chat.say("/model")
        assert "There is no model 'nope'" in chat.say("/model nope")
        first = chat.say("/sessions").split()[4]
        chat.say("/new")
        chat.say("//etc/hosts")
        assert cix.said() == [("/etc/hosts", "Noted.")]
        chat.type("/edit" + ENTER)
        chat.until("> //etc/hosts")
        chat.type(CTRL_C)
        chat.until("Press Ctrl-C again")
        chat.until(chat.waits)
        assert "> one" in chat.say(f"/sessions {first}")
        assert "Did you mean /quit?" in chat.say("/exit")
        assert "Nothing was found" in chat.say("/search ships")
        assert "There is no hit 1" in chat.say("/attach 1")
        told = chat.say("/help")
        assert all(f"/{name}" in told for name in ("model", "new", "sessions", "fork", "rollback", "retry", "edit"))
        failed = chat.say("fail")
        assert failed == "Out of credit. Wait until tomorrow.\n/retry asks again."
        assert "1. one" in chat.say("/search one")
        assert "to your next message" in chat.say("/attach 1")
        chat.say("And that?")
        assert "artifact" in chat.say("/context")


def test_what_goes_on_beside_the_answers_is_shown_and_the_line_being_typed_stays(cix: Cix) -> None:
    cix.script(
        {"when": "tool", "text": "Let me see.", "tools": [{"name": "weather", "arguments": {"city": "Paris"}}]}, "x"
    )
    config = CONFIG + '[tools]\nmode = "parse_only"\n[compaction]\ncompaction_trigger_tokens = 500\n'
    (cix.folder / "config.toml").write_text(config)
    with talk(cix) as chat:
        shown = chat.say("tool")
        assert shown.startswith('Let me see.\n[weather {"city": "Paris"}]\nThe model waits for its tools.')
        for number in range(4):
            chat.say(f"{number} " + "the harbour and its ships " * 30)
        chat.type("my next question")
        chat.until("are in the summary now")
        chat.until(lambda: chat.text().endswith("\n> my next question"))


@pytest.mark.parametrize(("arguments", "environ"), [(["--plain"], {}), ([], {"PYTHONIOENCODING": "latin-1"})])
def test_a_plain_terminal_gets_plain_lines(cix: Cix, arguments: list[str], environ: dict[str, str]) -> None:
    cix.script("A **bold** answer.")
    with talk(cix, *arguments, environ=environ) as chat:
        assert chat.say("one").startswith("A **bold** answer.\n")
        assert "/retry" in chat.say("/help")
        escapes = chat.printed.replace(b"\x1b[?2004h", b"").replace(b"\x1b[?2004l", b"").replace(b"\x1b[?1034h", b"")
        assert b"\x1b" not in escapes
        chat.type("/quit" + ENTER)
        assert chat.end() == 0


def test_no_color_means_none_and_a_narrow_window_is_fine(cix: Cix) -> None:
    cix.script("Some **bold** words and a `name`, for forty columns.\n\n```python\nreturn 1\n```")
    with talk(cix, columns=40, lines=15, environ={"NO_COLOR": "1"}) as chat:
        assert chat.say("one").startswith("Some bold words and a name, for forty\ncolumns.\n\n  return 1\n")
        assert not {cell.fg for row in chat.screen.buffer.values() for cell in row.values()} - {"default"}


@pytest.mark.req("PROVIDER-1", "CLI-1")
@pytest.mark.xdist_group("built-in model")
def test_the_built_in_model_says_what_it_is_and_answers(cix: Cix, built_in_weights: Path) -> None:
    with talk(cix, environ={"CONTEXTINFINITY_LOCAL__MODELS_DIR": str(built_in_weights.parent)}) as chat:
        assert "a small one for demonstration" in " ".join(chat.say("/model built-in").split())
        assert " out, SmolLM2-135M-Instruct, " in chat.say("Say hello.")


def test_a_process_told_to_end_leaves_the_terminal_as_it_was(cix: Cix) -> None:
    with Terminal(cix.folder, "chat") as chat:
        chat.until(chat.waits)
        assert chat.modes() != chat.initial_modes
        os.kill(chat.pid, signal.SIGTERM)
        assert chat.end() == 1
        assert chat.modes() == chat.initial_modes


@pytest.mark.req("CLI-1", "CLI-2")
@pytest.mark.parametrize("columns", [30, 80])
def test_tables_show_ids_that_can_be_used_on_any_screen(cix: Cix, columns: int) -> None:
    thread = cix.ask("What is the height of the lighthouse in the north?")["thread_id"]
    memory = cix.json("remember", "The lighthouse is 40 metres high.")["memories"][0]["id"]
    branch = cix.json("branches", "last")["branches"][0]["branch_id"]
    for arguments, whole in ((["sessions"], thread), (["branches", "last"], branch), (["memories", "list"], memory)):
        with Terminal(cix.folder, *arguments, columns=columns) as table:
            assert table.end() == 0
            assert whole[-8:] in table.text()
            assert all(len(line) < columns + 1 for line in table.text().splitlines())
            assert "lighthouse" in " ".join(table.text().split()) or arguments[0] == "branches"
    assert cix.json("show", thread[-8:])["thread_id"] == thread


@pytest.mark.req("CLI-1")
def test_the_doctor_can_be_read_on_a_narrow_screen(cix: Cix) -> None:
    cix.ask("hello")
    cix.folder.chmod(0o755)
    with Terminal(cix.folder, "doctor", columns=30) as told:
        assert told.end() == 1
        assert "finding: permissions_open" in told.text()
