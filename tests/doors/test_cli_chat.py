"""Asking and chatting at the command line, the way a person or a script does it."""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path

import apsw
import pytest

from contextinfinity.domain.ids import new_id
from tests.doors.cix import Cix

FAILS = {"error": {"code": "quota", "message": "Out of credit.", "hint": "Wait until tomorrow."}}
HANGS = {"pieces": ["one", " two", " three"], "hang": True}
FINISHED = {
    *("thread_id", "branch_id", "turn_id", "turn_seq", "phase", "outcome", "text"),
    *("usage", "model", "created_at", "error"),
}


# --- one question ---


@pytest.mark.req("CLI-1")
def test_an_answer_goes_to_stdout_and_the_way_back_to_stderr(cix: Cix) -> None:
    cix.script("It is noon.")
    done = cix("ask", "What time is it?")
    assert (done.exit_code, done.stdout) == (0, "It is noon.\n")
    (session,) = cix.json("sessions")["sessions"]
    assert done.stderr == f"conversation {session['thread_id']}; continue with --session last\n"


@pytest.mark.req("CLI-1")
def test_an_echo_says_that_it_is_one(cix: Cix) -> None:
    done = cix("ask", "Hello")
    assert done.stdout.startswith("You said: Hello\n")
    assert "An echo" in done.stdout


@pytest.mark.req("CLI-1")
def test_a_finished_turn_has_the_agreed_shape(cix: Cix) -> None:
    cix.script("It is noon.")
    done = cix("ask", "What time is it?", "--json")
    assert (done.exit_code, done.stderr) == (0, "")
    turn = json.loads(done.stdout)
    assert turn.keys() == FINISHED
    assert turn["usage"].keys() == {"input_tokens", "output_tokens", "cached_tokens", "cost"}
    assert (turn["outcome"], turn["text"], turn["error"], turn["turn_seq"]) == ("completed", "It is noon.", None, 1)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", turn["created_at"])


@pytest.mark.req("CLI-1")
def test_a_failed_turn_is_printed_and_ends_with_1(cix: Cix) -> None:
    cix.script(FAILS)
    turn = cix.json("ask", "Hello", code=1)
    assert turn.keys() == FINISHED
    assert (turn["outcome"], turn["phase"]) == ("failed", "Failed")
    assert turn["error"] == {"code": "quota", "message": "Out of credit.", "hint": "Wait until tomorrow."}
    done = cix("ask", "Hello", "--session", "last")
    assert (done.exit_code, done.stdout, done.stderr) == (1, "", "Out of credit. Wait until tomorrow.\n")


@pytest.mark.req("CLI-1")
def test_an_answer_that_breaks_off_is_kept_and_ends_with_1(cix: Cix) -> None:
    cix.script({"text": "one two three", "cut_after": 2})
    done = cix("ask", "Count")
    assert (done.exit_code, done.stdout) == (1, "one two\n")
    assert "cut off" in done.stderr
    (turn,) = cix.turns()
    assert (turn["outcome"], turn["assistant"]) == ("incomplete", "one two")


@pytest.mark.req("CLI-1")
def test_a_session_goes_on_however_it_is_named(cix: Cix) -> None:
    first = cix.ask("1")
    thread = first["thread_id"]
    for number, name in enumerate(["last", thread, thread[-6:], thread[:20]], start=2):
        turn = cix.ask(str(number), "--session", name)
        assert (turn["thread_id"], turn["turn_seq"]) == (thread, number)
    assert cix.ask("other")["thread_id"] != thread
    assert cix.ask("other", "--session", "new")["turn_seq"] == 1
    assert [user for user, _ in cix.said(session=thread)] == ["1", "2", "3", "4", "5"]


@pytest.mark.req("CLI-1")
def test_a_turn_is_committed_and_indexed_when_the_command_ends(cix: Cix) -> None:
    cix.ask("Hello")
    assert [turn["phase"] for turn in cix.turns()] == ["Done"]


@pytest.mark.req("CLI-1")
def test_the_model_and_the_user_can_be_chosen(cix: Cix) -> None:
    cix.script("scripted")
    assert cix.ask("Hello", "--model", "echo")["text"].startswith("You said: Hello")
    cix.ask("Hello", "--user", "anna")
    assert [one["user_id"] for one in cix.json("sessions")["sessions"]] == ["anna", "local"]
    assert [one["user_id"] for one in cix.json("sessions", "--user", "anna")["sessions"]] == ["anna"]
    assert cix.said("--user", "anna") == [("Hello", "scripted")]


# --- what can be wrong ---


@pytest.mark.req("CLI-1")
@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["ask", ""], 2, "The question is empty."),
        (["ask", " \n"], 2, "The question is empty."),
        (["ask", "x", "--model", "nope"], 2, "There is no model 'nope'; there are: echo, built-in."),
        (["chat", "--model", "nope"], 2, "There is no model 'nope'; there are: echo, built-in."),
        (["ask", "x", "--session", "last"], 1, "There are no conversations yet. Begin one with"),
        (
            ["ask", "x", "--session", "nope"],
            1,
            "There is no conversation nope. Use at least 6 characters of the id; `cix sessions`",
        ),
        (["ask", "x", "--session", "nothing-like-it"], 1, "There is no conversation nothing-like-it. `cix sessions`"),
        (["ask", "x", "--session", new_id()], 1, "`cix sessions` lists the conversations."),
        (["ask", "x", "--branch", "main"], 2, "A new conversation has no branches to choose from."),
        (["show", "nope"], 1, "There is no conversation nope"),
    ],
)
def test_what_is_wrong_is_said_in_words_and_nothing_is_made(
    cix: Cix, arguments: list[str], code: int, words: str
) -> None:
    done = cix(*arguments, stdin="Hello\n")
    assert (done.exit_code, done.stdout) == (code, "")
    assert words in done.stderr
    assert cix.json("sessions") == {"sessions": []}


@pytest.mark.req("CLI-2")
@pytest.mark.parametrize(
    ("arguments", "stdin", "asked"),
    [
        (["-"], "What is this?\n", "What is this?"),
        ([], "What\nis this?\n", "What\nis this?"),
        (["Sum it up."], "one\n  two\n", "Sum it up.\n\nstdin:\none\n  two"),
        (["Sum it up."], "", "Sum it up."),
        (["Sum it up."], " \n", "Sum it up."),
    ],
)
def test_what_is_piped_in_is_added_to_the_question(cix: Cix, arguments: list[str], stdin: str, asked: str) -> None:
    assert cix("ask", *arguments, stdin=stdin).exit_code == 0
    assert [user for user, _ in cix.said()] == [asked]


@pytest.mark.req("CLI-2")
@pytest.mark.parametrize(
    ("arguments", "stdin", "words"),
    [
        ([], "", 'There is no question. Write it in quotes, cix ask "…", or pipe it in.'),
        (["-"], " \n", "There is no question."),
        (["Sum it up."], b"caf\xe9\n", "Standard input is not UTF-8 text (byte 3)."),
    ],
)
def test_standard_input_that_is_no_question_is_refused(
    cix: Cix, arguments: list[str], stdin: str | bytes, words: str
) -> None:
    done = cix("ask", *arguments, stdin=stdin)
    assert (done.exit_code, done.stdout) == (2, "")
    assert words in done.stderr
    assert cix.json("sessions") == {"sessions": []}


@pytest.mark.req("CLI-2")
def test_files_are_added_to_the_question(cix: Cix, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n")
    (tmp_path / "b.md").write_text("two")
    (tmp_path / "c.bin").write_bytes(b"\xff\xfe")
    files = [str(tmp_path / name) for name in ("a.txt", "b.md", "c.bin", "none")]
    cix.ask("Compare them.", "--file", files[0], "--file", files[1])
    assert [user for user, _ in cix.said()] == ["Compare them.\n\na.txt:\none\n\nb.md:\ntwo"]
    for file, words in ((files[2], "is not UTF-8 text (byte 0)."), (files[3], "No such file or directory.")):
        done = cix("ask", "Read it.", "--file", file)
        assert (done.exit_code, done.stdout) == (2, "")
        assert words in done.stderr


@pytest.mark.req("CLI-2")
def test_a_question_without_input_at_a_terminal_does_not_wait(cix: Cix) -> None:
    with cix.start("ask", terminal=True) as ask:
        ask.until("There is no question.")
        assert ask.wait() == 2


@pytest.mark.req("CLI-1")
def test_a_lone_surrogate_is_named_by_its_place_and_code(cix: Cix) -> None:
    done = cix("ask", "half \ud83d of it")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "The text holds a lone surrogate at 5 (U+D83D, half a character)." in done.stderr


@pytest.mark.req("CLI-1")
def test_a_part_of_an_id_that_fits_several_names_them(cix: Cix) -> None:
    threads = [cix.ask(text)["thread_id"] for text in "abc"]
    part = threads[0][:6] if threads[1].startswith(threads[0][:6]) else threads[2][:6]
    done = cix("ask", "x", "--session", part)
    assert (done.exit_code, done.stdout) == (2, "")
    assert all(thread in done.stderr for thread in threads if thread.startswith(part))


@pytest.mark.req("CLI-1")
def test_an_answer_that_is_incomplete_says_why(cix: Cix) -> None:
    cix.script({"text": "one two", "outcome": {"type": "incomplete", "reason": "length"}})
    done = cix("ask", "Count")
    assert (done.exit_code, done.stdout) == (0, "one two\n")
    assert "[The answer is incomplete: it reached the maximum number of tokens" in done.stderr


@pytest.mark.req("CLI-1")
def test_another_users_conversation_is_named_by_a_part_of_its_id(cix: Cix) -> None:
    thread = cix.ask("Hello", "--user", "anna")["thread_id"]
    assert cix.json("show", thread[-8:], "--user", "anna")["thread_id"] == thread


@pytest.mark.req("CLI-1")
def test_a_token_is_revoked_by_a_part_of_its_id(cix: Cix) -> None:
    made = cix.json("token", "create", "--user", "anna")
    assert cix.json("token", "revoke", made["id"][-8:])["id"] == made["id"]


@pytest.mark.req("CLI-1")
@pytest.mark.parametrize(
    ("turns", "words"),
    [(0, "has no turn 9; it has no turns yet."), (1, "has no turn 9; its only turn is 1.")],
)
def test_numbers_agree_with_their_nouns(cix: Cix, turns: int, words: str) -> None:
    cix.ask("Hello")
    cix("rollback", "last", "--to", str(turns))
    assert words in cix("fork", "last", "--at", "9").stderr
    if turns:
        assert cix("delete", "last", "--yes").stderr.endswith(": 1 turn.\n")


@pytest.mark.req("CLI-1")
def test_a_bad_config_is_named_with_its_line(cix: Cix) -> None:
    (cix.folder / "config.toml").write_text("[server]\nhots = 'b'\n")
    done = cix("ask", "Hello")
    assert (done.exit_code, done.stdout) == (1, "")
    assert f"{cix.folder / 'config.toml'}:2: server.hots is not a setting" in done.stderr


@pytest.mark.req("CLI-1")
def test_a_script_that_is_not_there_is_said_in_words(cix: Cix) -> None:
    cix.script("x")
    (cix.folder / "main.json").unlink()
    done = cix("ask", "Hello")
    assert done.exit_code == 1
    assert "main.json cannot be used" in done.stderr


@pytest.mark.req("CLI-1")
def test_a_ledger_that_another_process_holds_is_said_in_words(cix: Cix) -> None:
    cix.ask("Hello")
    holder = apsw.Connection(str(cix.folder / "ledger.db"))
    holder.execute("BEGIN IMMEDIATE")
    with cix.start("serve", "--port", "0") as server:
        done = cix("ask", "Hello again")
        code, output, errors = server.end()
    holder.execute("ROLLBACK")
    holder.close()
    assert (done.exit_code, done.stdout) == (code, output) == (1, "")
    said = "Nothing was written; try again, or end the process that holds the ledger."
    assert (said in done.stderr, said in errors) == (True, True)
    assert len(cix.said()) == 1


@pytest.mark.req("CLI-1")
@pytest.mark.parametrize("blocks", [0, 8])
def test_a_disk_that_takes_nothing_is_said_in_words(cix: Cix, blocks: int) -> None:
    cix.ask("Hello")
    with cix.start("ask", "Hello again", "--session", "last", disk=blocks, piped=False) as ask:
        code, output, errors = ask.end()
    assert (code, output) == (1, "")
    assert str(cix.folder / "ledger.db") in errors
    assert len(cix.said()) == 1


@pytest.mark.req("CLI-1")
@pytest.mark.parametrize("wish", [signal.SIGINT, signal.SIGTERM])
def test_one_can_leave_when_the_disk_takes_no_more_in_the_middle(cix: Cix, wish: signal.Signals) -> None:
    cix.script(HANGS)
    with cix.start("chat") as chat:
        chat.type("go on and on\n")
        chat.until("three")
        chat.fill_disk()
        chat.signal(signal.SIGINT)
        chat.told("the final state of a turn cannot be written yet")
        chat.signal(wish)
        assert chat.end()[0] == 1
    (turn,) = cix.turns()
    assert turn["outcome"] in ("incomplete", "cancelled")
    assert "one two three".startswith(turn["assistant"])


@pytest.mark.req("CLI-1")
def test_a_folder_that_is_no_folder_is_said_in_words(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = Cix(tmp_path / "file" / "data")("ask", "Hello")
    assert done.exit_code == 1
    assert str(tmp_path / "file" / "data") in done.stderr


# --- lines from a pipe ---


@pytest.mark.req("CLI-1")
def test_a_pipe_gets_one_answer_a_line_and_nothing_else(cix: Cix) -> None:
    cix.script("First.", "Second.", "Third.")
    done = cix("chat", stdin="1\n\n  \n2\r\n3")
    assert (done.exit_code, done.stdout, done.stderr) == (0, "First.\nSecond.\nThird.\n", "")
    assert cix.said() == [("1", "First."), ("2", "Second."), ("3", "Third.")]


@pytest.mark.req("CLI-1")
def test_a_chat_goes_on_in_a_session_and_on_a_branch(cix: Cix) -> None:
    cix.script("a")
    thread = cix.ask("1")["thread_id"]
    cix("chat", "--session", thread, stdin="2\n")
    cix("fork", thread, "--at", "1")
    fork = cix.json("branches", thread)["branches"][1]["branch_id"]
    cix("chat", "--session", thread, "--branch", fork[-8:], stdin="x\n")
    assert [user for user, _ in cix.said()] == ["1", "2"]
    assert [user for user, _ in cix.said("--branch", fork)] == ["1", "x"]


@pytest.mark.req("CLI-1")
def test_a_chat_can_give_a_finished_turn_a_line(cix: Cix) -> None:
    cix.script("a\nb", FAILS)
    done = cix("chat", "--json", stdin="1\n2\n")
    turns = [json.loads(line) for line in done.stdout.splitlines()]
    assert [turn["outcome"] for turn in turns] == ["completed", "failed"]
    assert all(turn.keys() == FINISHED for turn in turns)
    assert (done.exit_code, done.stderr) == (1, "")


@pytest.mark.req("CLI-1")
def test_a_line_that_fails_does_not_end_the_chat(cix: Cix) -> None:
    cix.script("fine", FAILS, "fine again")
    done = cix("chat", stdin="1\n2\n3\n")
    assert (done.exit_code, done.stdout) == (1, "fine\nfine again\n")
    assert done.stderr == "Out of credit. Wait until tomorrow.\n"


@pytest.mark.req("CLI-1")
def test_a_line_that_is_no_text_is_left_out(cix: Cix) -> None:
    cix.script("fine")
    done = cix("chat", stdin=b"caf\xe9\ncaf\xc3\xa9\n")
    assert (done.exit_code, done.stdout) == (1, "fine\n")
    assert "not UTF-8 text" in done.stderr
    assert cix.said() == [("café", "fine")]


@pytest.mark.req("CLI-1")
def test_a_pipe_is_answered_while_it_is_open(cix: Cix) -> None:
    cix.script("First.", "Second.")
    with cix.start("chat") as chat:
        chat.type("1\n")
        assert chat.until("\n") == "First.\n"
        chat.type("2\n")
        assert chat.until("\n") == "Second.\n"
        assert chat.end() == (0, "", "")


# --- stopping ---


@pytest.mark.req("TURN-11", "CLI-1")
def test_ctrl_c_stops_the_answer_which_is_kept_and_the_chat_goes_on(cix: Cix) -> None:
    cix.script(HANGS, "Still here.")
    with cix.start("chat") as chat:
        chat.type("go on and on\n")
        chat.until("three")
        chat.signal(signal.SIGINT)
        assert chat.until("\n") == "\n"
        chat.type("and now?\n")
        assert chat.until("\n") == "Still here.\n"
        code, output, errors = chat.end()
    assert (code, output, errors) == (0, "", "[stopped]\n")
    assert [(turn["outcome"], turn["assistant"]) for turn in cix.turns()] == [
        ("cancelled", "one two three"),
        ("completed", "Still here."),
    ]


@pytest.mark.req("TURN-11", "CLI-1")
def test_ctrl_c_twice_leaves(cix: Cix) -> None:
    cix.script(HANGS)
    with cix.start("chat") as chat:
        chat.type("go on and on\n")
        chat.until("three")
        chat.signal(signal.SIGINT)
        chat.told("[stopped]\n")
        chat.until_it_waits()
        chat.signal(signal.SIGINT)
        assert chat.wait() == 1
    assert [(turn["outcome"], turn["assistant"]) for turn in cix.turns()] == [("cancelled", "one two three")]


@pytest.mark.req("TURN-11", "CLI-1")
def test_ctrl_c_stops_a_single_question_too(cix: Cix) -> None:
    cix.script(HANGS)
    with cix.start("ask", "go on and on", piped=False) as ask:
        ask.until("three")
        ask.signal(signal.SIGINT)
        code, output, errors = ask.end()
    assert (code, output) == (1, "\n")
    assert errors.startswith("[stopped]\nconversation ")
    assert [(turn["outcome"], turn["assistant"]) for turn in cix.turns()] == [("cancelled", "one two three")]


@pytest.mark.req("CLI-1")
def test_a_process_that_is_told_to_end_finishes_an_answer_that_is_nearly_done(cix: Cix) -> None:
    cix.script({"text": "one two three", "delay": 0.3})
    with cix.start("chat") as chat:
        chat.type("Count\n")
        chat.until("one")
        chat.signal(signal.SIGTERM)
        assert chat.wait() == 1
    assert [(turn["outcome"], turn["assistant"], turn["phase"]) for turn in cix.turns()] == [
        ("completed", "one two three", "Done")
    ]


@pytest.mark.req("CLI-1")
def test_a_process_that_is_told_to_end_marks_an_answer_that_is_not(cix: Cix) -> None:
    cix.script({"text": " ".join(map(str, range(1000))), "delay": 0.1})
    with cix.start("ask", "Count", piped=False) as ask:
        ask.until(" 3")
        ask.signal(signal.SIGTERM)
        code, _, errors = ask.end()
    assert (code, errors) == (1, "")
    (turn,) = cix.turns()
    assert (turn["outcome"], turn["error"]["code"]) == ("incomplete", "interrupted")
    assert turn["assistant"].startswith("0 1 2 3")


# --- on a terminal ---


@pytest.mark.req("TURN-11", "CLI-1")
def test_a_terminal_has_a_prompt_and_its_keys_work(cix: Cix) -> None:
    cix.script("First.", HANGS, "Last.")
    with cix.start("chat", terminal=True) as chat:
        chat.until("> ")
        chat.type("1\n")
        chat.until("First.")
        chat.until("> ")
        chat.type("2\n")
        chat.until("three")
        chat.type("\x03")
        chat.until("[stopped]")
        chat.until("> ")
        chat.type("3\n")
        chat.until("Last.")
        chat.until("> ")
        chat.type("half a line")
        chat.until("half a line")
        chat.until_it_waits()
        chat.type("\x03")
        chat.until("Press Ctrl-C again")
        chat.until("> ")
        chat.type("/quit\n")
        chat.until("continue with --session last")
        assert chat.wait() == 0
    assert [turn["outcome"] for turn in cix.turns()] == ["completed", "cancelled", "completed"]


@pytest.mark.req("CLI-1")
def test_a_terminal_is_not_steered_by_what_a_model_says(cix: Cix) -> None:
    cix.script("safe\x1b]0;title\x07\x9b2J")
    assert cix("ask", "Hello").stdout == "safe\x1b]0;title\x07\x9b2J\n"
    with cix.start("ask", "Hello", terminal=True) as ask:
        shown = ask.until("--session last")
    assert "safe\N{REPLACEMENT CHARACTER}]0;title" in shown
    assert "\x1b" not in shown
    assert "\x9b" not in shown


@pytest.mark.req("CTX-9", "CLI-1")
def test_a_request_tells_where_it_went_when_asked_to(cix: Cix) -> None:
    with cix.start("--verbose", "ask", "Hello", "--json") as ask:
        code, output, errors = ask.end()
    turn = json.loads(output)
    assert code == 0
    assert f"thread {turn['thread_id']} created, branch {turn['branch_id']}, turn 1, turns loaded 0" in errors


@pytest.mark.parametrize("command", [("ask", "-"), ("chat",)])
def test_a_nul_character_is_refused_as_over_http(cix: Cix, command: tuple[str, ...]) -> None:
    cix.echo()
    done = cix(*command, stdin="a\0b\n")
    assert done.exit_code != 0
    assert "NUL character" in done.stderr
    assert cix.json("sessions")["sessions"] == []
