"""Talking over HTTP: a stream that survives, a message that is said once."""

from __future__ import annotations

import base64
import resource
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import uuid4

import pytest

from tests.doors.server import SHOWN, Server, problem, words

PIXEL = b"\x89PNG\r\n\x1a\n a picture"
TURN = {"thread_id", "branch_id", "turn_id", "turn_seq", "phase", "outcome", "text", "usage", "model", "created_at"}


@pytest.mark.req("API-1")
def test_new_makes_a_thread_whose_id_is_in_the_first_event(server: Server) -> None:
    with server.stream("Who is Ada?") as heard:
        events = [event for event in heard if event.name]
    first, last = events[0], events[-1]
    assert (first.name, first.data["found"], first.data["turns_loaded"], first.data["turn_seq"]) == (
        "turn",
        False,
        0,
        1,
    )
    assert set(first.data) == {"thread_id", "branch_id", "turn_id", "turn_seq", "found", "turns_loaded", "model"}
    assert (last.name, set(last.data)) == ("done", TURN | {"error"})
    assert last.data["text"] == words(events)
    assert [event.name for event in events[1:2]] == ["step"]
    assert server.said(first.data["thread_id"]) == ["Who is Ada?"]


@pytest.mark.req("API-1")
def test_an_id_of_the_callers_own_makes_a_thread_also_where_it_is_a_uuid(server: Server) -> None:
    for mine in (str(uuid4()), f"desk-{uuid4().hex}"):
        problem(server.http.get(f"/threads/{mine}/messages"), 404)
        first, second = server.ask("Hi", mine), server.ask("And?", mine)
        assert (first["thread_id"], first["turn_seq"], second["turn_seq"]) == (second["thread_id"], 1, 2)
        assert server.said(mine) == ["Hi", "And?"]
    gone = first["thread_id"]
    server.http.delete(f"/threads/{gone}")
    problem(server.http.post(f"/threads/{gone}/messages", json={"content": "Still there?"}), 404)


@pytest.mark.req("API-1")
def test_a_follow_up_lands_in_the_same_thread(server: Server) -> None:
    thread = server.ask("Who is Ada?")["thread_id"]
    with server.stream("And her father?", thread) as heard:
        first = next(heard)
    assert (first.data["thread_id"], first.data["found"], first.data["turns_loaded"]) == (thread, True, 1)


@pytest.mark.req("API-1")
def test_an_id_of_ones_own_makes_a_thread_once_and_only_by_talking(server: Server) -> None:
    own = f"shop:{uuid4().hex}"
    for path in (f"/threads/{own}", f"/threads/{own}/messages", f"/threads/{own}/pins"):
        assert problem(server.http.get(path), 404)["code"] == "not_found"
    one, two = server.ask("a", own), server.ask("b", own)
    assert one["thread_id"] == two["thread_id"]
    assert server.said(own) == ["a", "b"]
    assert server.http.get(f"/threads/{own}").json()["external_id"] == own


@pytest.mark.req("API-1")
@pytest.mark.parametrize("bad", ["x" * 129, "a%0Ab", "a%00b", "a%5Cb", "a%E2%80%AEb"])
def test_an_id_that_is_no_name_is_refused(server: Server, bad: str) -> None:
    problem(server.post(f"/threads/{bad}/messages", {"content": "a"}), 422)


@pytest.mark.req("API-2")
def test_what_was_said_can_be_read_before_the_answer_is_there(server: Server) -> None:
    turn, _ = server.hanging()
    assert server.said(turn["thread_id"]) == ["go on"]
    answer = server.post(f"/threads/{turn['thread_id']}/turns/{turn['turn_id']}/cancel").json()
    assert (answer["outcome"], answer["text"]) == ("cancelled", "".join(SHOWN))


@pytest.mark.req("API-6")
def test_a_client_that_leaves_does_not_end_the_turn_and_comes_back_at_any_event(server: Server) -> None:
    with server.stream("Hello there, how are you today?") as heard:
        turn = next(heard).data
    whole = server.resume(turn)
    assert whole[-1].data["outcome"] == "completed"
    assert words(whole) == whole[-1].data["text"]
    stamped = [event for event in whole if event.id is not None]
    assert len(stamped) > 3
    for place, event in enumerate(stamped):
        rest = server.resume(turn, event.id)
        assert words(rest) == words(stamped[place + 1 :])
        assert rest[-1].name == "done"


@pytest.mark.req("API-6")
def test_several_readers_hear_the_same(server: Server) -> None:
    turn, last = server.hanging()
    with ThreadPoolExecutor() as pool:
        readers = [pool.submit(server.resume, turn, after) for after in (None, None, "0-1", last)]
        server.post(f"/threads/{turn['thread_id']}/turns/{turn['turn_id']}/cancel")
        heard = [reader.result() for reader in readers]
    assert [words(each) for each in heard] == ["one two three", "one two three", " two three", ""]
    assert {each[-1].data["outcome"] for each in heard} == {"cancelled"}


@pytest.mark.req("API-6")
def test_a_place_that_is_none_is_refused(server: Server) -> None:
    turn = server.ask("Hello")
    path = f"/threads/{turn['thread_id']}/turns/{turn['turn_id']}/stream"
    problem(server.http.get(path, headers={"Last-Event-ID": "nonsense"}), 422)


@pytest.mark.req("API-15")
def test_the_same_key_never_makes_two_turns(server: Server) -> None:
    key = uuid4().hex
    with ThreadPoolExecutor(8) as pool:
        sent = [
            pool.submit(server.post, "/threads/new/messages", {"content": "Hi"}, idempotency_key=key) for _ in "x" * 8
        ]
        answers = [each.result() for each in sent]
    assert {answer.status_code for answer in answers} == {200}
    (turn_id,) = {answer.json()["turn_id"] for answer in answers}
    assert server.said(answers[0].json()["thread_id"]) == ["Hi"]
    with server.http.stream(
        "POST", "/threads/new/messages/stream", json={"content": "Hi"}, headers={"Idempotency-Key": key}
    ) as again:
        assert turn_id in again.read().decode()


@pytest.mark.req("API-15")
def test_a_key_names_one_request(server: Server) -> None:
    key = uuid4().hex
    assert server.post("/threads/new/messages", {"content": "Hi"}, idempotency_key=key).status_code == 200
    told = problem(server.post("/threads/new/messages", {"content": "Bye"}, idempotency_key=key), 422)
    assert told["code"] == "key_reused"
    problem(server.post("/threads/new/messages", {"content": "Hi"}, idempotency_key="k" * 256), 422)


def test_a_thread_made_under_a_key_is_made_once(server: Server) -> None:
    key = uuid4().hex
    made = [server.post("/threads", {"title": "Plans"}, idempotency_key=key).json() for _ in range(2)]
    assert made[0] == made[1]
    assert set(made[0]) == {"thread_id", "branch_id"}


def test_a_failed_answer_is_a_finished_turn(server: Server) -> None:
    turn = server.ask("Hello", model="fails")
    assert (turn["outcome"], turn["phase"], turn["error"]["code"]) == ("failed", "Failed", "quota")
    with server.stream("Hello", model="fails") as heard:
        events = [event for event in heard if event.name in ("error", "done")]
    assert [event.name for event in events] == ["error", "done"]
    assert events[0].data == {"code": "quota", "message": "Out of credit.", "hint": "Wait."}


def test_a_retry_names_a_turn_of_its_own_branch(server: Server) -> None:
    mine, other = (server.http.post("/threads/new/messages", json={"content": text}).json() for text in ("a", "b"))
    said = f"/threads/{mine['thread_id']}/messages"
    refused = server.http.post(said, json={"content": "a", "retry_of": other["turn_id"]})
    assert (refused.status_code, refused.json()["code"]) == (404, "not_found")
    assert "retry_of" in refused.json()["detail"]
    assert server.said(mine["thread_id"]) == ["a"]
    assert server.http.post(said, json={"content": "a", "retry_of": mine["turn_id"]}).status_code == 200


@pytest.mark.req("API-11")
def test_content_is_a_text_or_blocks(server: Server) -> None:
    assert "Hello there" in server.ask("Hello there")["text"]
    data = base64.b64encode(PIXEL).decode()
    image = {"type": "image", "media_type": "image/png", "source": {"type": "base64", "data": data}}
    turn = server.ask([{"type": "text", "text": "Hello "}, {"type": "text", "text": "there"}, image])  # type: ignore[arg-type]
    assert "Hello there" in turn["text"]
    path = f"/threads/{turn['thread_id']}/turns/{turn['turn_id']}"
    assert data in server.http.get(f"{path}/context").text, "the model sees the image"
    assert server.http.get(f"{path}/images/1").content == PIXEL


def test_messages_are_read_in_pages_that_meet(server: Server) -> None:
    thread = server.ask("1")["thread_id"]
    for number in "234":
        server.ask(number, thread)
    for limit in (1, 2, 3, 5, 8, 9):
        read: list[tuple[str, int]] = []
        before = None
        while True:
            params = {"limit": limit} if before is None else {"limit": limit, "before": before}
            page = server.http.get(f"/threads/{thread}/messages", params=params).json()
            assert len(page["messages"]) <= limit
            read = [(one["role"], one["turn_seq"]) for one in page["messages"]] + read
            before = page["before"]
            if before is None:
                break
        assert read == [(role, seq) for seq in (1, 2, 3, 4) for role in ("user", "assistant")], limit
    older = server.http.get(f"/threads/{thread}/messages", params={"before": 3}).json()["messages"]
    assert [one["turn_seq"] for one in older] == [1, 1, 2, 2]


def test_threads_are_read_in_pages_that_meet(server: Server) -> None:
    user = uuid4().hex
    made = [server.ask("a", user_id=user)["thread_id"] for _ in range(5)]
    read, after = [], None
    while True:
        more = "" if after is None else f"&after={after}"
        page = server.http.get(f"/threads?limit=2&user_id={user}{more}").json()
        read += [thread["thread_id"] for thread in page["threads"]]
        after = page["next"]
        if after is None:
            break
    assert read == made[::-1]


def test_pages_of_threads_meet_when_a_thread_is_spoken_in_or_deleted_between_them(server: Server) -> None:
    user = uuid4().hex
    made = [server.ask("a", user_id=user)["thread_id"] for _ in range(6)]
    page = server.http.get("/threads", params={"limit": 2, "user_id": user}).json()
    server.ask("b", made[4], user_id=user)
    rest = server.http.get("/threads", params={"limit": 2, "user_id": user, "after": page["next"]}).json()
    server.http.delete(f"/threads/{made[2]}", params={"user_id": user})
    last = server.http.get("/threads", params={"user_id": user, "after": rest["next"]}).json()
    read = [thread["thread_id"] for one in (page, rest, last) for thread in one["threads"]]
    assert (read, last["next"]) == (made[::-1], None)
    front = server.http.get("/threads", params={"limit": 1, "user_id": user}).json()["threads"]
    assert front[0]["thread_id"] == made[4]


def test_a_place_in_somebody_elses_list_tells_nothing_of_it(server: Server) -> None:
    anna, ben = uuid4().hex, uuid4().hex
    own = server.ask("a", user_id=ben)["thread_id"]
    for _ in range(2):
        server.ask("a", user_id=anna)
    place = server.http.get("/threads", params={"limit": 1, "user_id": anna}).json()["next"]
    listed = server.http.get("/threads", params={"user_id": ben, "after": place}).json()
    assert [thread["thread_id"] for thread in listed["threads"]] == [own]


@pytest.mark.req("API-2")
@pytest.mark.parametrize("door", ["native", "v1", "chat"])
def test_whoever_waits_for_a_whole_answer_is_told_when_the_disk_takes_nothing(tmp_path: Path, door: str) -> None:
    server = Server(tmp_path)
    thread = server.post("/threads/new/messages", {"content": "before"}).json()["thread_id"]
    for _ in range(6):
        server.post(f"/threads/{thread}/messages", {"content": "filler " + "q" * 5000})
    said = "full " + "z" * 3000
    path, body = {
        "native": (f"/threads/{thread}/messages", {"content": said}),
        "v1": ("/v1/chat/completions", {"model": "echo", "messages": [{"role": "user", "content": said}]}),
        "chat": ("/chat", {"query": said}),
    }[door]
    resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (8192, resource.RLIM_INFINITY))
    told = server.post(path, body)  # within the client's 30 seconds
    assert told.status_code >= 500 or told.json().get("outcome") == "failed"
    resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert server.stop() == 0
