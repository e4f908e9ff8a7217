"""Running a server: how it does, what it tells, how it ends, and what is there after it was killed."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import uuid4

import httpx2
import pytest

from contextinfinity.client.remote import RemoteClient
from contextinfinity.client.results import Health
from contextinfinity.domain.job import Backlog
from contextinfinity.server.app_state import Metrics
from contextinfinity.telemetry.counters import level
from tests.doors.cix import Cix
from tests.doors.server import SHOWN, Server, pause, words

READY = Health(status="ready", reasons=(), backlog=Backlog())


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Server]:
    """A server of one's own, that ends quickly."""
    made = Server(tmp_path, "[server]\nshutdown_seconds = 1.0\n")
    yield made
    made.stop()


two_workers = pytest.mark.xdist_group("two workers")
"""The tests of one server, on one test worker: each start of its workers takes two seconds of CPU."""


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Two workers on one ledger."""
    made = Server(tmp_path_factory.mktemp("many"), "", "--workers", "2")
    yield made
    made.stop()


def workers_of(server: Server) -> list[int]:
    """Name the processes under a server that answer requests."""
    parent = server.process.pid
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    names = {int(pid): Path(f"/proc/{pid}/cmdline").read_bytes() for pid in children}
    return [pid for pid, name in names.items() if b"spawn_main" in name]


def test_a_server_that_works_says_so(server: Server) -> None:
    told = server.http.get("/healthz").json()
    assert (told["status"], told["reasons"]) == ("ready", [])


@pytest.mark.req("METRICS-1", "METRICS-3")
def test_figures_tell_what_was_answered(server: Server) -> None:
    turn = server.ask("Count me")
    server.ask("And me", model="fails")
    answer = server.http.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    figures = answer.text
    assert 'contextinfinity_turns_total{model="echo",outcome="completed"}' in figures
    assert 'outcome="failed"' in figures
    assert re.search(r'contextinfinity_tokens_total\{kind="output",model="echo"\} [1-9]', figures)
    assert re.search(r'contextinfinity_requests_total\{method="POST",route="/threads/\{thread_id\}/messages"', figures)
    assert re.search(r"contextinfinity_first_event_seconds_count [1-9]", figures)
    assert "contextinfinity_jobs" in figures
    assert "contextinfinity_ready 1.0" in figures
    assert turn["thread_id"] not in figures


@pytest.mark.req("SAFE-6")
def test_nothing_leaves_the_machine_whatever_the_environment_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # An address of its own: clients of other tests come back to ports of the usual one whose server was killed.
    address = "127.0.0.2" if sys.platform == "linux" else "127.0.0.1"
    with socket.create_server((address, 0)) as collector:
        collector.setblocking(False)
        place = f"http://{address}:{collector.getsockname()[1]}"
        for name in ("OTEL_EXPORTER_OTLP_ENDPOINT", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
            monkeypatch.setenv(name, place)
        for kind in ("TRACES", "METRICS", "LOGS"):
            monkeypatch.setenv(f"OTEL_{kind}_EXPORTER", "otlp")
        server = Server(tmp_path)
        server.ask("Hello")
        assert server.http.get("/metrics").status_code == 200
        assert server.stop() == 0
        with pytest.raises(BlockingIOError):
            collector.accept()


@pytest.mark.req("METRICS-1")
def test_figures_tell_how_long_each_stage_of_a_turn_takes(own: Server) -> None:
    thread = own.ask("My heron is called Zebediah and lives by the river.")["thread_id"]
    own.http.get("/search", params={"q": "a bird", "thread_id": thread})
    missing = {"embed", "search", "assemble", "stream", "summarise", "index"}
    while missing:  # what is done behind an answer comes after it
        pause()
        missing -= set(
            re.findall(r'contextinfinity_stage_seconds_count\{stage="(\w+)"\} [1-9]', own.http.get("/metrics").text)
        )


@pytest.mark.req("METRICS-1")
def test_a_turn_tells_what_it_was_estimated_to_take_and_what_it_took(own: Server) -> None:
    turn = own.ask("My heron is called Zebediah and lives by the river.")
    path = f"/threads/{turn['thread_id']}/turns/{turn['turn_id']}"
    plan = own.http.get(f"{path}/context").json()["plan"]
    assert sum(section["tokens"] for section in plan["sections"]) > 0
    assert plan["budget"]
    account = own.http.get(path).json()
    assert (account["usage"]["output_tokens"] > 0, account["degraded"]) == (True, False)


@pytest.mark.req("METRICS-3")
@pytest.mark.parametrize(("status", "value"), [("ready", "1.0"), ("degraded", "0.5"), ("unready", "0.0")])
def test_figures_tell_of_trouble(status: str, value: str) -> None:
    health = Health(status=status, reasons=(), backlog=Backlog(queued=3, failed=2))  # type: ignore[arg-type]
    told = Metrics().text(health).decode()
    assert f"contextinfinity_ready {value}" in told
    assert 'contextinfinity_jobs{state="failed"} 2.0' in told


@pytest.mark.req("METRICS-3")
def test_figures_are_told_after_a_ledger_was_away_and_came_back() -> None:
    figures, held = Metrics(), Health(status="degraded", reasons=(), backlog=Backlog(), spool_depth=3)
    level("spool_depth", 3)
    assert "contextinfinity_spool_depth 3.0" in figures.text(held).decode()
    level("spool_depth", 0)
    told = figures.text(READY).decode()
    assert "contextinfinity_spool_depth 0.0" in told
    assert 'what="spool_depth"' not in told


@pytest.mark.req("METRICS-2")
def test_a_turn_tells_of_its_requests(server: Server) -> None:
    turn = server.ask("Hello")
    (step,) = server.http.get(f"/threads/{turn['thread_id']}/turns/{turn['turn_id']}").json()["steps"]
    shown = len(turn["text"].encode())
    assert (step["outcome"], step["displayed_bytes"]) == ({"type": "completed"}, shown)
    assert step["durable_bytes"] == shown, "an answer is final once it is on the disk"
    failed = server.ask("Hello", model="fails")
    (step,) = server.http.get(f"/threads/{failed['thread_id']}/turns/{failed['turn_id']}").json()["steps"]
    assert step["outcome"] == {"type": "failed", "code": "quota", "message": "Out of credit."}


@pytest.mark.req("CTX-9")
def test_each_request_logs_where_it_went_and_nothing_that_was_said(own: Server) -> None:
    first = own.ask("my secret word is heron")
    with own.stream("and again: heron", first["thread_id"]) as heard:
        list(heard)
    own.http.get("/threads", headers={"Authorization": "Bearer cix_secret", "X-Api-Key": "cix_secret"})
    own.stop()
    lines = [line for line in own.log() if line.get("route", "").endswith(("messages", "messages/stream"))]
    told = [(line["thread_id"], line["branch_id"], line["found"], line["turns_loaded"]) for line in lines]
    assert told == [
        (first["thread_id"], first["branch_id"], False, 0),
        (first["thread_id"], first["branch_id"], True, 1),
    ]
    assert all(line["status"] == 200 and line["ms"] > 0 and line["request_id"] for line in lines)
    text = (own.folder / "log").read_text()
    assert "heron" not in text
    assert "cix_secret" not in text


def test_a_server_that_is_told_to_end_finishes_what_it_can_and_says_nothing_went_wrong(own: Server) -> None:
    assert own.stop() == 0
    assert [line for line in own.log() if line["level"] not in ("info",)] == []


@pytest.mark.req("API-6")
def test_a_stream_is_handed_over_when_the_server_ends(own: Server) -> None:
    turn, last = own.hanging()
    with ThreadPoolExecutor() as pool:
        reader = pool.submit(own.resume, turn)
        while "contextinfinity_streams 1.0" not in own.http.get("/metrics").text:
            pause()
        own.process.send_signal(signal.SIGTERM)
        assert own.process.wait(timeout=60) == 0
        heard = reader.result()
    assert "done" not in [event.name for event in heard]
    assert words(heard) == "".join(SHOWN)
    own.restart()
    rest = own.resume(turn, last)
    assert (words(rest), rest[-1].data["outcome"], rest[-1].data["text"]) == ("", "incomplete", "".join(SHOWN))


async def test_who_listens_for_folds_keeps_no_server_from_ending_and_comes_back(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
    server = Server(tmp_path, "[server]\nshutdown_seconds = 3600.0\n", "--port", port)
    async with RemoteClient(server.url) as client:
        listening = asyncio.ensure_future(anext(aiter(client.folds.follow())))
        while await asyncio.to_thread(open_streams, server) == 0:
            await asyncio.to_thread(pause)
        assert await asyncio.to_thread(server.stop) == 0
        server.start()
        while await asyncio.to_thread(open_streams, server) == 0:
            await asyncio.to_thread(pause)
        listening.cancel()
    assert server.stop() == 0


@pytest.mark.req("API-6", "API-2")
def test_a_stream_cut_by_a_kill_is_resumed_from_any_event(own: Server) -> None:
    turn, last = own.hanging()
    own.restart(signal.SIGKILL)
    whole = own.resume(turn)
    assert (words(whole), whole[-1].data["outcome"]) == ("".join(SHOWN), "incomplete")
    assert words(own.resume(turn, "0-1")) == "".join(SHOWN[1:])
    assert words(own.resume(turn, last)) == ""
    assert own.said(turn["thread_id"]) == ["go on"]


@pytest.mark.req("API-2", "API-15")
def test_a_key_is_known_after_a_kill(own: Server) -> None:
    answer = own.post("/threads/new/messages", {"content": "Hello"}, idempotency_key="k").json()
    own.restart(signal.SIGKILL)
    again = own.post("/threads/new/messages", {"content": "Hello"}, idempotency_key="k").json()
    assert (again["turn_id"], again["text"]) == (answer["turn_id"], answer["text"])
    assert own.said(answer["thread_id"]) == ["Hello"]


@two_workers
@pytest.mark.req("API-15", "THREAD-4")
def test_two_workers_are_one_server(many: Server) -> None:
    while len(workers_of(many)) != 2:  # they may still be starting
        pause()
    key, body = uuid4().hex, {"content": "Hello"}
    with ThreadPoolExecutor(8) as pool:
        sent = [pool.submit(many.post, "/threads/new/messages", body, idempotency_key=key) for _ in range(16)]
        answers = [each.result().json() for each in sent]
    (thread,) = {answer["thread_id"] for answer in answers}
    assert len({answer["turn_id"] for answer in answers}) == 1
    assert many.said(thread) == ["Hello"]
    for number in range(5):
        many.ask(str(number), thread)
        with ThreadPoolExecutor(4) as pool:
            seen = list(pool.map(many.said, [thread] * 4))
        assert seen == [["Hello", *map(str, range(number + 1))]] * 4


@two_workers
@pytest.mark.req("METRICS-3")
def test_any_worker_tells_the_figures_of_all(many: Server) -> None:
    before = _completed(many)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(many.ask, map(str, range(12))))
    assert {_completed(many) for _ in range(6)} == {before + 12}


@two_workers
@pytest.mark.req("API-6")
def test_a_stream_of_one_worker_is_heard_and_stopped_through_another(many: Server) -> None:
    turns = [many.hanging()[0] for _ in range(4)]
    with ThreadPoolExecutor(8) as pool:
        readers = [pool.submit(many.resume, turn) for turn in turns]
        for turn in turns:
            many.post(f"/threads/{turn['thread_id']}/turns/{turn['turn_id']}/cancel")
        heard = [reader.result() for reader in readers]
    assert [words(each) for each in heard] == ["".join(SHOWN)] * 4
    assert {each[-1].data["outcome"] for each in heard} == {"cancelled"}


@two_workers
def test_a_worker_that_dies_is_replaced(many: Server) -> None:
    turn, last = many.hanging()
    while open_streams(many) > 0:
        pause()
    with ThreadPoolExecutor() as pool:
        reader = pool.submit(many.resume, turn)
        while open_streams(many) == 0:
            pause()
        for pid in workers_of(many):
            os.kill(pid, signal.SIGKILL)
        assert isinstance(reader.exception(), httpx2.HTTPError)
    many.http.close()
    many.http = type(many.http)(base_url=many.url, timeout=60, trust_env=False)
    assert open_streams(many) == 0  # the dead have none open
    assert many.http.get("/healthz").json()["status"] == "ready"
    assert many.resume(turn, last)[-1].data["outcome"] == "incomplete"


def test_a_port_that_is_taken_is_told_in_words(server: Server, cix: Cix) -> None:
    port = server.url.rpartition(":")[2]
    with cix.start("serve", "--port", port) as process:
        code, _, told = process.end()
    assert (code, f"port {port}" in told, "--port" in told) == (1, True, True)


def open_streams(server: Server) -> float:
    """Read how many streams all workers together have open."""
    return float(re.findall(r"^contextinfinity_streams (\S+)", server.http.get("/metrics").text, re.MULTILINE)[0])


def _completed(server: Server) -> float:
    text = server.http.get("/metrics").text
    found = re.findall(r'contextinfinity_turns_total\{model="echo",outcome="completed"\} (\S+)', text)
    return float(found[0]) if found else 0.0
