"""Conversations, branches and pins at the command line."""

from __future__ import annotations

import pytest

from tests.doors.cix import Cix


@pytest.fixture
def thread(cix: Cix) -> str:
    """A conversation of three turns."""
    cix.script(*({"when": f"^{question}$", "text": question.upper()} for question in "abc"), "X")
    thread: str = cix.ask("a")["thread_id"]
    cix("chat", "--session", thread, stdin="b\nc\n")
    return thread


def questions(cix: Cix, *options: str) -> list[str]:
    return [user for user, _ in cix.said(*options)]


def active(cix: Cix) -> str:
    (branch,) = [one["branch_id"] for one in cix.json("branches", "last")["branches"] if one["active"]]
    return str(branch)


# --- what there is ---


@pytest.mark.req("CLI-1")
def test_conversations_are_listed_for_programs(cix: Cix, thread: str) -> None:
    other = cix.ask("another one")["thread_id"]
    listed = cix.json("sessions")["sessions"]
    assert [(one["thread_id"], one["turns"], one["said"]) for one in listed] == [
        (other, 1, "another one"),
        (thread, 3, "c"),
    ]
    assert listed[0].keys() >= {"branch_id", "user_id", "external_id", "title", "created_at", "updated_at"}
    assert len(cix.json("sessions", "--limit", "1")["sessions"]) == 1


@pytest.mark.req("CLI-1")
def test_conversations_are_listed_for_people(cix: Cix, thread: str) -> None:
    done = cix("sessions")
    head, row = done.stdout.splitlines()
    assert head.split() == ["id", "last", "turns", "title"]
    assert (row.split()[0], row.split()[-2:]) == (thread, ["3", "a"]), "the first message is the title"
    cix.ask("x")
    assert cix("sessions", "--limit", "1").stderr == "There are more; --limit 2 shows them.\n"


@pytest.mark.req("CLI-1")
def test_no_conversations_is_no_error(cix: Cix) -> None:
    done = cix("sessions")
    assert (done.exit_code, done.stdout) == (0, "")
    assert "There are no conversations yet." in done.stderr


@pytest.mark.req("CLI-1")
def test_a_conversation_is_shown_in_the_agreed_shape(cix: Cix, thread: str) -> None:
    shown = cix.json("show", thread)
    assert shown.keys() == {"thread_id", "branch_id", "turns"}
    assert (shown["thread_id"], shown["branch_id"]) == (thread, active(cix))
    assert [(one["turn_seq"], one["user"], one["assistant"]) for one in shown["turns"]] == [
        (1, "a", "A"),
        (2, "b", "B"),
        (3, "c", "C"),
    ]
    finished = cix.ask("d", "--session", thread)
    assert shown["turns"][0].keys() == finished.keys() | {"user", "assistant", "latency_ms", "images", "tool_calls"}
    assert [one["user"] for one in cix.turns("--limit", "2")] == ["c", "d"]


@pytest.mark.req("METRICS-1")
def test_a_shown_turn_says_how_long_its_stages_took(cix: Cix) -> None:
    cix.ask("a")
    (turn,) = cix.turns()
    assert {"assemble", "first_token", "stream", "summarise", "index"} <= turn["latency_ms"].keys()


@pytest.mark.req("CLI-1")
def test_a_conversation_is_shown_to_people(cix: Cix, thread: str) -> None:
    lines = cix("show", "last").stdout.splitlines()
    assert lines[0].startswith(f"conversation {thread}, branch ")
    assert [line for line in lines if not line.startswith(("#", "conversation")) and line] == [
        *("> a", "A", "> b", "B", "> c", "C")
    ]


@pytest.mark.req("CLI-1")
def test_a_failed_turn_is_shown_with_its_reason(cix: Cix) -> None:
    cix.script({"error": {"code": "quota", "message": "Out of credit."}})
    cix("ask", "Hello")
    assert "[Out of credit.]" in cix("show", "last").stdout


# --- branches ---


@pytest.mark.req("LEDGER-8", "CLI-1")
def test_a_fork_leaves_the_conversation_where_it_is(cix: Cix, thread: str) -> None:
    main = active(cix)
    fork = cix.json("fork", thread, "--at", "1")
    assert (fork["thread_id"], fork["parent_id"], fork["fork_seq"]) == (thread, main, 1)
    assert active(cix) == main
    turn = cix.ask("x", "--session", thread, "--branch", fork["branch_id"])
    assert (turn["branch_id"], turn["turn_seq"]) == (fork["branch_id"], 2)
    assert questions(cix) == ["a", "b", "c"]
    assert questions(cix, "--branch", fork["branch_id"][-8:]) == ["a", "x"]


@pytest.mark.req("LEDGER-8", "CLI-1")
def test_one_can_fork_a_fork_and_at_the_end(cix: Cix, thread: str) -> None:
    one = cix.json("fork", thread, "--at", "2")["branch_id"]
    cix.ask("x", "--session", thread, "--branch", one)
    two = cix.json("fork", thread, "--branch", one)
    assert (two["parent_id"], two["fork_seq"]) == (one, 3)
    assert questions(cix, "--branch", two["branch_id"]) == ["a", "b", "x"]


@pytest.mark.req("LEDGER-8", "CLI-1")
def test_a_rollback_goes_on_from_there_and_loses_nothing(cix: Cix, thread: str) -> None:
    main = active(cix)
    back = cix.json("rollback", thread, "--to", "1")
    assert (back["active"], back["fork_seq"], active(cix)) == (True, 1, back["branch_id"])
    cix.ask("x", "--session", thread)
    assert questions(cix) == ["a", "x"]
    assert questions(cix, "--branch", "main") == ["a", "b", "c"]
    assert cix.json("switch", thread, "main")["branch_id"] == main
    assert questions(cix) == ["a", "b", "c"]


@pytest.mark.req("LEDGER-8", "CLI-1")
def test_one_can_go_back_to_a_state(cix: Cix, thread: str) -> None:
    cix("pin", thread, "first")
    state = cix.json("branches", thread)["branches"][0]["state"]
    cix("pin", thread, "second")
    cix("rollback", thread, "--state", str(state))
    assert [one["fact"] for one in cix.json("pins", thread)["pins"]] == ["first"]
    assert [one["fact"] for one in cix.json("pins", thread, "--branch", "main")["pins"]] == ["first", "second"]
    assert cix.json("fork", thread, "--state", "0")["fork_seq"] == 0


@pytest.mark.req("CLI-1")
def test_branches_are_listed_for_people(cix: Cix, thread: str) -> None:
    cix("rollback", thread, "--to", "2")
    head, main, back = cix("branches", thread).stdout.splitlines()
    assert head.split() == ["id", "turns", "state", "made", "name"]
    assert main.split()[-1] == "main"
    assert (back.split()[0], back.split()[-3:]) == ("*", ["after", "turn", "2"])


@pytest.mark.req("CLI-1")
def test_what_was_done_is_said_to_people(cix: Cix, thread: str) -> None:
    fork = cix("fork", thread, "--at", "1").stdout
    assert fork.endswith("goes on after turn 1; write to it with --branch\n")
    assert "is active now" in cix("switch", thread, fork.split()[1]).stdout
    assert "is active now and goes on after turn 0" in cix("rollback", thread, "--to", "0").stdout


@pytest.mark.req("CLI-1")
@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["fork", "last", "--at", "9"], 2, "has no turn 9; its turns are 1 to 3."),
        (["fork", "last", "--at", "1", "--state", "1"], 2, "--at and --state cannot be used together."),
        (["fork", "last", "--at", "one"], 2, "--at"),
        (["fork", "last", "--state", "99"], 2, "99"),
        (["rollback", "last"], 2, "A rollback needs exactly one target."),
        (["rollback", "last", "--to", "1", "--state", "1"], 2, "A rollback needs exactly one target."),
        (["rollback", "last", "--to", "9"], 2, "has no turn 9"),
        (["switch", "last", "nowhere"], 1, "There is no branch nowhere."),
        (["switch", "last"], 2, "Missing argument"),
        (["show", "last", "--branch", "nowhere"], 1, "There is no branch nowhere."),
        (["ask", "x", "--session", "last", "--branch", "nowhere"], 1, "There is no branch nowhere."),
        (["unpin", "last", "1"], 1, "There is no pinned fact 1; there are 0."),
        (["pin", "last", " "], 2, "A pinned fact cannot be blank."),
        (["pins", "nothing-like-it"], 1, "There is no conversation nothing-like-it."),
    ],
)
def test_what_is_wrong_is_said_in_words_and_nothing_changes(
    cix: Cix, thread: str, arguments: list[str], code: int, words: str
) -> None:
    done = cix(*arguments)
    assert (done.exit_code, done.stdout) == (code, "")
    assert words in done.stderr
    assert len(cix.json("branches", thread)["branches"]) == 1
    assert questions(cix) == ["a", "b", "c"]


# --- pins ---


@pytest.mark.req("CLI-1")
def test_facts_are_pinned_and_let_go(cix: Cix, thread: str) -> None:
    assert cix("pins", thread).stderr == "Nothing is pinned.\n"
    cix("pin", thread, "tea, not coffee")
    pinned = cix.json("pin", thread, "in the morning")
    assert pinned == {
        "thread_id": thread,
        "branch_id": active(cix),
        "pins": [{"n": 1, "fact": "tea, not coffee"}, {"n": 2, "fact": "in the morning"}],
    }
    rows = [line.split(maxsplit=1) for line in cix("pins", thread).stdout.splitlines()]
    assert [(n, fact.strip()) for n, fact in rows[1:]] == [("1", "tea, not coffee"), ("2", "in the morning")]
    assert [one["fact"] for one in cix.json("unpin", thread, "1")["pins"]] == ["in the morning"]


@pytest.mark.req("CLI-1")
def test_pins_belong_to_their_branch(cix: Cix, thread: str) -> None:
    fork = cix.json("fork", thread)["branch_id"]
    cix("pin", thread, "only there", "--branch", fork)
    assert cix.json("pins", thread)["pins"] == []
    assert [one["fact"] for one in cix.json("pins", thread, "--branch", fork)["pins"]] == ["only there"]


@pytest.mark.req("TURN-15")
@pytest.mark.parametrize("command", [["rollback", "--to"], ["fork", "--at"]], ids=" ".join)
def test_pins_stay_when_one_goes_back_to_a_turn(cix: Cix, thread: str, command: list[str]) -> None:
    cix("pin", thread, "tea, not coffee")
    for seq in ("2", "1", "0"):
        branch = cix.json(command[0], thread, command[1], seq)["branch_id"]
        pins = cix.json("pins", thread, "--branch", branch)["pins"]
        assert [one["fact"] for one in pins] == ["tea, not coffee"], seq
