"""Memories over HTTP: kept, found, put in other words, forgotten; each for its user alone."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from tests.doors.server import Server, problem


@pytest.mark.req("MEMORY-1")
def test_a_tag_may_name_a_thread_by_the_clients_own_id(server: Server) -> None:
    user, name = f"user-{uuid4().hex}", f"topic-{uuid4().hex[:8]}"
    ours = server.ask("Hello", name, user_id=user)["thread_id"]
    made = server.post("/memories", {"content": "The boat is blue.", "tags": [f"user:{user}", f"thread:{name}"]})
    assert (made.status_code, made.json()["tags"]) == (200, [f"user:{user}", f"thread:{ours}"])
    for tag in (f"thread:{name}", f"thread:{ours}"):
        for more in ({}, {"q": "Which colour is the boat?"}):
            listed = server.http.get("/memories", params={"user_id": user, "tag": tag, **more}).json()["memories"]
            assert [each["content"] for each in listed] == ["The boat is blue."], (tag, more)
    for params in ({"user_id": user, "tag": "thread:nowhere"}, {"user_id": "stranger", "tag": f"thread:{ours}"}):
        problem(server.http.get("/memories", params=params), 404)
        problem(server.http.get("/memories", params={**params, "q": "boat"}), 404)


@pytest.fixture
def user() -> str:
    """Someone of whom nothing is remembered yet."""
    return f"user-{uuid4().hex}"


def keep(server: Server, user: str, content: str, *tags: str) -> dict[str, Any]:
    answer = server.post("/memories", {"content": content, "tags": tags, "user_id": user})
    assert answer.status_code == 200, answer.text
    kept: dict[str, Any] = answer.json()
    return kept


def facts(server: Server, user: str, **query: Any) -> list[str]:
    page = server.http.get("/memories", params={"user_id": user, **query}).json()
    return [memory["content"] for memory in page["memories"]]


@pytest.mark.req("MEMORY-5")
def test_a_memory_is_kept_put_in_other_words_and_forgotten(server: Server, user: str) -> None:
    kept = keep(server, user, "The user likes tea.")
    assert (kept["tags"], kept["origin"], kept["source_turn"]) == ([f"user:{user}"], "person", None)
    place, who = f"/memories/{kept['id']}", {"user_id": user}
    edited = server.http.patch(place, params=who, json={"content": "The user likes rum."}).json()
    assert edited == {**kept, "content": "The user likes rum.", "valid_from": edited["valid_from"]}
    assert facts(server, user) == ["The user likes rum."]
    assert server.http.delete(place, params=who).json() == {"forgotten": kept["id"]}
    assert facts(server, user) == []
    problem(server.http.delete(place, params=who), 404)


@pytest.mark.req("MEMORY-1")
def test_a_tag_says_whose_a_memory_is_and_of_which_thread(server: Server, user: str) -> None:
    kept = server.post("/memories", {"content": "Of the user.", "tags": [f"user:{user}"]}).json()
    thread = server.ask("Hello", user_id=user)["thread_id"]
    shelved = keep(server, user, "Of the thread.", f"thread:{thread}")
    assert (kept["tags"], shelved["tags"]) == ([f"user:{user}"], [f"user:{user}", f"thread:{thread}"])
    assert facts(server, user, tag=f"thread:{thread}") == ["Of the thread."]
    for tag in ("user:somebody-else", "project:x", "thread:"):
        problem(server.post("/memories", {"content": "x y", "tags": [tag], "user_id": user}), 422)
    problem(server.post("/memories", {"content": "x y", "tags": [f"thread:{thread}"]}), 404)


@pytest.mark.req("MEMORY-2")
def test_memories_are_read_by_page_and_by_what_they_are_about(server: Server, user: str) -> None:
    said = ["The user plays the bassoon.", "The user likes rum.", "The user has a dog."]
    for fact in said:
        keep(server, user, fact)
    problem(server.http.get("/memories", params={"user_id": user, "after": "x"}), 422)
    first = server.http.get("/memories", params={"user_id": user, "limit": 2}).json()
    rest = server.http.get("/memories", params={"user_id": user, "limit": 2, "after": first["next"]}).json()
    assert [memory["content"] for memory in (*first["memories"], *rest["memories"])] == said[::-1]
    assert rest["next"] is None
    assert facts(server, user, q="Who plays the bassoon?", limit=1) == said[:1]
    exported = server.http.get("/memories/export", params={"user_id": user}).json()["memories"]
    assert [memory["content"] for memory in exported] == said[::-1]


@pytest.mark.req("MEMORY-6")
def test_another_users_memory_is_not_there(server: Server, user: str) -> None:
    kept = keep(server, user, "The user likes tea.")
    for place in (f"/memories/{kept['id']}", f"/memories/{uuid4()}", "/memories/nothing"):
        problem(server.http.delete(place), 404)
        problem(server.http.patch(place, json={"content": "The user likes rum."}), 404)
    assert facts(server, user) == ["The user likes tea."]
    assert kept["id"] not in server.http.get("/memories/export").text


@pytest.mark.parametrize(
    "body",
    [
        *({}, {"content": ""}, {"content": " \n"}, {"content": "x" * 501}, {"content": 5}, {"content": "a\x00b"}),
        *({"content": "a b", "tags": "user:x"}, {"content": "a b", "tags": ["x"] * 9}, {"content": "a b", "id": "x"}),
        {"content": "a b", "user_id": "a/b"},
    ],
)
def test_what_is_no_memory_is_refused(server: Server, body: dict[str, Any]) -> None:
    problem(server.post("/memories", body), 422)


@pytest.mark.req("MEMORY-1")
def test_what_is_remembered_is_known_in_the_next_conversation(server: Server, user: str) -> None:
    kept = keep(server, user, "The user lives in Leeds.")
    turn = server.ask("Where do I live?", user_id=user)
    context = server.http.get(f"/threads/-/turns/{turn['turn_id']}/context", params={"user_id": user}).text
    assert kept["content"] in context
