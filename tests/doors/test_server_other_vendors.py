"""What clients of other vendors meet beside answers: readable refusals, request ids, and no data of other users."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from tests.doors.server import Server, events
from tests.doors.test_server_refusals import TIGHT

pytestmark = pytest.mark.req("API-7")

ANTHROPIC = {"anthropic-version": "2023-06-01"}


@pytest.fixture(scope="module")
def tight(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with narrow limits."""
    made = Server(tmp_path_factory.mktemp("tight-v1"), TIGHT)
    yield made
    made.stop()


def chat(*texts: str, **more: Any) -> dict[str, Any]:
    roles = ("user", "assistant")
    messages = [{"role": roles[place % 2], "content": text} for place, text in enumerate(texts)]
    return {"model": "echo", "messages": messages, **more}


def openai_error(answer: httpx2.Response, status: int) -> dict[str, Any]:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/json"
    told: dict[str, Any] = answer.json()["error"]
    assert set(told) == {"message", "type", "param", "code"}
    return told


def anthropic_error(answer: httpx2.Response, status: int) -> dict[str, Any]:
    assert answer.status_code == status, answer.text
    told: dict[str, Any] = answer.json()
    assert (told["type"], set(told)) == ("error", {"type", "error", "request_id"})
    assert told["request_id"] == answer.headers["request-id"]
    assert told["request_id"].startswith("req_")
    return told["error"]  # type: ignore[no-any-return]


def test_what_no_route_sees_is_refused_in_the_vendors_shape(tight: Server) -> None:
    assert openai_error(tight.http.get("/v1/nothing"), 404)["code"] == "no_such_path"
    assert anthropic_error(tight.http.get("/v1/nothing", headers=ANTHROPIC), 404)["type"] == "not_found_error"
    assert anthropic_error(tight.http.get("/v1/messages"), 405)["details"]["error_code"] == "no_such_method"
    elsewhere = {"host": "evil.example.org"}
    assert openai_error(tight.post("/v1/chat/completions", chat("Hi"), **elsewhere), 400)["code"] == "wrong_host"
    assert "unknown host" in anthropic_error(tight.post("/v1/messages", chat("Hi"), **elsewhere), 400)["message"]
    large = chat("x" * 5000, max_tokens=5)
    assert openai_error(tight.post("/v1/chat/completions", large), 413)["type"] == "invalid_request_error"
    assert anthropic_error(tight.post("/v1/messages", large), 413)["type"] == "request_too_large"
    many = {"x-filler": "y" * 3000}
    assert openai_error(tight.post("/v1/chat/completions", chat("Hi"), **many), 431)["code"] == "headers_too_large"
    assert tight.http.get("/v1x").headers["content-type"] == "application/problem+json"


def test_what_a_web_page_could_send_unasked_is_refused(server: Server) -> None:
    body = b'{"model": "echo", "max_tokens": 5, "messages": [{"role": "user", "content": "Hi"}]}'
    for kind in ("text/plain", "application/x-www-form-urlencoded", ""):
        headers = {"content-type": kind}
        openai_error(server.http.post("/v1/chat/completions", content=body, headers=headers), 415)
        anthropic_error(server.http.post("/v1/messages", content=body, headers=headers), 415)
        openai_error(server.http.post("/v1/embeddings", content=b'{"model": "m", "input": "a"}', headers=headers), 415)


def test_the_same_words_in_two_threads_at_once_are_two_turns(server: Server) -> None:
    met: list[str] = []

    def go_on(thread: str) -> None:
        body = chat("go on", model="hangs", stream=True)
        headers = {"X-Thread-Id": thread}
        with server.http.stream("POST", "/v1/chat/completions", json=body, headers=headers) as answer:
            met.append(answer.headers["x-thread-id"])

    asking = [threading.Thread(target=go_on, args=(f"same-words-{number}",)) for number in range(2)]
    for each in asking:
        each.start()
    for each in asking:
        each.join()
    assert len(set(met)) == 2


def test_a_stream_of_anthropics_says_first_how_large_the_request_was(server: Server) -> None:
    body = chat("How large is this?", max_tokens=50, stream=True)
    with server.http.stream("POST", "/v1/messages", json=body) as answer:
        heard = list(events(answer))
    assert answer.headers["request-id"].startswith("req_")
    assert heard[0].name == "message_start"
    assert heard[0].data["message"]["usage"]["input_tokens"] > 0
    assert heard[-1].name == "message_stop"


def test_nothing_is_remembered_of_whom_an_application_does_not_name(server: Server) -> None:
    for named in ({}, {"user": "nina"}):
        body = chat("My name is Nina Okafor and I live in Lagos.", **named)
        assert server.post("/v1/chat/completions", body).status_code == 200
    server.ask("Remember that I like herons.", user_id="local")
    for _ in range(200):
        if server.http.get("/memories", params={"user_id": "nina"}).json()["memories"]:
            break
        server.http.get("/healthz")
    kept = server.http.get("/memories", params={"user_id": "local"}).json()["memories"]
    assert not any("Lagos" in each["content"] or "Nina" in each["content"] for each in kept)
    theirs = server.http.get("/memories", params={"user_id": "nina"}).json()["memories"]
    assert any("Lagos" in each["content"] for each in theirs)
