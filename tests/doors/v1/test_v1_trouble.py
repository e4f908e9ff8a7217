"""The drop-in door on a bad day: the server is killed or told to end in the midst of answers, the ledger is away."""

from __future__ import annotations

import asyncio
import json
import random
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2
import pytest
from anthropic import Anthropic, APIStatusError
from openai import APIConnectionError, APIError, InternalServerError, OpenAI

from contextinfinity.domain.message import Message
from contextinfinity.domain.session import Owner
from contextinfinity.domain.turn import Phase, Turn
from contextinfinity.storage.sqlite.store import SqliteStore
from tests.doors.server import SHOWN, Server, pause
from tests.doors.test_server_chat import locked
from tests.doors.v1.upstream import somebody

pytestmark = [pytest.mark.req("API-7"), pytest.mark.xdist_group("v1-trouble")]

RETRY = {"x-stainless-retry-count": "1"}
HALF = "".join(SHOWN)


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Server]:
    made = Server(tmp_path, "[server]\nshutdown_seconds = 0.5\n")
    made.http.get("/healthz")
    yield made
    made.stop()


def client_of(server: Server, retries: int = 0) -> OpenAI:
    return OpenAI(base_url=f"{server.url}/v1", api_key="not needed", max_retries=retries)


def heal(server: Server) -> None:
    """Have the model that hangs answer, from the server's next start on."""
    (server.folder / "hangs.json").write_text(json.dumps([{"text": "All of it."}]), encoding="utf-8")


def hear_half(stream: Any) -> str:
    """Listen until the model hangs; gives the thread."""
    heard = ""
    for chunk in stream:
        heard += chunk.choices[0].delta.content or ""
        if heard == HALF:
            break
    thread: str = stream.response.headers["x-thread-id"]
    return thread


def shown(server: Server, thread: str, turn: str) -> list[tuple[str, str]]:
    """Read what a model was shown, as (role, text)."""
    told = server.http.get(f"/threads/{thread}/turns/{turn}/context", params=server.whose(thread)).json()
    texts = ("".join(block.get("text", "") for block in message["blocks"]) for message in told["messages"])
    return list(zip((message["role"] for message in told["messages"]), texts, strict=True))


def said_on(server: Server, thread: str, branch: str | None = None) -> list[str]:
    """Read the messages of a branch, or of the thread's active branch."""
    asked = server.whose(thread) | ({} if branch is None else {"branch_id": branch})
    told = server.http.get(f"/threads/{thread}/messages", params=asked).json()
    return [message["content"] for message in told["messages"]]


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
@pytest.mark.parametrize("earlier", [0, 1])
def test_a_stream_that_ends_with_its_server_is_answered_anew_in_its_thread(own: Server, how: int, earlier: int) -> None:
    messages: list[Any] = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}] * earlier
    messages.append({"role": "user", "content": "go on"})
    asked: Any = {"model": "hangs", "messages": messages, "user": somebody(), "stream": True}
    with client_of(own) as client, client.chat.completions.create(**asked) as stream:
        thread = hear_half(stream)
        own.process.send_signal(how)
        with pytest.raises(APIConnectionError if how == signal.SIGKILL else APIError) as told:
            list(stream)
        assert how == signal.SIGKILL or "shutting down" in str(told.value)
    heal(own)
    own.restart()
    with client_of(own) as client, client.chat.completions.create(**asked, extra_headers=RETRY) as stream:
        assert "".join(chunk.choices[0].delta.content or "" for chunk in stream) == "All of it."
        assert stream.response.headers["x-thread-id"] == thread
        turn = stream.response.headers["x-turn-id"]
    assert shown(own, thread, turn) == [(message["role"], message["content"]) for message in messages]
    branches = own.http.get(f"/threads/{thread}/branches", params=own.whose(thread)).json()["branches"]
    assert "All of it." in said_on(own, thread), "the thread stands where it was spoken in last"
    halves = [said_on(own, thread, branch["branch_id"]) for branch in branches]
    assert sum(HALF in half for half in halves) == 1, "what was shown of the first answer is kept, on a branch"


def test_anthropics_sdk_is_told_in_its_own_shape_that_the_server_ends(own: Server) -> None:
    with Anthropic(base_url=own.url, api_key="not needed", max_retries=0) as client:
        heard = ""
        with client.messages.stream(
            model="hangs", messages=[{"role": "user", "content": "go on"}], max_tokens=100
        ) as stream:
            for text in stream.text_stream:
                heard += text
                if heard == HALF:
                    break
            own.process.send_signal(signal.SIGTERM)
            with pytest.raises(APIStatusError, match="shutting down"):
                list(stream.text_stream)


def test_an_answer_in_one_piece_that_the_server_could_not_wait_for_can_be_asked_for_again(own: Server) -> None:
    asked: Any = {"model": "hangs", "messages": [{"role": "user", "content": "go on"}], "user": somebody()}
    with ThreadPoolExecutor() as pool, client_of(own) as client:
        waiting = pool.submit(lambda: client.chat.completions.create(**asked))
        while "hangs was asked for" not in (own.folder / "log").read_text():
            pause()
        own.process.send_signal(signal.SIGTERM)
        with pytest.raises(InternalServerError, match="shutting down") as told:
            waiting.result()
    assert told.value.status_code == 503
    heal(own)
    own.restart()
    with client_of(own) as client:
        assert client.chat.completions.create(**asked, extra_headers=RETRY).choices[0].message.content == "All of it."


def test_conversations_go_on_while_the_ledger_is_away_and_are_kept_once(own: Server) -> None:
    known, new, named = Talker(own), Talker(own), Talker(own, {"X-Thread-Id": "our room"})
    known.say("0")
    named.say("0")
    key = {"Idempotency-Key": somebody()}
    with locked(own):
        for text in ("1", "2", "3"):
            for talker in (known, new, named):
                talker.say(text, key if (talker, text) == (new, "1") else None)
        assert new.post(new.messages[:1], key) == new.threads[0], "under its key it joins what it made"
        assert own.http.get("/healthz").json()["status"] == "degraded"
    while own.http.get("/healthz").json()["status"] != "ready":
        pause()
    for talker in (known, new, named):
        talker.say("4")
        assert len(set(talker.threads)) == 1
    assert own.said(known.threads[0]) == own.said(named.threads[0]) == ["0", "1", "2", "3", "4"]
    assert own.said(new.threads[0]) == ["1", "2", "3", "4"]


class Talker:
    """A client that holds its conversation, and sends everything again until it is answered."""

    def __init__(self, server: Server, headers: dict[str, str] | None = None) -> None:
        self.server, self.user, self.headers = server, somebody(), headers or {}
        self.messages: list[dict[str, str]] = []
        self.threads: list[str] = []

    def say(self, text: str, headers: dict[str, str] | None = None, *, model: str = "echo") -> None:
        """Say something more, as a stream."""
        self.messages.append({"role": "user", "content": text})
        try:
            self.threads.append(self.post(self.messages, headers, model=model))
        except BaseException:
            self.messages.pop()
            raise
        self.messages.append({"role": "assistant", "content": self.heard})

    def post(
        self, messages: list[dict[str, str]], headers: dict[str, str] | None = None, *, model: str = "echo"
    ) -> str:
        """Send a list, hear its answer to the end, and return its thread."""
        body = {"model": model, "messages": messages, "user": self.user, "stream": True}
        address, more = f"{self.server.url}/v1/chat/completions", {**self.headers, **(headers or {})}
        self.heard, ended = "", False
        with httpx2.stream("POST", address, json=body, headers=more, timeout=60, trust_env=False) as answer:
            answer.raise_for_status()
            for line in answer.iter_lines():
                data = line.removeprefix("data: ")
                ended = ended or data == "[DONE]"
                if line.startswith("data: {"):
                    chunk = json.loads(data)
                    if "error" in chunk:
                        raise Cut(chunk["error"]["message"])
                    self.heard += chunk["choices"][0]["delta"].get("content") or ""
            if not ended:
                raise Cut("it ended in the middle")
            thread: str = answer.headers["x-thread-id"]
            return thread


class Cut(Exception):
    """An answer that did not come to its end."""


SLOW = [{"when": "slowly", "pieces": [f" word{number}" for number in range(15)], "delay": 0.01}, {"text": "Quick."}]
STORMY = """
[models.slow]
provider = "scripted"
path = "slow.json"
[server]
requests_per_minute = 0
streams_per_user = 1000
"""


@pytest.mark.req("API-7", "TURN-9")
def test_kills_in_the_midst_of_streams_lose_and_double_nothing(tmp_path: Path) -> None:
    seed = random.randrange(2**32)
    (tmp_path / "slow.json").write_text(json.dumps(SLOW), encoding="utf-8")
    server, up = Server(tmp_path, STORMY), threading.Event()
    said, cuts = threading.Semaphore(0), Counter[str]()

    def talk(number: int) -> Talker:
        rng, talker = random.Random(seed + number), Talker(server)
        for place in range(6):
            manner, tries = rng.choice(("slowly", "quickly")), 0
            while len(talker.messages) == 2 * place:
                up.wait(timeout=60)
                try:
                    talker.say(f"{place} {manner}", {"x-stainless-retry-count": str(tries)}, model="slow")
                except (httpx2.HTTPError, Cut):
                    tries += 1
                    cuts["cut"] += 1
            said.release()
        return talker

    with ThreadPoolExecutor(max_workers=8) as pool:
        up.set()
        talking = [pool.submit(talk, number) for number in range(8)]
        for _ in range(3):
            for _ in range(8):
                said.acquire(timeout=60)
            up.clear()
            server.restart(signal.SIGKILL)
            up.set()
        talkers = [one.result(timeout=120) for one in talking]
    assert server.stop() == 0
    assert cuts["cut"] > 0, seed
    for talker in talkers:
        assert len(set(talker.threads)) == 1, (seed, "a thread fell apart")
    asyncio.run(reconcile_index(tmp_path, talkers, seed))


async def reconcile_index(folder: Path, talkers: list[Talker], seed: int) -> None:
    """See that each conversation is kept whole in one line, and that no answer was made twice."""
    store = SqliteStore(folder / "ledger.db")
    try:
        for talker in talkers:
            sessions = await store.sessions.list(Owner(user_id=talker.user), limit=100)
            assert [session.id for session in sessions] == [talker.threads[0]], seed
            turns, lines = dict[str, Turn](), []
            for branch in await store.branches.list(talker.threads[0]):
                line = [
                    turn for turn in await store.turns.history(branch.id, limit=500) if turn.phase is not Phase.FAILED
                ]
                turns |= {turn.id: turn for turn in line}
                lines.append([(side.role, side.rendered_text) for turn in line for side in sides(turn)])
            assert [(one["role"], one["content"]) for one in talker.messages] in lines, (seed, talker.messages, lines)
            assert len(turns) == len(talker.messages) / 2, (seed, "something was answered twice")
    finally:
        await store.close()


def sides(turn: Turn) -> list[Message]:
    return [turn.user_message] if turn.answer is None else [turn.user_message, turn.answer]


@pytest.mark.req("API-3")
def test_bytes_that_are_no_text_and_names_that_fit_no_header_are_no_internal_error(server: Server) -> None:
    deep = b"[" * 5_000 + b"]" * 5_000
    for body in (b'{"user_id": "\xff"}', b'{"user_id": "a", "x": ' + deep + b"}"):
        refused = server.http.post("/v1/chat/completions", content=body, headers={"content-type": "application/json"})
        assert refused.status_code in (400, 422), refused.text
    odd = "caf\u00e9\u0300\r\nset-cookie: a=b"
    asked = {"model": "echo", "input": "hello", odd: 1, "plain": 2, "tools": [{"type": odd}, {"type": "shell"}]}
    answered = server.post("/v1/responses", asked)
    assert answered.status_code == 200, answered.text
    assert answered.headers["x-ignored-parameters"] == "plain, tools.shell"
