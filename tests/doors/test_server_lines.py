"""Branches, pins, folds, search and what the model saw, over HTTP."""

from __future__ import annotations

from uuid import uuid4

import pytest

from tests.doors.server import Server, problem

LONG = "What was said about the harbour and the ships in it. " * 40


def test_a_thread_is_made_read_and_given_a_title(server: Server) -> None:
    made = server.post("/threads", {"title": "Plans", "system": "Be brief.", "ttl_hours": 2}).json()
    path = f"/threads/{made['thread_id']}"
    seen = server.http.get(path).json()
    assert (seen["title"], seen["turns"], seen["branch_id"]) == ("Plans", 0, made["branch_id"])
    assert server.http.patch(path, json={"title": "Other plans"}).json()["title"] == "Other plans"
    assert server.http.patch(path, json={"title": None}).json()["title"] is None
    assert server.http.patch(path, json={}).json()["title"] is None


@pytest.mark.req("SAFE-4")
def test_a_deleted_thread_is_gone(server: Server) -> None:
    turn = server.ask("a")
    path = f"/threads/{turn['thread_id']}"
    deleted = server.http.delete(path).json()
    assert {name: value for name, value in deleted.items() if value is not None} == {
        "thread_id": turn["thread_id"],
        "conversations": 1,
        "turns": 1,
        "memories": 0,
        "remaining": [],
        "places": [],
    }
    for gone in (path, f"{path}/messages", f"{path}/turns/{turn['turn_id']}"):
        problem(server.http.get(gone), 404)
    problem(server.http.delete(path), 404)
    running, _ = server.hanging()
    problem(server.http.delete(f"/threads/{running['thread_id']}"), 409)
    server.post(f"/threads/{running['thread_id']}/turns/{running['turn_id']}/cancel")


@pytest.mark.req("LEDGER-8")
def test_one_forks_switches_and_rolls_back(server: Server) -> None:
    thread = server.ask("a")["thread_id"]
    server.ask("b", thread)
    fork = server.post(f"/threads/{thread}/fork", {"at": 1}).json()
    assert (fork["fork_seq"], fork["active"]) == (1, False)
    assert server.ask("x", thread, branch_id=fork["branch_id"])["turn_seq"] == 2
    assert server.said(thread) == ["a", "b"]
    assert server.post(f"/threads/{thread}/branches", {"active": fork["branch_id"]}).json()["active"]
    assert server.said(thread) == ["a", "x"]
    back = server.post(f"/threads/{thread}/rollback", {"to": 0}).json()
    assert (back["active"], server.said(thread)) == (True, [])
    branches = server.http.get(f"/threads/{thread}/branches").json()["branches"]
    assert [branch["active"] for branch in branches] == [False, False, True]
    problem(server.post(f"/threads/{thread}/fork", {"at": 9}), 422)
    problem(server.post(f"/threads/{thread}/rollback", {}), 422)
    problem(server.post(f"/threads/{thread}/branches", {"active": "main"}), 404)
    assert server.http.post(f"/threads/{thread}/fork").status_code == 200


def test_facts_are_pinned_and_let_go(server: Server) -> None:
    path = f"/threads/{server.ask('a')['thread_id']}/pins"
    for fact in ("one", "two", "one"):
        pins = server.post(path, {"fact": fact}).json()["pins"]
    assert [pin["fact"] for pin in pins] == ["one", "two"]
    assert [pin["fact"] for pin in server.http.delete(path, params={"n": 1}).json()["pins"]] == ["two"]
    assert [pin["n"] for pin in server.http.get(path).json()["pins"]] == [1]
    problem(server.http.delete(path, params={"n": 7}), 404)
    problem(server.post(path, {"fact": "  "}), 422)


def test_a_fold_is_previewed_made_and_undone(server: Server) -> None:
    thread = server.ask(f"0: {LONG}")["thread_id"]
    for number in range(1, 12):
        server.ask(f"{number}: {LONG}", thread)
    assert server.http.post(f"/threads/{thread}/commit").json()["pending"] == 0
    seen = server.post(f"/threads/{thread}/fold", {"preview": True}).json()
    made = server.post(f"/threads/{thread}/fold").json()
    assert (seen["committed"], made["committed"], made["summary"]) == (False, True, seen["summary"])
    undone = server.http.post(f"/threads/{thread}/unfold").json()
    assert (undone["case"], undone["covers_turn_seq"]) == ("unfold", 0)
    assert problem(server.http.post(f"/threads/{thread}/unfold"), 409)["code"] == "refused"


def test_what_was_said_is_found_at_once(server: Server) -> None:
    word = f"heron{uuid4().hex[:8]}"
    turn = server.ask(f"The code word is {word}.")
    hits = server.http.get("/search", params={"q": word}).json()["hits"]
    assert turn["turn_id"] in [hit["turn_id"] for hit in hits]
    within = server.http.get("/search", params={"q": word, "thread_id": turn["thread_id"], "role": "user"}).json()
    assert {hit["role"] for hit in within["hits"]} == {"user"}
    assert server.http.get("/search", params={"q": word, "since": "2999-01-01T00:00:00Z"}).json()["hits"] == []
    assert server.http.get("/search", params={"q": word, "budget": 40}).json()["tokens"] <= 40


def test_what_the_model_saw_is_told(server: Server) -> None:
    turn = server.ask("Who is Ada?")
    path = f"/threads/{turn['thread_id']}/turns/{turn['turn_id']}"
    told = server.http.get(f"{path}/context").json()
    assert told["matches"]
    assert "Who is Ada?" in str(told["messages"])
    assert told["plan"]["sections"]
    problem(server.http.get(f"{path}/context", params={"step": 5}), 404)
    other = server.ask("b")["thread_id"]
    problem(server.http.get(f"/threads/{other}/turns/{turn['turn_id']}"), 404)
    problem(server.http.get(f"/threads/{other}/turns/nothing"), 404)
