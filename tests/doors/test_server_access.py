"""Who may open what: tokens, and two users who try each other's ids on every route."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import httpx2
import pytest
from typer.testing import CliRunner

from contextinfinity.cli.main import app
from contextinfinity.client.cursors import cursor_of
from contextinfinity.domain.ids import Position, now
from contextinfinity.server.app import make_app
from contextinfinity.settings import Settings
from contextinfinity.wiring import open_client
from tests.doors.cix import Cix
from tests.doors.server import Server, pause, problem

OPEN = {("GET", "/healthz")}
"""Routes without authentication."""
OWN = {
    *(
        ("POST", "/threads"),
        ("GET", "/threads"),
        ("DELETE", "/threads"),
        ("GET", "/search"),
        ("GET", "/metrics"),
        ("GET", "/models"),
        ("GET", "/spending"),
    ),
    *(("GET", "/compactions"), ("GET", "/memories"), ("POST", "/memories"), ("GET", "/memories/export")),
    *(("GET", "/memories/audit"), ("POST", "/chat"), ("POST", "/import"), ("GET", "/export"), ("POST", "/render")),
}
"""Routes that name no resource: their results belong to the caller."""
OTHER_VENDORS = {
    *(("POST", "/v1/chat/completions"), ("POST", "/v1/messages"), ("POST", "/v1/messages/count_tokens")),
    *(("POST", "/v1/embeddings"), ("GET", "/v1/models"), ("GET", "/v1/models/{name}")),
    *(("POST", "/v1/completions"), ("POST", "/v1/responses"), ("POST", "/v1/conversations"), ("POST", "/mcp")),
    *((method, "/v1/responses/{response_id}") for method in ("GET", "DELETE")),
    *(("POST", "/v1/responses/{response_id}/cancel"), ("GET", "/v1/responses/{response_id}/input_items")),
    *((method, "/v1/conversations/{conversation_id}") for method in ("GET", "POST", "DELETE")),
    *((method, "/v1/conversations/{conversation_id}/items") for method in ("GET", "POST")),
    *((method, "/v1/conversations/{conversation_id}/items/{item_id}") for method in ("GET", "DELETE")),
}
"""Routes whose refusals have another shape; threads are named in their headers and bodies."""
FOREIGN: dict[tuple[str, str], Any] = {
    ("GET", "/threads/{thread_id}"): None,
    ("PATCH", "/threads/{thread_id}"): {"title": "mine"},
    ("DELETE", "/threads/{thread_id}"): None,
    ("GET", "/threads/{thread_id}/messages"): None,
    ("POST", "/threads/{thread_id}/messages"): {"content": "hello"},
    ("POST", "/threads/{thread_id}/messages/stream"): {"content": "hello"},
    ("GET", "/threads/{thread_id}/turns/{turn_id}"): None,
    ("DELETE", "/threads/{thread_id}/turns/{turn_id}"): None,
    ("GET", "/threads/{thread_id}/turns/{turn_id}/stream"): None,
    ("GET", "/threads/{thread_id}/turns/{turn_id}/context"): None,
    ("GET", "/threads/{thread_id}/turns/{turn_id}/chunks"): None,
    ("GET", "/threads/{thread_id}/turns/{turn_id}/images/{number}"): None,
    ("POST", "/threads/{thread_id}/turns/{turn_id}/cancel"): {},
    ("GET", "/threads/{thread_id}/branches"): None,
    ("POST", "/threads/{thread_id}/branches"): {"active": "{branch_id}"},
    ("POST", "/threads/{thread_id}/fork"): {"at": 1},
    ("POST", "/threads/{thread_id}/rollback"): {"to": 0},
    ("GET", "/threads/{thread_id}/pins"): None,
    ("POST", "/threads/{thread_id}/pins"): {"fact": "mine"},
    ("DELETE", "/threads/{thread_id}/pins"): None,
    ("POST", "/threads/{thread_id}/fold"): {},
    ("POST", "/threads/{thread_id}/unfold"): {},
    ("POST", "/threads/{thread_id}/commit"): {},
    ("PATCH", "/memories/{memory_id}"): {"content": "The user likes rum."},
    ("DELETE", "/memories/{memory_id}"): None,
}
"""Routes that name a thread or a memory, each with a body that would do for one's own."""
NOBODYS = "01a1e11a-d2de-7000-b5c4-2ef1e259c4c0"


class Guarded:
    """A server with tokens of four callers, and a thread of Ann's."""

    def __init__(self, folder: Path) -> None:
        self.server = Server(folder)
        self.cix = Cix(folder)
        self.ann = self.make("ann")
        self.bob = self.make("bob")
        self.elsewhere = self.make("ann", "--org", "acme")
        self.app = self.make("shop", "--scope", "app")
        self.turn = self.call(self.ann, "POST", "/threads/lobby/messages", {"content": "My cat is called Tom."}).json()
        self.call(self.ann, "POST", f"/threads/{self.turn['thread_id']}/pins", {"fact": "A fact of Ann's."})
        self.memory = self.call(self.ann, "POST", "/memories", {"content": "The user likes tea."}).json()

    def make(self, user: str, *more: str) -> str:
        """Make a token."""
        token: str = self.cix.json("token", "create", "--user", user, *more)["token"]
        return token

    def call(self, token: str | None, method: str, path: str, body: Any = None, **headers: str) -> httpx2.Response:
        """Send a request with a token."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        if token is not None:
            named["Authorization"] = f"Bearer {token}"
        return self.server.http.request(method, path, json=body, headers=named)

    def facts(self, token: str, path: str = "/memories") -> list[str]:
        """Read what is remembered."""
        return [memory["content"] for memory in self.call(token, "GET", path).json()["memories"]]

    def path(self, route: str) -> str:
        """Fill a route with Ann's ids."""
        filled = route.format(**self.turn, memory_id=self.memory["id"], number=1)
        return f"{filled}?n=1" if route.endswith("/pins") else filled


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    made = Guarded(tmp_path_factory.mktemp("guarded"))
    yield made
    made.server.stop()


def routes() -> set[tuple[str, str]]:
    """Every route there is, off the document that callers read."""
    paths = make_app(Settings(), open_client).openapi()["paths"]
    return {(method.upper(), path) for path, methods in paths.items() for method in methods}


@pytest.mark.req("SAFE-5")
def test_every_route_is_in_the_table_of_who_may_call_it() -> None:
    assert routes() == OPEN | OWN | set(FOREIGN) | OTHER_VENDORS
    assert {route for route in routes() if "{" in route[1]} - OTHER_VENDORS == set(FOREIGN)


@pytest.mark.req("SAFE-5", "API-1", "MEMORY-6")
@pytest.mark.parametrize(("method", "route"), FOREIGN)
def test_what_is_somebody_elses_looks_like_what_is_not_there(guarded: Guarded, method: str, route: str) -> None:
    body = json.loads(json.dumps(FOREIGN[method, route]).replace("{branch_id}", guarded.turn["branch_id"]))
    path = guarded.path(route)
    named = guarded.memory["id"] if "{memory_id}" in route else guarded.turn["thread_id"]
    unknown = path.replace(named, NOBODYS)
    for stranger in (guarded.bob, guarded.elsewhere):
        if "{turn_id}" in route:
            anywhere = path.replace(guarded.turn["thread_id"], "-")
            problem(guarded.call(stranger, method, anywhere, body), 404)
        told = problem(guarded.call(stranger, method, path, body), 404)
        as_unknown = problem(guarded.call(stranger, method, unknown, body), 404)
        assert {**told, "detail": ""} == {**as_unknown, "detail": ""}
        assert told["detail"].replace(named, "X") == as_unknown["detail"].replace(NOBODYS, "X")
    seen = guarded.call(guarded.ann, "GET", f"/threads/{guarded.turn['thread_id']}").json()
    assert (seen["title"], seen["turns"], seen["branch_id"]) == (None, 1, guarded.turn["branch_id"])
    pins = guarded.call(guarded.ann, "GET", f"/threads/{guarded.turn['thread_id']}/pins").json()["pins"]
    assert [pin["fact"] for pin in pins] == ["A fact of Ann's."]
    assert "The user likes tea." in guarded.facts(guarded.ann)


@pytest.mark.req("SAFE-5")
@pytest.mark.parametrize(("method", "route"), sorted(OWN | set(FOREIGN)))
def test_from_the_first_token_on_nobody_comes_in_without(guarded: Guarded, method: str, route: str) -> None:
    path = guarded.path(route)
    body = {"content": "x"} if method == "POST" else None
    for token in (None, "cix_nonsense", guarded.ann[:-1]):
        answer = guarded.call(token, method, path, body)
        assert problem(answer, 401)["code"] == "token_needed"
        assert answer.headers["www-authenticate"] == "Bearer"


@pytest.mark.req("SAFE-5")
def test_the_same_name_of_a_thread_is_another_thread_for_another_user(guarded: Guarded) -> None:
    problem(guarded.call(guarded.bob, "GET", "/threads/lobby"), 404)
    made = guarded.call(guarded.bob, "POST", "/threads/lobby/messages", {"content": "hello"}).json()
    assert (made["turn_seq"], made["thread_id"] == guarded.turn["thread_id"]) == (1, False)


@pytest.mark.req("SAFE-5", "API-3")
def test_lists_and_searches_show_what_is_the_callers_own(guarded: Guarded) -> None:
    for token, seen in ((guarded.ann, True), (guarded.bob, False), (guarded.elsewhere, False)):
        threads = guarded.call(token, "GET", "/threads").json()["threads"]
        assert (guarded.turn["thread_id"] in [thread["thread_id"] for thread in threads]) is seen
        assert bool(guarded.call(token, "GET", "/search?q=cat").json()["hits"]) is seen
    problem(guarded.call(guarded.bob, "GET", f"/search?q=cat&thread_id={guarded.turn['thread_id']}"), 404)


@pytest.mark.req("SAFE-5", "API-5", "API-10")
def test_a_chat_of_somebody_else_is_left_alone_and_the_token_says_who_asks(guarded: Guarded) -> None:
    mine = guarded.call(guarded.ann, "POST", "/chat", {"query": "My secret is heron."}).json()["session_id"]
    assert guarded.call(guarded.ann, "GET", f"/threads/{mine}").json()["user_id"] == "ann"
    for stranger in (guarded.bob, guarded.elsewhere):
        told = guarded.call(stranger, "POST", "/chat", {"query": "What is it?", "session_id": mine}).json()
        assert (told["session_id"] == mine, told["metadata"]["turns_loaded"], told["error"]) == (False, 0, None)
        assert "heron" not in guarded.call(stranger, "GET", f"/threads/{told['session_id']}/messages").text
    again = guarded.call(guarded.ann, "POST", "/chat", {"query": "And now?", "session_id": mine}).json()
    assert (again["session_id"], again["metadata"]["turn_number"]) == (mine, 2)
    problem(guarded.call(guarded.bob, "POST", "/chat", {"query": "Hello", "user_id": "ann"}), 403)
    for_carl = guarded.call(guarded.app, "POST", "/chat", {"query": "Hello", "user_id": "carl"}).json()
    assert guarded.call(guarded.app, "GET", f"/threads/{for_carl['session_id']}?user_id=carl").status_code == 200


@pytest.mark.req("MEMORY-6", "API-10")
def test_memories_are_the_callers_own_whatever_a_tag_says(guarded: Guarded) -> None:
    everything = cursor_of(Position(now() + timedelta(days=1), guarded.memory["id"]))
    for stranger in (guarded.bob, guarded.elsewhere):
        for path in ("/memories", "/memories?q=tea", "/memories/export", f"/memories?after={everything}"):
            assert guarded.call(stranger, "GET", path).json()["memories"] == []
        assert guarded.call(stranger, "GET", "/memories/audit").json() == {"findings": []}
        shelf = {"content": "x y", "tags": [f"thread:{guarded.turn['thread_id']}"]}
        problem(guarded.call(stranger, "POST", "/memories", shelf), 404)
    for path in ("/memories?user_id=ann", "/memories?tag=user:ann", "/memories/export?user_id=ann"):
        problem(guarded.call(guarded.bob, "GET", path), 403)
    for body in ({"content": "x y", "user_id": "ann"}, {"content": "x y", "tags": ["user:ann"]}):
        problem(guarded.call(guarded.bob, "POST", "/memories", body), 403)
    assert "The user likes tea." in guarded.facts(guarded.app, "/memories?user_id=ann")


@pytest.mark.req("API-10")
def test_only_a_token_of_scope_app_acts_for_another_user(guarded: Guarded) -> None:
    body = {"content": "hello", "user_id": "ann"}
    assert problem(guarded.call(guarded.bob, "POST", "/threads/new/messages", body), 403)["code"] == "not_yours"
    problem(guarded.call(guarded.bob, "GET", "/threads?user_id=ann"), 403)
    assert guarded.call(guarded.ann, "POST", "/threads/new/messages", body).status_code == 200
    made = guarded.call(guarded.app, "POST", "/threads/desk/messages", {"content": "hello", "user_id": "carl"}).json()
    seen = guarded.call(guarded.app, "GET", f"/threads/{made['thread_id']}?user_id=carl").json()
    assert seen["user_id"] == "carl"
    problem(guarded.call(guarded.app, "GET", f"/threads/{made['thread_id']}"), 404)
    assert guarded.call(guarded.app, "GET", "/threads/desk?user_id=carl").json()["thread_id"] == made["thread_id"]
    problem(guarded.call(guarded.elsewhere, "GET", f"/threads/{made['thread_id']}"), 404)


@pytest.mark.req("API-3")
def test_an_organisation_other_than_the_tokens_is_refused(guarded: Guarded) -> None:
    problem(guarded.call(guarded.ann, "GET", "/threads", x_org_id="acme"), 403)
    assert guarded.call(guarded.elsewhere, "GET", "/threads", x_org_id="acme").status_code == 200


@pytest.mark.req("SAFE-5")
def test_a_revoked_token_counts_no_more_at_once(guarded: Guarded) -> None:
    made = guarded.cix.json("token", "create", "--user", "dora")
    assert guarded.call(made["token"], "GET", "/threads").status_code == 200
    guarded.cix.json("token", "revoke", made["id"])
    problem(guarded.call(made["token"], "GET", "/threads"), 401)


@pytest.mark.req("SAFE-5")
def test_a_token_is_taken_where_sdks_put_it_and_shown_nowhere(guarded: Guarded) -> None:
    assert guarded.server.http.get("/threads", headers={"X-Api-Key": guarded.ann}).status_code == 200
    kept = b"".join(path.read_bytes() for path in guarded.server.folder.iterdir() if path.is_file())
    for token in (guarded.ann, guarded.bob, guarded.app):
        assert token.encode() not in kept
        assert token not in guarded.cix("token", "list").stdout


@pytest.mark.req("API-10", "API-3")
def test_without_tokens_the_body_says_who_speaks_and_keys_are_ignored(server: Server) -> None:
    turn = server.post("/threads/new/messages", {"content": "a", "user_id": "eve"}, x_org_id="acme").json()
    whose = {"Authorization": "Bearer sk-whatever", "X-Org-Id": "acme"}
    seen = server.http.get(f"/threads/{turn['thread_id']}?user_id=eve", headers=whose).json()
    assert (seen["user_id"], seen["org_id"]) == ("eve", "acme")
    assert server.http.get(f"/threads/{server.ask('b')['thread_id']}").json()["user_id"] == "local"
    for user in ("", "x" * 129, "a\nb"):
        problem(server.post("/threads/new/messages", {"content": "a", "user_id": user}), 422)


@pytest.mark.req("SAFE-5")
def test_a_server_that_others_can_reach_does_not_start_without_a_token(cix: Cix) -> None:
    with cix.start("serve", "--host", "0.0.0.0", "--port", "0") as process:  # noqa: S104
        code, _, told = process.end()
    assert code == 1
    assert "cix token create" in told


def test_the_tokens_are_listed_for_people(guarded: Guarded) -> None:
    listed = guarded.cix("token", "list").stdout
    assert "acme" in listed
    assert guarded.cix("token", "revoke", "nothing").exit_code == 1
    done = guarded.cix("token", "create", "--user", "x", "--scope", "root")
    assert (done.exit_code, "user or app" in done.stderr) == (2, True)


@pytest.mark.req("SAFE-5", "API-7")
def test_no_name_of_a_thread_opens_somebody_elses_to_clients_of_other_vendors(guarded: Guarded) -> None:
    named, path = guarded.turn["thread_id"], "/v1/chat/completions"
    asked = {"model": "echo", "messages": [{"role": "user", "content": "What is my cat called?"}]}
    for stranger in (guarded.bob, guarded.elsewhere):
        for body in (asked, {**asked, "user": "ann"}, {**asked, "metadata": {"user_id": "ann"}}):
            told = guarded.call(stranger, "POST", path, body, X_Thread_Id=named)
            unknown = guarded.call(stranger, "POST", path, body, X_Thread_Id=NOBODYS)
            assert (told.status_code, unknown.status_code) == (404, 404)
            assert told.text.replace(named, "X") == unknown.text.replace(NOBODYS, "X")
            inside = guarded.call(stranger, "POST", path, {**body, "metadata": {"thread_id": named}})
            assert inside.status_code == 404
            own = guarded.call(stranger, "POST", path, body, X_Thread_Id="lobby")
            assert own.status_code == 200
            assert own.headers["x-thread-id"] != named
    talk = [
        {"role": "user", "content": "My cat is called Tom."},
        {"role": "assistant", "content": guarded.turn["text"]},
    ]
    whole = {**asked, "messages": [*talk, *asked["messages"]]}
    assert guarded.call(guarded.bob, "POST", path, whole).headers["x-thread-id"] != named
    assert guarded.call(guarded.bob, "POST", path, {**whole, "user": "ann"}).headers["x-thread-id"] != named
    assert guarded.call(guarded.app, "POST", path, {**whole, "user": "bob"}).headers["x-thread-id"] != named
    assert guarded.call(guarded.app, "POST", path, {**whole, "user": "ann"}).headers["x-thread-id"] == named
    assert guarded.call(None, "POST", path, asked).json()["error"]["code"] == "invalid_api_key"
    assert guarded.call(None, "GET", "/v1/models").status_code == 401


@pytest.mark.req("SAFE-5")
def test_a_token_that_expired_is_refused_and_the_list_and_the_answer_say_so(guarded: Guarded) -> None:
    made = guarded.cix.json("token", "create", "--user", "fay", "--expires", "90d")
    left = datetime.fromisoformat(made["expires_at"]) - now()
    assert timedelta(days=89, hours=23) < left <= timedelta(days=90)
    assert guarded.call(made["token"], "GET", "/threads").status_code == 200
    with closing(sqlite3.connect(guarded.server.folder / "ledger.db")) as ledger, ledger:
        ledger.execute("UPDATE token SET expires_at = 0 WHERE user_id = 'fay'")
    told = problem(guarded.call(made["token"], "GET", "/threads"), 401)
    assert f"{made['id']} of fay expired on 1970-01-01" in told["detail"]
    assert "CIX_TOKEN" in told["hint"]
    (listed,) = (line for line in guarded.cix("token", "list").stdout.splitlines() if "fay" in line)
    assert "expired" in listed
    for wrong in ("90", "d", "0d", "-1d", "1y", "999999w"):
        done = guarded.cix("token", "create", "--user", "fay", "--expires", wrong)
        assert (done.exit_code, "90d" in done.stderr) == (2, True)


@pytest.mark.req("SAFE-5")
@pytest.mark.parametrize("path", ["/threads/new/messages/stream", "/v1/chat/completions", "/compactions"])
def test_revoking_a_token_ends_its_streams_and_no_others(guarded: Guarded, path: str) -> None:
    made = guarded.cix.json("token", "create", "--user", "gus")
    said: dict[str, Any] = {"messages": [{"role": "user", "content": "go on"}], "stream": True}
    body = {"model": "hangs", **(said if "v1" in path else {"content": "go on"})}
    method, http = "GET" if path == "/compactions" else "POST", guarded.server.http
    theirs, others = ({"Authorization": f"Bearer {token}"} for token in (made["token"], guarded.ann))
    with (
        http.stream(method, path, json=None if method == "GET" else body, headers=theirs) as gone,
        http.stream("GET", "/compactions", headers=others) as stays,
    ):
        heard, staying = gone.iter_text(), stays.iter_text()
        next(heard)
        next(staying)
        guarded.cix.json("token", "revoke", made["id"])
        rest = "".join(heard)  # it ends: the model hangs for ever
        assert path == "/compactions" or f"Token {made['id']} of gus was revoked" in rest
        assert stays.status_code == 200
        assert not stays.is_closed


@pytest.mark.req("SAFE-5")
def test_with_every_token_revoked_the_server_stays_closed_and_says_so(cix: Cix) -> None:
    made = cix.json("token", "create", "--user", "ann")
    closed = "No valid token is left"
    assert closed not in cix("token", "list").stderr
    assert closed in cix("token", "revoke", made["id"]).stderr
    assert closed in cix("token", "list").stderr
    server = Server(cix.folder)
    told = problem(server.http.get("/threads"), 401)
    assert "all its tokens are revoked or expired" in told["detail"]
    assert "cix token create" in told["hint"]
    done = CliRunner().invoke(app, ["sessions", "--server", server.url])
    assert (done.exit_code, "cix token create" in done.stderr, "CIX_TOKEN" in done.stderr) == (1, True, True)
    assert any("all tokens are revoked or expired" in str(line) for line in server.log())
    again = cix.json("token", "create", "--user", "ann")
    done = CliRunner().invoke(app, ["sessions", "--server", server.url])
    assert (done.exit_code, "CIX_TOKEN" in done.stderr) == (1, True)
    done = CliRunner().invoke(app, ["sessions", "--server", server.url], env={"CIX_TOKEN": again["token"]})
    assert done.exit_code == 0, done.stderr
    server.stop()
    cix("token", "revoke", again["id"])
    refused = cix("serve", "--host", "0.0.0.0", "--port", "0")  # noqa: S104
    assert (refused.exit_code, "no valid token" in refused.stderr) == (1, True)


@pytest.mark.req("SAFE-10")
@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://localhost:1"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Origin": "https://evil.example", "Sec-Fetch-Site": "same-origin"},
        {"Origin": "https://evil.example", "Content-Type": "text/plain"},
    ],
    ids=str,
)
def test_a_page_of_another_site_changes_nothing(server: Server, headers: dict[str, str]) -> None:
    turn = server.ask("Hello")
    thread = turn["thread_id"]
    changing = [route for route in sorted(routes()) if route[0] != "GET"]
    assert len(changing) > 30
    for method, route in changing:
        path = route.replace("{thread_id}", thread).replace("{turn_id}", turn["turn_id"])
        for body in (None, b'{"content": "a", "query": "a"}'):
            assert server.http.request(method, path, content=body, headers=headers).status_code == 403, path
    assert problem(server.http.post("/threads", headers=headers), 403)["code"] == "cross_site"
    branches = server.http.get(f"/threads/{thread}/branches").json()["branches"]
    assert (len(branches), server.said(thread)) == (1, ["Hello"])


@pytest.mark.req("SAFE-10")
def test_a_page_of_the_server_itself_and_of_an_allowed_origin_may_change_things(tmp_path: Path, server: Server) -> None:
    for headers in ({"Origin": server.url, "Sec-Fetch-Site": "same-origin"}, {"Sec-Fetch-Site": "none"}, {}):
        assert server.http.post("/threads", json={}, headers=headers).status_code == 200
    redirected = {"Origin": server.url, "Sec-Fetch-Site": "cross-site"}
    assert server.http.post("/threads", json={}, headers=redirected).status_code == 403
    allowing = Server(tmp_path, '[server]\ncors_origins = ["https://app.example"]\n')
    for origin, status in (("https://app.example", 200), ("https://app.example.evil", 403)):
        headers = {"Origin": origin, "Sec-Fetch-Site": "cross-site"}
        assert allowing.http.post("/threads", json={}, headers=headers).status_code == status
    allowing.stop()


@pytest.mark.req("SAFE-10")
@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_a_page_of_another_origin_cannot_time_searches_and_may_link(server: Server, site: str) -> None:
    for mode in ("no-cors", "cors", "websocket"):
        headers = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": mode}
        refused = server.http.get("/search", params={"q": "a"}, headers=headers)
        assert problem(refused, 403)["code"] == "cross_site"
    for headers in ({"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "navigate"}, {"Sec-Fetch-Site": "none"}, {}):
        assert server.http.get("/", headers=headers).status_code == 200


@pytest.mark.req("SAFE-5")
@pytest.mark.parametrize("path", ["/threads/new/messages", "/v1/chat/completions", "/v1/messages"])
def test_revoking_a_token_ends_its_requests_that_wait_for_a_whole_answer(guarded: Guarded, path: str) -> None:
    user = f"gus-{path.replace('/', '-')}"
    made = guarded.cix.json("token", "create", "--user", user)
    said: dict[str, Any] = {"messages": [{"role": "user", "content": "go on"}], "max_tokens": 9}
    body = {"model": "hangs", **(said if "v1" in path else {"content": "go on"})}
    with ThreadPoolExecutor(max_workers=1) as pool:
        waiting = pool.submit(guarded.call, made["token"], "POST", path, body)
        while not guarded.call(made["token"], "GET", "/threads").json()["threads"]:
            pause()
        guarded.cix.json("token", "revoke", made["id"])
        answer = waiting.result(timeout=5)  # the model hangs for ever
    assert answer.status_code == 401
    assert f"Token {made['id']} of {user} was revoked" in answer.text
