"""A server whose streams are cut and which is killed: what it acknowledged is there, once, with an honest end.

The small version of ``make storm``, each time with another seed, which a failure prints.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
from contextlib import suppress
from pathlib import Path

import pytest

from benchmarks.server_process import CixServer, ConnectionCut, HttpConnection
from benchmarks.storm import StormOptions, storm
from tests.sizes import sized


@pytest.mark.req("API-2", "API-6", "TURN-9", "STREAM-3")
def test_every_acknowledged_message_is_there_once_after_cuts_and_kills(tmp_path: Path) -> None:
    options = StormOptions(streams=sized(5, 40), messages=3, kills=2, seed=random.randrange(2**32))
    outcome = storm(tmp_path, options)
    assert outcome.faults == [], options
    assert outcome.counts["kills of the server"] == 2
    assert (
        min(outcome.counts[what] for what in ("resumes", "repeats under a key", "streams left", "cuts by a kill")) > 0
    )


@pytest.mark.req("THREAD-4", "API-2", "API-6", "TURN-9")
def test_two_workers_on_one_ledger_lose_and_double_nothing_when_they_are_killed(tmp_path: Path) -> None:
    seed = random.randrange(2**32)
    options = StormOptions(streams=sized(5, 40), messages=sized(2, 3), kills=sized(1, 2), workers=2, seed=seed)
    outcome = storm(tmp_path, options)
    assert outcome.faults == [], options
    assert outcome.counts["kills of a worker"] + outcome.counts["kills of the server"] == options.kills
    assert outcome.counts["read back"] > 0, "over connections that either worker took"


@pytest.mark.proof
@pytest.mark.xdist_group("postgres")
@pytest.mark.req("THREAD-4", "API-6", "API-15", "TURN-9")
def test_two_hosts_on_postgresql_lose_and_double_nothing_when_they_are_killed(tmp_path: Path) -> None:
    options = StormOptions(streams=40, messages=5, kills=4, workers=2, hosts=2, seed=random.randrange(2**32))
    assert storm(tmp_path, options).faults == [], options


async def test_workers_whose_parent_is_killed_end_by_themselves_and_free_the_port(tmp_path: Path) -> None:
    server = CixServer(tmp_path, workers=2)
    line = server.line()
    assert await answers(line)
    workers = server.workers()
    server.end(signal.SIGKILL)
    try:
        async with asyncio.timeout(30):
            while await answers(line):
                line.close()
    finally:
        for pid in workers:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


async def answers(line: HttpConnection) -> bool:
    """Return whether a worker still answers."""
    try:
        return (await line.get("/healthz")).status == 200
    except ConnectionCut:
        return False
