"""What ``/metrics`` tells of real traffic: every figure there is, with the value it has to have."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, get_args

import httpx2
import pytest

from contextinfinity.storage.sqlite.connection import connect
from contextinfinity.telemetry.counters import Counted
from contextinfinity.telemetry.stage_times import Stage
from tests.doors.server import Server, pause

TIGHT = """\
[models.tight]
provider = "scripted"
path = "tight.json"
[models.paid]
provider = "scripted"
path = "paid.json"
[librarian]
model = "offline"
"""
STAGES = ("embed", "search", "assemble", "first_token", "stream", "summarise", "index")
FIRST = "My heron is called Zebediah and lives by the river."


@pytest.fixture
def counting(tmp_path: Path) -> Iterator[Server]:
    """A server of one's own: it has counted nothing yet."""
    too_much = {"error": {"code": "size", "message": "Too long.", "hint": "Send less."}}
    (tmp_path / "tight.json").write_text(json.dumps([too_much, "It fits now."]))
    (tmp_path / "paid.json").write_text(json.dumps([{"text": "Fine.", "usage": {"cost": 0.4}}]))
    made = Server(tmp_path, TIGHT)
    yield made
    made.stop()


def figures(server: Server) -> dict[str, float]:
    """Read them: by name and labels, without what all names begin with."""
    lines = server.http.get("/metrics").text.splitlines()
    told = (line.removeprefix("contextinfinity_").rpartition(" ") for line in lines if not line.startswith("#"))
    return {name: float(value) for name, _, value in told}


def until(server: Server, name: str, value: float) -> dict[str, float]:
    """Read them until one has its value: what goes on behind the answers takes its time."""
    while (told := figures(server)).get(name) != value:
        pause()
        assert server.process.poll() is None
    return told


def account(server: Server, turn: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Read what a turn took, and the plan of its last step."""
    path = f"/threads/{turn['thread_id']}/turns/{turn['turn_id']}"
    return server.http.get(path).json(), server.http.get(f"{path}/context").json()["plan"]


@pytest.mark.req("METRICS-1", "METRICS-2")
def test_a_turn_counts_once_whoever_listens(counting: Server) -> None:
    turn = counting.post("/threads/new/messages", {"content": FIRST}, idempotency_key="k").json()
    again = counting.post("/threads/new/messages", {"content": FIRST}, idempotency_key="k").json()
    assert again["turn_id"] == turn["turn_id"]
    for _ in range(2):
        counting.resume(turn)
    stopped, _ = counting.hanging()  # no one listens to its end
    counting.post(f"/threads/{stopped['thread_id']}/turns/{stopped['turn_id']}/cancel")
    told = figures(counting)
    assert told['turns_total{model="echo",outcome="completed"}'] == 1
    assert told['turns_total{model="hangs",outcome="cancelled"}'] == 1
    usage = turn["usage"]
    for kind in ("input", "output", "cached"):
        assert told[f'tokens_total{{kind="{kind}",model="echo"}}'] == usage[f"{kind}_tokens"], kind
    its, plan = account(counting, turn)
    assert told['tokens_total{kind="estimated",model="echo"}'] == sum(each["tokens"] for each in plan["sections"])
    shown = its["steps"][0]["displayed_bytes"] + len("one two three")
    assert told['step_bytes_total{kind="displayed"}'] == shown
    assert its["steps"][0]["displayed_bytes"] <= told['step_bytes_total{kind="durable"}'] <= shown
    assert counting.ask("What does it cost?", model="paid")["usage"]["cost"] == 0.4
    assert figures(counting)['cost_dollars_total{model="paid"}'] == 0.4


@pytest.mark.req("METRICS-1", "METRICS-2")
def test_steps_that_fail_and_prompts_that_are_sent_again_are_told(counting: Server) -> None:
    counting.ask("Hello", model="fails")
    thread = counting.ask("Hello " * 2000)["thread_id"]
    assert counting.ask("Hello", thread, model="tight")["text"] == "It fits now."
    told = figures(counting)
    steps = {name: value for name, value in told.items() if name.startswith("steps_total")}
    assert steps == {
        'steps_total{error="quota",outcome="failed",provider="scripted"}': 1,
        'steps_total{error="size",outcome="failed",provider="scripted"}': 1,
        'steps_total{error="",outcome="completed",provider="scripted"}': 2,
    }
    assert told['happened_total{what="provider_retries"}'] == 1
    (shrunk,) = [line for line in counting.log() if "the prompt was shrunk" in line["message"]]
    assert (shrunk["level"], "Hello" in shrunk["message"]) == ("info", False)
    assert told['turns_total{model="fails",outcome="failed"}'] == 1


@pytest.mark.req("METRICS-1")
def test_what_was_brought_back_is_told_as_its_plan_tells_it(counting: Server) -> None:
    thread = counting.ask(FIRST)["thread_id"]
    for number in range(6):
        counting.ask(f"Tell me of harvest number {number}: " + "barley and rye, " * 100, thread)
    until(counting, 'happened_total{what="turns_indexed"}', 7)
    assert counting.post(f"/threads/{thread}/fold").json()["covers_turn_seq"] >= 1
    before = figures(counting)
    assert before['happened_total{what="summaries_made"}'] == 1
    assert before['happened_total{what="summaries_refused"}'] == 0
    turn = counting.ask("Is the heron called Zebediah?", thread)
    _, plan = account(counting, turn)
    now = figures(counting)
    grown = {name: value - before.get(name, 0) for name, value in now.items()}
    assert plan["retrieved"]
    assert grown['retrieval_count{what="selected"}'] == 1
    assert grown['retrieval_sum{what="selected"}'] == len(plan["retrieved"])
    assert grown['retrieval_sum{what="candidates"}'] >= len(plan["retrieved"])
    assert 0 < grown['retrieval_sum{what="packed_tokens"}'] <= plan["budget"]["retrieval_budget"]
    similarities = [similarity for _, similarity, *_ in plan["retrieved"]]
    assert grown['retrieval_similarity_sum{which="lowest"}'] == pytest.approx(min(similarities), abs=1e-3)
    assert grown['retrieval_similarity_sum{which="highest"}'] == pytest.approx(max(similarities), abs=1e-3)
    for stage in STAGES:
        assert stage in get_args(Stage)
        assert now[f'stage_seconds_count{{stage="{stage}"}}'] >= 1
    while "index" not in (took := account(counting, turn)[0]["latency_ms"]):
        pause()
        assert counting.process.poll() is None
    assert set(STAGES) <= took.keys()
    assert all(milliseconds > 0 for milliseconds in took.values())
    assert (took["embed"] <= took["search"], took["first_token"] <= took["stream"]) == (True, True)


@pytest.mark.req("METRICS-3")
def test_every_counter_is_told_from_the_start(counting: Server) -> None:
    told = figures(counting)
    for what in get_args(Counted):
        assert told[f'happened_total{{what="{what}"}}'] == 0, what
    assert (told["spool_depth"], told["ready"], told['jobs{state="queued"}']) == (0, 1, 0)


@pytest.mark.req("METRICS-3")
def test_an_outage_is_told_while_it_lasts_and_after(counting: Server) -> None:
    thread = counting.ask("before")["thread_id"]
    before = until(counting, 'happened_total{what="turns_indexed"}', 1)
    assert before['happened_total{what="turn_writes_ok"}'] >= 1
    other = connect(str(counting.folder / "ledger.db"))
    other.execute("BEGIN EXCLUSIVE")
    try:
        assert counting.ask("meanwhile", thread)["durability"] == "local"
        told = figures(counting)
        assert told["spool_depth"] >= 1
        assert told["ready"] == 0.5
        assert told['happened_total{what="turn_writes_failed"}'] >= 1
        assert told['happened_total{what="fallback_activations"}'] == 1
        assert counting.http.get("/healthz").json()["status"] == "degraded"
    finally:
        other.execute("ROLLBACK")
        other.close()
    after = until(counting, "spool_depth", 0)
    assert after['happened_total{what="turn_writes_ok"}'] > before['happened_total{what="turn_writes_ok"}']
    assert counting.said(thread) == ["before", "meanwhile"]
    assert any(line["level"] in ("error", "critical") for line in counting.log())


@pytest.mark.req("METRICS-3")
def test_what_one_worker_does_behind_its_answers_is_told_by_all(tmp_path: Path) -> None:
    server = Server(tmp_path, "", "--workers", "2")

    def say(number: int) -> None:
        """Say something over a connection of its own, to whichever worker takes it."""
        place = f"{server.url}/threads/new/messages"
        httpx2.post(
            place, json={"content": f"Hello {number}"}, timeout=60, trust_env=False, verify=False
        ).raise_for_status()

    try:
        with ThreadPoolExecutor(16) as pool:
            list(pool.map(say, range(48)))
        told = until(server, 'happened_total{what="turns_indexed"}', 48)  # over one connection, to one worker
        assert told['turns_total{model="echo",outcome="completed"}'] == 48
    finally:
        assert server.stop(signal.SIGTERM) == 0
