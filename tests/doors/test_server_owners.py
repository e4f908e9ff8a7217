"""Every look-up over HTTP is keyed by the user the request acts for: each route of the OpenAPI document is tried.

The requests are generated from the document. Each route is called with everything that can name a thing (in the path,
the query, the body) set to a thing of Ann's, one after the other, by callers who act for another user. The answer is
404 and nothing of Ann's changes. A new route is tried without an edit here; a new name of an input has to be added to
``THINGS`` or ``PLAIN``, and a new route under /v1 to ``DROP_IN`` or ``STATELESS``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import pytest

from contextinfinity.server.app import make_app
from contextinfinity.settings import Settings
from contextinfinity.wiring import open_client
from tests.doors.cix import Cix
from tests.doors.server import Server, pause

DOCUMENT = make_app(Settings(), open_client).openapi()
SECRET = "heron"  # noqa: S105  a word that only Ann says
THINGS: dict[str, Callable[[dict[str, str]], Any]] = {
    "thread_id": lambda things: things["thread"],
    "turn_id": lambda things: things["turn"],
    "branch_id": lambda things: things["branch"],
    "memory_id": lambda things: things["memory"],
    "session_id": lambda things: things["chat"],
    "active": lambda things: things["branch"],
    "compare": lambda things: things["turn"],
    "retry_of": lambda things: things["turn"],
    "response_id": lambda things: f"resp_{things['response'].replace('-', '')}",
    "conversation_id": lambda things: f"conv_{things['thread'].replace('-', '')}",
    "item_id": lambda things: f"msg_{things['turn'].replace('-', '')}0000",
    "attach": lambda things: [things["chunk"]],
    "tag": lambda things: f"thread:{things['thread']}",
    "tags": lambda things: [f"thread:{things['thread']}"],
}
"""Inputs that name a resource of a user, and how to name one."""
PLAIN: dict[str, Any] = dict.fromkeys(
    (
        *("user_id", "limit", "after", "before", "type", "role", "since", "budget", "preview", "external_id"),
        *("ttl_hours", "system", "model", "use_memory", "use_query_rewriter", "may_ask_back", "at", "state", "step"),
        *("Idempotency-Key", "Last-Event-ID", "order", "include[]", "stream", "starting_after"),
    )
) | {
    "content": "Where is it?",
    "query": "Where is it?",
    "q": "secret",
    "fact": "A fact.",
    "title": "mine",
    "n": 1,
    "to": 0,
    "name": "echo",
    "number": 1,
    "texts": ["a"],
    "format": "auto",
    "scan": None,
    "confirm": "nobody",
    "ttl_hours": 1,
}
"""Inputs that name no resource, with a value for those that a route requires."""
IMAGE = {"type": "image", "media_type": "image/gif", "source": {"type": "base64", "data": "R0lGODlh"}}
DROP_IN: dict[tuple[str, str], dict[str, Any]] = {
    ("POST", "/v1/chat/completions"): {"model": "echo", "messages": [{"role": "user", "content": "Hello"}]},
    ("POST", "/v1/completions"): {"model": "echo", "prompt": "Hello"},
    ("POST", "/v1/responses"): {"model": "echo", "input": "Hello"},
    ("POST", "/v1/messages"): {
        "model": "echo",
        "max_tokens": 50,
        "messages": [{"role": "user", "content": "Hello"}],
    },
}
"""Routes of other vendors that find a thread: a body for each. Their inputs are not in the document."""
BODIES: dict[tuple[str, str], dict[str, Any]] = {
    ("POST", "/import"): {"messages": [{"role": "user", "content": "Hello"}]},
    ("POST", "/v1/conversations/{conversation_id}"): {"metadata": {}},
    ("POST", "/v1/conversations/{conversation_id}/items"): {"items": [{"role": "user", "content": "Hello"}]},
}
"""Bodies of routes that do not declare one as JSON."""
STATELESS = {
    *(("POST", "/v1/messages/count_tokens"), ("POST", "/v1/embeddings"), ("POST", "/v1/conversations")),
    *(("GET", "/v1/models"), ("GET", "/v1/models/{name}")),
}
"""Routes of other vendors that look up no resource."""


class Call(NamedTuple):
    """A request to a route."""

    method: str
    route: str
    foreign: tuple[str, ...]
    """The inputs that name Ann's thing. All others name one of the caller's own."""


class Who(NamedTuple):
    """A caller: what they send to say who they are, and where the user is named."""

    name: str
    headers: dict[str, str]
    query: dict[str, str]
    body: dict[str, str]


def operations() -> dict[tuple[str, str], Any]:
    """Every route there is, off the document that callers read."""
    paths = DOCUMENT["paths"]
    return {(method.upper(), path): one for path, methods in paths.items() for method, one in methods.items()}


def inputs(operation: Any) -> dict[str, tuple[str, bool]]:
    """Name what a route takes: where it is, and whether it is required."""
    found = {one["name"]: (one["in"], one.get("required", False)) for one in operation.get("parameters", ())}
    schema = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
    if (reference := schema.get("$ref", "").rpartition("/")[2]) != "":
        body = DOCUMENT["components"]["schemas"][reference]
        for name in body["properties"]:
            found.setdefault(name, ("body", name in body.get("required", ())))
    return found


BY_ID = {key for key in operations() if key[1].startswith(("/v1/responses/", "/v1/conversations/"))}
"""Routes of other vendors that find a thing by its id: requests to them are generated as to our own."""


def calls() -> Iterator[Call]:
    """Return each route with each of its things, alone and all in the path together."""
    for (method, route), operation in operations().items():
        if route.startswith("/v1/") and (method, route) not in BY_ID:
            continue
        taken = inputs(operation)
        in_path = tuple(name for name in taken if taken[name][0] == "path" and name in THINGS)
        alone = [(name,) for name in taken if name in THINGS]
        for foreign in dict.fromkeys((*([in_path] if in_path else ()), *alone)):
            yield Call(method, route, foreign)


CALLS = list(calls())
OWN = [
    key
    for key, operation in operations().items()
    if not key[1].startswith(("/v1/", "/metrics")) and not any(name in THINGS for name in inputs(operation))
]
"""Routes that name nothing: what they give is the acting user's own."""


class House:
    """A server with things of Ann's, and callers who are other users."""

    def __init__(self, server: Server, tokens: dict[str, str]) -> None:
        self.server, self.tokens = server, tokens
        self.ann = Who("ann", self._bearer("ann"), {} if tokens else {"user_id": "ann"}, {})
        self.things = self.made_by(self.ann, SECRET, with_chunk=True)
        self._own: dict[str, dict[str, str]] = {}
        while (said := json.dumps(self.seen())).count('"phase": "Done"') < said.count('"phase"'):
            pause()  # until nothing more happens to Ann's turns by itself
        self.before = self.seen()

    def _bearer(self, name: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.tokens[name]}"} if self.tokens else {}

    def strangers(self) -> list[Who]:
        """Name the callers who act for a user other than Ann."""
        bob = {"user_id": "bob"}
        if not self.tokens:
            elsewhere = Who("ann of acme", {"X-Org-Id": "acme"}, {"user_id": "ann"}, {})
            return [Who("bob", {}, bob, {}), Who("bob", {}, {}, bob), Who("local", {}, {}, {}), elsewhere]
        return [
            Who("bob", self._bearer("bob"), {}, {}),
            Who("bob", self._bearer("app"), bob, {}),
            Who("bob", self._bearer("app"), {}, bob),
            Who("shop", self._bearer("app"), {}, {}),
            Who("ann of acme", self._bearer("ann of acme"), {}, {}),
            Who("ann of acme", self._bearer("app of acme"), {"user_id": "ann"}, {}),
        ]

    def send(
        self, who: Who, method: str, path: str, body: Any = None, query: Any = None, headers: Any = None
    ) -> tuple[int, str]:
        """Send a request; of a stream only the beginning is read."""
        sent = None if method in ("GET", "DELETE") else {**(body or {}), **who.body}
        named = {**who.headers, **(headers or {})}
        params = {**(query or {}), **who.query}
        with self.server.http.stream(method, path, json=sent, params=params, headers=named) as answer:
            if answer.headers.get("content-type", "").startswith("text/event-stream"):
                return answer.status_code, next(answer.iter_text())
            return answer.status_code, answer.read().decode()

    def told(self, who: Who, method: str, path: str, body: Any = None, **query: Any) -> Any:
        """Send a request that is answered, and read the answer."""
        status, text = self.send(who, method, path, body, query)
        assert status == 200, text
        return json.loads(text)

    def made_by(self, who: Who, word: str = "ibis", *, with_chunk: bool = False) -> dict[str, str]:
        """Make one of everything."""
        said = {"type": "text", "text": f"My secret is the {word}."}
        turn = self.told(who, "POST", "/threads/new/messages", {"content": [said, IMAGE]})
        thread = turn["thread_id"]
        self.told(who, "POST", f"/threads/{thread}/pins", {"fact": f"The {word} is secret."})
        made = self.told(who, "POST", "/memories", {"content": f"The user likes the {word}."})
        chat = self.told(who, "POST", "/chat", {"query": f"The {word} is secret."})
        hit: dict[str, Any] = {}
        while with_chunk and not hit.get("chunk_id"):
            pause()
            hit = next(iter(self.told(who, "GET", "/search", q=word, thread_id=thread)["hits"]), {})
        return {
            "thread": thread,
            "turn": turn["turn_id"],
            "branch": turn["branch_id"],
            "memory": made["id"],
            "chat": chat["session_id"],
            "chunk": hit.get("chunk_id") or "",
            "response": self.response_of(who, word),
        }

    def response_of(self, who: Who, word: str) -> str:
        """Make a response in a thread of its own, and name its turn."""
        made = self.told(who, "POST", "/v1/responses", {"model": "echo", "input": f"The {word} is secret."})
        return str(made["id"]).removeprefix("resp_")

    def own(self, who: Who) -> dict[str, str]:
        """Give things that are the caller's."""
        if who.name not in self._own:
            self._own[who.name] = self.made_by(who, with_chunk=True)
        return self._own[who.name]

    def seen(self) -> list[Any]:
        """Read all that is Ann's."""
        thread, chat = (f"/threads/{self.things[name]}" for name in ("thread", "chat"))
        paths = ("/threads", f"{thread}/messages", f"{thread}/branches", f"{thread}/pins", f"{chat}/messages")
        return [self.told(self.ann, "GET", path) for path in (*paths, "/memories/export")]

    def call(self, who: Who, call: Call, own: dict[str, str], foreign: dict[str, str]) -> tuple[int, str]:
        """Send a generated request."""
        places: dict[str, dict[str, Any]] = {"path": {}, "query": {}, "body": {}, "header": {}}
        for name, (place, required) in inputs(operations()[call.method, call.route]).items():
            if name in call.foreign:
                places[place][name] = THINGS[name](foreign)
            elif required or name == "to":
                places[place][name] = THINGS[name](own) if name in THINGS else PLAIN[name]
        path = call.route.format(**places["path"])
        body = BODIES.get((call.method, call.route), {}) | places["body"]
        return self.send(who, call.method, path, body, places["query"], places["header"])


@pytest.fixture(scope="module")
def houses(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[House, House]]:
    """A server without tokens, and one with."""
    folder: Path = tmp_path_factory.mktemp("tokens")
    guarded, cix = Server(folder), Cix(folder)
    made = {
        "ann": ("ann",),
        "bob": ("bob",),
        "app": ("shop", "--scope", "app"),
        "ann of acme": ("ann", "--org", "acme"),
        "app of acme": ("shop", "--org", "acme", "--scope", "app"),
    }
    tokens = {name: cix.json("token", "create", "--user", *how)["token"] for name, how in made.items()}
    yield House(server, {}), House(guarded, tokens)
    guarded.stop()


@pytest.mark.req("API-14")
def test_every_input_of_every_route_is_known_to_name_a_thing_or_nothing() -> None:
    unknown = {
        f"{method} {route}: {name}"
        for (method, route), operation in operations().items()
        for name in inputs(operation)
        if name not in THINGS and name not in PLAIN
    }
    assert unknown == set(), "say in THINGS what it names, or add it to PLAIN"
    assert {key for key in operations() if key[1].startswith("/v1/")} == set(DROP_IN) | STATELESS | BY_ID


@pytest.mark.req("API-14")
def test_every_route_takes_the_user_it_acts_for() -> None:
    without = {key for key, operation in operations().items() if "user_id" not in inputs(operation)}
    assert without == {("GET", "/healthz"), ("GET", "/metrics")}


@pytest.mark.req("API-14")
def test_a_user_id_that_is_empty_is_refused_and_names_nobody_else(houses: tuple[House, House]) -> None:
    asked = [
        ("GET", "/threads", {}),
        ("GET", "/memories", {}),
        ("POST", "/threads", {}),
        ("POST", "/chat", {"query": "a"}),
    ]
    asked += [("POST", "/memories", {"content": "a b"}), ("POST", "/threads/new/messages", {"content": "a"})]
    for house in houses:
        caller = (house.strangers()[3] if house.tokens else house.strangers()[2])._replace(query={"user_id": ""})
        for method, path, body in asked:
            assert house.send(caller, method, path, body)[0] == 422
        for key, body in DROP_IN.items():
            assert house.send(caller, *key, body)[0] in (400, 422)


@pytest.mark.req("API-14", "API-10", "SAFE-5")
@pytest.mark.parametrize("call", CALLS, ids=lambda call: f"{call.method} {call.route} {'+'.join(call.foreign)}")
def test_what_is_anothers_is_not_found_and_stays_as_it_is(houses: tuple[House, House], call: Call) -> None:
    for house in houses:
        for who in house.strangers():
            if who.body and "body" not in {place for place, _ in inputs(operations()[call[:2]]).values()}:
                continue
            status, text = house.call(who, call, house.own(who), house.things)
            assert SECRET not in text, (who, text)
            if call.route == "/chat":  # another user's session is replaced by a new one
                assert status == 200, (who, text)
                told = json.loads(text)
                assert (told["session_id"] != house.things["chat"], told["metadata"]["turns_loaded"]) == (True, 0)
            elif call.route == "/import":  # the name of another user's thread is free for a thread of one's own
                assert status == 200, (who, text)
                (made,) = json.loads(text)["sessions"]
                assert (made["thread_id"] != house.things["thread"], made["messages"]) == (True, 1)
            else:
                assert status == 404, (who, text)
    guarded, for_ann = houses[1], Who("nobody", {}, {"user_id": "ann"}, {})
    bob = guarded.strangers()[0].headers
    for headers, refused in (({}, 401), ({"Authorization": "Bearer cix_wrong"}, 401), (bob, 403)):
        assert guarded.call(for_ann._replace(headers=headers), call, guarded.things, guarded.things)[0] == refused
    for house in houses:
        assert house.seen() == house.before


@pytest.mark.req("API-14")
@pytest.mark.parametrize("call", CALLS, ids=lambda call: f"{call.method} {call.route} {'+'.join(call.foreign)}")
def test_the_same_request_finds_what_is_the_callers_own(houses: tuple[House, House], call: Call) -> None:
    house, who = houses[0], Who("carl", {}, {"user_id": "carl"}, {})
    # Items of a conversation are those of its active branch, which other requests change.
    things = house.made_by(who) if call.method == "DELETE" or "{item_id}" in call.route else house.own(who)
    status, text = house.call(who, call, things, things)
    assert status in (200, 409), text  # 409: it was found, and cannot be done as it is


MCP = {"jsonrpc": "2.0", "id": 1, "method": "resources/list"}
"""An MCP client that asks for all conversations."""


@pytest.mark.req("API-14")
@pytest.mark.parametrize("key", OWN, ids=" ".join)
def test_a_route_that_names_nothing_gives_nothing_of_anothers(
    houses: tuple[House, House], key: tuple[str, str]
) -> None:
    for house in houses:
        for who in house.strangers()[:-1]:
            query = {name: PLAIN[name] for name, (place, needed) in inputs(operations()[key]).items() if needed}
            body = MCP if key == ("POST", "/mcp") else query if key[0] == "POST" else None
            status, text = house.send(who, *key, body, query)
            assert status == (422 if "confirm" in query else 200), text
            for thing in house.things.values():
                assert not thing or thing not in text
        assert house.seen() == house.before


@pytest.mark.req("SAFE-5")
def test_once_there_are_tokens_the_figures_are_for_those_of_scope_app(houses: tuple[House, House]) -> None:
    everybody, guarded = houses
    assert everybody.send(everybody.ann, "GET", "/metrics")[0] == 200
    callers = [guarded.ann, *guarded.strangers(), Who("nobody", {}, {}, {})]
    assert [guarded.send(who, "GET", "/metrics")[0] for who in callers] == [403, 403, 200, 200, 200, 403, 200, 401]


@pytest.mark.req("API-14", "API-7")
@pytest.mark.parametrize("key", DROP_IN, ids=" ".join)
def test_no_client_of_another_vendor_opens_anothers_thread(houses: tuple[House, House], key: tuple[str, str]) -> None:
    for house in houses:
        named = house.things["thread"]
        for who in house.strangers():
            plain = who._replace(body={})
            bodies = [{**DROP_IN[key], "metadata": {"user_id": "bob"}}] if who.name == "bob" else [DROP_IN[key]]
            for body in bodies:
                status, text = house.send(plain, *key, body, headers={"X-Thread-Id": named})
                assert (status, SECRET in text) == (404, False), (who, text)
                inside = {**body, "metadata": {**body.get("metadata", {}), "thread_id": named}}
                assert house.send(plain, *key, inside)[0] == 404
        assert house.seen() == house.before
    guarded = houses[1]
    for who, refused in ((Who("nobody", {}, {}, {}), 401), (guarded.strangers()[0], 403)):
        assert guarded.send(who._replace(query={"user_id": "ann"}), *key, DROP_IN[key])[0] == refused


@pytest.mark.req("API-14", "API-7")
def test_nobody_goes_on_from_anothers_response_or_conversation(houses: tuple[House, House]) -> None:
    for house in houses:
        named = {"previous_response_id": THINGS["response_id"](house.things)}
        places = (named, {"conversation": THINGS["conversation_id"](house.things)})
        items = [{"type": "item_reference", "id": THINGS["item_id"](house.things)}, {"role": "user", "content": "Hi"}]
        for who in house.strangers():
            plain, named_user = who._replace(body={}), {"metadata": {"user_id": "bob"}} if who.body else {}
            for body in (*places, {"input": items}):
                sent = {**DROP_IN["POST", "/v1/responses"], **named_user, **body}
                status, text = house.send(plain, "POST", "/v1/responses", sent)
                assert (status, SECRET in text) == (404, False), (who, text)
        assert house.seen() == house.before


@pytest.mark.req("API-14", "API-15")
def test_a_key_that_two_users_send_names_two_requests(houses: tuple[House, House]) -> None:
    for house in houses:
        key, made = {"Idempotency-Key": uuid4().hex}, set()
        for user in ("dora", "emil"):
            who = house.strangers()[1]._replace(query={"user_id": user}, body={})
            for _ in range(2):
                status, text = house.send(who, "POST", "/threads/new/messages", {"content": "Hello"}, headers=key)
                assert status == 200, text
                made.add((user, json.loads(text)["thread_id"]))
        assert len(made) == len({thread for _, thread in made}) == 2
