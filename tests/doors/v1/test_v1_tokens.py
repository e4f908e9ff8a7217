"""Keys of the vendors' SDKs are our tokens: who is let in, and whose conversations and memories are whose."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import anthropic
import openai
import pytest
from anthropic import Anthropic
from openai import OpenAI

from tests.doors.cix import Cix
from tests.doors.v1.upstream import KEYS, Aside, Desk, somebody

pytestmark = [pytest.mark.req("API-7", "API-10"), pytest.mark.xdist_group("v1")]


class Guarded:
    """A server that asks for tokens: one of a person, one of an application."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self._cix = Cix(desk.server.folder)
        self.ann = self._make("ann")
        self.app = self._make("shop", "--scope", "app")

    def _make(self, user: str, *more: str) -> str:
        token: str = self._cix.json("token", "create", "--user", user, *more)["token"]
        return token

    def ask(self, token: str, *said: str, headers: Any = None, **more: Any) -> tuple[str, str]:
        """Ask with a token; return the answer and the thread."""
        roles = ("user", "assistant")
        messages: Any = [{"role": roles[place % 2], "content": text} for place, text in enumerate(said)]
        with OpenAI(base_url=self.desk.openai_url, api_key=token, max_retries=0) as client:
            create = client.chat.completions.with_raw_response.create
            answer = create(model="gpt", messages=messages, extra_headers=headers, **more)
        return answer.parse().choices[0].message.content or "", answer.headers["x-thread-id"]

    def owner(self, token: str, thread_id: str, **params: str) -> str:
        """Tell whose a thread is."""
        headers = {"Authorization": f"Bearer {token}"}
        answer = self.desk.server.http.get(f"/threads/{thread_id}", headers=headers, params=params)
        assert answer.status_code == 200, answer.text
        return str(answer.json()["user_id"])


@pytest.fixture(scope="module")
def guarded(all_vendors: Aside, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    desk = Desk(tmp_path_factory.mktemp("guarded"), all_vendors)
    desk.say()
    yield Guarded(desk)
    desk.server.stop()


@pytest.mark.parametrize("key", ["wrong", "cix_wrong", KEYS["OPENAI_API_KEY"]])
def test_a_key_that_is_no_token_is_refused_as_the_vendor_would(guarded: Guarded, key: str) -> None:
    with (
        OpenAI(base_url=guarded.desk.openai_url, api_key=key) as client,
        pytest.raises(openai.AuthenticationError) as a,
    ):
        client.chat.completions.create(model="gpt", messages=[{"role": "user", "content": "Hi"}])
    assert (a.value.code, a.value.type) == ("invalid_api_key", "invalid_request_error")
    with (
        Anthropic(base_url=guarded.desk.anthropic_url, api_key=key) as other,
        pytest.raises(anthropic.AuthenticationError) as b,
    ):
        other.messages.create(model="gpt", max_tokens=9, messages=[{"role": "user", "content": "Hi"}])
    assert b.value.body["error"]["type"] == "authentication_error"  # type: ignore[index]


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages", "/v1/embeddings"])
def test_without_a_key_nobody_is_let_in(guarded: Guarded, path: str) -> None:
    answer = guarded.desk.server.post(path, {"model": "gpt"})
    assert answer.status_code == 401
    kinds = {"authentication_error", "invalid_request_error"}
    assert answer.json()["error"]["type"] in kinds
    assert guarded.desk.server.http.get("/v1/models").status_code == 401


def test_both_sdks_are_let_in_with_a_token(guarded: Guarded) -> None:
    assert guarded.ask(guarded.ann, "Hi")[0] == "You said: Hi"
    with Anthropic(base_url=guarded.desk.anthropic_url, api_key=guarded.ann) as client:
        done = client.messages.create(model="gpt", max_tokens=99, messages=[{"role": "user", "content": "Hi"}])
    assert done.content[0].type == "text"
    with Anthropic(base_url=guarded.desk.anthropic_url, auth_token=guarded.ann, api_key=None) as client:
        assert client.messages.count_tokens(model="gpt", messages=[{"role": "user", "content": "Hi"}]).input_tokens


def test_the_keys_of_clients_never_go_upstream(guarded: Guarded) -> None:
    guarded.ask(guarded.ann, "Hi there")
    sent = guarded.desk.vendors.requests[-1].headers
    assert sent["authorization"] == f"Bearer {KEYS['OPENAI_API_KEY']}"
    assert guarded.ann not in str(sent)


def test_an_application_speaks_for_its_users_and_each_has_their_own(guarded: Guarded) -> None:
    carl, dora = somebody(), somebody()
    mine = guarded.ask(guarded.app, "Hi", user=carl)[1]
    theirs = guarded.ask(guarded.app, "Hi", user=dora)[1]
    assert mine != theirs
    assert guarded.owner(guarded.app, mine, user_id=carl) == carl
    assert guarded.owner(guarded.app, theirs, user_id=dora) == dora
    assert guarded.ask(guarded.app, "Hi", "You said: Hi", "And?", user=carl)[1] == mine
    long = "https://example.org/users/" + "x" * 100
    kept = guarded.desk.server.whose(guarded.ask(guarded.app, "Hi", user=long)[1])
    assert kept["user_id"].startswith("user-")


@pytest.mark.req("API-14")
def test_no_end_user_can_name_themselves_as_the_name_that_stands_for_another(guarded: Guarded) -> None:
    alice = f"alice/{somebody()}"
    hers = guarded.ask(guarded.app, "The code is heron.", user=alice)[1]
    kept = guarded.desk.server.whose(hers)["user_id"]
    with pytest.raises(openai.NotFoundError):
        guarded.ask(guarded.app, "Which code?", user=kept, headers={"X-Thread-Id": hers})
    named = guarded.ask(guarded.app, "Hello", user=kept)[1]
    assert guarded.desk.server.whose(named)["user_id"] != kept


@pytest.mark.req("API-12")
def test_nothing_of_what_is_remembered_is_added_to_what_a_client_sends(guarded: Guarded) -> None:
    carl, dora = somebody(), somebody()
    headers = {"Authorization": f"Bearer {guarded.app}"}
    fact = {"content": "The user is allergic to hazelnuts.", "user_id": carl}
    made = guarded.desk.server.http.post("/memories", json=fact, headers=headers)
    assert made.status_code < 300, made.text
    for user in (carl, dora):
        guarded.ask(guarded.app, f"{user}: which cake can I eat, am I allergic to hazelnuts?", user=user)
        assert "The user is allergic" not in guarded.desk.shown


def test_a_persons_token_keeps_end_users_apart_and_all_threads_their_own(guarded: Guarded) -> None:
    carl, dora = somebody(), somebody()
    mine, theirs = (guarded.ask(guarded.ann, "Hello you", user=user)[1] for user in (carl, dora))
    assert mine != theirs
    assert guarded.owner(guarded.ann, mine) == guarded.owner(guarded.ann, theirs) == "ann"
    assert guarded.ask(guarded.ann, "Hello you", "You said: Hello you", "And?", user=carl)[1] == mine


@pytest.mark.parametrize("whose", ["ann", "app"])
def test_two_end_users_may_give_their_threads_the_same_name(guarded: Guarded, whose: str) -> None:
    carl, dora, token = somebody(), somebody(), getattr(guarded, whose)
    named = {"X-Thread-Id": "support"}
    mine = guarded.ask(token, "My secret is swordfish.", user=carl, headers=named)[1]
    theirs = guarded.ask(token, "What is my secret?", user=dora, headers=named)[1]
    assert mine != theirs
    assert "swordfish" not in guarded.desk.shown
    assert guarded.ask(token, "And mine?", user=carl, headers=named)[1] == mine
    assert "swordfish" in guarded.desk.shown


def test_an_end_user_does_not_come_into_the_thread_of_another_by_its_id(guarded: Guarded) -> None:
    carl, dora = somebody(), somebody()
    thread = guarded.ask(guarded.app, "My secret is swordfish.", user=carl)[1]
    with pytest.raises(openai.NotFoundError):
        guarded.ask(guarded.app, "What is my secret?", user=dora, headers={"X-Thread-Id": thread})
    assert guarded.ask(guarded.app, "And mine?", user=carl, headers={"X-Thread-Id": thread})[1] == thread


def test_a_thread_of_somebody_else_is_not_found(guarded: Guarded) -> None:
    thread = guarded.ask(guarded.app, "Hi", user=somebody())[1]
    with pytest.raises(openai.NotFoundError):
        guarded.ask(guarded.ann, "Hi", headers={"X-Thread-Id": thread})
