"""Parts of the server without a server: rate limits, server-sent events, reports of an unavailable ledger."""

from __future__ import annotations

import asyncio
import json
import socket
from pathlib import Path

import httpx2
import pytest

from contextinfinity import errors
from contextinfinity.client.contract import StampedEvent
from contextinfinity.domain.events import Delta, FinishedTurn, TurnDone, TurnFailed
from contextinfinity.domain.session import Owner
from contextinfinity.errors import TooMany
from contextinfinity.server import problems
from contextinfinity.server.app import make_app
from contextinfinity.server.app_state import REGION, SLOTS, CounterTable, Counts, Metrics, RateLimits, Share, Streams
from contextinfinity.server.guard import is_loopback
from contextinfinity.server.serving import listening
from contextinfinity.server.streams import frame
from contextinfinity.wiring import open_client
from contextinfinity_testing.clients import suite_settings
from tests.cases import each
from tests.house import pages
from tests.properties.wire_samples import SAMPLES


async def test_a_caller_has_so_many_requests_and_others_have_their_own() -> None:
    rates = RateLimits(60, Counts())
    for _ in range(10):
        rates.take("ann")
    with pytest.raises(TooMany) as refused:
        rates.take("ann")
    assert 0 < refused.value.retry_after <= 1
    rates.take("bob")


async def test_requests_come_back_as_time_goes_by() -> None:
    rates = RateLimits(60_000, Counts())
    for _ in range(10_000):
        rates.take("ann")
    for _ in range(100):  # more than there were: each has to wait for its own
        try:
            rates.take("ann")
        except TooMany as refused:
            await asyncio.sleep(refused.retry_after)
            rates.take("ann")


async def test_no_limit_is_no_limit() -> None:
    rates = RateLimits(0, Counts())
    for _ in range(1000):
        rates.take("ann")


async def test_workers_count_requests_and_streams_together(tmp_path: Path) -> None:
    one, other = (Counts(Share(str(tmp_path), 2, number)) for number in range(2))
    for counts in (one, other) * 5:
        RateLimits(60, counts).take("ann")
    for counts in (one, other):
        with pytest.raises(TooMany):
            RateLimits(60, counts).take("ann")
    here, there = (Streams(2, counts, Metrics()) for counts in (one, other))
    close = here.take(Owner(user_id="ann"))
    there.take(Owner(user_id="ann"))
    with pytest.raises(TooMany):
        here.take(Owner(user_id="ann"))
    here.take(Owner(user_id="ann", org_id="elsewhere"))
    close()
    there.take(Owner(user_id="ann"))


async def test_streams_of_a_worker_that_died_count_no_more(tmp_path: Path) -> None:
    one, other = (Counts(Share(str(tmp_path), 2, number)) for number in range(2))
    for counts in (one, other):
        Streams(2, counts, Metrics()).take(Owner())
    again = Streams(2, Counts(Share(str(tmp_path), 2, 0)), Metrics())
    again.take(Owner())
    with pytest.raises(TooMany):
        again.take(Owner())


def test_more_names_than_there_is_room_for_cost_the_smallest_numbers() -> None:
    numbers = CounterTable(bytearray(REGION), 0)
    numbers.put("ann", 1e9)
    for number in range(3 * SLOTS):
        numbers.put(f"user {number}", number)
    assert numbers.get("ann") == 1e9
    assert numbers.get(f"user {3 * SLOTS - 1}") == 3 * SLOTS - 1
    numbers.clear()
    assert numbers.get("ann") == 0


def test_an_event_is_one_block_whatever_it_says() -> None:
    said = 'line\nline\r\n\r\ndata: x\n\nevent: done "type":"delta", \u2028'
    written = frame(StampedEvent(event=Delta(text=said), id="0-7")).decode()
    head, name, data, *rest = written.split("\n")
    assert (head, name, rest) == ("id: 0-7", "event: delta", ["", ""])
    assert json.loads(data.removeprefix("data: ")) == {"text": said}


def test_an_event_of_a_place_that_needs_no_resuming_has_no_id() -> None:
    written = frame(StampedEvent(event=TurnFailed(code="quota", message="m", hint="h"))).decode()
    assert written == 'event: error\ndata: {"code":"quota","message":"m","hint":"h"}\n\n'


def test_the_end_of_a_turn_is_the_finished_turn_itself() -> None:
    turn = SAMPLES["finished_turn"]
    assert isinstance(turn, FinishedTurn)
    data = frame(StampedEvent(event=TurnDone(turn=turn))).decode().split("data: ")[1]
    assert json.loads(data)["turn_id"] == turn.turn_id


def test_no_answer_waits_for_an_acknowledgement() -> None:
    with listening("127.0.0.1", 0) as sock:
        assert sock.proto == socket.IPPROTO_TCP, "asyncio sends at once only what it knows to be TCP"


@each("kind", pages.error_types(errors))
def test_every_error_has_a_status(kind: type[errors.ContextInfinityError]) -> None:
    error = kind("What happened.", head="x") if kind is errors.HeadMoved else kind("What happened.", hint="Do this.")
    told = problems.problem_of(error)
    assert told.type == f"urn:contextinfinity:error:{kind.code}"
    assert told.detail == "What happened."
    expected = 500 if kind is errors.ContextInfinityError else told.status
    assert told.status == expected != 500 or kind is errors.ContextInfinityError


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        *(("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("localhost", True), ("0.0.0.0", False)),  # noqa: S104
        *(("192.168.1.5", False), ("::", False), ("example.org", False), ("localhost.example.org", False)),
    ],
)
def test_loopback_is_told_from_other_addresses(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected


@pytest.mark.req("METRICS-3")
async def test_a_server_whose_ledger_does_not_answer_says_so(tmp_path: Path) -> None:
    app = make_app(suite_settings(tmp_path), open_client)
    async with app.router.lifespan_context(app):
        transport = httpx2.ASGITransport(app)
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as http:
            assert (await http.get("/healthz")).json()["status"] == "ready"
            await app.state.app_state.acting_for(Owner()).close()
            answer = await http.get("/healthz")
            assert (answer.status_code, answer.json()["status"]) == (503, "unready")
            assert answer.json()["reasons"]
            refused = await http.get("/threads")
            assert (refused.status_code, refused.json()["code"]) == (503, "ledger_closed")


async def test_what_nobody_foresaw_is_told_without_a_word_of_the_inside(tmp_path: Path) -> None:
    app = make_app(suite_settings(tmp_path), open_client)
    transport = httpx2.ASGITransport(app, raise_app_exceptions=False)
    async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as http:
        answer = await http.get("/threads")  # it was never started: nothing is there
    assert answer.status_code == 500
    assert answer.headers["content-type"] == "application/problem+json"
    assert "Traceback" not in answer.text
    assert "door" not in answer.text
