"""Finding the past at the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.doors.cix import Cix
from tests.doors.test_cli_import import lines

SAID = [
    {"role": "user", "content": "My sister's boat is called Petrichor.", "name": "Ann", "id": "a1"},
    {"role": "assistant", "content": "A lovely name for a boat.", "name": "Bob", "id": "a2"},
    {"role": "user", "content": "We decided to sail to Trieste in June.", "name": "Ann", "id": "a3"},
    {"role": "assistant", "content": "```python\ndef sail(to):\n    return to\n```", "name": "Bob", "id": "a4"},
]


def imported(cix: Cix, folder: Path) -> str:
    dated = [{**said, "created_at": f"2023-05-0{place}T10:00:00Z"} for place, said in enumerate(SAID, start=1)]
    (done,) = cix.json("import", lines(folder / "talk.jsonl", dated))["sessions"]
    thread_id: str = done["thread_id"]
    return thread_id


@pytest.mark.req("RETRIEVE-9", "CLI-1")
def test_a_search_prints_hits_in_the_agreed_shape(cix: Cix, tmp_path: Path) -> None:
    thread = imported(cix, tmp_path)
    found = cix.json("search", "What is my sister's boat called?", "--session", thread)
    assert set(found) == {"hits", "tokens"}
    first = found["hits"][0]
    assert set(first) >= {
        *("thread_id", "turn_id", "turn_seq", "chunk_id", "role", "score", "text"),
        *("offsets", "type", "created_at", "external_ids"),
    }
    assert (first["text"], first["role"], first["external_ids"]) == (SAID[0]["content"], "user", ["a1"])
    assert (first["thread_id"], first["turn_seq"], first["offsets"]) == (thread, 1, [0, len(SAID[0]["content"])])
    assert first["created_at"] == "2023-05-01T10:00:00Z"
    packed = cix.json("search", "the boat", "--session", thread, "--budget", "16")
    assert 0 < packed["tokens"] <= 16
    shown = cix("search", "boat")
    assert shown.exit_code == 0
    assert SAID[0]["content"] in shown.stdout
    assert "Ann, 2023-05-01" in shown.stdout
    assert f"turn 1 of {thread}, chunk {first['chunk_id']}" in shown.stdout, "what `cix ask --attach` takes"


@pytest.mark.req("RETRIEVE-5", "CLI-1")
def test_filters_leave_only_what_they_admit(cix: Cix, tmp_path: Path) -> None:
    thread = imported(cix, tmp_path)

    def ids(*options: str) -> set[str]:
        hits = cix.json("search", "boat sail Trieste", *options)["hits"]
        return {external for hit in hits for external in hit["external_ids"]}

    assert ids() == {"a1", "a2", "a3", "a4"}
    assert ids("--role", "user") == {"a1", "a3"}
    assert ids("--type", "code") == {"a4"}
    assert ids("--since", "2023-05-03") == {"a3", "a4"}
    assert ids("--until", "2023-05-02T00:00:00Z") == {"a1"}
    assert ids("--user", "somebody") == set()
    fork = cix.json("fork", thread, "--at", "1")["branch_id"]
    assert ids("--session", thread, "--branch", fork) == {"a1", "a2"}


@pytest.mark.req("CLI-1")
def test_what_is_wrong_with_a_search_is_said(cix: Cix, tmp_path: Path) -> None:
    imported(cix, tmp_path)
    for options, said in (
        (("search", " "), "query is empty"),
        (("search", "x", "--type", "Poem"), "Explanation"),
        (("search", "x", "--role", "robot"), "assistant"),
        (("search", "x", "--since", "soon"), "2026-05-31"),
        (("search", "x", "--branch", "main"), "--session"),
        (("search", "x", "--session", "nowhere"), "nowhere"),
    ):
        done = cix(*options)
        assert done.exit_code in (1, 2), options
        assert said in done.stderr, done.stderr
    assert "Nothing was found" in cix("search", "xylophone", "--session", "last").stderr


@pytest.mark.req("RETRIEVE-9", "CLI-1")
def test_a_chunk_is_attached_to_a_question(cix: Cix, tmp_path: Path) -> None:
    cix.echo()
    imported(cix, tmp_path)
    chunk = cix.json("search", "Petrichor")["hits"][0]["chunk_id"]
    turn = cix.ask("Translate it.", "--attach", chunk)
    held = cix.json("context", turn["turn_id"])
    assert held["plan"]["retrieved"][0][0] == chunk
    assert SAID[0]["content"] in json.dumps(held["messages"])
    assert held["matches"]
    failed = cix("ask", "Translate it.", "--attach", "nothing")
    assert failed.exit_code == 1
    assert "cix search" in failed.stderr


@pytest.mark.req("RETRIEVE-2", "CLI-1")
def test_the_index_is_completed_and_made_anew(cix: Cix, tmp_path: Path) -> None:
    imported(cix, tmp_path)
    before = cix.json("search", "boat")
    assert cix.json("reindex") == {"turns": 0, "vectors": 0, "switched": False, "memories": 0}
    assert "Nothing is missing" in cix("reindex").stderr
    assert cix.json("rebuild")["turns"] == 2
    assert cix.json("search", "boat") == before
    assert cix.json("doctor")["ok"]


@pytest.mark.req("RETRIEVE-9")
def test_an_earlier_question_does_not_outrank_the_text_that_answers_it(cix: Cix) -> None:
    cix.script("Noted.", "I do not know.")
    source, question = (
        "The budget for the Lisbon office is 40,000 euros.",
        "How much money does the office in Lisbon get?",
    )
    cix.ask(source)
    cix.ask(question)
    cix.ask(question, "--session", "last")
    found = [hit["text"] for hit in cix.json("search", question)["hits"]]
    assert found.index(source) < found.index(question)


@pytest.mark.req("RETRIEVE-9")
@pytest.mark.parametrize("searched", ["the name of the boat", "What is the name of the boat?"])
def test_questions_without_a_mark_and_wrong_answers_come_after_the_source(cix: Cix, searched: str) -> None:
    guess = "I do not know the name of the boat. The name of the boat may be Titanic."
    cix.script({"when": "name of", "text": guess}, "Noted.")
    source = "Our boat is called Mirabelle and it lies in Trieste."
    cix.ask(source)
    cix.ask("what is the name of the boat")
    cix.ask("Tell me the name of the boat", "--session", "last")
    found = [hit["text"] for hit in cix.json("search", searched)["hits"]]
    assert {guess, "what is the name of the boat", "Tell me the name of the boat"}.isdisjoint(
        found[: found.index(source)]
    )
    assert guess in found, "it is still found"


@pytest.mark.req("RETRIEVE-9")
def test_an_answer_comes_first_where_nothing_was_stated(cix: Cix) -> None:
    cix.script("The default port of the database is 5432.")
    cix.ask("What is the default port of the database?")
    found = [hit["text"] for hit in cix.json("search", "default port of the database")["hits"]]
    assert found[0] == "The default port of the database is 5432."
