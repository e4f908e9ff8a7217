"""A limit of what models may cost a user: every interface refuses the call and says why."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from anthropic import Anthropic
from anthropic import RateLimitError as AnthropicRateLimitError
from openai import OpenAI, RateLimitError
from openai.types.chat import ChatCompletionMessageParam

from tests.doors import server as servers
from tests.doors.cix import Cix
from tests.doors.server import Server

COSTS = {"text": "Fine.", "usage": {"cost": 0.4}}
LIMITS = "[general]\nmax_dollars_per_day = 0.7\nmax_dollars_per_month = 20\n"
PAID = '[models.paid]\nprovider = "scripted"\npath = "paid.json"\n'


@pytest.fixture
def limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    (tmp_path / "paid.json").write_text(json.dumps({"replies": [COSTS], "loop": True}), encoding="utf-8")
    monkeypatch.setattr(servers, "CONFIG", servers.CONFIG.replace("[general]\n", LIMITS))
    made = Server(tmp_path, PAID)
    yield made
    made.stop()


def test_a_user_who_spent_the_limit_is_refused_on_every_interface(limited: Server) -> None:
    ann = {"user_id": "ann", "model": "paid"}
    thread = limited.ask("one", **ann)["thread_id"]
    assert limited.ask("two", thread, **ann)["outcome"] == "completed", "a call may pass the limit, the next is refused"
    with OpenAI(base_url=f"{limited.url}/v1", api_key="none") as openai:
        messages: list[ChatCompletionMessageParam] = [{"role": "user", "content": "three"}]
        for stream in (False, True):
            with pytest.raises(RateLimitError) as refused:
                openai.chat.completions.create(model="paid", messages=messages, user="ann", stream=stream)
            assert (refused.value.code, refused.value.type) == ("insufficient_quota", "insufficient_quota")
            assert refused.value.response.headers["x-should-retry"] == "false"
        assert openai.chat.completions.create(model="paid", messages=messages, user="ben").choices
    with Anthropic(base_url=limited.url, api_key="none") as anthropic, pytest.raises(AnthropicRateLimitError) as told:
        anthropic.messages.create(
            model="paid", max_tokens=9, messages=[{"role": "user", "content": "x"}], metadata={"user_id": "ann"}
        )
    assert told.value.response.json()["error"]["type"] == "rate_limit_error"
    failed = limited.ask("three", thread, **ann)
    assert (failed["outcome"], failed["error"]["code"]) == ("failed", "spending_limit")
    assert failed["error"]["message"] == "ann spent $0.80; models may cost a user $0.70 a day."
    assert limited.post("/chat", {"query": "four", "user_id": "ann"}).json()["error"]
    assert limited.http.delete(f"/threads/{thread}", params={"user_id": "ann"}).status_code == 200
    spent = limited.http.get("/spending", params={"user_id": "ann"}).json()
    assert spent == {"today": 0.8, "month": 0.8, "limit_per_day": 0.7, "limit_per_month": 20.0}, "also after a deletion"


def test_a_tool_loop_ends_at_the_limit_with_what_it_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = {**COSTS, "text": "Looking.", "tools": [{"name": "nothing", "arguments": {}}]}
    monkeypatch.setattr(servers, "CONFIG", servers.CONFIG.replace("[general]\n", LIMITS))
    (tmp_path / "paid.json").write_text(json.dumps({"replies": [calls], "loop": True}), encoding="utf-8")
    server = Server(tmp_path, PAID + '[tools]\nmode = "enabled"\n')
    try:
        turn = server.ask("Look", model="paid", user_id="ann")
        assert (turn["outcome"], turn["error"]["code"], turn["usage"]["cost"]) == ("incomplete", "spending_limit", 0.8)
        assert server.http.get("/spending", params={"user_id": "ann"}).json()["today"] == 0.8
        assert turn["text"] == "Looking.\n\nLooking."
    finally:
        server.stop()


def test_what_was_spent_is_shown(cix: Cix) -> None:
    cix.script(COSTS)
    cix("ask", "Hello")
    shown = cix("spending").stdout
    assert "$0.4000" in shown
    assert "none" in shown
    assert cix.json("spending", "--user", "ben")["today"] == 0.0
