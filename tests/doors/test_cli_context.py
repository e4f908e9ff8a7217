"""``cix context``: what the model saw, at the command line."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from contextinfinity.cli.prompt_commands import print_explained
from contextinfinity.domain.ids import new_id
from contextinfinity.domain.plan import LeftOut, Plan, PlanSection
from contextinfinity.domain.turn import Usage
from contextinfinity.engine.explain import Explained, Quoted
from tests.doors.cix import CONFIG, Cix


@pytest.fixture
def turns(cix: Cix) -> list[str]:
    """The turns of a conversation."""
    cix.script("Answer one. " * 20, "Answer two. " * 20, "Answer three. " * 20)
    first = cix.ask("one")
    cix("pin", "last", "Answers are in metres.")
    return [first["turn_id"], *(cix.ask(text, "--session", "last")["turn_id"] for text in ("two", "three"))]


def facts(cix: Cix, *arguments: str) -> list[str]:
    done = cix("context", *arguments)
    assert done.exit_code == 0, done.stderr
    return done.stderr.splitlines()


@pytest.mark.req("CTX-10", "CLI-1")
def test_the_parts_of_a_request_are_listed_with_their_tokens(cix: Cix, turns: list[str]) -> None:
    done = cix("context", turns[2])
    head, *rows = [line.split() for line in done.stdout.splitlines()]
    assert head == ["section", "tokens", "from"]
    assert [row[0] for row in rows] == ["system", "pins", "turns", "message", "all"]
    assert " ".join(rows[2]).endswith("turns 1 to 2")
    assert " ".join(rows[3]).endswith("turn 3")
    counts = [int(next(word for word in row if word.isdigit())) for row in rows]
    assert counts[-1] == sum(counts[:-1])
    told = done.stderr.splitlines()
    assert told[0] == f"turn {turns[2]}, request 0, scripted main"
    assert "tokens in" in told[1]
    assert told[-1] == "rebuilt: identical to what was sent"


@pytest.mark.req("CTX-10")
def test_last_is_the_last_turn_of_the_last_conversation(cix: Cix, turns: list[str]) -> None:
    assert facts(cix, "last")[0].startswith(f"turn {turns[2]},")
    cix("chat", stdin="")
    assert cix.json("context", "last")["turn_id"] == turns[2]


@pytest.mark.req("CTX-10")
def test_programs_get_all_of_it(cix: Cix, turns: list[str]) -> None:
    told = cix.json("context", turns[1])
    assert told["matches"] is True
    assert told["removed"] == []
    assert [section["name"] for section in told["plan"]["sections"]] == [
        "system",
        "pins and memories",
        "turns",
        "message",
    ]
    assert told["plan"]["epoch_reason"] == "pin"
    assert told["plan"]["budget"]["model_limit"] == 128_000
    assert told["messages"][0]["blocks"][0]["text"] == "one"
    assert told["messages"][-1]["blocks"][0]["text"] == "two"
    assert len(told["plan"]["request_sha256"]) == 64


@pytest.mark.req("CTX-10")
def test_the_whole_request_can_be_printed(cix: Cix, turns: list[str]) -> None:
    done = cix("context", turns[1], "--body")
    body = json.loads(done.stdout)
    assert body == cix.json("context", turns[1])["body"]
    assert body["prompt"]["messages"][-1]["blocks"][0]["text"] == "two"
    assert "- Answers are in metres." in body["prompt"]["system"][1]


@pytest.mark.req("CTX-10", "FILES-5")
def test_what_repeats_the_request_before_is_told(cix: Cix, turns: list[str]) -> None:
    assert "0% repeat the beginning of the request before" in facts(cix, turns[0])
    assert "new prompt prefix: first" in facts(cix, turns[0])
    assert "new prompt prefix: pin" in facts(cix, turns[1])
    last = facts(cix, turns[2])
    assert not any("a new front" in line for line in last)
    (share,) = [int(line.split("%")[0]) for line in last if "% repeat" in line]
    assert share > 50


@pytest.mark.req("CTX-10")
def test_two_requests_are_compared(cix: Cix, turns: list[str]) -> None:
    assert "100% repeat the beginning of the other request" in facts(cix, "last", "--compare", turns[2])
    told = cix.json("context", turns[2], "--compare", turns[0])
    assert 0 < told["shared_bytes"] < told["total_bytes"] / 2


@pytest.mark.req("CTX-10")
def test_the_lines_that_differ_from_another_request_are_printed(cix: Cix, turns: list[str]) -> None:
    printed = cix("context", turns[1], "--compare", turns[0]).stdout.splitlines()
    assert printed[-1] == "+two"
    assert "+- Answers are in metres." in printed
    assert " one" in printed, "a line that both have"
    assert "-two" in cix("context", turns[0], "--compare", turns[1]).stdout.splitlines()
    assert not [line for line in cix("context", "last", "--compare", turns[2]).stdout.splitlines() if line[:1] in "+-"]


@pytest.mark.req("CTX-10", "BUDGET-3")
def test_what_was_left_out_is_told(cix: Cix) -> None:
    cix.script("A long answer. " * 200)
    thread = cix.ask("one")["thread_id"]
    cix.script({"error": {"code": "size", "message": "Too long."}}, "Better.")
    assert cix.ask("two", "--session", thread)["text"] == "Better."
    told = facts(cix, "last")
    assert "shrunk: long texts up to turn 1: 50% of each" in told
    assert "new prompt prefix: shrunk" in told
    assert any(line.startswith("turn ") and ", request 1, " in line for line in told), "the one that was answered"


@pytest.mark.req("CTX-10")
def test_the_turns_behind_a_summary_and_an_artifact_are_named_and_each_reason_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    left_out = (LeftOut(what="turn 9, chunk 9", reason="a duplicate is included"),) * 2
    explained = Explained(
        thread_id=new_id(),
        branch_id=new_id(),
        turn_id=new_id(),
        step_index=0,
        provider="scripted",
        model="main",
        usage=Usage(),
        plan=Plan(sections=(PlanSection(name="summary", tokens=69, source=5),), left_out=left_out),
        system=(),
        messages=(),
        body={},
        matches=True,
        quoted=tuple(
            Quoted(chunk_id=new_id(), role="user", text="x", score=0.5, turn_seq=seq, created_at=datetime.now(UTC))
            for seq in (2, 0)
        ),
    )
    print_explained(explained)
    shown = capsys.readouterr()
    assert "turns 1 to 5" in shown.out
    assert "artifact from turn 2, score 0.50" in shown.err
    assert "artifact from another conversation, score 0.50" in shown.err
    assert shown.err.count("left out: turn 9, chunk 9: a duplicate is included") == 1


@pytest.mark.req("SAFE-1", "CTX-10")
def test_what_is_hidden_from_the_model_is_hidden_here_too(cix: Cix) -> None:
    cix.script("Fine.")
    config = CONFIG.replace("[general]\n", "[general]\nredact_patterns = ['\\d{4}-\\d{4}']\n")
    (cix.folder / "config.toml").write_text(config, encoding="utf-8")
    cix.ask("My number is 1234-5678.")
    body = cix("context", "last", "--body").stdout
    assert "My number is [redacted]." in body
    assert "1234" not in body
    assert cix.said() == [("My number is 1234-5678.", "Fine.")]
    assert facts(cix, "last")[-1] == "rebuilt: identical to what was sent"


@pytest.mark.req("CTX-10")
def test_a_turn_that_is_not_there_is_said_in_words(cix: Cix) -> None:
    cix.script("Fine.")
    nothing = cix("context", "last")
    assert nothing.exit_code != 0
    cix.ask("Hello.")
    unknown = cix("context", "0192f0c1-2345-7abc-8def-000000000000")
    assert unknown.exit_code != 0
    assert "There is no turn 0192f0c1-2345-7abc-8def-000000000000." in unknown.stderr


@pytest.mark.req("CLI-1")
def test_a_turn_is_named_by_last_by_nothing_or_by_a_part_of_its_id(cix: Cix) -> None:
    first = cix.ask("Hello")["turn_id"]
    last = cix.ask("Hello again", "--session", "last")["turn_id"]
    for arguments, turn in (([], last), (["last"], last), ([first[-8:]], first)):
        assert cix.json("context", *arguments)["turn_id"] == turn
    assert last in cix("show", "last").stdout
    assert "There is no turn nope. Use at least 6 characters of the id" in cix("context", "nope").stderr


@pytest.mark.req("SAFE-1", "CTX-10")
def test_a_named_detector_hides_and_the_plan_names_the_span(cix: Cix) -> None:
    cix.script("Fine.")
    config = CONFIG.replace("[general]\n", "[general]\nredact = ['emails', 'payment_cards']\n")
    (cix.folder / "config.toml").write_text(config, encoding="utf-8")
    cix.ask("Write to ann@example.com.")
    assert "Write to [redacted]." in cix("context", "last", "--body").stdout
    [hidden] = cix.json("context", "last")["redactions"]
    assert (hidden["section"], hidden["start"], hidden["end"]) == ("message", 9, 24)
    shown = cix("context", "last")
    assert f"redacted: message, text {hidden['text']}, characters 9–24" in shown.stdout + shown.stderr


@pytest.mark.req("SAFE-1")
def test_an_unknown_detector_stops_the_request(cix: Cix) -> None:
    cix.script("Fine.")
    config = CONFIG.replace("[general]\n", "[general]\nredact = ['passports']\n")
    (cix.folder / "config.toml").write_text(config, encoding="utf-8")
    refused = cix("ask", "Hello.")
    assert refused.exit_code != 0
    assert "general.redact: there is no redactor passports. Use one of: api_keys, emails" in refused.stderr
