"""Hostile input: whatever it is, it is rejected with an error, and the server keeps running."""

from __future__ import annotations

import gzip
import json
import socket
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from time import monotonic
from typing import Any
from uuid import uuid4

import httpx2
import pytest

from contextinfinity.domain.ids import new_id
from tests.doors.cix import Cix
from tests.doors.server import Server, pause, problem

JSON = {"Content-Type": "application/json"}
TIGHT = """\
[server]
max_body_bytes = 4096
max_message_chars = 100
max_header_bytes = 2048
header_seconds = 0.5
body_seconds = 0.5
streams_per_user = 2
keep_alive_seconds = 0.05
stall_seconds = 0.5
allowed_hosts = ["cix.example.org"]
cors_origins = ["https://page.example.org"]
"""

RESULT = b'{"type": "tool_result", "tool_use_id": "1", "content": ['
NESTED = RESULT * 150 + b'{"type": "text", "text": "a"}' + b"]}" * 150
DEEP = b"[" * 150 + b"]" * 150


@pytest.fixture(scope="module")
def tight(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with narrow limits."""
    made = Server(tmp_path_factory.mktemp("tight"), TIGHT)
    yield made
    made.stop()


def raw(server: Server, *pieces: bytes, end: bool = True) -> bytes:
    """Send bytes as they are and return all that comes back until the server closes."""
    host, port = server.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=30) as line:
        line.sendall(b"".join(pieces))  # at once: a server that closes before it has read all resets the connection
        if end:
            line.shutdown(socket.SHUT_WR)
        read = b""
        while chunk := line.recv(65536):
            read += chunk
    return read


def told_raw(answer: bytes, status: int) -> Any:
    """Read a problem document as it came over the line."""
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 %d " % status), answer
    assert b"application/problem+json" in head
    told = json.loads(body)
    assert (told["status"], bool(told["title"]), bool(told["detail"])) == (status, True, True)
    return told


@pytest.mark.req("API-3")
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'"text"',
        b"\xff\xfe",
        b'{"content": "\xff"}',
        b'{"content": "a\x00b"}',
        b'{"content": "a\\u0000b"}',
        b'{"content": [{"type": "text", "text": "a\\u0000b"}]}',
        b'{"content": "\\ud800"}',
        b'{"content": "\\udc00\\ud800"}',
        b'{"content": ""}',
        b'{"content": "  \\n "}',
        b'{"content": []}',
        b'{"content": 5}',
        b'{"content": null}',
        b'{"content": [{"type": "hologram"}]}',
        b'{"content": [{"type": "image", "media_type": "text/html", "source": {"type": "base64", "data": ""}}]}',
        b'{"content": [{"type": "image", "media_type": "image/png", "source": {"type": "blob", "sha256": "00"}}]}',
        b'{"content": [{"type": "image", "media_type": "image/png", "source": {"type": "base64"}}]}',
        b'{"content": [{"type": "image", "media_type": "image/png", "source": {"type": "url", "url": "file:///etc"}}]}',
        b'{"content": "a", "contnet": "b"}',
        b'{"content": "a", "model": "no-such-model"}',
        b'{"content": "a", "attach": ["1", "2", "3", "4", "5", "6", "7"]}',
        b'{"content": "a", "model": ""}',
        b'{"content": "a", "retry_of": "no-id"}',
        b'{"content": [' + NESTED + b"]}",
        b'{"content": [{"type": "image", "media_type": "image/png", "source": {"type": "url", "url": ' + DEEP + b"}}]}",
        b'{"content": ' + b"[" * 100_000,
        b'{"content": "a", "user_id": ' + b'{"a":' * 100_000,
    ],
)
def test_a_body_that_breaks_a_rule_is_refused_and_nothing_is_said(server: Server, body: bytes) -> None:
    own = f"refused-{abs(hash(body))}"
    told = problem(server.http.post(f"/threads/{own}/messages", content=body, headers=JSON), 422)
    assert told["detail"]
    problem(server.http.get(f"/threads/{own}"), 404)


@pytest.mark.req("API-3")
@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/threads/new/messages", b'{"content": "half \\ud83d of it"}'),
        ("/chat", b'{"query": "half \\ud83d of it"}'),
        ("/v1/chat/completions", b'{"model": "echo", "messages": [{"role": "user", "content": "\\ud83d"}]}'),
        ("/v1/messages", b'{"model": "echo", "max_tokens": 9, "messages": [{"role": "user", "content": "\\ud83d"}]}'),
    ],
)
def test_a_lone_surrogate_is_named_by_its_place_and_code(server: Server, path: str, body: bytes) -> None:
    answer = server.http.post(path, content=body, headers=JSON)
    assert answer.status_code in (400, 422)
    place = body.index(b"\\ud83d")
    assert f"a lone surrogate at byte {place} (U+D83D, half a character)" in answer.text


def test_a_branch_of_a_thread_that_is_yet_to_be_made_is_refused_and_nothing_is_made(server: Server) -> None:
    user = f"zoe-{uuid4().hex}"
    problem(server.post("/threads/new/messages", {"content": "a", "branch_id": new_id(), "user_id": user}), 404)
    assert server.http.get("/threads", params={"user_id": user}).json()["threads"] == []


@pytest.mark.req("API-3")
@pytest.mark.parametrize("text", ["é", "👩‍👩‍👧", "\u202e", "a\r\nb\t\x7f", "\\u0000", " padded ", "﷽", "\ufeff"])
def test_nothing_else_in_a_text_is_altered(server: Server, text: str) -> None:
    thread = server.ask(text)["thread_id"] if text.strip() else ""
    assert server.said(thread) == [text]


def test_what_is_not_sent_as_json_is_refused(server: Server) -> None:
    for kind in ("text/plain", "application/x-www-form-urlencoded", ""):
        answer = server.http.post("/threads/new/messages", content=b'{"content": "a"}', headers={"Content-Type": kind})
        problem(answer, 415)
    charset = {"Content-Type": "application/json; charset=utf-8"}
    assert server.http.post("/threads/new/messages", content=b'{"content": "a"}', headers=charset).status_code == 200


@pytest.mark.parametrize(
    "path",
    [
        *("/threads?limit=0", "/threads?limit=x", "/threads?after=x", "/search", "/search?q=", "/search?q=a&type=x"),
        *("/search?q=a&since=yesterday", "/search?q=a&budget=0", "/search?q=a&role=x", "/nothing"),
    ],
)
def test_a_parameter_that_breaks_a_rule_is_refused(server: Server, path: str) -> None:
    answer = server.http.get(path)
    problem(answer, 404 if path == "/nothing" else 422)


@pytest.mark.req("API-3")
@pytest.mark.parametrize("bytes_", ["%ED%A0%80", "%FF", "%C3", "a%00b", "%00"])
def test_an_address_that_is_no_text_is_refused(server: Server, bytes_: str) -> None:
    before = len(server.http.get("/threads", params={"limit": 500}).json()["threads"])
    for path in (f"/threads/{bytes_}", f"/search?q={bytes_}", f"/threads?user_id={bytes_}", f"/healthz?{bytes_}=1"):
        problem(server.http.get(path), 422)
    problem(server.post(f"/threads/{bytes_}/messages", {"content": "a"}), 422)
    assert server.http.get("/v1/models?x=%FF").status_code in (400, 422)
    assert len(server.http.get("/threads", params={"limit": 500}).json()["threads"]) == before
    assert server.http.get("/search", params={"q": "é ☃ +%"}).status_code == 200


@pytest.mark.parametrize("name", [".", "..", " ", "\u3000"])
def test_a_name_that_no_address_keeps_or_nobody_sees_is_refused(server: Server, name: str) -> None:
    problem(server.post("/threads", {"external_id": name}), 422)
    if name.strip():
        head = b"POST /threads/%b/messages HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        body = b'Content-Length: 16\r\nConnection: close\r\n\r\n{"content": "a"}'
        told_raw(raw(server, head % name.encode(), body, end=False), 422)
    else:
        problem(server.post("/threads/new/messages", {"content": "a", "user_id": name}), 422)


def test_a_body_in_another_coding_is_refused(server: Server) -> None:
    coded = gzip.compress(b'{"content": "a"}')
    for coding in ("gzip", "br", "gzip, identity"):
        answer = server.http.post("/threads/new/messages", content=coded, headers={**JSON, "Content-Encoding": coding})
        assert coding in problem(answer, 415)["detail"]
    plain = server.http.post("/threads", content=b"{}", headers={**JSON, "Content-Encoding": "identity"})
    assert plain.status_code == 200


def test_a_request_without_a_body_is_told_so(server: Server) -> None:
    assert problem(server.http.post("/threads/new/messages", headers=JSON), 422)["detail"] == "The request has no body."


def test_an_address_of_a_picture_has_no_line_ends(server: Server) -> None:
    for address in ("https://x\r\nHost: y", "https://x y", "https://", "https://x/" + "a" * 8192):
        source = {"type": "url", "url": address}
        content = [{"type": "image", "media_type": "image/png", "source": source}]
        problem(server.post("/threads/new/messages", {"content": content}), 422)


def test_a_body_with_two_lengths_is_refused_and_its_connection_closed(server: Server) -> None:
    head = b"POST /threads/new/messages HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    lengths = b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n"
    body = b'10\r\n{"content": "a"}\r\n0\r\n\r\nGET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n'
    answer = raw(server, head, lengths, body, end=False)
    told_raw(answer, 400)
    assert answer.count(b"HTTP/1.1 ") == 1


def test_a_body_that_breaks_off_is_no_trouble_of_ours(tmp_path: Path) -> None:
    server = Server(tmp_path)
    head = b"POST /threads HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    assert raw(server, head, b"Content-Length: 100\r\n\r\n{") == b""
    while not any(each.get("route") == "/threads" for each in server.log()):
        pause()
        assert server.process.poll() is None
    server.stop()
    assert [each for each in server.log() if each["level"] not in ("info", "warning")] == []


def test_whoever_watches_over_servers_may_ask_for_the_head_alone(server: Server) -> None:
    answer = server.http.head("/healthz")
    assert (answer.status_code, answer.content) == (200, b"")


def test_an_unknown_method_is_refused(server: Server) -> None:
    answer = server.http.put("/threads")
    problem(answer, 405)
    assert "GET" in answer.headers["allow"]
    assert "GET" in server.http.put("/openapi.json").headers["allow"]


@pytest.mark.req("API-3")
def test_what_is_too_large_is_refused(tight: Server) -> None:
    told = problem(tight.post("/threads/new/messages", {"content": "x" * 101}), 413)
    assert "[server]" in told["hint"]
    assert tight.post("/threads/new/messages", {"content": "é" * 100}).status_code == 200
    blocks = [{"type": "text", "text": "x" * 60}] * 2
    problem(tight.post("/threads/new/messages", {"content": blocks}), 413)
    problem(tight.post("/threads/new/messages", {"content": "a", "model": "x" * 5000}), 413)

    def pieces() -> Iterator[bytes]:
        yield from [b" " * 1000] * 5

    problem(tight.http.post("/threads/new/messages", content=pieces(), headers=JSON), 413)


def test_headers_that_are_too_large_are_refused(tight: Server) -> None:
    problem(tight.http.get("/healthz", headers={"X-Long": "x" * 3000}), 431)
    endless = raw(tight, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Long: ", b"x" * 3000, end=False)
    assert told_raw(endless, 431)["code"] == "headers_too_large"
    assert tight.http.get("/healthz").status_code == 200


@pytest.mark.parametrize(
    "drip", [b"", b"GET /healthz HTTP/1.1\r\n", b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: "]
)
def test_a_request_that_does_not_arrive_is_not_waited_for(tight: Server, drip: bytes) -> None:
    assert raw(tight, drip, end=False) == b""


def test_a_second_request_that_does_not_arrive_is_not_waited_for_either(tight: Server) -> None:
    whole = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    assert raw(tight, whole, b"GET /heal", end=False).count(b"HTTP/1.1 200") == 1


def test_a_body_that_does_not_arrive_is_not_waited_for(tight: Server) -> None:
    head = b"POST /threads HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n"
    assert raw(tight, head, b'{"title"', end=False).startswith(b"HTTP/1.1 408")


@pytest.mark.parametrize(
    "bytes_", [b"\x00\x01\x02\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"nonsense\r\n\r\n", b"GET /\xff HTTP/1.1\r\n\r\n"]
)
def test_what_is_no_http_is_refused(server: Server, bytes_: bytes) -> None:
    assert told_raw(raw(server, bytes_), 400)["code"] in ("no_http", "wrong_host")
    assert server.http.get("/healthz").status_code == 200


@pytest.mark.req("SAFE-5")
def test_a_request_for_another_host_is_refused(tight: Server) -> None:
    port = tight.url.rpartition(":")[2]
    for host in ("evil.example.org", f"evil.example.org:{port}", "127.0.0.1.evil.org", "localhost.evil.org", "[::2]"):
        assert problem(tight.http.get("/threads", headers={"Host": host}), 400)["code"] == "wrong_host"
    for host in ("localhost", f"localhost:{port}", "127.0.0.1", "[::1]:80", "cix.example.org", "CIX.example.org:443"):
        assert tight.http.get("/threads", headers={"Host": host}).status_code == 200


def test_a_page_of_a_stranger_may_not_call_from_a_browser(server: Server, tight: Server) -> None:
    asked = {"Origin": "https://page.example.org", "Access-Control-Request-Method": "POST"}
    assert "access-control-allow-origin" not in server.http.options("/threads", headers=asked).headers
    assert "access-control-allow-origin" not in server.http.get("/threads", headers=asked).headers
    allowed = tight.http.options("/threads", headers=asked)
    assert allowed.headers["access-control-allow-origin"] == "https://page.example.org"
    read = tight.http.get("/threads", headers=asked).headers["access-control-expose-headers"]
    assert "X-Thread-Id" in read
    other = tight.http.options("/threads", headers=asked | {"Origin": "https://evil.example.org"})
    assert "access-control-allow-origin" not in other.headers


def test_a_stream_with_nothing_to_say_shows_that_it_is_there_and_only_so_many_are_open(tight: Server) -> None:
    with tight.stream("go on", model="hangs") as one, tight.stream("go on", model="hangs") as two:
        turns = [next(each).data for each in (one, two)]
        told = tight.post("/threads/new/messages/stream", {"content": "a"})
        assert problem(told, 429)["code"] == "too_many"
        assert int(told.headers["retry-after"]) >= 1
        assert [event.name for event in _some(one, 40)].count("") > 2
    for turn in turns:
        tight.post(f"/threads/{turn['thread_id']}/turns/{turn['turn_id']}/cancel")
    assert tight.resume(turns[0])[-1].name == "done"


def test_a_stream_too_many_of_another_vendors_client_is_refused_before_a_model_is_asked(tight: Server) -> None:
    with tight.stream("go on", model="hangs") as one, tight.stream("go on", model="hangs") as two:
        turns = [next(each).data for each in (one, two)]
        before = len(tight.http.get("/threads?limit=500").json()["threads"])
        body = {"model": "echo", "stream": True, "messages": [{"role": "user", "content": "Not now"}]}
        assert tight.post("/v1/chat/completions", body).status_code == 429
        assert len(tight.http.get("/threads?limit=500").json()["threads"]) == before
    for turn in turns:
        tight.post(f"/threads/{turn['thread_id']}/turns/{turn['turn_id']}/cancel")


def test_streams_are_counted_for_whom_they_are(tight: Server) -> None:
    """An application that acts for many people is not one of them."""
    turns = []
    for user in ("ann", "bob", "zoe"):
        with tight.stream("go on", model="hangs", user_id=user) as heard:
            turns.append((next(heard).data, user))
    paths = [f"/threads/-/turns/{turn['turn_id']}/stream?user_id={user}" for turn, user in turns]
    with ExitStack() as opened:
        open_ = [opened.enter_context(tight.http.stream("GET", path)) for path in (*paths, paths[0], paths[0])]
        assert [one.status_code for one in open_] == [200, 200, 200, 200, 429]
    for turn, user in turns:
        tight.post(f"/threads/-/turns/{turn['turn_id']}/cancel", {"user_id": user})


def _some(heard: Iterator[Any], most: int) -> list[Any]:
    """Listen until three comments came."""
    found: list[Any] = []
    while len([event for event in found if not event.name]) < 3 and len(found) < most:
        found.append(next(heard))
    return found


@pytest.mark.req("API-6")
def test_a_reader_that_takes_nothing_is_let_go_and_the_turn_goes_on_without_it(tight: Server) -> None:
    host, port = tight.url.removeprefix("http://").split(":")
    body = b'{"content": "go", "model": "floods"}'
    head = b"POST /threads/flooded/messages/stream HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    with socket.socket() as line:
        line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        line.connect((host, int(port)))
        line.sendall(head + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        assert line.recv(4096).startswith(b"HTTP/1.1 200")
        while "contextinfinity_streams 1.0" in tight.http.get("/metrics").text:
            pause()
    (turn,) = {one["turn_id"] for one in tight.http.get("/threads/flooded/messages").json()["messages"]}
    thread = tight.http.get("/threads/flooded").json()["thread_id"]
    heard = tight.resume({"thread_id": thread, "turn_id": turn}, "0-490")
    assert heard[-1].data["outcome"] == "completed"
    assert len(heard[-1].data["text"]) == 6_000_000
    assert next(event.id for event in heard if event.name == "delta") == "0-491"


def test_so_many_requests_a_minute_and_no_more(tmp_path: Any) -> None:
    server = Server(tmp_path, "[server]\nrequests_per_minute = 60\n")
    answers = [server.http.get("/threads") for _ in range(20)]
    refused = [answer for answer in answers if answer.status_code == 429]
    assert 5 <= len(refused) <= 10
    assert problem(refused[0], 429)["code"] == "too_many"
    assert refused[0].headers["retry-after"] == "1"
    assert server.http.get("/healthz").status_code == 200
    server.stop()


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_users_limits_are_the_same_for_any_number_of_workers_and_tokens(tmp_path: Path, workers: str) -> None:
    server = Server(tmp_path, "[server]\nrequests_per_minute = 6\n", "--workers", workers)
    tokens = [Cix(tmp_path).json("token", "create", "--user", "ann")["token"] for _ in range(2)]

    def ask(number: int) -> int:
        """Ask over a connection of its own, with either token."""
        headers = {"X-Api-Key": tokens[number % 2]}
        return httpx2.get(
            f"{server.url}/threads", headers=headers, timeout=60, trust_env=False, verify=False
        ).status_code

    begun = monotonic()
    with ThreadPoolExecutor(8) as pool:
        answers = Counter(pool.map(ask, range(48)))
    server.stop()
    assert 1 <= answers[200] <= 1 + (monotonic() - begun) / 10
    assert answers[200] + answers[429] == 48


def test_two_workers_let_a_user_open_as_many_streams_as_one(tmp_path: Path) -> None:
    server = Server(tmp_path, "[server]\nstreams_per_user = 2\nshutdown_seconds = 1.0\n", "--workers", "2")
    body = {"content": "go on", "model": "hangs"}
    answers: Counter[int] = Counter()
    with ExitStack() as held:
        for _ in range(12):
            http = held.enter_context(httpx2.Client(base_url=server.url, timeout=60, trust_env=False, verify=False))
            heard = held.enter_context(http.stream("POST", "/threads/new/messages/stream", json=body))
            answers[heard.status_code] += 1
    while server.post("/threads/new/messages/stream", {"content": "Hello"}).status_code == 429:
        pause()
        assert server.process.poll() is None
    server.stop()
    assert answers == {200: 2, 429: 10}


@pytest.mark.req("CLI-1")
@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_server_whose_ledger_cannot_be_opened_says_why_and_exits_with_1(cix: Cix, workers: str) -> None:
    (cix.folder / "ledger.db").write_text("Dear diary, " * 100, encoding="utf-8")
    with cix.start("serve", "--port", "0", "--workers", workers) as server:
        code, _, errors = server.end()
    assert code == 1
    assert "is not a ledger" in errors


def test_a_full_queue_names_the_turn_that_runs(server: Server) -> None:
    turn, _ = server.hanging()
    path = f"/threads/{turn['thread_id']}"
    for _ in range(16):
        with server.stream("more", turn["thread_id"]) as heard:
            next(heard)
    refused = server.post(f"{path}/messages", {"content": "more"})
    told = problem(refused, 409)
    assert (told["code"], told["running"]) == ("queue_full", turn["turn_id"])
    assert int(refused.headers["retry-after"]) >= 1
    server.post(f"{path}/turns/{turn['turn_id']}/cancel")


def test_a_problem_says_what_it_is(server: Server) -> None:
    told = problem(server.http.get("/threads/nobody"), 404)
    assert told == {
        "type": "urn:contextinfinity:error:not_found",
        "title": "Not found",
        "status": 404,
        "detail": "There is no conversation nobody.",
        "code": "not_found",
        "hint": told["hint"],
    }
    assert json.dumps(told)
