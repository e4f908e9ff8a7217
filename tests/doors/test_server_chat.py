"""``POST /chat``: a session that goes on, lives for a day, and never fails for its id or for want of the ledger."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest

from contextinfinity.compat.conversation_memory import ConversationMemory
from contextinfinity.domain.ids import is_id
from contextinfinity.storage.sqlite.connection import connect
from tests.doors.cix import Cix
from tests.doors.server import CONFIG, Server, pause, problem

FOLDS_EARLY = """\
[compaction]
compaction_trigger_tokens = 1200
verbatim_window_tokens = 300
[retention]
history_limit = 3
conversation_ttl_hours = 2.0
[server]
max_message_chars = 400
"""
STATELESS = "[retention]\nstateless = true\n"


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that folds early, loads three turns, and keeps a turn for two hours."""
    made = Server(tmp_path_factory.mktemp("small"), FOLDS_EARLY)
    yield made
    made.stop()


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Server]:
    """A server of one's own, that ends quickly."""
    made = Server(tmp_path, "[server]\nshutdown_seconds = 1.0\n")
    assert made.http.get("/healthz").json()["status"] == "ready"  # its ledger is there
    yield made
    made.stop()


ANONYMOUS = "user_id=anonymous"
"""Whose chats are those of callers who name no user."""


def chat(server: Server, query: str, session_id: Any = None, **more: Any) -> dict[str, Any]:
    """Ask, and return the answer."""
    given = {} if session_id is None else {"session_id": session_id}
    answer = server.post("/chat", {"query": query, **given, **more})
    assert answer.status_code == 200, answer.text
    told: dict[str, Any] = answer.json()
    return told


def backdate(server: Server, session_id: str, query: str, hours: float) -> None:
    """Put a turn into a session as if it had been said so long ago."""
    moment = (datetime.now(UTC) - timedelta(hours=hours)).isoformat().replace("+00:00", "Z")
    names, row = (
        "session_id, user_id, query_text, response_text, created_at",
        (session_id, "anonymous", query, "r", moment),
    )
    server.post(
        f"/threads/{session_id}/commit?{ANONYMOUS}"
    )  # the ledger takes no row beside an answer that waits for its commit
    raw = connect(str(server.folder / "ledger.db"))
    raw.execute(f"INSERT INTO conversation_turns ({names}) VALUES (?, ?, ?, ?, ?)", row)
    raw.close()


@contextmanager
def locked(server: Server) -> Iterator[None]:
    """Lock the ledger as another process would."""
    other = connect(str(server.folder / "ledger.db"))
    other.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        other.execute("ROLLBACK")
        other.close()


@pytest.mark.req("API-4")
def test_an_answer_says_what_was_asked_answered_and_meant(server: Server) -> None:
    told = chat(server, "Who is the president of France?", role="editor")
    assert set(told) == {"query", "message", "data", "intent", "confidence", "session_id", "metadata", "error"}
    assert (told["query"], told["data"], told["error"]) == ("Who is the president of France?", [], None)
    assert "president of France" in told["message"]
    assert (told["intent"], chat(server, "The wall is blue.")["intent"]) == ("factual", "other")
    assert 0 < chat(server, "The wall is blue.")["confidence"] < told["confidence"] <= 1
    facts = told["metadata"]
    said = ("intent", "confidence", "result_count", "turns_loaded", "turn_number", "message_type", "outcome", "role")
    expected = ("factual", told["confidence"], 0, 0, 1, "answer", "completed", "editor")
    assert tuple(facts[name] for name in said) == expected
    assert facts["degraded"] is False


@pytest.mark.req("API-5")
def test_without_a_session_id_a_new_uuid_is_given_each_time(server: Server) -> None:
    made = {chat(server, "Hello")["session_id"] for _ in range(3)}
    assert len(made) == 3
    assert all(str(UUID(each)) == each for each in made)


@pytest.mark.req("API-5")
def test_an_unknown_uuid_is_used_as_it_is_given(server: Server) -> None:
    mine = str(uuid4())
    first, second = chat(server, "Hello", mine), chat(server, "Hello again", mine)
    assert [told["session_id"] for told in (first, second)] == [mine, mine]
    assert [told["metadata"]["turn_number"] for told in (first, second)] == [1, 2]


@pytest.mark.req("API-5")
@pytest.mark.parametrize(
    "bad", ["", "x", "last", "new", "../etc", "1" * 36, "x" * 10_000, "831eef67-cbaa-4b37-be07-7b4061506290-", "é"]
)
def test_a_session_id_that_is_none_is_replaced(server: Server, bad: str) -> None:
    told = chat(server, "Hello", bad)
    assert (told["session_id"] != bad, is_id(told["session_id"]), told["error"]) == (True, True, None)
    assert chat(server, "Hello again", told["session_id"])["metadata"]["turn_number"] == 2


@pytest.mark.req("API-5")
def test_a_uuid_that_is_new_to_many_at_once_is_one_session(server: Server) -> None:
    mine = str(uuid4())
    with ThreadPoolExecutor(8) as pool:
        told = list(pool.map(lambda number: chat(server, f"Hello {number}", mine), range(8)))
    assert {each["session_id"] for each in told} == {mine}
    assert sorted(each["metadata"]["turn_number"] for each in told) == list(range(1, 9))


@pytest.mark.req("CHATMEM-8")
def test_so_many_of_the_newest_turns_are_loaded_and_no_more(server: Server, small: Server) -> None:
    mine = [chat(server, "Hello")["session_id"], chat(small, "Hello")["session_id"]]
    loaded = [chat(server, f"Number {number}", mine[0])["metadata"]["turns_loaded"] for number in range(22)]
    assert loaded == [*range(1, 21), 20, 20]
    assert [chat(small, "More", mine[1])["metadata"]["turns_loaded"] for _ in range(5)] == [1, 2, 3, 3, 3]


@pytest.mark.req("CHATMEM-4", "CHATMEM-5")
def test_a_turn_of_more_than_a_day_ago_is_not_there_and_a_clean_up_by_hand_deletes_it(own: Server) -> None:
    mine, gone = chat(own, "now")["session_id"], str(uuid4())
    backdate(own, mine, "heron", hours=24.1)
    backdate(own, mine, "stork", hours=23.9)
    backdate(own, gone, "heron", hours=24.1)
    assert own.said(mine) == ["now", "stork"]
    assert chat(own, "Hello", mine)["metadata"]["turns_loaded"] == 2
    result = Cix(own.folder).json("cleanup")
    assert (result["sessions_deleted"], result["errors"]) == (1, [])
    problem(own.http.get(f"/threads/{gone}?{ANONYMOUS}"), 404)
    told = chat(own, "Hello", gone)
    assert (told["session_id"], told["metadata"]["turns_loaded"]) == (gone, 0)


@pytest.mark.req("CHATMEM-4")
def test_how_long_a_turn_of_a_chat_lives_is_a_setting(small: Server) -> None:
    mine = chat(small, "now")["session_id"]
    backdate(small, mine, "heron", hours=2.1)
    backdate(small, mine, "stork", hours=1.9)
    assert small.said(mine) == ["now", "stork"]


@pytest.mark.req("CHATMEM-4")
def test_a_session_whose_turns_are_all_past_their_time_goes_on_without_them(own: Server) -> None:
    mine = str(uuid4())
    backdate(own, mine, "My bird is a heron.", hours=30)
    told = chat(own, "Which bird do I have?", mine)
    assert (told["session_id"], told["metadata"]["turns_loaded"], told["error"]) == (mine, 0, None)
    context = own.http.get(f"/threads/{mine}/turns/{told['metadata']['turn_id']}/context?{ANONYMOUS}").text
    assert "heron" not in context
    assert own.said(mine) == ["Which bird do I have?"]


@pytest.mark.req("CHATMEM-6", "CHATMEM-7")
def test_with_the_ledger_away_answers_go_on_and_are_written_once_when_it_is_back(own: Server) -> None:
    known, unknown = chat(own, "before")["session_id"], str(uuid4())
    with locked(own):
        first = chat(own, "first", known)
        anns = chat(own, "What was said?", known, user_id="ann")
        second = chat(own, "second", known)
        others = [chat(own, "third", unknown), chat(own, "fourth")]
        assert own.http.get("/healthz").json()["status"] == "degraded"
    for told in (first, second, *others):
        assert (told["metadata"]["degraded"], told["metadata"]["turn_number"], told["error"]) == (True, None, None)
    assert (first["session_id"], second["session_id"], others[0]["session_id"]) == (known, known, unknown)
    assert first["metadata"]["turns_loaded"] < second["metadata"]["turns_loaded"]
    assert (anns["session_id"] in (known, unknown), anns["metadata"]["turns_loaded"]) == (False, 0)
    while own.http.get("/healthz").json()["status"] != "ready":
        pause()
    assert own.said(known) == ["before", "first", "second"]
    assert (own.said(unknown), own.said(others[1]["session_id"])) == (["third"], ["fourth"])
    after = chat(own, "after", unknown)["metadata"]
    assert (after["degraded"], after["turn_number"], after["turns_loaded"]) == (False, 2, 1)
    failures = [line for line in own.log() if line["level"] in ("warning", "error") and "operation" in line]
    assert failures
    assert all(line["session_id"] and line["user_id"] and line["operation"] and line["error"] for line in failures)
    assert {"create_session", "accept"} <= {line["operation"] for line in failures}


@pytest.mark.req("REWRITE-4", "API-4")
def test_a_doubt_is_asked_back_and_the_choice_is_answered(server: Server) -> None:
    mine = chat(server, "Google was founded by Larry Page and Sergey Brin.")["session_id"]
    asked = chat(server, "Where was he born?", mine)
    assert (asked["metadata"]["message_type"], asked["metadata"]["outcome"]) == ("clarification", "clarification")
    assert asked["metadata"]["candidates"] == ["Larry Page", "Sergey Brin"]
    assert all(name in asked["message"] for name in ("Larry Page", "Sergey Brin", "?"))
    chosen = chat(server, "the second one", mine)
    assert (chosen["metadata"]["message_type"], chosen["metadata"]["candidates"]) == ("answer", [])
    place = f"/threads/{mine}/turns/{chosen['metadata']['turn_id']}/context?{ANONYMOUS}"
    assert "Sergey Brin" in server.http.get(place).json()["plan"]["contextualised"]


@pytest.mark.req("API-4")
def test_an_answer_that_fails_is_told_as_one_and_the_session_goes_on(tmp_path: Path) -> None:
    other = tmp_path / "other.toml"
    other.write_text(CONFIG.replace('default_model = "echo"', 'default_model = "fails"'), encoding="utf-8")
    server = Server(tmp_path, "", "--config", str(other))
    told = chat(server, "Hello")
    server.stop()
    assert (told["message"], told["error"], told["metadata"]["message_type"]) == ("", "Out of credit.", "error")
    assert (told["metadata"]["outcome"], is_id(told["session_id"])) == ("failed", True)


@pytest.mark.req("API-4", "CHATMEM-2")
def test_what_a_query_is_for_is_kept_with_its_turn(own: Server) -> None:
    told = chat(own, "Who is the president of France?", user_id="ann", role="editor")
    with ConversationMemory(own.folder, patience=60) as memory:
        (turn,) = memory.get_session_history(told["session_id"])
    assert (turn.query_text, turn.response_text, turn.user_id, turn.turn_number) == (
        *("Who is the president of France?", told["message"], "ann"),
        1,
    )
    assert turn.metadata == {
        "intent": "factual",
        "confidence": told["confidence"],
        "result_count": 0,
        "role": "editor",
    }


@pytest.mark.req("API-4", "CHATMEM-2")
def test_a_follow_up_is_labelled_by_the_question_it_stands_for(server: Server) -> None:
    first = chat(server, "Who is Donald Trump?")
    mine = first["session_id"]
    told = chat(server, "who are his children", mine)
    assert (told["intent"], told["metadata"]["intent"]) == ("factual", "factual")
    assert told["confidence"] == told["metadata"]["confidence"] != chat(server, "The wall is blue.")["confidence"]
    with ConversationMemory(server.folder, patience=60) as memory:
        kept = memory.get_session_history(mine)[-1].metadata
    assert kept == {"intent": "factual", "confidence": told["confidence"], "result_count": 0}


@pytest.mark.req("API-4")
def test_a_question_asked_back_has_a_label_too(server: Server) -> None:
    mine = chat(server, "Google was founded by Larry Page and Sergey Brin.")["session_id"]
    asked = chat(server, "Where was he born?", mine)
    assert asked["metadata"]["outcome"] == "clarification"
    with ConversationMemory(server.folder, patience=60) as memory:
        kept = memory.get_session_history(mine)[-1].metadata
    assert kept == {"intent": asked["intent"], "confidence": asked["confidence"], "result_count": 0}


@pytest.mark.req("API-5")
def test_a_session_of_somebody_else_is_replaced_by_a_new_one(server: Server) -> None:
    theirs = chat(server, "My bird is a heron.", user_id="ann")["session_id"]
    told = chat(server, "Which bird do I have?", theirs, user_id="bob")
    assert (told["session_id"] != theirs, told["metadata"]["turns_loaded"], told["error"]) == (True, 0, None)
    assert server.said(theirs) == ["My bird is a heron."]
    assert server.http.delete(f"/threads/{theirs}?user_id=ann").status_code == 200
    gone = chat(server, "And now?", theirs, user_id="bob")
    assert (gone["session_id"] != theirs, is_id(gone["session_id"]), gone["error"]) == (True, True, None)
    assert chat(server, "I am back.", theirs, user_id="ann")["session_id"] == theirs


@pytest.mark.req("API-4")
def test_what_was_brought_back_of_the_past_is_told(small: Server) -> None:
    mine = chat(small, "My sister's boat is called Petrichor and lies in Trieste.")["session_id"]
    for number in range(12):
        chat(small, f"Tell me about stone {number}. " + f"Stone {number} is grey and heavy. " * 12, mine)
    small.post(f"/threads/{mine}/commit?{ANONYMOUS}")
    small.post(f"/threads/{mine}/fold?{ANONYMOUS}")
    told = chat(small, "What is the name of my sister's boat?", mine)
    assert any("Petrichor" in piece["text"] and piece["turn_seq"] == 1 for piece in told["data"])
    assert told["metadata"]["result_count"] == len(told["data"]) > 0
    with ConversationMemory(small.folder, patience=60) as memory:
        assert memory.get_session_history(mine)[-1].metadata["result_count"] == len(told["data"])


@pytest.mark.req("API-3", "CHATMEM-11")
@pytest.mark.parametrize(
    ("body", "status"),
    [
        *(({}, 422), ({"query": ""}, 422), ({"query": " \n\t"}, 422), ({"query": 5}, 422), ({"query": "a\x00b"}, 422)),
        *(({"query": "x" * 401}, 413), ({"query": "a", "user_id": "a/b"}, 422), ({"query": "a", "session": "x"}, 422)),
        *(({"query": "a", "user_id": "x" * 129}, 422), ({"query": "a", "role": "x" * 129}, 422)),
    ],
)
def test_a_query_that_breaks_a_rule_is_refused_and_nothing_is_made(small: Server, body: Any, status: int) -> None:
    mine = str(uuid4())
    problem(small.post("/chat", {"session_id": mine, **body}), status)
    problem(small.http.get(f"/threads/{mine}?{ANONYMOUS}"), 404)


@pytest.mark.req("API-15")
def test_a_query_that_comes_again_under_its_key_is_answered_once(server: Server) -> None:
    for given in ({}, {"session_id": str(uuid4())}, {"session_id": "none"}):
        body, key = {"query": "Hello", **given}, uuid4().hex
        told = [server.post("/chat", body, idempotency_key=key).json() for _ in range(3)]
        assert len({each["metadata"]["turn_id"] for each in told}) == 1
        assert server.said(told[0]["session_id"]) == ["Hello"]


@pytest.mark.req("API-10")
def test_whoever_does_not_say_who_they_are_is_anonymous_and_known_in_this_session_only(server: Server) -> None:
    named = f"user-{uuid4().hex}"
    nameless: tuple[dict[str, Any], ...] = ({}, {"user_id": ""}, {"user_id": None})
    for given, user in (({"user_id": named}, named), *((each, "anonymous") for each in nameless)):
        session_id = chat(server, "I live in Leeds.", **given)["session_id"]
        assert server.http.get(f"/threads/{session_id}?user_id={user}").json()["user_id"] == user
    for user, knows, where in ((named, True, {}), ("anonymous", False, {"tag": f"thread:{session_id}"})):
        while not (kept := server.http.get("/memories", params={"user_id": user, **where}).json()["memories"]):
            pause()
        assert all((len(memory["tags"]) == 1) is knows for memory in kept)
        told = chat(server, "Where do I live?", user_id=user)
        place = f"/threads/{told['session_id']}/turns/{told['metadata']['turn_id']}/context?user_id={user}"
        assert ("Leeds" in server.http.get(place).text) is knows


@pytest.mark.req("CHATMEM-13")
def test_a_setting_makes_chats_stateless_and_back_and_stored_turns_stay(tmp_path: Path) -> None:
    server = Server(tmp_path)
    mine = chat(server, "My bird is a heron.")["session_id"]
    server.stop()
    server = Server(tmp_path, STATELESS)
    told = [chat(server, "Which bird do I have?", mine) for _ in range(2)]
    fresh = chat(server, "Hello", "none")
    assert [(each["session_id"], each["metadata"]["turns_loaded"], each["error"]) for each in told] == [
        (mine, 0, None)
    ] * 2
    assert is_id(fresh["session_id"])
    listed = server.http.get("/threads", params={"user_id": "anonymous"}).json()["threads"]
    assert [thread["thread_id"] for thread in listed] == [mine]
    server.stop()
    server = Server(tmp_path)
    assert chat(server, "And now?", mine)["metadata"]["turns_loaded"] == 1
    assert server.said(mine) == ["My bird is a heron.", "And now?"]
    server.stop()


@pytest.mark.req("CHATMEM-4")
def test_a_chat_outlives_a_server_that_was_killed(own: Server) -> None:
    mine = chat(own, "Hello")["session_id"]
    own.restart()
    assert chat(own, "Hello again", mine)["metadata"]["turn_number"] == 2
    assert json.dumps(own.said(mine)) == '["Hello", "Hello again"]'
